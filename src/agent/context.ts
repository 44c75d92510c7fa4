import { createHash } from 'node:crypto'
import type { ChatMessage, ToolCall, ToolSchema } from '../model/model.ts'
import type { Entry } from './entry.ts'
import { type Item, renderItems, type TaskItem } from './items.ts'
import { tokens } from './tokens.ts'

/** A tool result whose text was given up for room. One line, and how to get it again: where the whole lies in a file, it is named. */
const placeholder = (name: string, text: string): string => {
  const file = / all of it in (out\/\S+)/.exec(text.slice(0, text.indexOf('\n')))?.[1]
  const again = file === undefined ? 'call it again if you need it' : `all of it is in ${file}`
  return `(the result of ${name}, ${text.length} characters, was dropped to save room; ${again})`
}

/** Is it a message to the person? Arguments are what a model wrote, so they are looked at with care. */
const writesToHuman = (call: ToolCall | undefined): boolean => {
  if (call?.name !== 'message' || call.arguments === null) return false
  const args: unknown = JSON.parse(call.arguments)
  return typeof args === 'object' && args !== null && 'to' in args && (args.to === 'user' || args.to === 'human')
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

type Called = Extract<Entry, { k: 'assistant' }>['calls'][number]
const bare = ({ id, name, arguments: args, fault, extra }: Called): ToolCall => ({
  id,
  name,
  arguments: args,
  ...(fault === undefined ? {} : { fault }),
  ...(extra === undefined ? {} : { extra }),
})

/** As it is sent. */
const answer = (text: string, calls: readonly Called[], reasoning?: string, model?: string) => ({
  role: 'assistant' as const,
  text,
  calls: calls.map(bare),
  ...(reasoning === undefined ? {} : { reasoning }),
  ...(model === undefined ? {} : { model }),
})

/** What the tools take in each request; they are the same all through a session. */
const weights = new WeakMap<readonly ToolSchema[], number>()
const sizeOf = (tools: readonly ToolSchema[]): number => {
  let size = weights.get(tools)
  if (size === undefined) {
    size = tools.length * 8
    for (const tool of tools) size += tokens(tool.description) + tokens(JSON.stringify(tool.parameters))
    weights.set(tools, size)
  }
  return size
}

/**
 * The context of a session: a projection of its journal. `apply` takes one entry in; applied to the same entries it
 * comes to the same bytes, in this process or after a crash.
 */
export class Context {
  system = ''
  readonly messages: ChatMessage[] = []
  /** The task in hand as the journal knows it, and where its part of the context begins. */
  task: { readonly item: TaskItem; readonly from: number } | null = null
  /** Titles and ends of the tasks done in this context, oldest first. */
  readonly done: string[] = []
  /** Mail that stands in this context, for carrying it over. */
  readonly mail: Item[] = []
  /** The last message of a person that entered in this turn, as long as nothing was written to them since. */
  asked: string | null = null
  turn = 0
  inTurn = false
  /** Calls of the last assistant message that have no result yet; true where the tool had started. */
  readonly open = new Map<string, { readonly call: ToolCall; started: boolean }>()
  readonly callIds = new Set<string>()
  /** What entered since the model last answered. */
  readonly unheard: Item[] = []
  /** Results became placeholders: the journal alone has them whole. */
  hasDropped = false
  #sizes: number[] = []
  /** Of the messages up to each: what `digest` is made of, as far as it was asked for. */
  #digests: string[] = []
  #sum = 0
  #weighed = { system: '', size: 0 }
  #ratio = 1

  apply(entry: Entry): void {
    switch (entry.k) {
      case 'session':
        this.system = entry.system
        if (!entry.keep) {
          this.#empty()
          this.task = null
          this.asked = null
          this.inTurn = false
        }
        this.turn = entry.turn
        return
      case 'turn':
        this.turn = entry.turn
        this.inTurn = entry.step === 'start'
        this.asked = null
        return
      case 'compacted':
        this.#empty()
        this.system = entry.system
        this.done.push(...entry.done)
        this.mail.push(...entry.mail)
        this.task = entry.task && { item: entry.task, from: 0 }
        this.asked = entry.asked
        this.turn = entry.turn
        this.inTurn = entry.inTurn
        this.#push({ role: 'user', text: renderItems(entry.items) })
        for (const message of entry.tail) {
          this.#push(
            message.role === 'assistant'
              ? answer(message.text, message.calls, message.reasoning, message.model)
              : message,
          )
          if (message.role === 'assistant') for (const { id } of message.calls) this.callIds.add(id)
        }
        return
      case 'items': {
        this.unheard.push(...entry.items)
        for (const item of entry.items) {
          if (item.k === 'task') this.task = { item, from: this.messages.length }
          if (item.k === 'message' || item.k === 'request') this.mail.push(item)
          if (item.k === 'message' && item.origin === 'human') this.asked = item.id
        }
        if (entry.items.length > 0) this.#push({ role: 'user', text: renderItems(entry.items) })
        return
      }
      case 'assistant': {
        const { text, calls, model } = entry
        const said = answer(text, calls, model === undefined ? undefined : entry.reasoning, model)
        const sent = said.calls
        if (entry.usage && !entry.usage.estimated) this.#calibrate(entry.usage.input)
        this.#push(said)
        for (const [i, call] of calls.entries()) {
          this.callIds.add(call.id)
          const kept = sent[i]
          if (kept) this.open.set(call.id, { call: kept, started: false })
        }
        this.unheard.length = 0
        return
      }
      case 'tool.start': {
        const open = this.open.get(entry.id)
        if (open) open.started = true
        return
      }
      case 'tool.result':
        if (!entry.isError && writesToHuman(this.open.get(entry.id)?.call)) this.asked = null
        this.open.delete(entry.id)
        this.#push({ role: 'tool', callId: entry.id, name: entry.name, text: entry.text })
        return
      case 'dropped': {
        const ids = new Set(entry.ids)
        this.hasDropped = true
        for (const [i, message] of this.messages.entries())
          if (message.role === 'tool' && ids.has(message.callId))
            this.#set(i, { ...message, text: placeholder(message.name, message.text) })
        return
      }
      case 'task.end':
        if (this.task) this.done.push(`task ${this.task.item.id} (${this.task.item.title}): ${entry.how}`)
        this.task = null
        this.inTurn = false
        return
      case 'todo':
      case 'blank':
      case 'spent':
      case 'command.start':
      case 'command.end':
        return
    }
  }

  /** SHA-256 of what is sent to the model, the system message and each message as it stands, in hexadecimal. */
  digest(): string {
    for (let i = this.#digests.length; i < this.messages.length; i++)
      this.#digests.push(sha256(`${this.#digests.at(-1) ?? ''}${JSON.stringify(this.messages[i])}`))
    return sha256(`${this.#digests.at(-1) ?? ''}${this.system}`)
  }

  /** Estimated tokens of the whole request. */
  estimate(tools: readonly ToolSchema[] = []): number {
    return Math.round(this.#raw(tools) * this.#ratio)
  }

  /** Tokens that the messages from `from` on take about. */
  sizeFrom(from: number): number {
    return this.#sizes.slice(from).reduce((sum, size) => sum + size, 0) * this.#ratio
  }

  /** Tokens of a text, as the endpoint seems to count them. */
  weigh(text: string): number {
    return Math.ceil(tokens(text) * this.#ratio)
  }

  /**
   * Which tool results to drop as they are old: all those before the last three rounds at once, since every rewrite costs the
   * prompt cache. Only where the context is past half of the window and that frees at least a fifth of it.
   */
  stale(window: number, tools: readonly ToolSchema[]): string[] {
    if (this.estimate(tools) <= window / 2) return []
    const { ids, saved } = this.#drop(Number.POSITIVE_INFINITY)
    return saved >= window / 5 ? ids : []
  }

  /**
   * Which tool results to drop so that the request fits into `window` tokens: the oldest first, none of the last three
   * rounds, in one batch down to three fifths, since every rewrite costs the prompt cache. Empty when it fits, or when
   * there is nothing to drop.
   */
  droppable(window: number, tools: readonly ToolSchema[]): string[] {
    const size = this.estimate(tools)
    return size <= window ? [] : this.#drop(size - window * 0.6).ids
  }

  /** The oldest results, none of the last three rounds, until about `tokens` are saved. */
  #drop(most: number): { readonly ids: string[]; readonly saved: number } {
    const rounds = this.messages.flatMap((message, i) => (message.role === 'assistant' ? [i] : []))
    const before = rounds.at(-3) ?? 0
    const ids: string[] = []
    let saved = 0
    for (const [i, message] of this.messages.entries()) {
      if (i >= before || saved >= most) break
      if (message.role !== 'tool') continue
      const saves = ((this.#sizes[i] ?? 0) - tokens(placeholder(message.name, message.text))) * this.#ratio
      if (saves < 20) continue
      saved += saves
      ids.push(message.callId)
    }
    return { ids, saved }
  }

  #raw(tools: readonly ToolSchema[]): number {
    return this.#systemSize + sizeOf(tools) + this.#sum
  }

  get #systemSize(): number {
    if (this.#weighed.system !== this.system) this.#weighed = { system: this.system, size: tokens(this.system) }
    return this.#weighed.size
  }

  #empty(): void {
    this.messages.length = 0
    this.#sizes = []
    this.#digests = []
    this.#sum = 0
    this.mail.length = 0
    this.done.length = 0
    this.unheard.length = 0
    this.callIds.clear()
    this.open.clear()
    this.hasDropped = false
  }

  /** What the endpoint counted, against what was estimated for the same messages; odd numbers are not believed. */
  #calibrate(reported: number): void {
    const raw = this.#raw([])
    if (raw < 2000) return
    const ratio = reported / raw
    if (ratio > 0.4 && ratio < 3) this.#ratio = ratio
  }

  #push(message: ChatMessage): void {
    this.#set(this.messages.length, message)
  }

  #set(i: number, message: ChatMessage): void {
    this.messages[i] = message
    if (this.#digests.length > i) this.#digests.length = i
    const calls = message.role === 'assistant' ? message.calls : []
    let size = 6 + tokens(message.text)
    for (const call of calls) size += 10 + tokens(call.arguments ?? '')
    this.#sum += size - (this.#sizes[i] ?? 0)
    this.#sizes[i] = size
  }
}
