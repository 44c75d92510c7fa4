import type { Words } from '../protocol/event.ts'

type Hear = (words: Words) => void

/**
 * Who listens to what a teammate writes to a person, while it is written. Its thread is told when there is somebody, and when there
 * is nobody any more: pieces that nobody hears are not even sent.
 */
export class Listeners {
  readonly #tell: (name: string, on: boolean) => void
  readonly #of = new Map<string, Set<Hear>>()

  constructor(tell: (name: string, on: boolean) => void) {
    this.#tell = tell
  }

  /** The answer ends it. */
  listen(name: string, hear: Hear): () => void {
    const there = this.#of.get(name) ?? new Set()
    // A function of its own each time: two that listen in the same way are two.
    const own: Hear = words => hear(words)
    there.add(own)
    this.#of.set(name, there)
    if (there.size === 1) this.#tell(name, true)
    return () => {
      if (!there.delete(own) || there.size > 0) return
      this.#of.delete(name)
      this.#tell(name, false)
    }
  }

  /** Its thread has come up, and knows nothing of who listens. */
  ready(name: string): void {
    if (this.#of.has(name)) this.#tell(name, true)
  }

  heard(name: string, { call, text }: Omit<Words, 'name'>): void {
    for (const hear of this.#of.get(name) ?? []) hear({ name, call, text })
  }
}
