/** Numbers from a seed (mulberry32), the same on every machine. */
export interface Random {
  /** 0 ≤ x < 1. */
  next(): number
  /** A whole number, 0 ≤ n < `below`. */
  below(below: number): number
  pick<T>(from: readonly T[]): T
  shuffled<T>(from: readonly T[]): T[]
}

export const random = (seed: number): Random => {
  let a = seed >>> 0
  const next = () => {
    a = (a + 0x6d2b79f5) >>> 0
    let t = a
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  const below = (most: number) => Math.floor(next() * most)
  return {
    next,
    below,
    pick: from => {
      const one = from[below(from.length)]
      if (one === undefined) throw new Error('nothing to pick from')
      return one
    },
    shuffled: from => {
      const left = [...from]
      return from.flatMap(() => left.splice(below(left.length), 1))
    },
  }
}
