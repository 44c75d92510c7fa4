/** One waits for another: teammates by their names, tasks as `task 3`. */
export interface Wait {
  readonly from: string
  readonly to: string
  /** The request that makes it wait; null where it is the task itself. */
  readonly by: string | null
  /** Nothing that `to` may still do of its own ends it before what `to` itself waits for has come about. */
  readonly isFirm: boolean
}

/**
 * A circle of waits that runs through `start`, in its order, beginning there; null when there is none. `waitsOf` gives what
 * one waits for, all of which must come about. Each is looked at once, so a graph of n waits costs n.
 */
export const circle = (start: string, waitsOf: (who: string) => readonly Wait[]): Wait[] | null => {
  const seen = new Set<string>()
  const walk = (who: string): Wait[] | null => {
    for (const wait of waitsOf(who)) {
      if (wait.to === start) return [wait]
      if (seen.has(wait.to)) continue
      seen.add(wait.to)
      const rest = walk(wait.to)
      if (rest) return [wait, ...rest]
    }
    return null
  }
  return walk(start)
}

/** How a reason begins that ends a request for a circle: its asker, who waits for it, is told. */
export const circleReason = 'it closes a circle: '
const circleAdvice = '. Give back what you hold, or go on without it'

/** Why a request was ended by the supervisor: for this circle. */
export const reasonOf = (circle: string): string => `${circleReason}${circle}${circleAdvice}`

/** The circle that a request was ended for, in words; null where it ended otherwise. */
export const circleIn = (reason: string | null): string | null =>
  reason?.startsWith(circleReason) && reason.endsWith(circleAdvice)
    ? reason.slice(circleReason.length, -circleAdvice.length)
    : null

/** A circle in words: who waits for whom, and for what. */
export const circleText = (waits: readonly Wait[]): string =>
  waits.map(({ from, to, by }) => `${from} waits for ${to}${by === null ? '' : ` (${by})`}`).join(', ')
