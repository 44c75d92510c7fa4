import { delay } from '../lib/clock.ts'
import type { ModelFault } from '../model/model.ts'
import type { LifeOptions } from './life-options.ts'
import type { Voice } from './voice.ts'
import { sayFault } from './words.ts'

/** What a wait for the model must know of whoever waits. */
export interface ModelWait {
  readonly voice: Voice
  /** Whom to call at each word of the daemon; null when nobody any more. */
  readonly onWord: (word: (() => void) | null) => void
  /** Is there a reason to end the wait early? */
  readonly isCalled: () => Promise<boolean>
  readonly isEnding: () => boolean
}

/**
 * Every retry failed: waits `parkMs` longer, doubled for each time `before`, shown as such. True when the wait went by.
 * Ordinary mail waits with it; what is urgent, a decision, a shutdown (which is agreed to) and the end of the task are reasons to look at once, and no failure.
 */
export const waitForModel = async (
  life: LifeOptions,
  fault: ModelFault,
  before: number,
  o: ModelWait,
): Promise<boolean> => {
  const { clock, model, parkMs = 30_000 } = life
  const end = clock.mono() + parkMs * 2 ** before
  let woken = new AbortController()
  o.onWord(() => woken.abort())
  o.voice.show('waiting', { what: `the model (${sayFault(fault)})`, whom: model.label })
  let isOver = false
  while (!(isOver || (await o.isCalled()))) {
    isOver = await delay(end - clock.mono(), woken.signal).then(
      () => true,
      () => false,
    )
    // What comes while the mail is looked at wakes the next wait.
    if (!isOver) woken = new AbortController()
  }
  o.onWord(null)
  if (!o.isEnding()) o.voice.show('working')
  return isOver
}
