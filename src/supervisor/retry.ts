import type { Result } from '../lib/result.ts'
import type { RequestOf } from '../protocol/request.ts'
import { move, type Task } from '../protocol/task.ts'
import type { Write } from '../store/store.ts'
import type { Core } from './core.ts'
import { forgiveDeaths } from './deaths.ts'

const markOf = (task: string): string => `retried/${task}`

/**
 * Makes a failed or cancelled task pending again. That is a new attempt, and what was approved for the one before says
 * nothing about it: from then on the plans of before count for nothing.
 */
export const retryTask = (core: Core, task: Task, by: string): Result<Pick<Write, 'durable'>> => {
  const last = core.requests.plansFor(task.id).at(-1)
  // First: after a crash in between nothing is open that should not be, and the task can be retried again.
  if (move(task, { move: 'retry', at: task.updatedAt })) {
    if (last) outdate(core, task.id, last.id)
    forgiveDeaths(core.store, task.id)
  }
  return core.tasks.move(task.id, by, { move: 'retry' })
}

const outdate = ({ store }: Core, task: string, last: string): void => {
  const mark = store.marks.get(markOf(task))
  const why = { event: 'plan.outdated', by: 'supervisor', info: { task, request: last } } as const
  if (mark) store.marks.update(markOf(task), mark.rev, { last }, why)
  else store.marks.create(markOf(task), { last }, why)
}

/** The plans for this task since it was retried last, in order; all of them where it never was. */
export const plansSinceRetry = ({ store, requests }: Core, task: string): readonly RequestOf<'plan_request'>[] => {
  const plans = requests.plansFor(task)
  const last = store.marks.get(markOf(task))?.value.last
  return plans.slice(plans.findIndex(({ id }) => id === last) + 1)
}
