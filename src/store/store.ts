import type { Spending } from '../protocol/budget.ts'
import type { EventType, JournalEntry, TakenIn, Why } from '../protocol/event.ts'
import type { DeadLetter, Stored } from '../protocol/message.ts'
import type { Request } from '../protocol/request.ts'
import type { Task } from '../protocol/task.ts'
import type { TeammateRecord } from '../protocol/teammate.ts'

/**
 * The store of one team root, as its one writer (the holder) sees it.
 *
 * A change is decided at once, in memory, in call order; `durable` resolves when its journal line is on the disk, and
 * rejects (once, for everything after it too) when the journal cannot be written any more. Nobody outside the holder may
 * be told of a change before it is durable. Values are plain JSON and frozen by convention: never mutated after a call.
 */
export interface Store {
  readonly tasks: Records<Task>
  readonly requests: Records<Request>
  readonly teammates: Records<TeammateRecord>
  /** What was used of the models, by teammate and task. */
  readonly spending: Records<Spending>
  /** Small state by key that belongs to the holder: drops taken in, archive marks, trunk marks. */
  readonly marks: Records<Mark>
  /** The inbox of `name`; made at first use. */
  inbox(name: string): Log<Stored>
  readonly inboxNames: readonly string[]
  readonly deadLetters: Log<DeadLetter>
  /** An event that changes no record. */
  note(why: Why): Write
  /** Resolves when everything decided so far is durable. */
  flushed(): Promise<void>
  /** Journal entries after `seq` (exclusive), oldest first, as far back as they are kept. */
  entries(after: number): AsyncIterable<JournalEntry>
  /** Called after each entry became durable, in order. */
  onEntry(listener: (entry: JournalEntry) => void): () => void
  /** Sequence number of the last entry decided. */
  readonly seq: number
  /** What is known of the entries that this store was opened with. */
  readonly past: Past
  /** Flushes, and refuses changes from then on. */
  close(): Promise<void>
}

/**
 * The entries that were read when the store was opened, by their sequence numbers; undefined for what was not among them,
 * which is older than all that were. So it can be told what a crash may have cut off behind an entry.
 */
export interface Past {
  /** The last one of this event that changed this record. */
  put(collection: 'tasks' | 'requests' | 'teammates', id: string, event: EventType): number | undefined
  /** The last one that trimmed this inbox. */
  trim(inbox: string): number | undefined
}

export type Mark = Readonly<Record<string, unknown>>

export interface Write {
  readonly seq: number
  readonly durable: Promise<void>
}

export interface Rec<T> {
  readonly value: T
  /** 1 at creation, one more at each update. */
  readonly rev: number
}

export type Put<T> =
  | ({ readonly ok: true; readonly rec: Rec<T> } & Write)
  | { readonly ok: false; readonly rec: Rec<T> | undefined }

export interface Records<T> {
  get(id: string): Rec<T> | undefined
  readonly size: number
  /** In order of creation. */
  list(): Iterable<readonly [id: string, rec: Rec<T>]>
  /** Refused, with what is there, when the id exists. */
  create(id: string, value: T, why: Why): Put<T>
  /** Compare-and-set: refused, with what is there, unless the record is at revision `rev`. */
  update(id: string, rev: number, value: T, why: Why): Put<T>
  /** Called at each change, synchronously after it was decided, in order. */
  watch(listener: (id: string, rec: Rec<T>, old: Rec<T> | undefined, why: Why) => void): () => void
}

export interface LogEntry<T> {
  /** 1 for the first entry ever; never used twice, trimmed or not. */
  readonly index: number
  readonly value: T
  readonly at: string
}

export interface Log<T> {
  append(value: T, why: Why): Write & { readonly index: number }
  /** Entries with an index greater than `after`, oldest first, at most `limit`. */
  read(after: number, limit?: number): readonly LogEntry<T>[]
  /** Index of the last entry, 0 when there never was one. */
  readonly last: number
  /** Moves the reader's cursor forward to `index`; a smaller one is ignored. `taken`: what entered its context, early or not. */
  ack(reader: string, index: number, why: Why, taken?: TakenIn): Write
  /** The turn at which an entry entered its reader's context, where that was told. */
  turn(index: number): number | undefined
  /** The reader's cursor, 0 at first. */
  cursor(reader: string): number
  /** Forgets entries up to and including `index`. */
  trim(index: number, why: Why): Write
  watch(listener: (entry: LogEntry<T>) => void): () => void
}
