import type { Clock } from '../lib/clock.ts'
import { cut } from '../lib/text.ts'

/** At most `most` a second pass; what does not is counted, so that a flood is told of once and not once a piece. */
export class Gate {
  readonly #clock: Clock
  readonly #most: number
  #since = Number.NEGATIVE_INFINITY
  #passed = 0
  #missed = 0

  constructor(clock: Clock, most = 20) {
    this.#clock = clock
    this.#most = most
  }

  /** How many were held back since the last one that passed, when this one passes; null when it is held back too. */
  pass(): number | null {
    const now = this.#clock.mono()
    if (now - this.#since >= 1_000) {
      this.#since = now
      this.#passed = 0
    }
    if (this.#passed >= this.#most) {
      this.#missed++
      return null
    }
    this.#passed++
    return this.missed()
  }

  /** How many are held back and not told of yet; counts from zero again. */
  missed(): number {
    const missed = this.#missed
    this.#missed = 0
    return missed
  }
}

const longestLine = 8_192

/**
 * Cuts a stream of bytes into lines at byte 0x0A and hands each on as text, its length bounded. A line that grows without
 * end is handed on by its head, and the rest of it is dropped.
 */
export class Lines {
  readonly #onLine: (line: string) => void
  #kept: Buffer[] = []
  #size = 0

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine
  }

  write(chunk: Buffer): void {
    let from = 0
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      this.#keep(chunk.subarray(from, at))
      this.end()
      from = at + 1
    }
    this.#keep(chunk.subarray(from))
  }

  /** What stands without a newline is a line too. */
  end(): void {
    const line = cut(Buffer.concat(this.#kept).toString('utf8').trimEnd(), 2_000)
    this.#kept = []
    this.#size = 0
    if (line !== '') this.#onLine(line)
  }

  #keep(piece: Buffer): void {
    const room = longestLine - this.#size
    if (room <= 0 || piece.length === 0) return
    this.#kept.push(piece.subarray(0, room))
    this.#size += Math.min(room, piece.length)
  }
}
