/**
 * A queue: what is handed in begins in that order, at most `places` of it at the same time, whether what went before failed
 * or not.
 */
export const makeTurns = (places = 1): (<T>(act: () => Promise<T>) => Promise<T>) => {
  const waiting: (() => void)[] = []
  let taken = 0
  return async act => {
    if (taken === places) await new Promise<void>(begin => waiting.push(begin))
    else taken++
    try {
      return await act()
    } finally {
      // The place goes straight to who waits for it, so that nobody slips in between.
      const next = waiting.shift()
      if (next) next()
      else taken--
    }
  }
}
