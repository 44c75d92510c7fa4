import type { ChatMessage, ToolCall, ToolSchema } from '../model/model.ts'
import type { Entry } from './entry.ts'
import { type Item, renderItems, type TaskItem } from './items.ts'
import { tokens } from './tokens.ts'

/** A tool result whose text was given up for room. One line, and how to get it again. */
const placeholder = (name: string, text: string): string =>
  `(the result of ${name}, ${text.length} characters, was dropped to save room; call it again if you need it)`

/** Is it a message to the person? Arguments are what a model wrote, so they are looked at with care. */
const writesToHuman = (call: ToolCall | undefined): boolean => {
  if (call?.name !== 'message' || call.arguments === null) return false
  const args: unknown = JSON.parse(call.arguments)
  return typeof args === 'object' && args !== null && 'to' in args && (args.to === 'user' || args.to === 'human')
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
  #sizes: number[] = []
  #ratio = 1

  apply(entry: Entry): void {
    switch (entry.k) {
      case 'session':
        this.system = entry.system
        if (!entry.keep) {
          this.messages.length = 0
          this.#sizes = []
          this.mail.length = 0
          this.done.length = 0
          this.callIds.clear()
          this.open.clear()
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
      case 'items': {
        for (const item of entry.items) {
          if (item.k === 'task') this.task = { item, from: this.messages.length }
          if (item.k === 'message' || item.k === 'request') this.mail.push(item)
          if (item.k === 'message' && item.origin === 'human') this.asked = item.id
        }
        if (entry.items.length > 0) this.#push({ role: 'user', text: renderItems(entry.items) })
        return
      }
      case 'assistant': {
        const { text, calls } = entry
        const sent = entry.calls.map(
          (call): ToolCall =>
            call.fault === undefined
              ? { id: call.id, name: call.name, arguments: call.arguments }
              : { id: call.id, name: call.name, arguments: call.arguments, fault: call.fault },
        )
        if (entry.usage && !entry.usage.estimated) this.#calibrate(entry.usage.input)
        this.#push({ role: 'assistant', text, calls: sent })
        for (const [i, call] of calls.entries()) {
          this.callIds.add(call.id)
          const kept = sent[i]
          if (kept) this.open.set(call.id, { call: kept, started: false })
        }
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
        return
    }
  }

  /** Estimated tokens of the whole request. */
  estimate(tools: readonly ToolSchema[] = []): number {
    return Math.round(this.#raw(tools) * this.#ratio)
  }

  /**
   * Which tool results to drop so that the request fits into `window` tokens: the oldest first, none of the last three
   * rounds, in one batch down to three fifths, since every rewrite costs the prompt cache. Empty when it fits, or when
   * there is nothing to drop.
   */
  droppable(window: number, tools: readonly ToolSchema[]): string[] {
    let size = this.estimate(tools)
    if (size <= window) return []
    const rounds = this.messages.flatMap((message, i) => (message.role === 'assistant' ? [i] : []))
    const before = rounds.at(-3) ?? 0
    const ids: string[] = []
    for (const [i, message] of this.messages.entries()) {
      if (i >= before || size <= window * 0.6) break
      if (message.role !== 'tool') continue
      const saved = ((this.#sizes[i] ?? 0) - tokens(placeholder(message.name, message.text))) * this.#ratio
      if (saved < 20) continue
      size -= saved
      ids.push(message.callId)
    }
    return ids
  }

  #raw(tools: readonly ToolSchema[]): number {
    let sum = tokens(this.system) + tools.length * 8
    for (const tool of tools) sum += tokens(tool.description) + tokens(JSON.stringify(tool.parameters))
    for (const size of this.#sizes) sum += size
    return sum
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
    const calls = message.role === 'assistant' ? message.calls : []
    let size = 6 + tokens(message.text)
    for (const call of calls) size += 10 + tokens(call.arguments ?? '')
    this.#sizes[i] = size
  }
}
