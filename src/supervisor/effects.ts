import { reach } from '../lib/points.ts'
import type { JournalEntry } from '../protocol/event.ts'
import { isBudget, isWaiting, type Request, type RequestOf } from '../protocol/request.ts'
import type { RequestType } from '../protocol/request-types.ts'
import type { Core } from './core.ts'
import type { Crew } from './crew.ts'
import type { Expiry } from './expiry.ts'
import { humanInbox } from './mail.ts'
import type { Notices } from './notices.ts'

/** What a decision sets off, by type; a type that is not here sets off nothing but the news of it. */
export type Effects = { readonly [T in RequestType]?: (request: RequestOf<T>) => void }

/**
 * Follows a request whose records changed, or that an earlier daemon left: an effect starts from what is on record, and looks
 * there for what of it was done already, so following again does nothing twice.
 */
const follow = (effects: Effects, request: Request): void => {
  const effect = effects[request.type] as ((request: Request) => void) | undefined
  effect?.(request)
}

/** Each step of an effect, once it stands in the journal, is a moment to be killed at. */
export const stepped = ({ event }: JournalEntry): void => {
  if (event === 'effect.intent') reach('effect.intended')
  if (event === 'effect.done') reach('effect.ended')
}

/**
 * From now on what follows from each change of a task or a request is done: claims are led to their proof, approved plans
 * become tasks, and so on. What is returned does the same for those that are there.
 */
export const followRecords = (o: {
  readonly core: Core
  readonly effects: Effects
  readonly expiry: Expiry
  readonly crew: Pick<Crew, 'taskChanged'>
  readonly notices: Pick<Notices, 'taskEnded'>
  /** Leads a claim to its proof. */
  readonly advance: (task: string) => void
  readonly changed: () => void
}): (() => void) => {
  const { store, requests } = o.core
  store.requests.watch((_id, { value }) => {
    follow(o.effects, value)
    o.expiry.arm()
  })
  // Who was to review may have been stopped or given up.
  store.teammates.watch(name => {
    for (const request of requests.waiting('supervisor'))
      if (request.type === 'review_request' && request.to === name) o.advance(request.data.task)
  })
  store.tasks.watch((id, { value }, old, why) => {
    if (value.claimed) o.advance(id)
    o.crew.taskChanged(value, old?.value, why.by)
    if ((value.status === 'failed' || value.status === 'cancelled') && old && old.value.status !== value.status)
      o.notices.taskEnded(value)
    o.changed()
  })
  return () => {
    for (const [id] of [...store.tasks.list()]) o.advance(id)
    for (const request of requests.all())
      if (request.type === 'plan_request' || isBudget(request)) follow(o.effects, request)
    o.expiry.arm()
  }
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

/** Looks again at each claim that waits for a review: who was to read it may have no budget left for that. */
export const followReviews = ({ requests }: Core, advance: (task: string) => void): void => {
  for (const request of requests.waiting('supervisor'))
    if (request.type === 'review_request' && request.to !== 'human') advance(request.data.task)
}

/** An approved plan for the team becomes its tasks, all at once; the request's id keeps that from happening twice. */
export const createPlanned = (core: Core, request: RequestOf<'plan_request'>): void => {
  const { tasks } = request.data
  if (request.status !== 'approved' || tasks === undefined || request.effect?.step === 'done') return
  if (request.effect === null) {
    // Its record is told here again, and it goes on from there.
    core.requests.effect(request.id, 'intent')
    return
  }
  reach('effect.act')
  const added = core.tasks.add(tasks, { by: request.decidedBy ?? 'human', key: `plan/${request.id}` })
  reach('effect.acted')
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
