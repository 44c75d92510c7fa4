import type { DownReport } from '../../protocol/rpc.ts'
import { oneLine } from './text.ts'

/** What became of each teammate, a line each; `again`: who of those that stopped is started again, since the daemon stays. */
export const downLines = (report: DownReport, again: readonly string[] = []): string[] => [
  ...report.stopped.map(
    ({ name, how }) =>
      `${name}: ${{ approved: 'shut down', idle: 'was idle, shut down', forced: 'stopped by force', dead: 'was not running' }[how]}${again.includes(name) ? '; is started again' : ''}`,
  ),
  ...report.rejected.map(({ name, reason }) => `${name} rejects: ${oneLine(reason, 400)}`),
  ...(report.rejected.length > 0 ? ['The daemon stays. Wait, or use team down --force.'] : []),
]
