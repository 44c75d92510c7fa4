import type { ToolContext, ToolResult } from '../agent/tool.ts'
import { refused } from './paths.ts'

/**
 * Why nothing may be written now, as a tool's error; null when it may. `shown` is a path of the view: only what lies in
 * `repo/` is gated, since notes and deliverables harm nobody. None given: whatever a command may touch.
 */
export const gate = async ({ call }: ToolContext, shown?: string): Promise<ToolResult | null> => {
  if (shown !== undefined && !shown.startsWith('repo/')) return null
  const paths = shown === undefined ? [] : [shown.slice('repo/'.length)]
  const may = await call('task.gate', { paths })
  return may.ok ? null : refused(may.fault)
}
