import {
  closeSync,
  constants,
  existsSync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  linkSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type Clock, iso } from '../lib/clock.ts'
import { makeFolder, makeFolderIn, syncFolder } from '../lib/files.ts'
import { reach } from '../lib/points.ts'
import { asFault, fail, ok, type Result } from '../lib/result.ts'
import type { ChatMessage, Usage } from '../model/model.ts'
import { OpenCommands } from './commands.ts'
import { Context } from './context.ts'
import { Entry, type MailMark, type NewEntry } from './entry.ts'
import type { Item } from './items.ts'
import type { TodoItem } from './tool.ts'

const interrupted =
  'error: interrupted, outcome unknown: it had started when this session was cut off. Check what happened before doing it again.'
const notStarted = 'error: not run: the session was cut off before it started. Call it again if it is still wanted.'

export interface SessionOptions {
  /** Told when the file was removed and is written anew. */
  readonly tell?: (text: string) => void
  /** Past this size (8 MB unless given) a context that begins anew begins in a new file; the old one is kept beside it. */
  readonly rotateBytes?: number
}

/**
 * One teammate's session: its journal file, and the context that follows from it. Written by its own thread alone;
 * `append` returns when the entries are on the disk. Opening it rebuilds the context: a torn last line is cut, and calls
 * without a result are answered as interrupted, never run again.
 */
export class Session {
  readonly context = new Context()
  /** Its background commands. */
  readonly commands = new OpenCommands()
  readonly file: string
  #fd: number
  #lost: readonly string[] = []
  #size: number
  readonly #clock: Clock
  readonly #tell: (text: string) => void
  readonly #rotateBytes: number
  #mail: MailMark = { upTo: 0, early: [] }
  #todo: readonly TodoItem[] = []
  #untouched: number | null = null
  #usage = { input: 0, cachedInput: 0, output: 0, calls: 0 }
  /** Bytes of a torn last line that were cut at opening. */
  #cut = 0
  #interrupted: string[] = []

  private constructor(file: string, fd: number, clock: Clock, o: SessionOptions) {
    this.file = file
    this.#fd = fd
    this.#clock = clock
    this.#tell = o.tell ?? (() => undefined)
    this.#rotateBytes = o.rotateBytes ?? 8 * 1024 * 1024
    this.#size = 0
  }

  /** Faults (`io`, `invalid`) name the file, and the line that cannot be read. */
  static open(file: string, clock: Clock, o: SessionOptions = {}): Result<Session> {
    try {
      makeFolder(dirname(file))
      const fd = openSync(file, constants.O_RDWR | constants.O_CREAT | constants.O_APPEND, 0o600)
      // One that is empty was made just now, or by a thread that came no further.
      if (fstatSync(fd).size === 0) syncFolder(dirname(file))
      // Of a thread that died before it could put it in this one's place.
      rmSync(draftOf(file), { force: true })
      const session = new Session(file, fd, clock, o)
      const read = session.#replay()
      if (!read.ok) {
        closeSync(fd)
        return read
      }
      return ok(session)
    } catch (thrown) {
      return { ok: false, fault: asFault(thrown) }
    }
  }

  get mail(): MailMark {
    return this.#mail
  }
  get todo(): readonly TodoItem[] {
    return this.#todo
  }
  /** Rounds since the list was set for what is in hand now; null where it was not. */
  get untouched(): number | null {
    return this.#untouched
  }
  /** Tokens and calls of this session and of its subagents, over every thread that ran it. */
  get usage(): Usage & { readonly calls: number } {
    return this.#usage
  }
  /** Nothing stands in the journal yet. */
  get isNew(): boolean {
    return this.#size === 0
  }
  get cutBytes(): number {
    return this.#cut
  }
  /** Its background commands that were running when the thread ended that had it open before. */
  get lost(): readonly string[] {
    return this.#lost
  }
  /** Names of the tools that were running when the last thread ended. */
  get wasInterrupted(): readonly string[] {
    return this.#interrupted
  }

  /** Writes the entries, flushes, then takes them into the context. A disk error throws: nothing may go on from there. */
  append(...entries: NewEntry[]): void {
    const at = iso(this.#clock.wall())
    const stamped = entries.map((entry): Entry => ({ ...entry, at }))
    this.#write(stamped.map(entry => `${JSON.stringify(entry)}\n`).join(''))
    for (const entry of stamped) this.#apply(entry)
  }

  /** Puts the boundary's items into the context as one message, and moves the mark of the inbox with them; `ended`: told by them. */
  take(items: readonly Item[], mail?: MailMark, ended: readonly string[] = []): void {
    if (items.length === 0 && mail === undefined) return
    this.append({
      k: 'items',
      items: [...items],
      ...(mail === undefined ? {} : { mail: { upTo: mail.upTo, early: [...mail.early] } }),
      ...(ended.length === 0 ? {} : { ended: [...ended] }),
    })
  }

  /** Begins a context with `system`. With `keep` the conversation goes on; else it starts empty. Between turns only. */
  begin(system: string, keep: boolean): void {
    const entry: NewEntry = {
      k: 'session',
      v: 1,
      system,
      keep,
      turn: this.context.turn,
      mail: { upTo: this.#mail.upTo, early: [...this.#mail.early] },
      todo: this.#todo.map(item => ({ ...item })),
      usage: { ...this.#usage },
      ...this.commands.carried,
    }
    if (!keep && this.#size > this.#rotateBytes) this.#rotate()
    this.append(entry)
  }

  /** Puts what it is given in the place of the whole conversation, at once: a crash leaves the one or the other. */
  compact(entry: Omit<Extract<NewEntry, { k: 'compacted' }>, 'k' | 'v'>): void {
    const whole: NewEntry = { k: 'compacted', v: 2, ...entry }
    if (this.#size <= this.#rotateBytes) {
      this.append(whole)
      return
    }
    const stamped: Entry = { ...whole, at: iso(this.#clock.wall()) }
    this.#rotate([stamped])
    this.#apply(stamped)
  }

  /** The messages of the context with every result whole, those that became placeholders too. */
  whole(): readonly ChatMessage[] {
    if (!this.context.hasDropped) return this.context.messages
    const context = new Context()
    const bytes = this.#bytes()
    for (let start = 0, end = bytes.indexOf(10); end >= 0; start = end + 1, end = bytes.indexOf(10, start)) {
      const entry = readEntry(bytes.subarray(start, end))
      if (entry !== null && entry !== 'newer' && entry.k !== 'dropped') context.apply(entry)
    }
    return context.messages
  }

  setTodo(items: readonly TodoItem[]): void {
    this.append({ k: 'todo', items: items.map(item => ({ ...item })) })
  }

  close(): void {
    if (!this.isNew && !existsSync(this.file)) this.#keepPlace()
    closeSync(this.#fd)
  }

  #write(text: string): void {
    const bytes = Buffer.from(text)
    reach('session.write')
    for (let done = 0; done < bytes.length; ) done += writeSync(this.#fd, bytes, done)
    fdatasyncSync(this.#fd)
    reach('session.written')
    this.#size += bytes.length
    this.#keepPlace()
  }

  /** Writes the file anew where somebody removed it: the open handle still reads all of it. One that took its place is another's. */
  #keepPlace(): void {
    const there = statSync(this.file, { bigint: true, throwIfNoEntry: false })
    const own = fstatSync(this.#fd, { bigint: true })
    if (there?.ino === own.ino && there.dev === own.dev) return
    if (there) throw new Error(`${this.file} was replaced by another file while it was in use`)
    const bytes = this.#bytes()
    const folder = dirname(this.file)
    // A root that was moved is not brought back for it: sessions lie two folders below one.
    makeFolderIn(dirname(dirname(folder)), folder)
    const { next, fd } = this.#draft()
    for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done)
    fdatasyncSync(fd)
    // Linked and not renamed: never over a file that came to stand there meanwhile.
    linkSync(next, this.file)
    rmSync(next)
    syncFolder(folder)
    closeSync(this.#fd)
    this.#fd = fd
    this.#tell(`${this.file} was removed while it was in use; it is written anew, whole`)
  }

  /** The whole file, wherever it lies by now. */
  #bytes(): Buffer {
    const bytes = Buffer.alloc(this.#size)
    for (let done = 0; done < bytes.length; ) {
      const read = readSync(this.#fd, bytes, done, bytes.length - done, done)
      if (read === 0) throw new Error(`${this.file} was removed and cut while it was in use`)
      done += read
    }
    return bytes
  }

  /** An empty file beside this one, for what is to take its place. */
  #draft(): { next: string; fd: number } {
    const next = draftOf(this.file)
    rmSync(next, { force: true })
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_APPEND | constants.O_EXCL
    return { next, fd: openSync(next, flags, 0o600) }
  }

  /** The new file takes the old one's place at once; a crash leaves either. It begins empty, so nothing is in between. */
  #rotate(first: readonly Entry[] = []): void {
    const folder = dirname(this.file)
    const stem = basename(this.file, '.jsonl')
    const kept = (n: number) => join(folder, `${stem}.${n}.jsonl`)
    let n = 1
    while (statSync(kept(n), { throwIfNoEntry: false })) n++
    const { next, fd } = this.#draft()
    // The old file is linked under its new name first, so that it has one at every moment, on the disk too. It has that name
    // already where a crash came in between.
    const last = statSync(kept(n - 1), { throwIfNoEntry: false, bigint: true })
    if (last?.ino !== fstatSync(this.#fd, { bigint: true }).ino) linkSync(this.file, kept(n))
    syncFolder(folder)
    const text = [this.#carry(), ...first].map(entry => `${JSON.stringify(entry)}\n`).join('')
    const bytes = Buffer.from(text)
    for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done)
    fdatasyncSync(fd)
    reach('session.rotate')
    renameSync(next, this.file)
    reach('session.rotated')
    syncFolder(folder)
    closeSync(this.#fd)
    this.#fd = fd
    this.#size = bytes.length
  }

  /** What must stand in a new file from its first byte on, should the thread die right after. */
  #carry(): Entry {
    const { system, turn } = this.context
    const at = iso(this.#clock.wall())
    const mail = { upTo: this.#mail.upTo, early: [...this.#mail.early] }
    const [todo, usage] = [[...this.#todo], { ...this.#usage }]
    return { k: 'session', v: 1, at, system, keep: false, turn, mail, todo, usage, ...this.commands.carried }
  }

  #apply(entry: Entry): void {
    if (entry.k === 'session') {
      this.#mail = entry.mail
      this.#todo = entry.todo
      this.#usage = { ...entry.usage }
    }
    if (entry.k === 'items' && entry.mail) this.#mail = entry.mail
    if (entry.k === 'todo') this.#todo = entry.items
    if (entry.k === 'todo') this.#untouched = 0
    else if (entry.k === 'assistant' && this.#untouched !== null) this.#untouched++
    // With the task, or with the turn where there is none, a list has served its turn.
    else if (entry.k === 'task.end' || (entry.k === 'turn' && entry.step === 'start' && !this.context.task))
      this.#untouched = null
    if (entry.k === 'assistant' || entry.k === 'blank' || entry.k === 'compacted' || entry.k === 'spent') {
      this.#usage.calls++
      this.#usage.input += entry.usage?.input ?? 0
      this.#usage.cachedInput += entry.usage?.cachedInput ?? 0
      this.#usage.output += entry.usage?.output ?? 0
    }
    this.commands.apply(entry)
    this.context.apply(entry)
  }

  #replay(): Result<void> {
    const bytes = readFileSync(this.file)
    let start = 0
    let line = 0
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
      line++
      const last = end + 1 >= bytes.length
      const entry = readEntry(bytes.subarray(start, end))
      // A last line that was torn by a crash may hold a newline of stale bytes; one in the middle is damage.
      if (entry === 'newer')
        return fail(
          'invalid',
          `${this.file}:${line} was written by a newer version`,
          'run that version, or move the file away to begin a new session',
        )
      if (entry === null && !last)
        return fail(
          'invalid',
          `${this.file}:${line} cannot be read`,
          'mend the line, or move the file away to begin a new session',
        )
      if (entry === null) break
      this.#apply(entry)
      start = end + 1
    }
    this.#size = start
    this.#cut = bytes.length - start
    if (this.#cut > 0) ftruncateSync(this.#fd, start)
    this.#settle()
    return ok(undefined)
  }

  /** Every call of a turn is answered, right after it, and no command runs. */
  #settle(): void {
    const open = [...this.context.open]
    this.#lost = this.commands.running.map(({ id }) => id)
    const ends = this.commands.settled()
    if (open.length + ends.length === 0) return
    this.#interrupted = open.filter(([, { started }]) => started).map(([, { call }]) => call.name)
    this.append(
      ...ends,
      ...open.map(
        ([id, { call, started }]): NewEntry => ({
          k: 'tool.result',
          id,
          name: call.name,
          text: started ? interrupted : notStarted,
          isError: true,
        }),
      ),
    )
  }
}

/** What is to take a session's place is made beside it. */
const draftOf = (file: string): string => join(dirname(file), `.${basename(file, '.jsonl')}.next`)

const readEntry = (bytes: Buffer): Entry | 'newer' | null => {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch {
    return null
  }
  const parsed = Entry.safeParse(value)
  if (parsed.success) return parsed.data
  const v = typeof value === 'object' && value !== null && 'v' in value ? value.v : 1
  return typeof v === 'number' && v > 1 ? 'newer' : null
}
