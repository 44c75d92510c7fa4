import type { Clock } from '../../src/lib/clock.ts'

interface Timer {
  readonly due: number
  readonly n: number
  readonly owner: string
  readonly act: () => void
}

const real = { setTimeout, clearTimeout, setImmediate, clearImmediate }
const turn = (): Promise<void> => new Promise(resolve => real.setImmediate(resolve))
/** So many promises in a row follow from one step at most; what takes more goes on beside the next step. */
const longestChain = 40

/**
 * The time of one simulated process: timers fire when the schedule says so, in the order in which they are due. While it is
 * installed, the global timers are this one's, so the code that runs under it is the product's own.
 */
export class SimTime {
  now = 0
  /** How far the wall clock was set, by hand or by a bad one. */
  skew = 0
  /** On whose behalf code runs at the moment: its timers end with it. */
  owner = ''
  readonly clock: Clock = { wall: () => Date.UTC(2026, 0, 1) + this.now + this.skew, mono: () => this.now }
  readonly #timers = new Set<Timer>()
  #immediates: { readonly owner: string; readonly act: () => void }[] = []
  #n = 0

  install(): void {
    const set = (act: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      const due = this.now + Math.max(1, ms)
      const timer: Timer = { due, n: this.#n++, owner: this.owner, act: () => act(...args) }
      this.#timers.add(timer)
      return Object.assign(timer, { unref: () => timer, ref: () => timer })
    }
    const immediate = (act: (...args: unknown[]) => void, ...args: unknown[]) => {
      const one = { owner: this.owner, act: () => act(...args) }
      this.#immediates.push(one)
      return one
    }
    Object.assign(globalThis, {
      setTimeout: set,
      clearTimeout: (timer: unknown) => this.#timers.delete(timer as Timer),
      setImmediate: immediate,
      clearImmediate: (one: unknown) => {
        this.#immediates = this.#immediates.filter(each => each !== one)
      },
    })
  }

  restore(): void {
    Object.assign(globalThis, real)
  }

  /** Lets happen what follows from what happened, without time going by: all of it, or (`isShort`, ten times as fast) all but what takes long. */
  async settle(isShort = false): Promise<void> {
    for (let rounds = 0; ; rounds++) {
      if (rounds > 1000) throw new Error('it never settles: immediates follow immediates')
      if (isShort) for (let n = 0; n < longestChain; n++) await null
      else await turn()
      const due = this.#immediates
      if (due.length === 0) return
      this.#immediates = []
      for (const { owner, act } of due) this.as(owner, act)
    }
  }

  as(owner: string, act: () => void): void {
    const before = this.owner
    this.owner = owner
    act()
    this.owner = before
  }

  /** Time goes by up to the next timer within `ms`, which fires; false where there is none. */
  fire(ms = Number.POSITIVE_INFINITY): boolean {
    let next: Timer | undefined
    for (const each of this.#timers)
      if (!next || each.due < next.due || (each.due === next.due && each.n < next.n)) next = each
    if (!next || next.due > this.now + ms) return false
    this.#timers.delete(next)
    this.now = Math.max(this.now, next.due)
    this.owner = next.owner
    next.act()
    return true
  }

  /** What ran for `owner` (everybody, where it is left out) is dead: none of its timers fires. */
  end(owner?: string): void {
    for (const each of this.#timers) if (owner === undefined || each.owner === owner) this.#timers.delete(each)
    this.#immediates = owner === undefined ? [] : this.#immediates.filter(each => each.owner !== owner)
  }
}
