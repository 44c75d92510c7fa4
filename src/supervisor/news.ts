import { asOneLine } from '../lib/text.ts'
import type { EventType } from '../protocol/event.ts'
import { type Effect, effectOf, isLease, isOfClaim, type LeaseRequest, type Request } from '../protocol/request.ts'
import { requestTypes } from '../protocol/request-types.ts'
import { circleReason } from '../protocol/wait-graph.ts'
import type { Store } from '../store/store.ts'
import { decisionText, undecidedText } from './decision-text.ts'
import { humanInbox, type Outgoing } from './mail.ts'

/** A message that tells of a change of a record, and the event of that change. */
export interface News {
  readonly event: EventType
  readonly message: Outgoing & { readonly id: string }
}

/**
 * Who is told what of the last thing that happened to this request, by the record alone: so the news that a crash cut off
 * from its record is the same as it would have been.
 */
export const newsOf = (request: Request): News[] => {
  if (isLease(request) && request.effect?.step === 'done') return freed(request, request.effect)
  const last = request.history.at(-1)
  if (!last) return []
  const { id, title, history, outcome } = request
  const { by, act, text } = last
  if (act === 'open')
    return announced(
      request,
      'request.opened',
      `msg_${id}`,
      `${whole(request)}\n\nIf approved: ${effectOf(request)}.`,
      {
        data: { type: request.type, from: request.from, bodyHash: request.bodyHash },
      },
    )
  if (act === 'answer')
    return announced(
      request,
      'request.answered',
      `msg_${id}_${history.length}`,
      `${by} answers about ${id} (${title}): ${text}`,
      // Like the request itself it is read apart from everything else.
      request.type === 'review_request' ? { data: { type: request.type } } : {},
    )
  if (act === 'ask') return told(request, 'request.asked', `${by} asks about ${id} (${title}): ${text}`)
  if (outcome === 'decided') return told(request, 'request.decided', decisionText(request))
  // Whoever waits for it must hear that it will not be decided, unless it went on without by then.
  const isWaitedFor = outcome === 'expired' || by === 'human' || text?.startsWith(circleReason)
  // Who asked another to stop does not wait, and counts on it all the same.
  const isCountedOn =
    request.type === 'shutdown_request' &&
    outcome === 'withdrawn' &&
    ![by, request.data.teammate].includes(request.from)
  if (!(requestTypes[request.type].parks && isWaitedFor) && !isCountedOn) return []
  return told(
    request,
    outcome === 'expired' ? 'request.expired' : 'request.withdrawn',
    `${id} (${title}) ${undecidedText(request, by)}: ${request.reason}`,
    request.successor ? 'info' : 'decision',
  )
}

/** To who held a lease that it did not give back itself. */
const freed = ({ id, from, data }: LeaseRequest, effect: Effect): News[] => {
  if (effect.outcome !== 'released' || (!effect.lost && effect.by !== 'human')) return []
  const what = `${data.kind} ${(effect.what ?? data.what).join(', ')}, fence ${effect.fence}`
  const taken = effect.by === 'human' && effect.detail !== 'withdrawn by human' ? 'human took it back: ' : ''
  const content = `You do not hold ${id} any more (${what}): ${taken}${effect.detail}. What it was for may be another's by now; open a new resource_request before you go on with it.`
  const to = from
  return [
    {
      event: 'effect.done',
      message: { from: 'supervisor', to, id: `msg_${id}_freed`, type: 'decision', requestId: id, content },
    },
  ]
}

/** To whoever decides. */
const announced = (
  { id, to }: Request,
  event: EventType,
  messageId: string,
  content: string,
  more: Pick<Outgoing, 'data'> = {},
): News[] => {
  if (to === 'supervisor') return []
  const receiver = to === 'human' ? humanInbox : to
  const message = { from: 'supervisor', to: receiver, id: messageId, type: 'request' as const, requestId: id, content }
  return [{ event, message: { ...message, ...more } }]
}

/**
 * To those whom it concerns and who can be told: the requester, the owner a merge or a review was opened for, and a teammate whose
 * shutdown was decided in its place.
 */
const told = (request: Request, event: EventType, content: string, type: 'decision' | 'info' = 'decision'): News[] => {
  // A decided merge or review reaches its owner with the task.
  if (isOfClaim(request) && request.outcome === 'decided') return []
  const names = new Set([isOfClaim(request) ? request.data.owner : request.from])
  if (request.type === 'shutdown_request' && request.outcome === 'decided') names.add(request.data.teammate)
  const id = `msg_${request.id}_${request.history.length}`
  return [...names].flatMap(to =>
    // The human and the supervisor see it where they decide.
    to === 'human' || to === 'supervisor' || to === request.decidedBy
      ? []
      : [{ event, message: { from: 'supervisor', to, id, type, requestId: request.id, content } }],
  )
}

/**
 * May what was to be told of this change of a record, right after it, have been cut off by a crash? The two are written in
 * one go, so not where anything else is known to have come of it: an entry older than those read at the start, or a trim of
 * the inbox after it, which takes only what was read.
 */
export const isCutOff = (
  { past }: Pick<Store, 'past'>,
  [collection, id, event]: readonly [collection: 'tasks' | 'requests' | 'teammates', id: string, event: EventType],
  inbox: string,
): boolean => {
  const put = past.put(collection, id, event)
  return put !== undefined && put > (past.trim(inbox) ?? 0)
}

/** What is asked, said once: a title that is the body's first words adds nothing. */
const whole = ({ title, body }: Request): string =>
  asOneLine(body).startsWith(title.replace(/…$/, '')) ? body : `${title}\n${body}`.trimEnd()
