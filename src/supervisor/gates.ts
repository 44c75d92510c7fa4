import { fail, ok, type Result } from '../lib/result.ts'
import type { RequestOf } from '../protocol/request.ts'
import type { Task } from '../protocol/task.ts'
import { afterLoss, type Core, cloneLoss } from './core.ts'
import { leased } from './lease-gate.ts'
import { plansSinceRetry } from './retry.ts'

/**
 * May this teammate write now (in its workspace, at these paths; none given: anywhere)? What must be approved first, by the
 * ledger's word. Asked by the tools before each write, so that a gate closes as soon as the records say so. Where its clone is
 * gone, the task goes back to be given out anew.
 */
export const mayWrite = (core: Core, actor: string, paths: readonly string[]): Result<null> => {
  const task = core.tasks.inHand(actor)?.value
  const loss = task ? cloneLoss(core, actor) : null
  if (task && loss !== null) {
    const left = afterLoss(core, task, actor, loss)
    const { reason } = left
    core.tasks.move(task.id, 'supervisor', left)
    return fail('refused', `task ${task.id} is not in your hands any more: ${reason}`, 'end your turn')
  }
  const may = task ? (needsPlan(core, actor, task) ? planned(core, actor, task) : ok(null)) : unasked(core, actor)
  if (!may.ok) return may
  for (const path of paths) {
    const free = leased(core, actor, path)
    if (!free.ok) return free
  }
  return ok(null)
}

/** Does a plan have to be approved before anything of the task is written by this teammate? */
export const needsPlan = (core: Core, actor: string, task: Task): boolean =>
  task.needsPlan || core.roster.find(actor)?.needsPlan === true

/** With nothing in hand there is nothing that a plan could be approved for: who needs one writes nothing then. */
const unasked = (core: Core, actor: string): Result<null> =>
  core.roster.find(actor)?.needsPlan === true
    ? fail(
        'refused',
        'you have no task in hand, and need an approved plan for one before anything is written',
        'ask for a task',
      )
    : ok(null)

/** The plan that counts is the latest since the task was retried: a new one closes the gate again until it is decided. */
const planned = (core: Core, actor: string, task: Task): Result<null> => {
  const plan = latestPlan(core, actor, task.id)
  if (plan?.status === 'approved') return ok(null)
  const how = 'open a plan_request with the request tool (body: what you will do, and to which files)'
  if (!plan) {
    const needs = `task ${task.id} needs an approved plan before anything is written`
    const isAnew = core.requests.plansFor(task.id).some(({ from }) => from === actor)
    return fail('refused', isAnew ? `${needs}: it was retried, and plans of before count no more` : needs, how)
  }
  return plan.outcome === null
    ? fail('refused', `the plan ${plan.id} is not decided yet`, `${plan.to} decides; end your turn`)
    : fail('refused', `the plan ${plan.id} was rejected: ${plan.reason ?? 'no reason given'}`, how)
}

const latestPlan = (core: Core, actor: string, task: string): RequestOf<'plan_request'> | undefined => {
  let latest: RequestOf<'plan_request'> | undefined
  for (const request of plansSinceRetry(core, task))
    if (request.from === actor && (request.outcome === null || request.outcome === 'decided')) latest = request
  return latest
}
