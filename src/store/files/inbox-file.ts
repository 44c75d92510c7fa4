import { closeSync, constants, fstatSync, readdirSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import * as z from 'zod'
import { type Clock, iso } from '../../lib/clock.ts'
import { endsInLine, flushFile, makeFolder, openPlain, splitLines, syncFolder } from '../../lib/files.ts'
import { reach } from '../../lib/points.ts'
import type { Limits } from '../../protocol/config.ts'
import { readForeign, renderMessage } from '../../protocol/foreign-message.ts'
import type { Message, Stored } from '../../protocol/message.ts'
import type { Log, Store } from '../store.ts'
import { Incoming } from './incoming.ts'
import { identityOf, type Place, placeAfter, readOn, startPlace } from './tail-reader.ts'

export interface InboxFileOptions {
  readonly root: string
  readonly name: string
  readonly store: Store
  readonly limits: Pick<Limits, 'messageBytes' | 'inboxBytes'>
  readonly clock: Clock
  readonly onTask: (stored: Stored) => void
  readonly onDead: (letter: { file: string; offset: number; reason: string; line: string }) => void
  /** After how many milliseconds an unfinished last line is judged as it is. */
  readonly unfinishedMs: number
  /** How long a file is to be unchanged before it is rotated. */
  readonly quietMs: number
  /** How long a rotated file is looked at. */
  readonly oldMs: number
}

const PlaceMark = z.object({ identity: z.string(), offset: z.number(), tail: z.string(), isSkipping: z.boolean() })
/** What the holder keeps of an inbox file, under the mark `inbox/<name>`. */
const InboxMark = z.object({
  generation: z.number(),
  place: PlaceMark,
  old: z.array(z.object({ file: z.string(), generation: z.number(), place: PlaceMark, until: z.string() })),
})
type InboxMark = z.infer<typeof InboxMark>
type Old = InboxMark['old'][number]

/** How long an unfinished line of another writer is given before the daemon's own lines start after it. */
const patienceMs = 300

/**
 * One inbox as a file: the daemon's messages are appended to it, what others append is taken from it into the log. The
 * log is the truth; the place up to which the file was read is kept in a mark, written late, since a line that is read
 * again is known again: by its id, or by where it lies.
 */
export class InboxFile {
  readonly path: string
  /** The path relative to the team root. */
  readonly label: string
  readonly #options: InboxFileOptions
  readonly #log: Log<Stored>
  readonly #archive: string
  readonly #unwatch: () => void
  #mark: InboxMark
  #isMarkDirty = false
  #isStarted = false
  readonly #incoming: Incoming
  /** The daemon's messages that are not in the file yet, in order. */
  #outbox: Message[] = []
  /** Appended, but not at a place where nothing could come between: to be seen in the file. */
  readonly #unconfirmed = new Map<string, Message>()
  /** What follows the last newline: its size, and since when it is so. */
  #unfinished: { readonly size: number; readonly since: number } | undefined
  #lastChange: number

  constructor(options: InboxFileOptions, onOutgoing: () => void) {
    const { root, name, store, clock } = options
    this.#options = options
    this.label = `.messages/${name}.inbox.jsonl`
    this.path = join(root, this.label)
    this.#archive = join(root, '.messages', 'archive')
    this.#log = store.inbox(name)
    this.#lastChange = clock.mono()
    const mark = InboxMark.safeParse(store.marks.get(this.#markId)?.value)
    this.#mark = mark.success ? mark.data : { generation: 1, place: startPlace, old: [] }
    this.#incoming = new Incoming({
      ...options,
      onDead: letter => options.onDead({ file: this.label, ...letter }),
      onOwn: id => this.#unconfirmed.delete(id),
    })
    this.#unwatch = this.#log.watch(({ value }) => {
      if (value.origin !== 'daemon') return
      this.#outbox.push(value.message)
      onOutgoing()
    })
  }

  /**
   * Reads everything that is new, in the rotated files too. The first time it makes the file where it is missing, and queues
   * what a crash kept from being appended.
   */
  async scan(): Promise<void> {
    if (this.#isStarted) return this.#scan()
    await this.#start()
    this.#isStarted = true
  }

  async #start(): Promise<void> {
    closeSync(openPlain(this.path, appending, 0o600))
    const present = new Set<string>()
    await this.#scan()
    for (const path of [this.path, ...this.#mark.old.map(old => join(this.#archive, old.file))])
      for (const id of idsIn(path)) present.add(id)
    const missing = this.#log
      .read(0)
      .filter(({ value }) => value.origin === 'daemon' && !present.has(value.message.id))
      .map(({ value }) => value.message)
    // What was sent while this was being read stands in the outbox already.
    const queued = new Set(this.#outbox.map(message => message.id))
    this.#outbox = [...missing.filter(message => !queued.has(message.id)), ...this.#outbox]
  }

  async #scan(): Promise<void> {
    for (const old of this.#mark.old) await this.#scanOld(old)
    for (;;) {
      const read = await readOn(
        this.path,
        this.#mark.place,
        (bytes, offset) => this.#incoming.line(bytes.toString('utf8'), bytes.length, this.#mark.generation, offset),
        (head, offset) => this.#incoming.tooLong(head, offset),
      )
      if (read.kind === 'missing') return
      if (read.kind === 'replaced') {
        this.#nextGeneration()
        continue
      }
      this.#moveTo(read.place)
      this.#judge(read.rest, read.size)
      break
    }
    // Appended before this scan, and not a line of its own in the file: another writer came between.
    this.#outbox.unshift(...this.#unconfirmed.values())
    this.#unconfirmed.clear()
  }

  get hasOutgoing(): boolean {
    return this.#outbox.length > 0
  }

  /**
   * Appends what the daemon sent so far. Call when that is durable. Returns in how many milliseconds to try again when
   * another writer is in the middle of a line (0: all is out), and whether the file is to be scanned.
   */
  append(): { readonly againMs: number; readonly scan: boolean } {
    if (this.#outbox.length === 0) return { againMs: 0, scan: false }
    const fd = openPlain(this.path, appending, 0o600)
    try {
      const stat = fstatSync(fd, { bigint: true })
      const size = Number(stat.size)
      const isOpenLine = endsInLine(fd, size)
      if (isOpenLine && !this.#isGivenTime(size)) return { againMs: patienceMs / 3, scan: false }
      const batch = this.#outbox
      const lines = batch.map(renderMessage).join('')
      const bytes = Buffer.from(isOpenLine ? `\n${lines}` : lines)
      // A full disk may cut the batch: whatever is not a whole line in the file by the next scan is appended again.
      for (const message of batch) this.#unconfirmed.set(message.id, message)
      this.#outbox = []
      let written = 0
      reach('inbox.append')
      while (written < bytes.length) written += writeSync(fd, bytes, written)
      reach('inbox.appended')
      const { place } = this.#mark
      const isAlone = Number(fstatSync(fd, { bigint: true }).size) === size + bytes.length
      const isNext = place.offset === size && !place.isSkipping && place.identity === identityOf(stat)
      if (!isAlone || !isNext) return { againMs: 0, scan: true }
      this.#unconfirmed.clear()
      this.#moveTo(placeAfter(place, bytes))
      return { againMs: 0, scan: false }
    } finally {
      closeSync(fd)
    }
  }

  /** Moves a large file that everybody is done with to the archive. True when it did. */
  rotate(): boolean {
    const { name, limits, clock, store, quietMs, oldMs, root } = this.#options
    const { place, generation } = this.#mark
    const stat = statSync(this.path, { bigint: true, throwIfNoEntry: false })
    if (!stat || Number(stat.size) <= limits.inboxBytes) return false
    const isRead = Number(stat.size) === place.offset && identityOf(stat) === place.identity
    const isConsumed = this.#log.cursor(name) >= this.#log.last && !this.hasOutgoing && this.#unconfirmed.size === 0
    if (!isRead || !isConsumed || clock.mono() - this.#lastChange < quietMs) return false
    makeFolder(this.#archive)
    const file = `${name}.${lastNumber(this.#archive, name) + 1}.jsonl`
    flushFile(this.path)
    reach('inbox.rotate')
    renameSync(this.path, join(this.#archive, file))
    reach('inbox.rotated')
    closeSync(openPlain(this.path, appending, 0o600))
    // Else the mark may outlive the rename: the old file would be read once more, as one that nobody knows.
    syncFolder(this.#archive)
    syncFolder(dirname(this.path))
    this.#mark = {
      generation: generation + 1,
      place: startPlace,
      old: [...this.#mark.old, { file, generation, place, until: iso(clock.wall() + oldMs) }],
    }
    this.#isMarkDirty = true
    this.saveMark()
    store.note({
      event: 'inbox.rotated',
      by: 'supervisor',
      info: { inbox: name, file: relative(root, join(this.#archive, file)) },
    })
    this.#incoming.rotated()
    this.#log.trim(this.#log.last, { event: 'inbox.rotated', by: 'supervisor', info: { inbox: name } })
    return true
  }

  /**
   * Before `saveMark`: what the mark passes over stays in the file. One that a power cut made shorter than its mark would be
   * read from its start, as another one, and what has no id in it would be new.
   */
  async flush(): Promise<void> {
    if (!this.#isMarkDirty || !statSync(this.path, { throwIfNoEntry: false })?.isFile()) return
    const handle = await open(this.path, 'r')
    try {
      await handle.datasync()
    } finally {
      await handle.close()
    }
  }

  /** Writes down how far the file was read, and lets go of rotated files whose time is over. */
  saveMark(): void {
    const now = iso(this.#options.clock.wall())
    const old = this.#mark.old.filter(each => each.until > now)
    if (old.length !== this.#mark.old.length) {
      this.#mark = { ...this.#mark, old }
      this.#isMarkDirty = true
    }
    if (!this.#isMarkDirty) return
    this.#isMarkDirty = false
    const { marks } = this.#options.store
    const rec = marks.get(this.#markId)
    const why = { event: 'inbox.read', by: 'supervisor', info: { inbox: this.#options.name } } as const
    const put = rec ? marks.update(this.#markId, rec.rev, this.#mark, why) : marks.create(this.#markId, this.#mark, why)
    if (!put.ok) throw new Error(`the mark ${this.#markId} was changed by somebody else`)
  }

  close(): void {
    this.#unwatch()
    this.#incoming.close()
  }

  get #markId(): string {
    return `inbox/${this.#options.name}`
  }

  #moveTo(place: Place): void {
    if (place.offset === this.#mark.place.offset && place.identity === this.#mark.place.identity) return
    this.#mark = { ...this.#mark, place }
    this.#isMarkDirty = true
    this.#lastChange = this.#options.clock.mono()
  }

  /** Another file has the name, or it was cut: it is read from its start. The one that was read so far may be found still. */
  #nextGeneration(): void {
    const { generation, place, old } = this.#mark
    const file = this.#findMoved(place.identity)
    const until = iso(this.#options.clock.wall() + this.#options.oldMs)
    this.#mark = {
      generation: generation + 1,
      place: startPlace,
      old: file === undefined ? old : [...old, { file, generation, place, until }],
    }
    this.#isMarkDirty = true
    this.#unfinished = undefined
    // Before any message out of it, since the ids of those without one derive from the generation.
    this.saveMark()
  }

  /** The name, as seen from the archive, of the file with this identity: rotated before a crash, or moved by a person. */
  #findMoved(identity: string): string | undefined {
    const { name } = this.#options
    const folders = [this.#archive, join(this.#options.root, '.messages')]
    for (const folder of folders) {
      const names = statSync(folder, { throwIfNoEntry: false }) ? readdirSync(folder) : []
      for (const file of names) {
        const path = join(folder, file)
        if (!file.startsWith(`${name}.`) || path === this.path) continue
        const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
        if (stat?.isFile() && identityOf(stat) === identity) return relative(this.#archive, path)
      }
    }
    return undefined
  }

  async #scanOld(old: Old): Promise<void> {
    const read = await readOn(
      join(this.#archive, old.file),
      old.place,
      (bytes, offset) => this.#incoming.line(bytes.toString('utf8'), bytes.length, old.generation, offset),
      (head, offset) => this.#incoming.tooLong(head, offset),
    )
    if (read.kind !== 'read' || read.place.offset === old.place.offset) return
    this.#mark = {
      ...this.#mark,
      old: this.#mark.old.map(each => (each.file === old.file ? { ...each, place: read.place } : each)),
    }
    this.#isMarkDirty = true
  }

  /** An unfinished last line waits for its writer; after a while it is judged as it is. */
  #judge(rest: Buffer, size: number): void {
    const { clock, unfinishedMs } = this.#options
    if (rest.length === 0) {
      this.#unfinished = undefined
      return
    }
    if (this.#unfinished?.size !== size) this.#unfinished = { size, since: clock.mono() }
    if (clock.mono() - this.#unfinished.since < unfinishedMs) return
    const { place, generation } = this.#mark
    const text = rest.toString('utf8')
    const read = readForeign(this.#options.name, text)
    if (read.kind === 'bad') this.#incoming.unfinished(text, place.offset, read.reason)
    else this.#incoming.line(text, rest.length, generation, place.offset)
    this.#moveTo(placeAfter(place, rest))
    this.#unfinished = undefined
  }

  /** Did whoever left an unfinished line have time to finish it? */
  #isGivenTime(size: number): boolean {
    const now = this.#options.clock.mono()
    if (this.#unfinished?.size !== size) {
      // Read past already: nobody is waited for any more.
      if (this.#mark.place.offset === size) return true
      this.#unfinished = { size, since: now }
    }
    return now - this.#unfinished.since >= patienceMs
  }
}

const appending = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT

/** Is this the inbox of somebody who left, with nothing in it that was not read then? */
export const isReadUp = (store: Store, name: string, path: string): boolean => {
  const mark = InboxMark.safeParse(store.marks.get(`inbox/${name}`)?.value)
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
  return (
    mark.success &&
    stat !== undefined &&
    mark.data.place.identity === identityOf(stat) &&
    mark.data.place.offset >= Number(stat.size)
  )
}

const lastNumber = (archive: string, name: string): number =>
  Math.max(
    0,
    ...readdirSync(archive)
      .filter(file => file.startsWith(`${name}.`))
      .map(file => Number(/^\.(\d+)\.jsonl$/.exec(file.slice(name.length))?.[1] ?? 0)),
  )

/** Ids of the messages that stand in a file. */
const idsIn = (path: string): string[] => {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return []
  return splitLines(readFileSync(path)).lines.flatMap(line => {
    if (line.bytes.at(-1) !== 0x7d) return []
    const id = /^\{"id":"([^"\\]+)"/.exec(line.bytes.toString('utf8', 0, 200))?.[1]
    return id === undefined ? [] : [id]
  })
}
