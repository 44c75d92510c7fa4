import { type Item, renderItems } from '../agent/items.ts'
import { tokens } from '../agent/tokens.ts'
import { unwrap } from '../lib/result.ts'
import type { Model } from '../model/model.ts'
import type { Call, OverBudget, RpcResults } from '../protocol/rpc.ts'
import type { Choice, Intake } from './intake.ts'
import type { Parking } from './parking.ts'

/** Tokens of an answer that are kept free where config.json does not bound it. */
export const usualAnswer = 1024

/** What a teammate waits for whom nobody is asked about any more. */
export const moreBudget = (why: string): string => `more budget (${why})`

/** Asks before each call of the model whether there is a budget for it, and parks the teammate where a person has to say so. */
export class Budget {
  readonly #o: { call: Call; parking: Parking; intake: Intake; model: Model; answer: number }
  #over: OverBudget | null = null

  /** `answer`: the most tokens of an answer, where that is bounded. */
  constructor(o: { call: Call; parking: Parking; intake: Intake; model: Model; answer: number | undefined }) {
    this.#o = { ...o, answer: o.answer ?? usualAnswer }
  }

  /** The last call was not allowed, and nobody is asked about it: why, said once. */
  takeOver(): OverBudget | null {
    const over = this.#over
    this.#over = null
    return over
  }

  /** The same, as what it waits for. */
  takeRest(): string | null {
    const over = this.takeOver()
    return over && moreBudget(over.why)
  }

  /** What it still waits for, after a restart; null where there may be some. */
  async rests(): Promise<string | null> {
    const why = await this.#o.call('budget.rests', {})
    return why.ok && why.value !== null ? moreBudget(why.value) : null
  }

  /**
   * May the model be called, with about `context` tokens, and what is told it now? null: it may. Else why not; the mail stays
   * unread until it may.
   */
  async mayCall(context: number, told: readonly Item[], mail: Choice | null): Promise<string | null> {
    const { call, parking, intake, answer } = this.#o
    const read = (mail?.picked ?? []).map(({ stored }) => stored.message.content)
    const input = context + tokens([renderItems(told), ...read].join('\n'))
    // A daemon that cannot tell is ending, or has a bug: nothing goes on without its word.
    const over = this.#spared(unwrap(await call('budget.reserve', { input, output: answer })))
    this.#over = null
    if (over === null) return null
    intake.due = true
    if (over.request === null) this.#over = over
    else parking.park(over.request)
    return over.why
  }

  /** The same for a call of a subagent, which ends where it may not: its teammate waits for what a person is asked then. */
  async subagentMayCall(sub: string, input: number): Promise<string | null> {
    const { call, parking, answer } = this.#o
    const over = this.#spared(unwrap(await call('budget.reserve', { input, output: answer, sub })))
    if (over?.request) parking.park(over.request)
    return over?.why ?? null
  }

  /** Why not, where it may not; whether the budget is to be spared goes to the model. */
  #spared(answer: RpcResults['budget.reserve']): OverBudget | null {
    const isCheaper = answer !== null && 'cheaper' in answer
    this.#o.model.spare?.(isCheaper)
    return isCheaper ? null : answer
  }
}
