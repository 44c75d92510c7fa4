import { error, type ToolContext, type ToolResult } from '../agent/tool.ts'
import { refused } from './paths.ts'

/**
 * Why nothing may be written now, as a tool's error; null when it may. `shown` is a path of the view: only what lies in
 * `repo/` is gated, since notes and deliverables harm nobody. None given: whatever a command may touch.
 */
export const gate = async ({ call, subagent }: ToolContext, shown?: string): Promise<ToolResult | null> => {
  if (shown !== undefined && !shown.startsWith('repo/')) return null
  const paths = shown === undefined ? [] : [shown.slice('repo/'.length)]
  const may = await call('task.gate', { paths })
  if (may.ok) return null
  // The way that the hint names is not open to a subagent.
  return subagent === null
    ? error(`${may.fault.message}; only who asked you can have that changed: end, and say that it is needed`)
    : refused(may.fault)
}
