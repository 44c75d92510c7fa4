import { type Clock, delay } from '../lib/clock.ts'
import type { ModelFault } from '../model/model.ts'
import type { Voice } from './voice.ts'
import { sayFault } from './words.ts'

/**
 * Every retry failed: waits `ms` longer, shown as such. True when the wait went by. Ordinary mail waits with it; what is urgent,
 * a decision, a shutdown (which is agreed to) and the end of the task are reasons to look at once, and no failure.
 */
export const waitForModel = async (o: {
  readonly clock: Clock
  readonly ms: number
  readonly fault: ModelFault
  readonly label: string
  readonly voice: Voice
  /** Whom to call at each word of the daemon; null when nobody any more. */
  readonly onWord: (word: (() => void) | null) => void
  /** Is there a reason to end the wait early? */
  readonly isCalled: () => Promise<boolean>
  readonly isEnding: () => boolean
}): Promise<boolean> => {
  const end = o.clock.mono() + o.ms
  let woken = new AbortController()
  o.onWord(() => woken.abort())
  o.voice.show('waiting', { what: `the model (${sayFault(o.fault)})`, whom: o.label })
  let isOver = false
  while (!(isOver || (await o.isCalled()))) {
    isOver = await delay(end - o.clock.mono(), woken.signal).then(
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
