import { ulid } from 'ulid'
import type { Clock } from '../lib/clock.ts'
import { iso } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { cut, nearest, wellFormed } from '../lib/text.ts'
import type { Message, MessageType, Stored } from '../protocol/message.ts'
import type { InboxItem } from '../protocol/rpc.ts'
import type { Log, LogEntry, Store } from '../store/store.ts'
import { Answers } from './answers.ts'
import type { Roster } from './roster.ts'

/** The human's inbox, and the name the human sends under. */
export const humanInbox = 'user'

export interface Outgoing {
  /** Stamped by the caller, who knows who is speaking: a teammate's name, `user` or `supervisor`. */
  readonly from: string
  readonly to: string
  readonly content: string
  readonly type?: MessageType
  readonly urgent?: boolean
  readonly replyTo?: string
  readonly requestId?: string
  /** The same id with the same content again is the same message. */
  readonly id?: string
  readonly data?: Record<string, unknown>
}

export interface Sent {
  readonly to: string
  readonly id: string
  readonly how: 'delivered' | 'queued' | 'held'
  readonly note?: string
}

/** The supervisor puts so many bytes around what others said (who, about what), which is held against the limit by itself. */
const around = 2048

/** By this key a `task` message makes its task once. */
export const taskKey = ({ to, id }: Message): string => `message/${to}/${id}`

/** Routes messages: who may receive, how large, stored once. */
export class Mail {
  readonly #answers: Answers
  readonly #store: Store
  readonly #clock: Clock
  readonly #roster: Roster
  /** Why a teammate cannot take mail now, or null when it can. */
  readonly #away: (name: string) => string | null
  readonly #known = new Map<string, KnownMail>()

  constructor(o: {
    store: Store
    clock: Clock
    roster: Roster
    away: (name: string) => string | null
  }) {
    this.#store = o.store
    this.#answers = new Answers(o.store)
    this.#clock = o.clock
    this.#roster = o.roster
    this.#away = o.away
  }

  /** Everyone who has an inbox. */
  get inboxes(): readonly string[] {
    return [...this.#roster.names, humanInbox, 'supervisor']
  }

  freshId(): string {
    return `msg_${ulid(this.#clock.wall()).toLowerCase()}`
  }

  /** The inbox that `to` means, or why there is none. `lead` is the lead, else the human. */
  recipient(to: string): Result<string> {
    if (to === 'lead' || to === 'leader') return ok(this.#roster.config.lead ?? humanInbox)
    if (to === 'human') return ok(humanInbox)
    if (this.inboxes.includes(to)) return ok(to)
    if (this.#isFormer(to))
      return fail(
        'unknown',
        `${to} is not on the team any more`,
        `its inbox is kept (team inbox ${to}); back in config.json it goes on from there`,
      )
    const near = nearest(to, this.inboxes)
    return fail(
      'unknown',
      `nobody is called "${to}"`,
      `${near === undefined ? '' : `did you mean ${near}? `}names: ${[...this.#roster.names, humanInbox].join(', ')}; or all`,
    )
  }

  /** The inbox that may be read under this name: a recipient's, or that of somebody who left. */
  readable(name: string): Result<string> {
    return this.#isFormer(name) ? ok(name) : this.recipient(name)
  }

  /** Had an inbox here, and is not on the team now. */
  #isFormer(name: string): boolean {
    return !this.inboxes.includes(name) && this.#store.marks.get(`inbox/${name}`) !== undefined
  }

  /**
   * Stores the message for each recipient (`all`: every teammate but the sender). One durable wait covers them all. Refused:
   * an unknown name, an empty or too long content, an id that is taken by another message. What the supervisor has to say
   * somebody waits for, so it is never refused for its length, but cut.
   */
  send(said: Outgoing): Result<{ sent: Sent[]; durable: Promise<void> }> {
    const out = said.from === 'supervisor' ? { ...said, content: this.#fit(said.content) } : said
    const receivers = this.receivers(out)
    if (!receivers.ok) return receivers
    const id = out.id ?? this.freshId()
    const timestamp = iso(this.#clock.wall())
    const sent: Sent[] = []
    for (const name of receivers.value) {
      // An id that a foreign line took first, however often, must not silence the supervisor.
      let own = id
      while (out.from === 'supervisor' && this.find(name, own)?.origin === 'file') own = `${own}_supervisor`
      const message: Message = {
        id: own,
        from: out.from,
        to: name,
        timestamp,
        type: out.type ?? 'info',
        content: wellFormed(out.content),
        ...(out.urgent ? { urgent: true } : {}),
        ...(out.replyTo === undefined ? {} : { replyTo: out.replyTo }),
        ...(out.requestId === undefined ? {} : { requestId: out.requestId }),
        ...(out.data === undefined ? {} : { data: out.data }),
      }
      const old = this.find(name, own)
      if (old && (old.message.content !== message.content || old.message.from !== message.from))
        return fail(
          'conflict',
          `message id ${id} is taken in the inbox of ${name}`,
          'leave the id out and one is given',
        )
      if (!old) {
        this.#store
          .inbox(name)
          .append(
            { message, origin: 'daemon' },
            { event: 'message.stored', by: out.from, info: { to: name, id: own, type: message.type } },
          )
      }
      const away = this.#away(name)
      sent.push({
        to: name,
        id: own,
        how: away === null ? 'delivered' : 'queued',
        ...(away === null ? {} : { note: away }),
      })
    }
    return ok({ sent, durable: this.#store.flushed() })
  }

  /** The inboxes that this goes to, or why it cannot be sent. */
  receivers({ from, to, content }: Outgoing): Result<string[]> {
    const long = from === 'supervisor' ? null : this.tooLong(content)
    if (long) return long
    if (content.trim() === '') return fail('invalid', 'the message is empty')
    if (to !== 'all') {
      const name = this.recipient(to)
      return name.ok ? ok([name.value]) : name
    }
    const others = this.#roster.names.filter(name => name !== from)
    return others.length === 0 ? fail('unknown', 'there is nobody else on the team') : ok(others)
  }

  /** Refuses a text that is longer than a message may be; null where it is not. */
  tooLong(text: string): Result<never> | null {
    const bytes = Buffer.byteLength(text)
    const { messageBytes } = this.#roster.config.limits
    return bytes > messageBytes
      ? fail(
          'invalid',
          `the message has ${bytes} bytes, ${messageBytes} are allowed (limits.messageBytes)`,
          'put it in a file and send where it is',
        )
      : null
  }

  #fit(text: string): string {
    const most = this.#roster.config.limits.messageBytes + around
    if (Buffer.byteLength(text) <= most) return text
    const head = Buffer.from(text)
      .subarray(0, most - 40)
      .toString('utf8')
    // A character that was cut in two decodes as one or more marks of that.
    return `${cut(head.replace(/\uFFFD+$/, ''), most)}\n[cut: it had ${Buffer.byteLength(text)} bytes]`
  }

  /** The stored message `id` of an inbox, while it is kept, and until the inbox is rotated once more. */
  find(name: string, id: string): Stored | undefined {
    return this.#knownOf(name).get(id)
  }

  #knownOf(name: string): KnownMail {
    let known = this.#known.get(name)
    if (!known) {
      known = new KnownMail(this.#store.inbox(name))
      this.#known.set(name, known)
    }
    return known
  }

  /** Has the owner of the inbox taken this message in? Also where it is so old that it is not kept any more. */
  wasRead(name: string, id: string): boolean {
    const log = this.#store.inbox(name)
    const index = this.#knownOf(name).index(id)
    return index === undefined || index <= log.cursor(name) || log.turn(index) !== undefined
  }

  /** Items after an index, with their receipts. Consumes nothing. */
  read(name: string, after: number, limit: number): { items: InboxItem[]; cursor: number; last: number } {
    const log = this.#store.inbox(name)
    const cursor = log.cursor(name)
    const items = log.read(after, limit).map(entry => this.#item(name, entry))
    return { items, cursor, last: log.last }
  }

  /** The last `limit` messages that the daemon stamped as from `name`, oldest first, with how far each got. */
  sent(name: string, limit: number): InboxItem[] {
    return this.#store.inboxNames
      .flatMap(inbox =>
        this.#store
          .inbox(inbox)
          .read(0)
          .filter(({ value: { message, origin } }) => origin === 'daemon' && message.from === name)
          .map(entry => ({ at: entry.at, item: this.#item(inbox, entry) })),
      )
      .sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
      .slice(-limit)
      .map(({ item }) => item)
  }

  #item(name: string, { index, value }: LogEntry<Stored>): InboxItem {
    const log = this.#store.inbox(name)
    const turn = log.turn(index) ?? null
    const isTask = value.message.type === 'task'
    const isPast = isTask
      ? this.#store.marks.get(`drop/${taskKey(value.message)}`) !== undefined
      : turn !== null || index <= log.cursor(name)
    const hasContext = name !== humanInbox && name !== 'supervisor' && !isTask
    // A person may act on what they did not mark as read.
    const receipt = this.#answers.has(name, value)
      ? 'acted on'
      : isPast
        ? hasContext
          ? 'in context'
          : 'taken'
        : 'stored'
    return { index, stored: value, receipt, turn }
  }

  /** How many messages the owner has not taken in yet. A `task` message became a task and is not counted. */
  unread(name: string): number {
    const log = this.#store.inbox(name)
    const cursor = log.cursor(name)
    if (log.last <= cursor) return 0
    return log.read(cursor).filter(entry => entry.value.message.type !== 'task' && log.turn(entry.index) === undefined)
      .length
  }

  hasUrgent(name: string): boolean {
    const log = this.#store.inbox(name)
    return log.read(log.cursor(name)).some(entry => isUrgent(entry.value))
  }
}

/**
 * The messages of one inbox by id: those in its log, and those that its last trim took. What is sent again, by a sender
 * that heard no answer or after a crash, comes soon after the first time, and a trim only takes what was read long since:
 * so an id that two trims lie behind is not sent again, and the ids of an inbox do not grow with all it ever got.
 */
class KnownMail {
  readonly #log: Log<Stored>
  /** In the order of the log. */
  readonly #byId = new Map<string, LogEntry<Stored>>()
  /** Index of what was the first entry in the log at the last look. */
  #first: number

  constructor(log: Log<Stored>) {
    this.#log = log
    this.#first = this.#firstKept()
    for (const entry of log.read(0)) this.#add(entry)
    log.watch(entry => {
      this.#forget()
      this.#add(entry)
    })
  }

  get(id: string): Stored | undefined {
    return this.#byId.get(id)?.value
  }

  index(id: string): number | undefined {
    return this.#byId.get(id)?.index
  }

  #add(entry: LogEntry<Stored>): void {
    const { id } = entry.value.message
    this.#byId.delete(id)
    this.#byId.set(id, entry)
  }

  #forget(): void {
    const first = this.#firstKept()
    if (first === this.#first) return
    for (const [id, { index }] of this.#byId) {
      if (index >= this.#first) break
      this.#byId.delete(id)
    }
    this.#first = first
  }

  #firstKept(): number {
    return this.#log.read(0, 1)[0]?.index ?? this.#log.last + 1
  }
}

/** Urgent and decisions first: they also wake a parked teammate. */
export const isUrgent = (stored: Stored): boolean =>
  stored.message.urgent === true ||
  (stored.origin === 'daemon' && (stored.message.type === 'decision' || stored.message.type === 'request'))
