import { closeSync, fstatSync, readSync } from 'node:fs'
import type { Clock } from '../../lib/clock.ts'
import { calmMs } from './calm.ts'
import { type Stamp, sameStamp, stampOf } from './stamp.ts'

/** What a hand wrote into a file that had just been written over: no name leads to it any more. */
export interface LateSave {
  readonly path: string
  readonly bytes: Uint8Array
}

interface Held {
  readonly path: string
  readonly fd: number
  /** The state that was looked at. */
  known: Stamp
  /** A newer one, and since when it stands. */
  fresh: { readonly stamp: Stamp; readonly since: number } | undefined
  until: number
}

/** How long a file that was written over is held, in milliseconds: who opened it before may write into it for so long. */
export const heldMs = 2000
/** How many are held; with more, the oldest is let go early. */
const most = 256

/**
 * Files that were written over by a rename, held open for a while. An editor that saves in place may have opened such a file
 * right before, and writes into what has no name any more; only who still holds it can see that.
 */
export class Replaced {
  readonly #clock: Clock
  readonly #held = new Set<Held>()
  #saves: LateSave[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#held.size
  }

  /** `fd` was opened before the file was written over, in the state `known`; it is closed here. */
  hold(path: string, fd: number, known: Stamp): void {
    this.#held.add({ path, fd, known, fresh: undefined, until: this.#clock.mono() + heldMs })
    if (this.#held.size <= most) return
    for (const oldest of this.#held) {
      this.#lookAt(oldest, true)
      return
    }
  }

  /** What was saved since the last look, of each file the last state that stood for a while. `isLast`: none is held longer. */
  look(isLast: boolean): readonly LateSave[] {
    for (const each of this.#held) this.#lookAt(each, isLast)
    const saves = this.#saves
    this.#saves = []
    return saves
  }

  #lookAt(held: Held, isLast: boolean): void {
    const { fd, path } = held
    const now = this.#clock.mono()
    const at = stampOf(fstatSync(fd, { bigint: true }))
    if (sameStamp(at, held.known)) held.fresh = undefined
    else if (!held.fresh || !sameStamp(at, held.fresh.stamp)) held.fresh = { stamp: at, since: now }
    if (held.fresh && (isLast || now - held.fresh.since >= calmMs)) {
      this.#saves.push({ path, bytes: bytesOf(fd, Number(at.size)) })
      held.known = at
      held.fresh = undefined
      held.until = now + heldMs
    }
    if (!isLast && (held.fresh || now < held.until)) return
    this.#held.delete(held)
    closeSync(fd)
  }
}

const bytesOf = (fd: number, size: number): Uint8Array => {
  const bytes = new Uint8Array(size)
  let end = 0
  while (end < size) {
    const count = readSync(fd, bytes, end, size - end, end)
    if (count === 0) break
    end += count
  }
  return bytes.subarray(0, end)
}
