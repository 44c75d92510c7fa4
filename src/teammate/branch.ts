import { join } from 'node:path'
import { readSwitch, type Switched, switchScript } from '../git/branch.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { AssignedTask } from '../protocol/thread.ts'
import type { CommandResult, Shell } from '../sandbox/shell.ts'
import { addToTaskFile } from './task-file.ts'

/** Neither its own end nor ours. */
const wasKilled = ({ endedBy, exitCode }: CommandResult): boolean => endedBy === 'itself' && exitCode === null

/** What reading a large repository may take. */
export const switchMs = 300_000

/**
 * Puts the clone on the task's branch, inside the sandbox like everything done in a clone. Answers what the teammate has
 * to know of it (work that was saved aside, a merge to settle), empty when it went quietly; that is added to TASK.md too.
 * Of a lock that stays the task can help nothing: `free` is told of it and waits, and it is tried again while that is wanted.
 */
export const takeBranch = async (
  shell: Shell,
  o: {
    readonly root: string
    readonly home: string
    /** Told of refs that work was saved to, so that they are taken into the hub at once. */
    readonly onRescued: (refs: readonly string[]) => void
    /** Told of a lock that stays: resolves with whether to try again. */
    readonly free: (lock: string) => Promise<boolean>
  },
  task: AssignedTask,
  signal: AbortSignal,
): Promise<Result<string[]>> => {
  if (task.branch === null || task.start === null) return ok([])
  const command = switchScript({
    branch: task.branch,
    start: task.start,
    resume: task.resume,
    hub: join(o.root, '.team', 'hub.git'),
    // The hub's HEAD names its trunk, whatever the trunk is called.
    trunkRef: 'HEAD',
    mergeTrunk: task.mergeTrunk,
  })
  const bytes = 1_000_000
  const once = () =>
    shell.run({ command, timeoutMs: switchMs, signal, trusted: true, outputBytes: bytes, outputMaxBytes: bytes })
  const attempt = async (): Promise<Result<Switched>> => {
    let run = await once()
    // Killed from outside (out of memory, say) it gave no answer, and each of its steps may be repeated.
    for (let again = 0; again < 2 && !('refused' in run) && wasKilled(run); again++) run = await once()
    if ('refused' in run) return fail('refused', run.reason)
    if (run.endedBy !== 'itself') return fail('io', `git was ended before it had switched the clone (${run.endedBy})`)
    return readSwitch(run.output)
  }
  let switched = await attempt()
  while (!switched.ok && switched.fault.code === 'held' && (await o.free(switched.fault.message)))
    switched = await attempt()
  if (!switched.ok) return switched
  const { rescued, conflicts, mergedTrunk, kept, notes } = switched.value
  const told = [
    ...rescued.map(ref => `Uncommitted work from before was saved to ${ref} in your clone.`),
    ...(kept ? ['Your clone still holds uncommitted work on this branch, from before.'] : []),
    ...(mergedTrunk === 'clean' ? ['The trunk was merged into this branch without a conflict.'] : []),
    ...(mergedTrunk === 'conflict'
      ? [
          `The trunk was merged into this branch and left conflicts that lie in repo/: ${conflicts.join(', ')}. Settle each, git add it, git commit, then complete the task.`,
        ]
      : []),
    ...notes,
  ]
  addToTaskFile(o.home, told)
  if (rescued.length > 0) o.onRescued(rescued)
  return ok(told)
}
