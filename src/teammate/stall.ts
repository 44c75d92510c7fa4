/** So many requests opened, each decided, in a row after which nothing came that lasts but the next one. */
export const asksWithoutEffect = 32
/** What is a stall so often is the end of the turn when it is so many times as often: it was told in between. */
export const patience = 3
/** Tries to end a task that is not in hand any more. */
export const vainEnds = 2
/** Calls of the model in a turn that goes on after its task has left the hand. */
export const callsAfterTask = 20

/** From when on it is a stall. */
export interface Bounds {
  /** The same call with the same arguments and the same result in a row. */
  readonly sameCalls: number
  /** Calls of the model in a row from which nothing came that lasts. */
  readonly callsWithoutEffect: number
}

/** How far a teammate gets with the task in hand. */
export interface Pace {
  /** The call made last, with its result, and how often in a row it was made. */
  readonly last: string | null
  readonly times: number
  /** Calls of the model since the last one from which something came that lasts. */
  readonly calls: number
  /** Requests that it opened since then. */
  readonly asks: number
  /** After its task left the hand: calls of the model, and tries to end it all the same. */
  readonly after: number
  readonly vain: number
  /** In words, from when it was noticed to the next thing that lasts. */
  readonly stall: string | null
  /** It went on in spite of being told: why the turn is to end, in words. */
  readonly over: string | null
}

export const atStart: Pace = {
  last: null,
  times: 0,
  calls: 0,
  asks: 0,
  after: 0,
  vain: 0,
  stall: null,
  over: null,
}

/** `hand`: the task of this turn is in it (so where nothing is said), has left it, or there is none. */
export type Step = { readonly hand?: 'full' | 'left' | 'none' } & (
  | { readonly k: 'model' }
  | {
      readonly k: 'tool'
      readonly name: string
      readonly args: string | null
      readonly text: string
      readonly isError: boolean
    }
)

/** The pace after a step. It only tells: what is done about a stall, others decide. */
export const advance = (pace: Pace, step: Step, bounds: Bounds): Pace => {
  if (step.k === 'model') {
    const calls = pace.calls + 1
    const after = step.hand === 'left' ? pace.after + 1 : 0
    const text = `${calls} calls of its model since it last wrote, committed, sent or asked for anything`
    const late = after > callsAfterTask ? `it went on for ${callsAfterTask} calls of its model after its task` : null
    return { ...pace, calls, after, ...judged(pace, calls, bounds.callsWithoutEffect, text, late) }
  }
  const { name, args, text, isError } = step
  const vain = step.hand !== undefined && step.hand !== 'full' && isError && ends(step) ? pace.vain + 1 : pace.vain
  const late = vain >= vainEnds ? 'it goes on ending a task that is not in its hands' : null
  // How long a command took is no other result.
  const last = JSON.stringify([name, args, text.replace(/\b(in|after) \d+(\.\d+)? s\b/, ''), isError])
  if (last === pace.last) {
    const times = pace.times + 1
    const again = `the same call of ${name.slice(0, 64)}, with the same result, ${times} times in a row`
    return { ...pace, times, vain, ...judged(pace, times, bounds.sameCalls, again, late) }
  }
  if (asks(step)) {
    const count = pace.asks + 1
    const text = `${count} requests opened since it last wrote, committed or sent anything`
    const now = { ...pace, stall: pace.asks < asksWithoutEffect ? null : pace.stall }
    return { ...now, last, times: 1, calls: 0, asks: count, vain, ...judged(now, count, asksWithoutEffect, text, late) }
  }
  const rest = { last, times: 1, vain, over: pace.over ?? late }
  return lasts(step) ? { ...atStart, after: pace.after, ...rest } : { ...pace, ...rest }
}

/** A stall from `bound` on, in its first words; the end at so many times that, or for what is late. */
const judged = (pace: Pace, count: number, bound: number, text: string, late: string | null) => ({
  stall: pace.stall ?? (count < bound ? null : text),
  over: pace.over ?? late ?? (count < patience * bound ? null : text),
})

export type ToolStep = Extract<Step, { k: 'tool' }>

/** Was it to end the task? */
const ends = ({ name, args }: ToolStep): boolean =>
  name === 'task' && /"action"\s*:\s*"(complete|fail|release)"/.test(args ?? '')

/** Did it ask for something? The decision may bring the task on, so it counts until there are too many in a row. */
const asks = ({ name, args, isError }: ToolStep): boolean =>
  !isError && (name === 'ask_user' || (name === 'request' && /"action"\s*:\s*"open"/.test(args ?? '')))

const writers: ReadonlySet<string> = new Set(['write_file', 'edit_file', 'message'])

/** Did something come of this call that outlives it? Of a command only a commit is known to. */
export const lasts = ({ name, args, text, isError }: ToolStep): boolean => {
  if (isError) return false
  // To take back what one asked for is no step further; to decide or answer is one for somebody.
  if (name === 'request') return !/"action"\s*:\s*"withdraw"/.test(args ?? '')
  if (name === 'task') return !/"action"\s*:\s*"(list|get)"/.test(args ?? '')
  if (name === 'bash') return text.startsWith('exit 0') && /\bgit\b[^\n;|&]*\bcommit\b/.test(args ?? '')
  return writers.has(name)
}
