import * as z from 'zod'
import { Actor, Name, RequestId, TaskId } from './ids.ts'

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
  outcome: z.enum(['ok', 'failed', 'returned', 'forced', 'unknown']).optional(),
  detail: z.string().optional(),
})

export const HistoryItem = z.object({ at: z.string(), by: z.string(), act: z.string(), text: z.string().optional() })

export const ShutdownData = z.object({
  teammate: Name,
  graceMs: z.number().int().min(0),
  /** The whole team is being stopped, for the next `team up` to start again; without it this teammate alone, which stays stopped. */
  wholeTeam: z.literal(true).optional(),
})
export const MergeData = z.object({
  task: TaskId,
  /** Which attempt at the task claimed it done: each leads to one claim at most, so this names the claim. */
  attempt: z.number().int().default(0),
  owner: Name,
  branch: z.string(),
  /** The head that approval binds to. */
  head: z.string(),
  /** The trunk when the request was opened, for people: a newer one needs no new approval. */
  trunk: z.string(),
  commits: z.number().int(),
  files: z.array(z.string()),
  verify: z.array(z.string()),
})

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

/**
 * The table of request types: data schema, who opens, who decides unless `approvals` says otherwise, who may never be
 * set there, deadline, what then. Adding a type is one entry here and its effect in `supervisor/effects.ts`.
 */
export const requestTypes = {
  shutdown_request: {
    data: ShutdownData,
    opens: 'the lead or the human; a teammate for itself',
    decides: 'teammate',
    auto: true,
    deadline: 'graceMs',
    onDeadline: 'expire: the teammate is stopped by force, recorded so',
    effect: 'the teammate ends at its next safe point',
  },
  merge_request: {
    data: MergeData,
    opens: 'the supervisor, for the owner',
    decides: 'human',
    auto: true,
    deadline: null,
    onDeadline: null,
    effect: 'verify the merge and move the trunk',
  },
} as const
export type RequestType = keyof typeof requestTypes
export const requestTypeNames = Object.keys(requestTypes) as [RequestType, ...RequestType[]]

export const Request = z.discriminatedUnion('type', [
  z.object({ ...base, type: z.literal('shutdown_request'), data: ShutdownData }),
  z.object({ ...base, type: z.literal('merge_request'), data: MergeData }),
])
export type Request = z.infer<typeof Request>
export type RequestOf<T extends RequestType> = Extract<Request, { type: T }>

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

/**
 * May `by` make this decision now? null when yes, else why not. A teammate decides only what is addressed to it and
 * never its own, except that a shutdown addressed to a teammate is that teammate's to decide whoever opened it. What is
 * addressed to the supervisor it decides itself, by the rule that `approvals` gives.
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
  if (shown !== undefined && shown !== request.bodyHash)
    return { why: 'changed', text: `${id} is not what was shown any more: look at it again` }
  if (decision === 'ask' && request.status === 'needs_info')
    return { why: 'waits for an answer', text: `${id} waits for ${request.from} to answer already` }
  return null
}

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
