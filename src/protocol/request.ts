import * as z from 'zod'
import { raised } from './amount.ts'
import type { BudgetData } from './budget.ts'
import { Actor, RequestId } from './ids.ts'
import { MergeRecord } from './merge-record.ts'
import { type LeaseData, type RequestType, requestTypeNames, requestTypes } from './request-types.ts'

/**
 *   pending ── approve ──▶ approved          needs_info: the decider asks, the requester answers,
 *   pending ── reject  ──▶ rejected          and it is pending again
 *   pending ── ask ──▶ needs_info ── answer ──▶ pending
 *   pending, needs_info ── expire / withdraw ──▶ ended with that outcome, undecided
 *
 * `status` is what was decided; `outcome` says how it ended (null: it has not). Both are set once, by `decide` and `end`.
 */
export const RequestStatus = z.enum(['pending', 'approved', 'rejected', 'needs_info'])
export type RequestStatus = z.infer<typeof RequestStatus>
export const Outcome = z.enum(['decided', 'expired', 'withdrawn'])
export type Outcome = z.infer<typeof Outcome>

/** An effect happens at most once: intent is durable before it starts, done after it ended. */
export const Effect = z.object({
  step: z.enum(['intent', 'done']),
  at: z.string(),
  outcome: z.enum(['ok', 'failed', 'returned', 'forced', 'released', 'unknown']).optional(),
  detail: z.string().optional(),
  /** Of a lease: its fencing number, higher than that of every lease before it, and until when it is held. */
  fence: z.number().int().optional(),
  until: z.string().optional(),
  /** What is held, free ports by their number. */
  what: z.array(z.string()).optional(),
  /** It was not given back: its time was over, or its holder or the daemon was gone. */
  lost: z.boolean().optional(),
  /** Who gave it back or took it. */
  by: Actor.optional(),
  /** Of a shutdown by force: the task that was in hand, and went back. */
  task: z.string().optional(),
  /** Of a merge: what was merged, and what proves or refuses it. */
  merge: MergeRecord.optional(),
})
export type Effect = z.infer<typeof Effect>

export const HistoryItem = z.object({ at: z.string(), by: z.string(), act: z.string(), text: z.string().optional() })

const base = {
  id: RequestId,
  from: Actor,
  /** Who decides; the human may decide any. */
  to: Actor,
  status: RequestStatus,
  outcome: Outcome.nullable(),
  title: z.string(),
  body: z.string(),
  /** SHA-256 (hex) of what was shown: type, title, body and data. A decision is bound to it. */
  bodyHash: z.string(),
  createdAt: z.string(),
  /** Wall time for people; the holder measures it on the monotonic clock while it runs. */
  deadline: z.string().nullable(),
  history: z.array(HistoryItem),
  decidedBy: Actor.nullable(),
  decidedAt: z.string().nullable(),
  reason: z.string().nullable(),
  effect: Effect.nullable(),
  /** The request that took this one's place, when its content moved on. */
  successor: RequestId.nullable(),
}

/** The request in whose place this one was opened, which ends with it as its successor. */
const optional = { replaces: RequestId.optional() }

type Base = { [K in keyof typeof base]: z.infer<(typeof base)[K]> } & { replaces?: string | undefined }
type Of<T extends RequestType> = Base & { type: T; data: z.infer<(typeof requestTypes)[T]['data']> }
export type Request = { [T in RequestType]: Of<T> }[RequestType]
export type RequestOf<T extends RequestType> = Extract<Request, { type: T }>

/** A resource_request is for a lease, or for more of a budget. */
export type LeaseRequest = Of<'resource_request'> & { readonly data: LeaseData }
export const isLease = (request: Request): request is LeaseRequest =>
  request.type === 'resource_request' && request.data.kind !== 'budget'
export type BudgetRequest = Of<'resource_request'> & { readonly data: BudgetData }
export const isBudget = (request: Request): request is BudgetRequest =>
  request.type === 'resource_request' && request.data.kind === 'budget'

/** Opened by the supervisor for a claim: its owner answers what is asked about it, and is told of the decision with the task. */
export const isOfClaim = (request: Request): request is RequestOf<'merge_request' | 'review_request'> =>
  request.type === 'merge_request' || request.type === 'review_request'

/** What comes of an approval, for who decides. */
export const effectOf = (request: Request): string =>
  isBudget(request) ? raised(request.data) : requestTypes[request.type].effect

const schemas = requestTypeNames.map(type =>
  z.object({ ...base, ...optional, type: z.literal(type), data: requestTypes[type].data }),
)
// The inferred type of a union that is made from a table is lost; it is the one above.
export const Request = z.discriminatedUnion('type', schemas as [(typeof schemas)[0]]) as unknown as z.ZodType<Request>

/** Does its asker wait for it, and do nothing else meanwhile? */
export const isParking = (request: Request): boolean => requestTypes[request.type].parks && isWaiting(request)

export const isWaiting = (request: Request): boolean =>
  request.outcome === null && (request.status === 'pending' || request.status === 'needs_info')

export type Decision = 'approve' | 'reject' | 'ask'

/** Why a decision was refused: each has its own text, so that none is mistaken for another. */
export type Refusal =
  | 'unknown'
  | 'wrong decider'
  | 'already decided'
  | 'expired'
  | 'withdrawn'
  | 'superseded'
  | 'changed'
  | 'waits for an answer'
  | 'asked enough'
  | 'says all'

/** So often a teammate may ask back about one request: two models would ask and answer for ever. */
export const asksAtMost = 8

/**
 * May `by` make this decision now? null when yes, else why not. A teammate decides only what is addressed to it and
 * never its own, except that a shutdown addressed to a teammate is that teammate's to decide whoever opened it. What is
 * addressed to the supervisor it decides itself, by the rule that `approvals` gives. `shown`: the beginning of the hash of
 * what the decider saw.
 */
export const refusal = (
  request: Request,
  by: string,
  decision: Decision,
  shown?: string,
): { why: Refusal; text: string } | null => {
  const { id } = request
  if (request.successor)
    return { why: 'superseded', text: `${id} was superseded by ${request.successor}: decide that one` }
  if (request.outcome === 'expired')
    return { why: 'expired', text: `${id} expired at ${request.deadline ?? 'its deadline'} without a decision` }
  if (request.outcome === 'withdrawn')
    return { why: 'withdrawn', text: `${id} was withdrawn: ${request.reason ?? 'no reason given'}` }
  if (request.status === 'approved' || request.status === 'rejected')
    return {
      why: 'already decided',
      text: `${id} was already ${request.status} by ${request.decidedBy ?? 'someone'} at ${request.decidedAt ?? 'an unknown time'}`,
    }
  const byRule = by === 'supervisor' && request.to === 'supervisor'
  if (by !== 'human' && !byRule && (by !== request.to || (by === request.from && request.type !== 'shutdown_request')))
    return { why: 'wrong decider', text: `${id} is for ${request.to} to decide, not for ${by}` }
  if (isOfClaim(request) && by === request.data.owner)
    return { why: 'wrong decider', text: `${id} is about the work of ${by} itself: another decides it` }
  if (shown !== undefined && !request.bodyHash.startsWith(shown))
    return { why: 'changed', text: `${id} is not what was shown any more: look at it again` }
  if (decision === 'ask' && isBudget(request))
    return {
      why: 'says all',
      text: `${id} was opened by the supervisor, and ${request.from} cannot answer without its model: approve or reject it`,
    }
  if (decision === 'ask' && request.status === 'needs_info')
    return { why: 'waits for an answer', text: `${id} waits for ${request.from} to answer already` }
  if (decision === 'ask' && by !== 'human' && timesAsked(request, by) >= asksAtMost)
    return {
      why: 'asked enough',
      text: `${by} asked about ${id} ${asksAtMost} times: approve or reject it by what is known now, or leave it to a person`,
    }
  return null
}

const timesAsked = ({ history }: Request, by: string): number =>
  history.filter(item => item.act === 'ask' && item.by === by).length

/** The request after a legal decision. Call `refusal` first. */
export const decide = (
  request: Request,
  by: string,
  decision: Decision,
  reason: string | null,
  at: string,
): Request => {
  const history = [...request.history, { at, by, act: decision, ...(reason === null ? {} : { text: reason }) }]
  if (decision === 'ask') return { ...request, status: 'needs_info', history }
  return {
    ...request,
    status: decision === 'approve' ? 'approved' : 'rejected',
    outcome: 'decided',
    decidedBy: by,
    decidedAt: at,
    reason,
    history,
  }
}

/** The requester's answer to `ask`; null where nothing was asked. */
export const answer = (request: Request, by: string, text: string, at: string): Request | null =>
  request.status === 'needs_info' && request.outcome === null
    ? { ...request, status: 'pending', history: [...request.history, { at, by, act: 'answer', text }] }
    : null

/** Ends a waiting request undecided; null where it does not wait any more. */
export const end = (
  request: Request,
  outcome: 'expired' | 'withdrawn',
  by: string,
  reason: string,
  at: string,
  successor: string | null = null,
): Request | null =>
  isWaiting(request)
    ? { ...request, outcome, reason, successor, history: [...request.history, { at, by, act: outcome, text: reason }] }
    : null
