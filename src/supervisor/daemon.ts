import { type Hub, openHub } from '../git/hub.ts'
import { type Fault, FaultError, ok, type Result } from '../lib/result.ts'
import { hold } from '../store/index.ts'
import { layout } from '../store/root.ts'
import type { Daemon, DaemonOptions } from './daemon-options.ts'
import { Run } from './run.ts'

/**
 * Takes the root, brings files and records in line, starts the teammates (`ready` tells when) and works until `down` (or,
 * with `once`, until nothing can go on without a person). Refused, having touched nothing, when another holder lives.
 */
export const startDaemon = async (o: DaemonOptions): Promise<Result<Daemon>> => {
  const paths = layout(o.root)
  let failed: (fault: Fault) => void = () => undefined
  const held = await hold(o.root, 'daemon', {
    version: o.version,
    clock: o.clock,
    takeover: o.takeover,
    onFailure: fault => failed(fault),
    limits: { segmentBytes: o.config.limits.journalBytes },
  })
  if (!held.ok) return held
  const holder = held.value
  let hub: Hub | null = null
  if (o.mode === 'git') {
    const opened = await openHub({
      workspace: o.workspace,
      hubDir: paths.hub,
      trunk: o.config.trunk,
      env: o.threadEnv,
      ...(o.config.base === undefined ? {} : { base: o.config.base }),
    })
    if (!opened.ok) {
      await holder.release()
      return opened
    }
    hub = opened.value
  }
  const run = new Run(o, holder, hub)
  failed = fault => run.fatal(new FaultError(fault))
  run.begin()
  return ok(run)
}
