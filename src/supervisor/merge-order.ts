/** A merge that waits. */
export interface Waits {
  /** Its place in the order of approvals. */
  readonly ordinal: number
  /** Of its task. */
  readonly priority: number
}

/** So many places a priority may be worth, ahead or back. */
const most = 10

const place = ({ ordinal, priority }: Waits): number => ordinal - Math.max(-most, Math.min(most, priority))

/**
 * First approved, first served; but a task of higher priority goes ahead of those approved before it, by as many places as its
 * priority is higher, and no more than ten ahead of its own place or ten behind it. So whatever comes later, at most nineteen
 * go ahead of one that waits.
 */
export const inOrder = <T extends Waits>(waiting: readonly T[]): T[] =>
  [...waiting].sort((a, b) => place(a) - place(b) || a.ordinal - b.ordinal)
