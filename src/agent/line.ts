import type { Clock } from '../lib/clock.ts'
import { isRetryable, type Model, type ModelFault } from '../model/model.ts'
import { type Gate, longestAsked } from './retry.ts'
import type { Session } from './session.ts'

/** So long, at least, a model that failed is left alone: each change of the model costs the cache of a whole conversation. */
const coolMs = 5 * 60_000

/** A fault of the model and not of what it was asked: another one may answer the same. */
const isItsOwn = ({ kind, status, message }: ModelFault): boolean =>
  isRetryable(kind) ||
  kind === 'auth' ||
  kind === 'quota' ||
  (kind === 'bad_request' &&
    (status === 404 || /\bmodel\b.{0,80}(?:not exist|not found|unknown|unavailable|not available)/i.test(message)))

/** The label of who answered last in this session; null where nobody did, or it does not say. */
export const lastAnswering = ({ context }: Pick<Session, 'context'>): string | null => {
  const last = context.messages.findLast(({ role }) => role === 'assistant')
  return last?.role === 'assistant' ? (last.model ?? null) : null
}

/**
 * The models of one teammate as one: calls go to the first; where one fails for good, to the next, and on to that until a turn
 * begins after the one that failed had time to recover. When the last fails too, the next call is the first one's again. The one
 * that spares the budget is none of them: it is asked as long as that is said to be needed, and to the end of the turn.
 */
export const lineOf = (o: {
  /** At least one. Each with the gate of its endpoint; the cheaper one last. */
  readonly models: readonly { readonly model: Model; readonly gate: Gate; readonly isCheaper?: boolean }[]
  /** The label of the one that answered last, before a restart in the middle of a turn. */
  readonly answering: string | null
  readonly clock: Clock
  /** Another one is called from now on, and why; null where it is the first again. */
  readonly onSwitch: (from: string, to: string, why: ModelFault | 'budget' | null) => void
}): { readonly model: Model; readonly gate: Gate } => {
  const { models, clock, onSwitch } = o
  let at = Math.max(
    0,
    models.findIndex(({ model }) => model.label === o.answering),
  )
  const cheaper = models.findIndex(({ isCheaper }) => isCheaper)
  const chain = cheaper === -1 ? models.length : cheaper
  let isSparing = false
  /** Not before then is the cheaper one asked again, after it failed. */
  let cheaperFrom = 0
  let until = at === 0 ? 0 : clock.mono() + coolMs
  const now = () => {
    const one = models[at]
    if (!one) throw new Error('a teammate has at least one model')
    return one
  }
  const go = (to: number, why: ModelFault | 'budget' | null): void => {
    const from = now().model.label
    at = to
    onSwitch(from, now().model.label, why)
  }
  return {
    model: {
      get label() {
        return now().model.label
      },
      async turn(request) {
        const { model } = now()
        return { ...(await model.turn(request)), model: model.label }
      },
      turnBegins() {
        if (at > 0 && (at === cheaper ? !isSparing : clock.mono() >= until)) go(0, null)
      },
      spare(on) {
        isSparing = on
        if (on && cheaper !== -1 && at !== cheaper && clock.mono() >= cheaperFrom) go(cheaper, 'budget')
      },
      takeOver(fault, asked) {
        // Another call, made at the same time, met the same before.
        if (asked !== now().model.label) return true
        if (!isItsOwn(fault)) return false
        if (at === cheaper) {
          cheaperFrom = clock.mono() + Math.max(coolMs, Math.min(longestAsked, fault.retryAfterMs ?? 0))
          go(0, fault)
          return true
        }
        if (at + 1 < chain) {
          if (at === 0) until = clock.mono() + Math.max(coolMs, Math.min(longestAsked, fault.retryAfterMs ?? 0))
          go(at + 1, fault)
          return true
        }
        if (at > 0) go(0, null)
        return false
      },
    },
    gate: {
      closedFor: () => now().gate.closedFor(),
      close: ms => now().gate.close(ms),
      enter: (signal, queued) => now().gate.enter(signal, queued),
    },
  }
}
