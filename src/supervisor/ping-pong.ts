import * as z from 'zod'
import { ok, type Result } from '../lib/result.ts'
import { asOneLine, cut } from '../lib/text.ts'
import type { JournalEntry } from '../protocol/event.ts'
import { MessageType, type Stored } from '../protocol/message.ts'
import { type Core, leadInbox } from './core.ts'
import { humanInbox, type Outgoing, type Sent } from './mail.ts'
import type { Notices } from './notices.ts'
import { Rounds } from './rounds.ts'

const Held = z.object({
  from: z.string(),
  to: z.string(),
  messages: z.array(
    z.object({
      id: z.string(),
      content: z.string(),
      type: MessageType,
      replyTo: z.string().optional(),
      urgent: z.boolean().optional(),
    }),
  ),
})
type Held = z.infer<typeof Held>

const prefix = 'held/'
const keyOf = (from: string, to: string): string => `${prefix}${from}/${to}`

/**
 * Stops teammates that thank each other for ever: mail answered by mail, nothing in hand, no tool but `message`. After
 * `limits.mailRounds` rounds what such a teammate writes to another is held (urgent mail after twice as many), its sender is
 * told so, and whoever leads is told once. A message of the human or the lead, a task or any other act of one of them
 * delivers what was held and begins the count anew; so does a restart of the daemon.
 */
export class PingPong {
  readonly #core: Core
  readonly #notices: Notices
  readonly #rounds = new Rounds()
  /** What is held, by who wrote it to whom. */
  readonly #held = new Map<string, Held>()
  /** Of whom it was told that they are stopped. */
  readonly #told = new Set<string>()

  constructor(core: Core, notices: Notices) {
    this.#core = core
    this.#notices = notices
    core.store.tasks.watch((_id, { value }, old, why) => {
      if (value.status === old?.value.status && value.claimed === old?.value.claimed) return
      for (const name of new Set([value.owner, old?.value.owner, why.by])) if (name) this.happened(name)
    })
    core.store.requests.watch((_id, { value }) => {
      for (const name of [value.from, value.to]) this.happened(name)
    })
  }

  /** Delivers what the last daemon held. */
  recover(): void {
    for (const [id, { value }] of this.#core.store.marks.list())
      if (id.startsWith(prefix)) this.#held.set(id, Held.parse(value))
    for (const held of [...this.#held.values()]) this.#deliver(held)
  }

  /** What the journal tells that is no mail between teammates. */
  entry({ event, by, info, append }: JournalEntry): void {
    if (event === 'teammate.tool' && info?.tool !== 'message') this.happened(by)
    if (!append?.[0].startsWith('inbox/')) return
    const { message, origin } = append[2] as Stored
    if (origin === 'daemon' && message.from === humanInbox) this.happened(message.to)
  }

  /** Something else than mail of a teammate happened to `name`: its circle is free again. */
  happened(name: string): void {
    if (!this.#core.roster.has(name)) return
    const circle = this.#rounds.happened(name)
    for (const each of circle) {
      this.#told.delete(each)
      this.#notices.problem(`ping-pong/${each}`, null)
    }
    for (const held of [...this.#held.values()])
      if (circle.includes(held.from) || circle.includes(held.to)) this.#deliver(held)
  }

  /** Sends what a teammate writes, or holds it. */
  send(out: Outgoing & { readonly id: string }): Result<{ sent: Sent[]; durable: Promise<void> }> {
    const { mail, roster } = this.#core
    const checked = mail.receivers(out)
    if (!checked.ok) return checked
    const sent: Sent[] = []
    for (const to of checked.value) {
      // The word of a lead that stands outside frees them; as one of them it would go on for ever.
      if (out.from === this.#core.config.lead && !this.#rounds.circle(to).includes(out.from) && this.#told.has(to))
        this.happened(to)
      if (roster.has(to) && this.#holds(out, to)) {
        sent.push(this.#hold(out, to))
        continue
      }
      const one = mail.send({ ...out, to })
      if (!one.ok) return one
      if (roster.has(to)) this.#rounds.sent(out.from, to)
      sent.push(...one.value.sent)
    }
    return ok({ sent, durable: this.#core.store.flushed() })
  }

  #holds({ from, urgent }: Outgoing, to: string): boolean {
    const { tasks, config } = this.#core
    if (tasks.inHand(from) || tasks.inHand(to)) return false
    return this.#rounds.of(from) >= config.limits.mailRounds * (urgent ? 2 : 1)
  }

  #hold(out: Outgoing & { readonly id: string }, to: string): Sent {
    const { from, id, content, urgent, replyTo } = out
    const held = this.#held.get(keyOf(from, to)) ?? { from, to, messages: [] }
    const message = {
      id,
      content,
      type: out.type ?? 'info',
      ...(urgent ? { urgent } : {}),
      ...(replyTo === undefined ? {} : { replyTo }),
    }
    if (!held.messages.some(each => each.id === id)) this.#put({ ...held, messages: [...held.messages, message] })
    this.#tell(from, to)
    const note =
      'you answer each other and nothing else happens; it waits until a person or a task gives reason to go on. End your turn'
    return { to, id, how: 'held', note }
  }

  /** Once for a circle: to whoever leads, unless that is one of them. */
  #tell(from: string, to: string): void {
    const circle = this.#rounds.circle(from)
    const held = [...this.#held.values()].filter(each => circle.includes(each.from))
    const count = held.reduce((sum, { messages }) => sum + messages.length, 0)
    const names = circle.sort().join(' and ')
    const rounds = this.#core.config.limits.mailRounds
    const remedy = 'a message from you or a task for one of them frees them'
    this.#notices.problem(
      `ping-pong/${circle[0]}`,
      `${names} answered each other for ${rounds} rounds and did nothing else: ${count} held; ${remedy}`,
    )
    if (circle.some(name => this.#told.has(name))) return
    for (const name of circle) this.#told.add(name)
    const lead = leadInbox(this.#core)
    const last = [from, to]
      .flatMap(name => this.#core.store.inbox(name).read(Math.max(0, this.#core.store.inbox(name).last - 2)))
      .filter(({ value }) => circle.includes(value.message.from))
      .sort((a, b) => (a.at < b.at ? -1 : 1))
      .map(({ value: { message } }) => `${message.from} → ${message.to}: ${cut(asOneLine(message.content), 160)}`)
    this.#notices.tell(
      circle.includes(lead) ? humanInbox : lead,
      `msg_pingpong_${from}_${this.#core.store.seq}`,
      `${names} answered each other for ${rounds} rounds and did nothing else. What they write to each other is held now; ${remedy}. The last lines:\n${last.join('\n')}`,
    )
  }

  #deliver({ from, to, messages }: Held): void {
    const left = messages.filter(({ urgent, replyTo, ...message }) => {
      const sent = this.#core.mail.send({
        ...message,
        from,
        to,
        ...(urgent ? { urgent } : {}),
        ...(replyTo === undefined ? {} : { replyTo }),
      })
      // The same id again is the same message. What nobody can take any more is kept, and told of.
      const text = sent.ok ? null : `${message.id} was held and cannot be delivered: ${sent.fault.message}`
      this.#notices.problem(`held/${message.id}`, text)
      return !sent.ok
    })
    if (left.length < messages.length) this.#put({ from, to, messages: left })
  }

  #put(held: Held): void {
    const { marks } = this.#core.store
    const id = keyOf(held.from, held.to)
    const rec = marks.get(id)
    const why = { event: 'message.held' as const, by: held.from, info: { to: held.to, held: held.messages.length } }
    if (rec) marks.update(id, rec.rev, held, why)
    else marks.create(id, held, why)
    if (held.messages.length > 0) this.#held.set(id, held)
    else this.#held.delete(id)
  }
}
