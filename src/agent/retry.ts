import { type Clock, delay } from '../lib/clock.ts'
import { isRetryable, type Model, type ModelFault, type Turn, type TurnRequest } from '../model/model.ts'

/** One gate an endpoint: whoever was told to wait makes everyone who uses it wait. */
export interface Gate {
  /** Milliseconds until the next call may go out; 0 when it may now. */
  closedFor(): number
  /** The endpoint asked for `ms` of quiet. */
  close(ms: number): void
  /**
   * Resolves when there is a place for a call, with what frees it again; with null when the signal aborts first. `queued` is called
   * when it has to wait for one.
   */
  enter(signal: AbortSignal, queued: () => void): Promise<(() => void) | null>
}

/** A gate of this thread alone. */
export const localGate = (clock: Clock): Gate => {
  let until = 0
  return {
    closedFor: () => Math.max(0, until - clock.mono()),
    close: ms => {
      until = Math.max(until, clock.mono() + ms)
    },
    enter: async () => () => undefined,
  }
}

export interface Backoff {
  readonly baseMs: number
  readonly capMs: number
}
export const defaultBackoff: Backoff = { baseMs: 500, capMs: 30_000 }

/** No endpoint is obeyed for longer than this when it asks to wait. */
export const longestAsked = 6 * 3600_000
/** A wait that is longer is not for who makes a call: who asked for it has mail and a life besides. */
const longestHere = 30_000

/**
 * How long to wait before retry number `attempt` (from 0): what the endpoint asked for and a little more, so that not all
 * come back in the same moment; else full jitter under a doubling cap.
 */
export const retryDelay = (attempt: number, fault: ModelFault, backoff: Backoff, random: () => number): number => {
  const cap = Math.min(backoff.capMs, backoff.baseMs * 2 ** attempt)
  return fault.retryAfterMs === undefined
    ? random() * cap
    : Math.min(longestAsked, fault.retryAfterMs) + random() * Math.min(1000, cap)
}

/** What a call is made with. `onWait`: told of each wait, in milliseconds (infinite: for a place), and of its end with null. */
interface ModelCall {
  readonly model: Model
  readonly request: TurnRequest
  readonly retries: number
  readonly backoff: Backoff
  readonly gate: Gate
  readonly random?: (() => number) | undefined
  readonly onWait: (ms: number | null, fault: ModelFault | null) => void
}

/**
 * One answer of the model, retried while that can help: `retries` times, never for a fault that the same request cannot survive
 * (auth, quota, bad request), nor where the endpoint asks for more quiet than half a minute. Where that is of no avail, of the next
 * model that takes its calls; else the fault.
 */
export const callModel = async (o: ModelCall): Promise<Turn> => {
  for (;;) {
    const asked = o.model.label
    const turn = await callOne(o)
    if (!turn.fault || turn.fault.kind === 'aborted' || !o.model.takeOver?.(turn.fault, asked)) return turn
  }
}

const callOne = async (o: ModelCall): Promise<Turn> => {
  const { signal } = o.request
  const random = o.random ?? Math.random
  const wait = async (ms: number, fault: ModelFault | null): Promise<boolean> => {
    if (ms <= 0) return !signal.aborted
    o.onWait(ms, fault)
    return delay(ms, signal).then(
      () => {
        o.onWait(null, null)
        return true
      },
      () => false,
    )
  }
  /** A place for a call, at a moment when it may go out. */
  const entered = async (): Promise<(() => void) | Turn> => {
    for (;;) {
      const closed = o.gate.closedFor()
      if (closed > longestHere) return limited(closed)
      if (!(await wait(closed, null))) return aborted
      let isQueued = false
      const leave = await o.gate.enter(signal, () => {
        isQueued = true
        o.onWait(Number.POSITIVE_INFINITY, null)
      })
      if (leave !== null && isQueued) o.onWait(null, null)
      // It may have been closed while this one waited.
      if (leave === null) return aborted
      if (o.gate.closedFor() === 0) return leave
      leave()
    }
  }
  for (let attempt = 0; ; attempt++) {
    const leave = await entered()
    if (typeof leave !== 'function') return leave
    const turn = await o.model.turn(o.request).finally(leave)
    const { fault } = turn
    if (turn.stop !== 'error' || !fault || !isRetryable(fault.kind) || attempt >= o.retries) return turn
    const ms = retryDelay(attempt, fault, o.backoff, random)
    // Only what the endpoint itself said concerns the others who use it.
    if (fault.kind === 'rate_limit') o.gate.close(Math.min(longestAsked, fault.retryAfterMs ?? 0))
    if (ms > longestHere && fault.retryAfterMs !== undefined) return turn
    if (!(await wait(ms, fault))) return aborted
  }
}

const failed = (fault: ModelFault): Turn => ({ text: '', calls: [], stop: 'error', fault, usage: null })
const aborted = failed({ kind: 'aborted', message: 'the call was aborted' })
const limited = (retryAfterMs: number): Turn =>
  failed({ kind: 'rate_limit', message: 'the endpoint asked all of the team to wait', retryAfterMs })
