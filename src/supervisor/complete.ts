import { unmergeableWords } from '../git/unmergeable.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { Task } from '../protocol/task.ts'
import { type Core, clonePath, verifyCommands } from './core.ts'
import { isReviewed } from './review.ts'
import { strayText, touchedWrongly } from './touched.ts'

export interface Completing {
  readonly actor: string
  /** The task in its hands. */
  readonly task: Task
  readonly summary: string
  /** Whether it is in its hands still, after a wait. */
  readonly still: () => Result<null>
  /** What the claim set in motion, in words for the model. */
  readonly after: (id: string) => string
}

/**
 * A teammate says its task is done: its branch is taken into the hub, what cannot be merged is refused while it can still mend
 * it, and the claim is recorded; with nothing to prove it by, the task is finished at once.
 */
export const completeTask = async (
  core: Core,
  { actor, task, summary, still, after }: Completing,
): Promise<Result<{ id: string; note: string }>> => {
  const { hub, tasks } = core
  const { id, branch } = task
  let head: string | null = null
  if (hub && branch !== null) {
    const fetched = await hub.fetchBranch(clonePath(core, actor), branch)
    if (!fetched.ok) return fetched
    const wrong = await hub.unmergeable(fetched.value.head)
    if (!wrong.ok) return wrong
    if (wrong.value.length > 0) return fail('refused', `task ${id} is not completed: ${unmergeableWords(wrong.value)}`)
    head = fetched.value.commits === 0 ? null : fetched.value.head
    const touched = await touchedWrongly(core, task, fetched.value.head)
    if (!touched.ok) return touched
    const { strays } = touched.value
    if (strays.length > 0) return fail('refused', `task ${id} is not completed: ${strayText(strays)}`)
    const mine = still()
    if (!mine.ok) return mine
  }
  const isProven =
    head !== null || task.accept.length > 0 || verifyCommands(core, task).length > 0 || isReviewed(core, task, head)
  const claimed = isProven
    ? tasks.move(id, actor, { move: 'claim', head, summary, ...(head === null ? {} : { fence: core.leases.fence }) })
    : tasks.finish(id, actor, summary)
  if (!claimed.ok) return claimed
  await claimed.value.durable
  const bare = head === null && hub !== null ? ' There are 0 commits on its branch, so there is nothing to merge.' : ''
  return ok({ id, note: `${after(id)}${bare}`.trim() })
}
