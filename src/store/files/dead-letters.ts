import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { splitLines } from '../../lib/files.ts'
import { cut } from '../../lib/text.ts'
import type { DeadLetter } from '../../protocol/message.ts'
import type { Store } from '../store.ts'
import { stamp } from './stamp.ts'

/** How much of a line is kept, in UTF-16 units. */
const lineLength = 4000

/** Lines that are no messages: in the store's log, and in `.messages/dead-letter.jsonl` for people. Each once. */
export class DeadLetters {
  readonly #store: Store
  readonly #path: string
  #isCatchingUp = true
  #known = new Set<string>()

  constructor(root: string, store: Store) {
    this.#store = store
    this.#path = join(root, '.messages', 'dead-letter.jsonl')
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

  #append(letter: DeadLetter): void {
    appendFileSync(this.#path, `${JSON.stringify(letter)}\n`, { mode: 0o600 })
  }
}

const keyOf = (letter: DeadLetter): string => JSON.stringify([letter.file, letter.offset, letter.line])
