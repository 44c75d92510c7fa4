import { longestAsked } from '../agent/retry.ts'
import { delay, iso } from '../lib/clock.ts'
import type { ModelFault } from '../model/model.ts'
import type { Waiting } from '../protocol/teammate.ts'
import type { LifeOptions } from './life-options.ts'
import type { Voice } from './voice.ts'
import { sayFault } from './words.ts'

/** What a wait must know of whoever waits. */
export interface Waiter {
  readonly voice: Voice
  /** Whom to call at each word of the daemon; null when nobody any more. */
  readonly onWord: (word: (() => void) | null) => void
  /** Is there a reason to end the wait early? */
  readonly isCalled: () => Promise<boolean>
  readonly isEnding: () => boolean
}

/** How often every retry may fail, before what was at hand is given up. */
export const mostParks = 5
/** How often a clone is looked at again whose git is locked. */
const lockMs = 5000

/**
 * Waits of a teammate for what comes by itself, shown as such. Ordinary mail waits with it; what is urgent, a decision, a shutdown
 * (which is agreed to) and the end of the task are reasons to look at once, and no failure.
 */
export class Waits {
  readonly #life: LifeOptions
  readonly #o: Waiter

  constructor(life: LifeOptions, o: Waiter) {
    this.#life = life
    this.#o = o
  }

  /**
   * Every retry of a model call failed: waits `parkMs`, doubled for each time `before`, or as long as the endpoint asked for. True
   * when that went by and was no wait that it asked for: those may come as often as it likes.
   */
  async forModel(fault: ModelFault, before: number): Promise<boolean> {
    const { model, parkMs = 30_000 } = this.#life
    const asked = Math.min(longestAsked, fault.retryAfterMs ?? 0)
    const ms = Math.max(parkMs * 2 ** before, asked)
    const until = iso(this.#life.clock.wall() + ms)
    const isOver = await this.#wait({ what: `the model (${sayFault(fault)})`, whom: model.label, until }, ms)
    return isOver && asked === 0
  }

  /** Somebody left, or holds, a lock of git: only a person can tell which. */
  forLock(what: string): Promise<boolean> {
    return this.#wait({ what, whom: 'human' }, lockMs)
  }

  async #wait(what: Waiting, ms: number): Promise<boolean> {
    const { clock } = this.#life
    const { voice, onWord, isCalled, isEnding } = this.#o
    const end = clock.mono() + ms
    let woken = new AbortController()
    onWord(() => woken.abort())
    voice.show('waiting', what)
    let isOver = false
    while (!(isOver || (await isCalled()))) {
      isOver = await delay(end - clock.mono(), woken.signal).then(
        () => true,
        () => false,
      )
      // What comes while the mail is looked at wakes the next wait.
      if (!isOver) woken = new AbortController()
    }
    onWord(null)
    if (!isEnding()) voice.show('working')
    return isOver
  }
}
