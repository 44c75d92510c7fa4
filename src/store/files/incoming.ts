import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type Clock, iso } from '../../lib/clock.ts'
import { flushFile, makeFolder, syncFolder } from '../../lib/files.ts'
import type { Limits } from '../../protocol/config.ts'
import {
  beheaded,
  type Draft,
  readForeign,
  renderMessage,
  type Said,
  sameMessage,
  wholeTail,
} from '../../protocol/foreign-message.ts'
import type { Message, Stored } from '../../protocol/message.ts'
import type { Log, Store } from '../store.ts'

export interface IncomingOptions {
  readonly root: string
  /** Whose inbox it is. */
  readonly name: string
  readonly store: Store
  readonly limits: Pick<Limits, 'messageBytes'>
  readonly clock: Clock
  /** A foreign message of type `task` stands in the log. May be told again after a crash. */
  readonly onTask: (stored: Stored) => void
  /** This line is no message. */
  readonly onDead: (letter: { readonly offset: number; readonly reason: string; readonly line: string }) => void
  /** The daemon's message with this id stands in the file. */
  readonly onOwn: (id: string) => void
}

/**
 * The lines of one inbox file on their way into its log: the daemon's own are known again, each foreign one is appended
 * once, what is no message is told. Reading a line again changes nothing.
 */
export class Incoming {
  readonly #options: IncomingOptions
  readonly #log: Log<Stored>
  /** Messages of the log by id. */
  #byId = new Map<string, Stored>()
  /** Those of the file before, which late writers may still repeat. */
  #byOldId = new Map<string, Stored>()
  readonly #unwatch: () => void

  constructor(options: IncomingOptions) {
    this.#options = options
    this.#log = options.store.inbox(options.name)
    for (const { value } of this.#log.read(0)) this.#byId.set(value.message.id, value)
    this.#unwatch = this.#log.watch(({ value }) => void this.#byId.set(value.message.id, value))
  }

  /** Takes in one line, or tells why not. A line that ends in a whole message is two that met. */
  line(said: string, bytes: number, generation: number, offset: number): void {
    const { name } = this.#options
    // Zeros in front are what a power cut left of another line.
    const text = said.replace(/^\0+/, '')
    const read = readForeign(name, text)
    if (read.kind === 'blank') return
    if (read.kind === 'message') {
      this.#take(read.draft, read.said, text, bytes, generation, offset)
      return
    }
    // A power cut may leave half of the daemon's own line: the message itself stands in the log.
    const own = this.#known(/^\{"id":"([^"\\]+)"/.exec(text)?.[1] ?? '')
    if (own?.origin === 'daemon' && renderMessage(own.message).startsWith(text)) return
    const at = wholeTail(name, text)
    if (at === null) {
      this.#dead(text, offset, read.reason)
      return
    }
    const before = Buffer.byteLength(text.slice(0, at))
    this.line(text.slice(0, at), before, generation, offset)
    this.line(text.slice(at), bytes - before, generation, offset + before)
  }

  #take(draft: Draft, said: Said, line: string, bytes: number, generation: number, offset: number): void {
    const { clock, onTask, onOwn, name } = this.#options
    const own = draft.id === undefined ? undefined : this.#known(draft.id)
    // The daemon's own line, or a copy of it: compared as it stands, since no type of it is changed.
    if (own?.origin === 'daemon' && sameMessage(own.message, said)) {
      onOwn(own.message.id)
      return
    }
    const placeId = idAt(name, generation, offset)
    const timestamp = draft.timestamp ?? iso(clock.wall())
    let message = this.#fit({ ...draft, id: draft.id ?? placeId, timestamp }, line, bytes)
    let known = this.#known(message.id)
    if (known && !sameMessage(known.message, message)) {
      // Another message under an id that is taken: both are kept.
      message = this.#fit({ ...draft, id: placeId, timestamp, data: { ...draft.data, id: message.id } }, line, bytes)
      known = this.#known(placeId)
    }
    const stored: Stored = known ?? { message, origin: 'file', place: { generation, offset } }
    if (!known)
      this.#log.append(stored, {
        event: 'message.stored',
        by: name,
        info: { inbox: name, id: message.id, origin: 'file' },
      })
    // Told for a known one too: a crash may have come between the message and its task.
    if (stored.message.type === 'task' && stored.origin === 'file') onTask(stored)
  }

  #known(id: string): Stored | undefined {
    return this.#byId.get(id) ?? this.#byOldId.get(id)
  }

  /** The message, or its head when its line is too long for one; the whole is then in a file of its own. */
  #fit(message: Message, line: string, bytes: number): Message {
    const { limits, root } = this.#options
    if (bytes <= limits.messageBytes) return message
    const folder = join(root, '.messages', 'archive', 'oversize')
    makeFolder(folder)
    const safe = /^[A-Za-z0-9_-]{1,100}$/.test(message.id) ? message.id : `id_${hash(message.id)}`
    const path = join(folder, `${safe}.txt`)
    const isBody = Buffer.byteLength(message.content) * 2 > bytes
    // On the disk before its head, which the journal keeps, says where it is.
    writeFileSync(path, isBody ? message.content : line, { mode: 0o600 })
    flushFile(path)
    syncFolder(folder)
    return beheaded(message, bytes, relative(root, path))
  }

  tooLong(head: Buffer, offset: number): void {
    this.#dead(head.toString('utf8'), offset, 'the line is too long to be read')
  }

  /** The last line, given up by its writer. */
  unfinished(line: string, offset: number, reason: string): void {
    this.#dead(line, offset, `the last line was never finished (${reason})`)
  }

  #dead(line: string, offset: number, reason: string): void {
    this.#options.onDead({ offset, reason, line })
  }

  /** The file was rotated: what stood in it is forgotten after the next one. */
  rotated(): void {
    this.#byOldId = this.#byId
    this.#byId = new Map()
  }

  close(): void {
    this.#unwatch()
  }
}

const hash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 24)

/** The id of a line that has none: the same at every reading of it. */
const idAt = (inbox: string, generation: number, offset: number): string =>
  `msg_f${hash(JSON.stringify([inbox, generation, offset]))}`
