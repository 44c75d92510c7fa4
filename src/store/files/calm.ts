import type { Clock } from '../../lib/clock.ts'
import { type Stamp, sameStamp } from './stamp.ts'

/** A file that is not finished by then is not being written any more, and is judged as it is. */
export const calmMs = 500

/** Since when each file is as it is: what tells a half-written file from a broken one. */
export class Calm {
  readonly #clock: Clock
  readonly #since = new Map<string, { readonly stamp: Stamp; readonly at: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Was the file in this state for long enough? */
  isCalm(file: string, now: Stamp): boolean {
    const known = this.#since.get(file)
    if (known && sameStamp(known.stamp, now)) return this.#clock.mono() - known.at >= calmMs
    this.#since.set(file, { stamp: now, at: this.#clock.mono() })
    return false
  }

  forget(file: string): void {
    this.#since.delete(file)
  }
}
