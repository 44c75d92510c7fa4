import type { Stored } from '../protocol/message.ts'
import type { Store } from '../store/store.ts'

const human = ['human', 'user']

/**
 * What became of a message beyond being read: its reader wrote an answer to it, or acted on the request that it told of. Only
 * what the daemon stamped counts; a line of a file that says whose answer it is proves nothing.
 */
export class Answers {
  readonly #store: Store
  /** Sender and message that it answers, of every message up to `#seen` of each inbox. */
  readonly #answered = new Set<string>()
  readonly #seen = new Map<string, number>()

  constructor(store: Store) {
    this.#store = store
  }

  /** Did the owner of the inbox `name` act on this message in it? */
  has(name: string, { message, origin }: Stored): boolean {
    const names = human.includes(name) ? human : [name]
    if (message.type === 'request' && message.requestId !== undefined && origin === 'daemon') {
      const history = this.#store.requests.get(message.requestId)?.value.history ?? []
      if (history.some(({ by, act }) => act !== 'open' && names.includes(by))) return true
    }
    this.#look()
    return names.some(from => this.#answered.has(keyOf(from, message.id)))
  }

  #look(): void {
    for (const inbox of this.#store.inboxNames) {
      const log = this.#store.inbox(inbox)
      const seen = this.#seen.get(inbox) ?? 0
      if (log.last <= seen) continue
      for (const { value } of log.read(seen))
        if (value.origin === 'daemon' && value.message.replyTo !== undefined)
          this.#answered.add(keyOf(value.message.from, value.message.replyTo))
      this.#seen.set(inbox, log.last)
    }
  }
}

const keyOf = (from: string, id: string): string => `${from} ${id}`
