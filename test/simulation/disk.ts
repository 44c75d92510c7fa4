import { type Fault, FaultError } from '../../src/lib/result.ts'
import type { JournalEntry } from '../../src/protocol/event.ts'
import type { Stored } from '../../src/protocol/message.ts'
import type { Request } from '../../src/protocol/request.ts'
import type { Task } from '../../src/protocol/task.ts'
import type { Journal } from '../../src/store/state.ts'

class Batch {
  readonly entries: JournalEntry[] = []
  readonly durable: Promise<void>
  resolve: () => void = () => undefined
  reject: (error: Error) => void = () => undefined

  constructor() {
    this.durable = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    this.durable.catch(() => undefined)
  }
}

/** What is on the disk whatever happens next, by record and by message: what anybody may have been told of. */
export class Durable {
  readonly tasks = new Map<string, { readonly rev: number; readonly value: Task }>()
  readonly requests = new Map<string, { readonly rev: number; readonly value: Request }>()
  readonly messages = new Map<string, string>()
  readonly cursors = new Map<string, number>()

  see({ put, append, ack }: JournalEntry): void {
    if (put?.[0] === 'tasks') this.tasks.set(put[1], { rev: put[2], value: put[3] as Task })
    if (put?.[0] === 'requests') this.requests.set(put[1], { rev: put[2], value: put[3] as Request })
    if (append?.[0].startsWith('inbox/'))
      this.messages.set(`${append[0]} ${append[1]}`, (append[2] as Stored).message.id)
    if (ack) this.cursors.set(`${ack[0]} ${ack[1]}`, ack[2])
  }
}

/** A disk that holds one journal. It outlives the holders that write it. */
export class Disk {
  entries: JournalEntry[] = []
  readonly durable = new Durable()
}

/**
 * A journal whose flushes happen when the schedule says so, as those of the files do: what is pushed while one is under way
 * goes out with the next, one that fails rejects everything that was not durable, and nothing is written after it.
 */
export class SimJournal implements Journal {
  readonly #disk: Disk
  readonly #onFailure: (fault: Fault) => void
  readonly #listeners = new Set<(entry: JournalEntry) => void>()
  #flying: Batch | null = null
  #next: Batch | null = null
  #last: Promise<void> = Promise.resolve()
  #failure: Fault | null = null

  constructor(disk: Disk, onFailure: (fault: Fault) => void) {
    this.#disk = disk
    this.#onFailure = onFailure
  }

  push(entry: JournalEntry): Promise<void> {
    if (this.#failure) throw new FaultError(this.#failure)
    this.#next ??= new Batch()
    this.#next.entries.push(entry)
    this.#last = this.#next.durable
    return this.#last
  }

  flushed(): Promise<void> {
    return this.#last
  }

  async *entries(after: number): AsyncIterable<JournalEntry> {
    yield* this.#disk.entries.slice(after)
  }

  onEntry(listener: (entry: JournalEntry) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    await this.#last
  }

  get isDirty(): boolean {
    return this.#failure === null && (this.#flying !== null || this.#next !== null)
  }

  /** A flush begins: what comes from now on goes out with the next one. */
  begin(): void {
    if (this.#flying || this.#failure) return
    this.#flying = this.#next
    this.#next = null
  }

  /** The flush under way (else one of all there is) is over. */
  flush(): void {
    this.begin()
    const batch = this.#flying
    this.#flying = null
    if (!batch) return
    for (const entry of batch.entries) {
      this.#disk.entries.push(entry)
      this.#disk.durable.see(entry)
    }
    for (const entry of batch.entries) for (const listener of this.#listeners) listener(entry)
    batch.resolve()
  }

  /** The disk takes no more. How much of what was under way it has all the same shows at the next start. */
  fail(code: string): void {
    if (this.#failure) return
    this.#failure = { code: 'io', message: `the journal cannot be written: ${code}` }
    const error = new FaultError(this.#failure)
    this.#flying?.reject(error)
    this.#next?.reject(error)
    this.#onFailure(this.#failure)
  }

  /** The process is dead. Of what was not durable, the disk has the first `part` of 255 parts. */
  die(part: number): void {
    const cut = [...(this.#flying?.entries ?? []), ...(this.#next?.entries ?? [])]
    for (const entry of cut.slice(0, Math.round((cut.length * part) / 255))) {
      this.#disk.entries.push(entry)
      this.#disk.durable.see(entry)
    }
    this.#flying = null
    this.#next = null
    this.#failure = { code: 'closed', message: 'this holder is dead' }
    this.#listeners.clear()
  }
}
