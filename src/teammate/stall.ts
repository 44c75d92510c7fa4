/** So often in a row the same call with the same arguments and the same result is a stall. */
export const sameCalls = 8
/** And so many calls of the model in a row from which nothing came that lasts. */
export const callsWithoutEffect = 100
/** And so many requests opened, each decided, in a row after which nothing came that lasts but the next one. */
export const asksWithoutEffect = 32

/** How far a teammate gets with the task in hand. */
export interface Pace {
  /** The call made last, with its result, and how often in a row it was made. */
  readonly last: string | null
  readonly times: number
  /** Calls of the model since the last one from which something came that lasts. */
  readonly calls: number
  /** Requests that it opened since then. */
  readonly asks: number
  /** In words, from when it was noticed to the next thing that lasts. */
  readonly stall: string | null
}

export const atStart: Pace = { last: null, times: 0, calls: 0, asks: 0, stall: null }

export type Step =
  | { readonly k: 'model' }
  | {
      readonly k: 'tool'
      readonly name: string
      readonly args: string | null
      readonly text: string
      readonly isError: boolean
    }

/** The pace after a step. It only tells: whether anything is done about a stall, others decide. */
export const advance = (pace: Pace, step: Step): Pace => {
  if (step.k === 'model') {
    const calls = pace.calls + 1
    const text = `${calls} calls of its model since it last wrote, committed, sent or asked for anything`
    return { ...pace, calls, stall: pace.stall ?? (calls < callsWithoutEffect ? null : text) }
  }
  const { name, args, text, isError } = step
  // How long a command took is no other result.
  const last = JSON.stringify([name, args, text.replace(/\b(in|after) \d+(\.\d+)? s\b/, ''), isError])
  if (last === pace.last) {
    const times = pace.times + 1
    const again = `the same call of ${name.slice(0, 64)}, with the same result, ${times} times in a row`
    return { ...pace, times, stall: pace.stall ?? (times < sameCalls ? null : again) }
  }
  if (asks(step)) {
    const count = pace.asks + 1
    const text = `${count} requests opened since it last wrote, committed or sent anything`
    const stall = count < asksWithoutEffect ? null : pace.asks < asksWithoutEffect ? text : pace.stall
    return { last, times: 1, calls: 0, asks: count, stall }
  }
  return lasts(step) ? { ...atStart, last, times: 1 } : { ...pace, last, times: 1 }
}

/** Did it ask for something? The decision may bring the task on, so it counts until there are too many in a row. */
const asks = ({ name, args, isError }: Extract<Step, { k: 'tool' }>): boolean =>
  !isError && (name === 'ask_user' || (name === 'request' && /"action"\s*:\s*"open"/.test(args ?? '')))

const writers: ReadonlySet<string> = new Set(['write_file', 'edit_file', 'message'])

/** Did something come of this call that outlives it? Of a command only a commit is known to. */
const lasts = ({ name, args, text, isError }: Extract<Step, { k: 'tool' }>): boolean => {
  if (isError) return false
  // To take back what one asked for is no step further; to decide or answer is one for somebody.
  if (name === 'request') return !/"action"\s*:\s*"withdraw"/.test(args ?? '')
  if (name === 'task') return !/"action"\s*:\s*"(list|get)"/.test(args ?? '')
  if (name === 'bash') return text.startsWith('exit 0') && /\bgit\b[^\n;|&]*\bcommit\b/.test(args ?? '')
  return writers.has(name)
}
