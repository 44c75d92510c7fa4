import { FaultError } from '../lib/result.ts'
import type { JournalEntry, TakenIn, Why } from '../protocol/event.ts'
import type { Log, LogEntry, Put, Rec, Records, Write } from './store.ts'

/** What of a journal entry changes a record or a log. */
export type Change = Partial<Pick<JournalEntry, 'put' | 'append' | 'ack' | 'trim'>>

/** What a table needs of the state it is part of. */
export interface Recorder {
  /** Makes the entry and hands it to the journal; throws when the store takes no changes any more. */
  record(why: Why, change: Change): Write & { readonly at: string }
  /** Everything decided so far, as a write that changed nothing. */
  nothing(): Write
  /** Calls each listener, after all that was announced before it, before this returns. */
  announce<A extends readonly unknown[]>(listeners: Iterable<(...args: A) => void>, ...args: A): void
}

const inconsistent = (what: string): FaultError =>
  new FaultError({ code: 'invalid', message: `the journal contradicts itself: ${what}` })

type Row = [id: string, rev: number, value: unknown]
type Line = [index: number, at: string, value: unknown]

/** The records of one collection, in memory. `parse` is applied to what comes from a disk, never to what is decided. */
export class Table<T> implements Records<T> {
  readonly #name: string
  readonly #parse: (value: unknown) => T
  readonly #recorder: Recorder
  readonly #rows = new Map<string, Rec<T>>()
  readonly #listeners = new Set<(id: string, rec: Rec<T>, old: Rec<T> | undefined, why: Why) => void>()

  constructor(name: string, parse: (value: unknown) => T, recorder: Recorder) {
    this.#name = name
    this.#parse = parse
    this.#recorder = recorder
  }

  get(id: string): Rec<T> | undefined {
    return this.#rows.get(id)
  }

  get size(): number {
    return this.#rows.size
  }

  list(): Iterable<readonly [id: string, rec: Rec<T>]> {
    return this.#rows.entries()
  }

  create(id: string, value: T, why: Why): Put<T> {
    const there = this.#rows.get(id)
    return there ? { ok: false, rec: there } : this.#set(id, { value, rev: 1 }, undefined, why)
  }

  update(id: string, rev: number, value: T, why: Why): Put<T> {
    const old = this.#rows.get(id)
    return old?.rev === rev ? this.#set(id, { value, rev: rev + 1 }, old, why) : { ok: false, rec: old }
  }

  watch(listener: (id: string, rec: Rec<T>, old: Rec<T> | undefined, why: Why) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Takes a `put` of the journal in, at replay. */
  apply(id: string, rev: number, value: unknown): void {
    const old = this.#rows.get(id)?.rev ?? 0
    if (rev !== old + 1) throw inconsistent(`${this.#name} ${id} goes from revision ${old} to ${rev}`)
    this.#rows.set(id, { value: this.#parse(value), rev })
  }

  dump(): Row[] {
    return [...this.#rows].map(([id, rec]) => [id, rec.rev, rec.value])
  }

  load(rows: Iterable<Row>): void {
    for (const [id, rev, value] of rows) this.#rows.set(id, { value: this.#parse(value), rev })
  }

  #set(id: string, rec: Rec<T>, old: Rec<T> | undefined, why: Why): Put<T> {
    const { seq, durable } = this.#recorder.record(why, { put: [this.#name, id, rec.rev, rec.value] })
    this.#rows.set(id, rec)
    this.#recorder.announce(this.#listeners, id, rec, old, why)
    return { ok: true, rec, seq, durable }
  }
}

/** One log, in memory: a run of entries without gaps, whose head may have been trimmed away. */
export class EntryLog<T> implements Log<T> {
  readonly #name: string
  readonly #parse: (value: unknown) => T
  readonly #recorder: Recorder
  #entries: LogEntry<T>[] = []
  #last = 0
  readonly #cursors = new Map<string, number>()
  readonly #turns = new Map<number, number>()
  readonly #listeners = new Set<(entry: LogEntry<T>) => void>()

  constructor(name: string, parse: (value: unknown) => T, recorder: Recorder) {
    this.#name = name
    this.#parse = parse
    this.#recorder = recorder
  }

  get last(): number {
    return this.#last
  }

  append(value: T, why: Why): Write & { readonly index: number } {
    const index = this.#last + 1
    const { seq, durable, at } = this.#recorder.record(why, { append: [this.#name, index, value] })
    const entry = { index, value, at }
    this.#push(entry)
    this.#recorder.announce(this.#listeners, entry)
    return { index, seq, durable }
  }

  read(after: number, limit = Number.POSITIVE_INFINITY): readonly LogEntry<T>[] {
    const from = Math.max(0, after - (this.#last - this.#entries.length))
    return this.#entries.slice(from, from + limit)
  }

  ack(reader: string, index: number, why: Why, taken?: TakenIn): Write {
    const to = Math.max(Math.min(index, this.#last), this.cursor(reader))
    const indexes = taken?.indexes.filter(each => each <= this.#last && !this.#turns.has(each)) ?? []
    if (to === this.cursor(reader) && indexes.length === 0) return this.#recorder.nothing()
    const fresh = taken && indexes.length > 0 ? { turn: taken.turn, indexes } : undefined
    const { seq, durable } = this.#recorder.record(why, {
      ack: fresh ? [this.#name, reader, to, fresh] : [this.#name, reader, to],
    })
    this.#took(reader, to, fresh)
    return { seq, durable }
  }

  turn(index: number): number | undefined {
    return this.#turns.get(index)
  }

  cursor(reader: string): number {
    return this.#cursors.get(reader) ?? 0
  }

  trim(index: number, why: Why): Write {
    const to = Math.min(index, this.#last)
    if (to <= this.#last - this.#entries.length) return this.#recorder.nothing()
    const { seq, durable } = this.#recorder.record(why, { trim: [this.#name, to] })
    this.#drop(to)
    return { seq, durable }
  }

  watch(listener: (entry: LogEntry<T>) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Takes an `append` of the journal in, at replay. */
  applyAppend(index: number, value: unknown, at: string): void {
    if (index !== this.#last + 1) throw inconsistent(`${this.#name} goes from entry ${this.#last} to ${index}`)
    this.#push({ index, value: this.#parse(value), at })
  }

  /** Takes an `ack` of the journal in, at replay. */
  applyAck(reader: string, index: number, taken?: TakenIn): void {
    const least = this.cursor(reader) + (taken ? 0 : 1)
    if (index > this.#last || index < least)
      throw inconsistent(`${reader} moves in ${this.#name} from ${this.cursor(reader)} to ${index} of ${this.#last}`)
    this.#took(reader, index, taken)
  }

  /** Takes a `trim` of the journal in, at replay. */
  applyTrim(index: number): void {
    if (index > this.#last) throw inconsistent(`${this.#name} is trimmed to ${index} of ${this.#last}`)
    this.#drop(index)
  }

  dump(): { last: number; entries: Line[]; cursors: [string, number][]; turns: [number, number][] } {
    return {
      last: this.#last,
      entries: this.#entries.map(({ index, at, value }) => [index, at, value]),
      cursors: [...this.#cursors],
      turns: [...this.#turns],
    }
  }

  load(dump: {
    readonly last: number
    readonly entries: Iterable<Line>
    readonly cursors: Iterable<readonly [string, number]>
    readonly turns?: Iterable<readonly [number, number]> | undefined
  }): void {
    this.#entries = Array.from(dump.entries, ([index, at, value]) => ({ index, at, value: this.#parse(value) }))
    this.#last = dump.last
    for (const [reader, index] of dump.cursors) this.#cursors.set(reader, index)
    for (const [index, turn] of dump.turns ?? []) this.#turns.set(index, turn)
  }

  #took(reader: string, index: number, taken: TakenIn | undefined): void {
    if (index > this.cursor(reader)) this.#cursors.set(reader, index)
    for (const each of taken?.indexes ?? []) this.#turns.set(each, taken?.turn ?? 0)
  }

  #push(entry: LogEntry<T>): void {
    this.#entries.push(entry)
    this.#last = entry.index
  }

  #drop(index: number): void {
    for (const each of this.#turns.keys()) if (each <= index) this.#turns.delete(each)
    this.#entries = this.#entries.slice(Math.max(0, index - (this.#last - this.#entries.length)))
  }
}
