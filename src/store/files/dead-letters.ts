import { appendFileSync, closeSync, constants, fstatSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { endsInLine, openPlain, splitLines } from '../../lib/files.ts'
import { cut } from '../../lib/text.ts'
import type { DeadLetter } from '../../protocol/message.ts'
import type { Store } from '../store.ts'
import type { Troubles } from './problem.ts'
import { stamp } from './stamp.ts'

const label = '.messages/dead-letter.jsonl'
/** How much of a line is kept, in UTF-16 units. */
const lineLength = 4000

/** Lines that are no messages: in the store's log, and in `.messages/dead-letter.jsonl` for people. Each once. */
export class DeadLetters {
  readonly #store: Store
  readonly #path: string
  readonly #troubles: Troubles
  #isCatchingUp = true
  #known = new Set<string>()

  constructor(root: string, store: Store, troubles: Troubles) {
    this.#store = store
    this.#troubles = troubles
    this.#path = join(root, label)
  }

  /** Writes what a crash kept from the file. Until `caughtUp`, a letter that is known already is not told again. */
  start(): void {
    const present = new Set<string>()
    if (stamp(this.#path))
      for (const { bytes } of splitLines(readFileSync(this.#path)).lines) present.add(bytes.toString('utf8'))
    for (const { value } of this.#store.deadLetters.read(0)) {
      this.#known.add(keyOf(value))
      if (!present.has(JSON.stringify(value))) this.#append(value)
    }
  }

  caughtUp(): void {
    this.#isCatchingUp = false
    this.#known.clear()
  }

  /** False when it was told before the last crash. */
  add(letter: DeadLetter): boolean {
    const kept: DeadLetter = { ...letter, line: cut(letter.line, lineLength) }
    if (this.#isCatchingUp && this.#known.has(keyOf(kept))) return false
    this.#store.deadLetters.append(kept, {
      event: 'message.dead',
      by: 'supervisor',
      info: { file: kept.file, offset: kept.offset, reason: kept.reason },
    })
    this.#append(kept)
    return true
  }

  /** What the disk refuses stands in the log, and is written at the next start. */
  #append(letter: DeadLetter): void {
    try {
      const { O_RDWR, O_APPEND, O_CREAT } = constants
      const fd = openPlain(this.#path, O_RDWR | O_APPEND | O_CREAT, 0o600)
      try {
        const begin = endsInLine(fd, fstatSync(fd).size) ? '\n' : ''
        appendFileSync(fd, `${begin}${JSON.stringify(letter)}\n`)
      } finally {
        closeSync(fd)
      }
      this.#troubles.over(label)
    } catch (error) {
      this.#troubles.tell(label, error)
    }
  }
}

const keyOf = (letter: DeadLetter): string => JSON.stringify([letter.file, letter.offset, letter.line])
