/** One waits for another: `by` is the request that makes it wait. */
export interface Wait {
  readonly from: string
  readonly to: string
  readonly by: string
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

/** A circle in words: who waits for whom, and for what. */
export const circleText = (waits: readonly Wait[]): string =>
  waits.map(({ from, to, by }) => `${from} waits for ${to} (${by})`).join(', ')
