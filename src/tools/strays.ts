import type { ToolContext } from '../agent/tool.ts'
import { changedScript, readChanged } from '../git/branch.ts'

/** So many paths are named. */
const most = 20

/**
 * After a command: what the clone now has changed that the task in hand may not touch, in words for the model; null where there
 * is nothing of the kind. It costs a look with git only where anything is kept from this task.
 */
export const strayNote = async ({ call, shell, signal, limits, task }: ToolContext): Promise<string | null> => {
  const inHand = task()
  if (inHand === null || inHand.branch === null) return null
  const asked = await call('task.strays', { paths: null })
  if (!asked.ok || !asked.value.guarded) return null
  const ran = await shell.run({
    command: changedScript(),
    timeoutMs: limits.commandSeconds * 1000,
    signal,
    trusted: true,
    outputBytes: 524_288,
    outputMaxBytes: 1_048_576,
  })
  if ('refused' in ran) return `note: what it changed cannot be looked at: ${ran.reason}`
  const changed = readChanged(ran.output)
  if (!changed.ok) return signal.aborted ? null : `note: what it changed cannot be looked at: ${changed.fault.message}`
  if (changed.value.length === 0) return null
  const found = await call('task.strays', { paths: changed.value })
  if (!found.ok || found.value.strays.length === 0) return null
  const { strays } = found.value
  const named = strays.slice(0, most).map(({ path, why }) => `${path} (${why})`)
  const rest = strays.length > most ? `, and ${strays.length - most} more` : ''
  return `note: repo/ has changes that task ${inHand.id} may not make: ${named.join('; ')}${rest}. It cannot be completed with them: put them back, or get a lease first (request open, type resource_request).`
}
