import * as z from 'zod'
import { type Clock, iso } from '../lib/clock.ts'
import { FaultError } from '../lib/result.ts'
import { Spending } from '../protocol/budget.ts'
import type { JournalEntry, Why } from '../protocol/event.ts'
import { DeadLetter, Stored } from '../protocol/message.ts'
import { Request } from '../protocol/request.ts'
import { Task } from '../protocol/task.ts'
import { TeammateRecord } from '../protocol/teammate.ts'
import type { Log, Mark, Past, Records, Store, Write } from './store.ts'
import { type Change, EntryLog, type Recorder, Table } from './table.ts'

/** Where decided changes go. The one thing in which backends differ. */
export interface Journal {
  /**
   * Takes an entry in, in order. The promise resolves when it is durable and told to the listeners of `onEntry`; it may
   * be the same one for many entries. Throws a FaultError, with nothing taken in, when there is no writing any more.
   */
  push(entry: JournalEntry): Promise<void>
  flushed(): Promise<void>
  entries(after: number): AsyncIterable<JournalEntry>
  onEntry(listener: (entry: JournalEntry) => void): () => void
  close(): Promise<void>
}

/** The whole state at one moment, as a snapshot file holds it. */
export const Dump = z.object({
  seq: z.number().int().min(0),
  records: z.array(z.tuple([z.string(), z.array(z.tuple([z.string(), z.number().int().min(1), z.unknown()]))])),
  logs: z.array(
    z.tuple([
      z.string(),
      z.object({
        last: z.number().int().min(0),
        entries: z.array(z.tuple([z.number().int(), z.string(), z.unknown()])),
        cursors: z.array(z.tuple([z.string(), z.number().int()])),
        /** Index and turn of what entered its reader's context. */
        turns: z.array(z.tuple([z.number().int(), z.number().int()])).optional(),
      }),
    ]),
  ),
})
export type Dump = z.infer<typeof Dump>

const mark = z.record(z.string(), z.unknown())
const inboxPrefix = 'inbox/'
const deadLetterLog = 'dead-letters'

/**
 * Everything that the store knows, in memory: decides changes (as a Store's tables do), makes their journal entries, and
 * takes entries in at replay. It does no I/O; a journal is plugged in with `connect` once replay is over.
 */
export class State {
  readonly tasks: Table<Task>
  readonly requests: Table<Request>
  readonly teammates: Table<TeammateRecord>
  readonly spending: Table<Spending>
  readonly marks: Table<Mark>
  readonly deadLetters: EntryLog<DeadLetter>
  readonly #inboxes = new Map<string, EntryLog<Stored>>()
  readonly #tables: ReadonlyMap<string, Table<unknown>>
  readonly #recorder: Recorder
  readonly #clock: Clock
  /** Each tells the next of its listeners; false when there are no more. */
  readonly #announcements: (() => boolean)[] = []
  #journal: Journal | undefined
  #seq = 0
  /** Of the entries taken in at replay: by record and event, and by log for trims. */
  readonly #replayed = new Map<string, number>()
  readonly past: Past = {
    put: (collection, id, event) => this.#replayed.get(`${event} ${collection}/${id}`),
    trim: inbox => this.#replayed.get(`trim ${inboxPrefix}${inbox}`),
  }

  constructor(clock: Clock) {
    this.#clock = clock
    const recorder: Recorder = {
      record: (why, change) => this.#record(why, change),
      nothing: () => ({ seq: this.#seq, durable: this.#connected().flushed() }),
      announce: (listeners, ...args) => {
        const left = [...listeners]
        let next = 0
        this.#announce(() => {
          const listener = left[next++]
          listener?.(...args)
          return listener !== undefined
        })
      },
    }
    this.#recorder = recorder
    this.tasks = new Table('tasks', value => Task.parse(value), recorder)
    this.requests = new Table('requests', value => Request.parse(value), recorder)
    this.teammates = new Table('teammates', value => TeammateRecord.parse(value), recorder)
    this.spending = new Table('spending', value => Spending.parse(value), recorder)
    this.marks = new Table<Mark>('marks', value => mark.parse(value), recorder)
    this.deadLetters = new EntryLog(deadLetterLog, value => DeadLetter.parse(value), recorder)
    this.#tables = new Map<string, Table<unknown>>([
      ['tasks', this.tasks as Table<unknown>],
      ['requests', this.requests as Table<unknown>],
      ['teammates', this.teammates as Table<unknown>],
      ['spending', this.spending as Table<unknown>],
      ['marks', this.marks as Table<unknown>],
    ])
  }

  get seq(): number {
    return this.#seq
  }

  /** The inbox of `name`; made when it is not there. */
  inbox(name: string): EntryLog<Stored> {
    let log = this.#inboxes.get(name)
    if (!log) {
      log = new EntryLog(inboxPrefix + name, value => Stored.parse(value), this.#recorder)
      this.#inboxes.set(name, log)
    }
    return log
  }

  get inboxNames(): readonly string[] {
    return [...this.#inboxes.keys()]
  }

  /** An event that changes no record. */
  note(why: Why): Write {
    const { seq, durable } = this.#record(why, {})
    return { seq, durable }
  }

  /** Changes are decided from here on, and go to `journal`. */
  connect(journal: Journal): void {
    this.#journal = journal
  }

  /** Takes in an entry of the journal, at replay. Throws when it does not follow from what was taken in before. */
  apply(entry: JournalEntry): void {
    if (entry.seq !== this.#seq + 1)
      throw new FaultError({ code: 'invalid', message: `entry ${entry.seq} follows entry ${this.#seq}` })
    if (entry.put) {
      const [collection, id, rev, value] = entry.put
      const table = this.#tables.get(collection)
      if (!table) throw new FaultError({ code: 'invalid', message: `there is no collection "${collection}"` })
      table.apply(id, rev, value)
      if (collection !== 'marks' && collection !== 'spending')
        this.#replayed.set(`${entry.event} ${collection}/${id}`, entry.seq)
    }
    if (entry.append) this.#log(entry.append[0]).applyAppend(entry.append[1], entry.append[2], entry.at)
    if (entry.ack) this.#log(entry.ack[0]).applyAck(entry.ack[1], entry.ack[2], entry.ack[3])
    if (entry.trim) {
      this.#log(entry.trim[0]).applyTrim(entry.trim[1])
      this.#replayed.set(`trim ${entry.trim[0]}`, entry.seq)
    }
    this.#seq = entry.seq
  }

  dump(): Dump {
    return {
      seq: this.#seq,
      records: Array.from(this.#tables, ([name, table]) => [name, table.dump()]),
      logs: [
        [deadLetterLog, this.deadLetters.dump()],
        ...Array.from(this.#inboxes, ([name, log]): Dump['logs'][number] => [inboxPrefix + name, log.dump()]),
      ],
    }
  }

  /** The state of `dump`, in an empty state. */
  load(dump: Dump): void {
    for (const [name, rows] of dump.records) {
      const table = this.#tables.get(name)
      if (!table) throw new FaultError({ code: 'invalid', message: `there is no collection "${name}"` })
      table.load(rows)
    }
    for (const [name, log] of dump.logs) this.#log(name).load(log)
    this.#seq = dump.seq
  }

  #log(name: string): EntryLog<unknown> {
    if (name === deadLetterLog) return this.deadLetters as EntryLog<unknown>
    if (name.startsWith(inboxPrefix)) return this.inbox(name.slice(inboxPrefix.length)) as EntryLog<unknown>
    throw new FaultError({ code: 'invalid', message: `there is no log "${name}"` })
  }

  #connected(): Journal {
    if (!this.#journal) throw new Error('a change before the journal was connected')
    return this.#journal
  }

  #record(why: Why, change: Change): Write & { at: string } {
    const at = iso(this.#clock.wall())
    const seq = this.#seq + 1
    const info = why.info === undefined ? {} : { info: why.info }
    const durable = this.#connected().push({ seq, at, event: why.event, by: why.by, ...info, ...change })
    this.#seq = seq
    return { seq, durable, at }
  }

  /**
   * A listener may make changes itself. What was announced before such a change reaches the remaining listeners first,
   * so that each of them sees all changes in order, and every change is told before the call that made it returns.
   */
  #announce(tellNext: () => boolean): void {
    const queue = this.#announcements
    queue.push(tellNext)
    for (let first = queue[0]; first; first = queue[0]) if (!first()) queue.shift()
  }
}

/** The state and its journal as the one Store. */
export class StateStore implements Store {
  readonly tasks: Records<Task>
  readonly requests: Records<Request>
  readonly teammates: Records<TeammateRecord>
  readonly spending: Records<Spending>
  readonly marks: Records<Mark>
  readonly deadLetters: Log<DeadLetter>
  readonly past: Past
  readonly #state: State
  readonly #journal: Journal

  constructor(state: State, journal: Journal) {
    state.connect(journal)
    this.#state = state
    this.#journal = journal
    this.tasks = state.tasks
    this.requests = state.requests
    this.teammates = state.teammates
    this.spending = state.spending
    this.marks = state.marks
    this.deadLetters = state.deadLetters
    this.past = state.past
  }

  get seq(): number {
    return this.#state.seq
  }

  get inboxNames(): readonly string[] {
    return this.#state.inboxNames
  }

  inbox(name: string): Log<Stored> {
    return this.#state.inbox(name)
  }

  note(why: Why): Write {
    return this.#state.note(why)
  }

  flushed(): Promise<void> {
    return this.#journal.flushed()
  }

  entries(after: number): AsyncIterable<JournalEntry> {
    return this.#journal.entries(after)
  }

  onEntry(listener: (entry: JournalEntry) => void): () => void {
    return this.#journal.onEntry(listener)
  }

  close(): Promise<void> {
    return this.#journal.close()
  }
}
