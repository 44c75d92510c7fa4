import { randomBytes } from 'node:crypto'
import {
  close,
  existsSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  linkSync,
  openSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { errnoOf, splitLines, syncFolder } from '../../lib/files.ts'
import { reach } from '../../lib/points.ts'
import { asFault, type Fault, FaultError } from '../../lib/result.ts'
import { JournalEntry } from '../../protocol/event.ts'
import type { Journal } from '../state.ts'
import { beginsFlush, draftPath, epochPath, type Header } from './epochs.ts'
import type { Segment } from './replay.ts'

const sync = promisify(fdatasync)
const closeFile = promisify(close)

const inodeOf = (fd: number): bigint => fstatSync(fd, { bigint: true }).ino

const writeAll = (fd: number, bytes: Buffer, position: number): void => {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, position + at)
}

/**
 * A file that grows at each flush makes the file system write its own journal each time, with whatever else changed on
 * that disk. So a file that has come to `fillFrom` bytes is filled with newlines ahead, as much again as it has, within
 * these bounds; they are cut off when it is closed, and after a crash they are empty lines behind the last entry.
 */
const fillFrom = 32 * 1024
const fillMost = 1024 * 1024
const newlines = Buffer.alloc(fillMost, 0x0a)

/**
 * Begins an epoch: makes its file, header and all, in one step that fails where the epoch exists already (null then).
 * Returns the open file, for appending. A header is never seen half-written.
 */
export const beginEpoch = (folder: string, header: Header): { fd: number; bytes: number } | null => {
  const line = Buffer.from(`${JSON.stringify(header)}\n`)
  const draft = draftPath(folder, header.epoch, randomBytes(6).toString('hex'))
  const fd = openSync(draft, 'wx', 0o600)
  try {
    writeAll(fd, line, 0)
    fdatasyncSync(fd)
    linkSync(draft, epochPath(folder, header.epoch))
  } catch (error) {
    rmSync(draft, { force: true })
    close(fd)
    // ENOENT: the epoch was begun by another one, whose holder cleared the draft away.
    const code = errnoOf(error)
    if (code === 'EEXIST' || code === 'ENOENT') return null
    throw error
  }
  rmSync(draft, { force: true })
  syncFolder(folder)
  return { fd, bytes: line.length }
}

/** Entries of one file from byte `from` to byte `to`, read in pieces. */
async function* readEntries(path: string, from: number, to: number): AsyncIterable<JournalEntry> {
  const file = await open(path, 'r')
  try {
    let carry = Buffer.alloc(0)
    for (let at = from; at < to; ) {
      const piece = Buffer.alloc(Math.min(1 << 20, to - at))
      const { bytesRead } = await file.read(piece, 0, piece.length, at)
      if (bytesRead === 0) return
      at += bytesRead
      const { lines, rest } = splitLines(Buffer.concat([carry, piece.subarray(0, bytesRead)]))
      carry = Buffer.from(rest)
      for (const line of lines) {
        const value: unknown = JSON.parse(line.bytes.toString('utf8'))
        // The header is the one line that is no entry.
        if (typeof value === 'object' && value !== null && 'event' in value) yield JournalEntry.parse(value)
      }
    }
  } finally {
    await file.close()
  }
}

/** Entries after `after` of `segments` (oldest first). A file deleted meanwhile is no longer kept, and passed over. */
export async function* readSegments(segments: readonly Segment[], after: number): AsyncIterable<JournalEntry> {
  for (const [at, segment] of segments.entries()) {
    if ((segments[at + 1]?.seq ?? Number.POSITIVE_INFINITY) <= after) continue
    try {
      for await (const entry of readEntries(segment.path, 0, segment.bytes)) if (entry.seq > after) yield entry
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error
    }
  }
}

class Batch {
  readonly entries: JournalEntry[] = []
  readonly lines: string[] = []
  readonly durable: Promise<void>
  resolve: () => void = () => {}
  reject: (error: FaultError) => void = () => {}

  constructor() {
    this.durable = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // A failure is told by `onFailure`; who did not wait for the write is not told once more by a crash.
    this.durable.catch(() => {})
  }
}

export interface JournalOptions {
  readonly folder: string
  readonly header: Header
  readonly fd: number
  readonly bytes: number
  /** The epochs before this one, oldest first. */
  readonly segments: readonly Segment[]
  /** A file longer than this is followed by a new epoch of the same holder. */
  readonly segmentBytes: number
  /** Called once, when nothing can be written any more; everything after that is refused. */
  readonly onFailure: (fault: Fault) => void
  /** Called after a new epoch was begun because the last one was long. */
  readonly onRoll: () => void
}

/**
 * The writer of the journal. All entries that were pushed while a flush is under way go out with the next write: one
 * fdatasync for many. An entry is durable when it is flushed and no other holder has begun a later epoch by then.
 */
export class FileJournal implements Journal {
  readonly #options: JournalOptions
  readonly #listeners = new Set<(entry: JournalEntry) => void>()
  #header: Header
  #fd: number
  /** Of the open file, whatever its name leads to by now. */
  #inode: bigint
  /** Length of what is durable. */
  #bytes: number
  /** Where the newlines end that the file was filled with; no more than `#bytes` when it was not. */
  #filled = 0
  #seq: number
  #segments: Segment[]
  #next: Batch | null = null
  #last: Promise<void> = Promise.resolve()
  #isRunning = false
  #failure: Fault | null = null
  #closed: Promise<void> | null = null

  constructor(options: JournalOptions) {
    this.#options = options
    this.#header = options.header
    this.#fd = options.fd
    this.#inode = inodeOf(options.fd)
    this.#bytes = options.bytes
    this.#seq = options.header.seq
    this.#segments = [...options.segments]
  }

  get epoch(): number {
    return this.#header.epoch
  }

  /** Epochs that count, oldest first, the current one as far as it is durable. */
  get segments(): readonly Segment[] {
    const { epoch, seq } = this.#header
    return [...this.#segments, { epoch, seq, path: epochPath(this.#options.folder, epoch), bytes: this.#bytes }]
  }

  /** Forgets segments whose files were deleted. */
  forget(epochs: ReadonlySet<number>): void {
    this.#segments = this.#segments.filter(segment => !epochs.has(segment.epoch))
  }

  push(entry: JournalEntry): Promise<void> {
    if (this.#failure) throw new FaultError(this.#failure)
    if (this.#closed) throw new FaultError({ code: 'closed', message: 'the store is closed' })
    const text = JSON.stringify(entry)
    const line = this.#next ? `${text}\n` : `${text.slice(0, -1)}${beginsFlush}\n`
    this.#next ??= new Batch()
    this.#next.entries.push(entry)
    this.#next.lines.push(line)
    this.#last = this.#next.durable
    if (!this.#isRunning) {
      this.#isRunning = true
      // What else this turn of the event loop brings joins the batch: what follows from an entry is on the disk with it.
      setImmediate(() => void this.#run())
    }
    return this.#last
  }

  flushed(): Promise<void> {
    return this.#last
  }

  entries(after: number): AsyncIterable<JournalEntry> {
    return readSegments(this.segments, after)
  }

  onEntry(listener: (entry: JournalEntry) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  close(): Promise<void> {
    this.#closed ??= this.#last.finally(() => {
      this.#trim()
      return closeFile(this.#fd)
    })
    return this.#closed
  }

  get isClosed(): boolean {
    return this.#closed !== null
  }

  /** Nothing of what it wrote can be read any more: the files, or the folder, were removed. */
  get isGone(): boolean {
    return !existsSync(epochPath(this.#options.folder, this.#header.epoch))
  }

  get header(): Header {
    return this.#header
  }

  /** Why this holder may not acknowledge anything (any more), or null. */
  superseded(): Fault | null {
    const { folder } = this.#options
    if (existsSync(epochPath(folder, this.#header.epoch + 1)))
      return {
        code: 'held',
        message: `another holder took ${dirname(folder)} over (epoch ${this.#header.epoch + 1})`,
        hint: 'what was not acknowledged by then may or may not have been taken in',
      }
    // Old epochs are deleted oldest first: where the next one is gone again, this one went before it.
    const path = epochPath(folder, this.#header.epoch)
    if (statSync(path, { bigint: true, throwIfNoEntry: false })?.ino !== this.#inode)
      return { code: 'io', message: `${path} was moved or removed while it was in use` }
    return null
  }

  async #run(): Promise<void> {
    for (let batch = this.#next; batch; batch = this.#next) {
      this.#next = null
      try {
        await this.#commit(batch)
      } catch (error) {
        this.#fail(error, batch)
        break
      }
      for (const entry of batch.entries) for (const listener of this.#listeners) listener(entry)
      batch.resolve()
    }
    this.#isRunning = false
  }

  async #commit(batch: Batch): Promise<void> {
    const bytes = Buffer.from(batch.lines.join(''))
    reach('journal.write')
    this.#fill(bytes.length)
    writeAll(this.#fd, bytes, this.#bytes)
    reach('journal.written')
    await sync(this.#fd)
    // Looked at after the flush: a successor creates its epoch before it measures what counts of this one, so where
    // there is none yet, it will find these lines.
    const fault = this.superseded()
    if (fault) throw new FaultError(fault)
    reach('journal.durable')
    this.#bytes += bytes.length
    this.#seq = batch.entries.at(-1)?.seq ?? this.#seq
    if (this.#bytes > this.#options.segmentBytes) await this.#roll()
  }

  #fill(need: number): void {
    const end = this.#bytes + need
    if (end <= this.#filled || this.#bytes < fillFrom) return
    const length = Math.min(this.#bytes, fillMost)
    writeAll(this.#fd, newlines.subarray(0, length), end)
    this.#filled = end + length
  }

  /** Cuts off what the file was filled with and not used. Not in a file that a successor may have measured. */
  #trim(): void {
    if (this.#filled > this.#bytes && !this.#failure) ftruncateSync(this.#fd, this.#bytes)
    this.#filled = 0
  }

  async #roll(): Promise<void> {
    const { folder, onRoll } = this.#options
    const { epoch } = this.#header
    const header: Header = {
      ...this.#header,
      epoch: epoch + 1,
      seq: this.#seq,
      prev: { epoch, bytes: this.#bytes },
    }
    const begun = beginEpoch(folder, header)
    if (!begun) throw new FaultError(this.superseded() ?? { code: 'held', message: `epoch ${epoch + 1} exists` })
    reach('journal.roll')
    this.#segments = [...this.segments]
    this.#trim()
    await closeFile(this.#fd)
    this.#header = header
    this.#fd = begun.fd
    this.#inode = inodeOf(begun.fd)
    this.#bytes = begun.bytes
    onRoll()
  }

  #fail(cause: unknown, batch: Batch): void {
    const { code, message, hint } = asFault(cause)
    const fault: Fault =
      cause instanceof FaultError
        ? cause.fault
        : { code, message: `the journal cannot be written: ${message}`, hint, cause }
    this.#failure = fault
    const error = new FaultError(fault)
    batch.reject(error)
    this.#next?.reject(error)
    this.#last.catch(() => {})
    this.#options.onFailure(fault)
  }
}
