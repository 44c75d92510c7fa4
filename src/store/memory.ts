import type { Clock } from '../lib/clock.ts'
import { FaultError } from '../lib/result.ts'
import type { JournalEntry } from '../protocol/event.ts'
import { type Journal, State, StateStore } from './state.ts'
import type { Store } from './store.ts'

/** A journal that lasts as long as the process: "durable" after the current turn of the event loop's microtasks. */
class MemoryJournal implements Journal {
  readonly #entries: JournalEntry[] = []
  readonly #listeners = new Set<(entry: JournalEntry) => void>()
  #told = 0
  #batch: Promise<void> = Promise.resolve()
  #isPending = false
  #isClosed = false

  push(entry: JournalEntry): Promise<void> {
    if (this.#isClosed) throw new FaultError({ code: 'closed', message: 'the store is closed' })
    this.#entries.push(entry)
    if (!this.#isPending) {
      this.#isPending = true
      this.#batch = this.#batch.then(() => {
        this.#isPending = false
        const end = this.#entries.length
        while (this.#told < end) {
          const told = this.#entries[this.#told++]
          if (told) for (const listener of this.#listeners) listener(told)
        }
      })
    }
    return this.#batch
  }

  flushed(): Promise<void> {
    return this.#batch
  }

  async *entries(after: number): AsyncIterable<JournalEntry> {
    await this.#batch
    // Entry n stands at n - 1.
    for (const entry of this.#entries.slice(Math.max(0, after))) yield entry
  }

  onEntry(listener: (entry: JournalEntry) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#batch
  }
}

/** A store that is gone with the process, for tests and trials. It keeps every journal entry. */
export const openMemoryStore = (clock: Clock): Store => new StateStore(new State(clock), new MemoryJournal())
