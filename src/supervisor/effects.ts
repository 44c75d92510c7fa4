import { isWaiting, type Request, type RequestOf } from '../protocol/request.ts'
import type { RequestType } from '../protocol/request-types.ts'
import type { Core } from './core.ts'
import { humanInbox } from './mail.ts'

/** What a decision sets off, by type; a type that is not here sets off nothing but the news of it. */
export type Effects = { readonly [T in RequestType]?: (request: RequestOf<T>) => void }

/**
 * Follows a request whose records changed, or that an earlier daemon left: an effect starts from what is on record, and looks
 * there for what of it was done already, so following again does nothing twice.
 */
export const follow = (effects: Effects, request: Request): void => {
  const effect = effects[request.type] as ((request: Request) => void) | undefined
  effect?.(request)
}

/** Nobody is asked about plans: so `approvals` says. The asker is told first what it opened, then that it was approved. */
export const approveByRule = (
  { requests }: Core,
  request: RequestOf<'plan_request'>,
  onFailure: (error: unknown) => void,
): void => {
  if (!isWaiting(request) || request.to !== 'supervisor') return
  setImmediate(() => {
    try {
      // Refused where it was withdrawn meanwhile.
      requests.decide(request.id, 'supervisor', 'approve', 'approvals.plan_request is auto')
    } catch (error) {
      onFailure(error)
    }
  })
}

/** An approved plan for the team becomes its tasks, all at once; the request's id keeps that from happening twice. */
export const createPlanned = (core: Core, request: RequestOf<'plan_request'>): void => {
  const { tasks } = request.data
  if (request.status !== 'approved' || tasks === undefined || request.effect?.step === 'done') return
  if (request.effect === null && !core.requests.effect(request.id, 'intent').ok) return
  const added = core.tasks.add(tasks, { by: request.decidedBy ?? 'human', key: `plan/${request.id}` })
  if (added.ok) core.requests.effect(request.id, 'done', 'ok', `created ${added.value.ids.join(', ')}`)
  else {
    const { id, title, from } = request
    const content = `${id} (${title}) was approved, but its tasks could not be created: ${added.fault.message}. None of them exists; propose them anew`
    for (const [to, type] of [
      [from, 'decision'],
      [humanInbox, 'info'],
    ] as const)
      core.mail.send({ from: 'supervisor', to, id: `msg_${id}_failed`, type, requestId: id, content })
    core.requests.effect(id, 'done', 'failed', added.fault.message)
  }
}
