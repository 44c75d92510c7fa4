import { wellFormed } from '../lib/text.ts'
import { absent, readArguments } from './arguments.ts'
import type { ToolCall, Turn, Usage } from './model.ts'

/** One call as it grows. `args` collects pieces of text (null: none came); anything else sent stands in `whole`. */
interface Slot {
  id: string
  name: string
  args: string | null
  whole: unknown
  /** `extra_content`: what Google wants back with it. */
  extra: Loose | null
}

/** A call takes room besides its arguments: many empty ones are a runaway answer too. */
const callSize = 1000

type Loose = Readonly<Record<string, unknown>>
const loose = (value: unknown): Loose | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Loose) : null
const str = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Text as a string, or as the list of parts that some servers send. */
const textOf = (content: unknown): string =>
  Array.isArray(content)
    ? content.map(part => (typeof part === 'string' ? part : str(loose(part)?.text))).join('')
    : str(content)

/** What a local model puts around the thoughts in front of its answer. */
const thoughtStart = '<think>'
const thoughtEnd = '</think>'

const isWholeObject = (text: string): boolean => {
  if (!text.trimEnd().endsWith('}')) return false
  try {
    return loose(JSON.parse(text)) !== null
  } catch {
    return false
  }
}

/** Tokens as reported, or null where the numbers cannot be true. */
export const readUsage = (raw: unknown): Usage | null => {
  const usage = loose(raw)
  if (!usage) return null
  const count = (value: unknown): number | null =>
    typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 1e8 ? value : null
  const input = count(usage.prompt_tokens)
  const output = count(usage.completion_tokens)
  if (!input || output === null) return null
  const cached = count(loose(usage.prompt_tokens_details)?.cached_tokens) ?? count(usage.prompt_cache_hit_tokens) ?? 0
  return { input, cachedInput: Math.min(cached, input), output }
}

/**
 * Puts an answer together from what an endpoint sends: the pieces of a stream, or one whole completion. Believes
 * nothing: calls may lack an id, an index or a new index, `choices` may be anything, `finish_reason` may lie.
 * Pure; `newId` makes ids for calls that came without one.
 */
export class Assembly {
  #text = ''
  #reasoning = ''
  #finish = ''
  #usage: Usage | null = null
  #size = 0
  #answered = false
  /** Where in the text the answer begins, behind the thoughts in front of it; null as long as that is open. */
  #begins: number | null = null
  /** Where those thoughts end. */
  #thought: number | null = null
  readonly #slots: Slot[] = []
  /** The call that a piece with this index and no id goes on with. */
  readonly #at = new Map<number, Slot>()
  readonly #newId: () => string

  constructor(newId: () => string) {
    this.#newId = newId
  }

  /**
   * Takes one piece in. `content` says whether it carried anything of the answer (a keep-alive does not), `text` what it adds to the
   * words of the answer: thoughts in front of them are none.
   */
  add(chunk: unknown): { content: boolean; text: string } {
    const top = loose(chunk)
    const usage = readUsage(top?.usage)
    if (usage) this.#usage = usage
    const choice = Array.isArray(top?.choices) ? loose(top.choices[0]) : null
    const delta = loose(choice?.delta) ?? loose(choice?.message)
    const finish = str(choice?.finish_reason)
    if (finish) {
      this.#finish = finish
      this.#answered = true
    }
    if (!delta) return { content: usage !== null || finish !== '', text: '' }
    this.#answered = true
    const text = textOf(delta.content) || str(delta.refusal)
    const reasoning = str(delta.reasoning_content) || str(delta.reasoning)
    this.#text += text
    this.#reasoning += reasoning
    this.#size += text.length + reasoning.length
    let called = false
    const calls = Array.isArray(delta.tool_calls) ? delta.tool_calls : delta.tool_calls ? [delta.tool_calls] : []
    for (const [position, call] of calls.entries()) called = this.#call(loose(call), position, calls.length) || called
    const legacy = loose(delta.function_call)
    if (legacy) called = this.#call({ index: 0, function: legacy }, 0, 1) || called
    return {
      content: text !== '' || reasoning !== '' || called || finish !== '' || usage !== null,
      text: this.#words(text),
    }
  }

  /** What this newest piece of the text adds to the words of the answer. */
  #words(piece: string): string {
    if (this.#begins !== null || piece === '') return piece
    const lead = this.#text.trimStart()
    if (thoughtStart.startsWith(lead)) return ''
    if (!lead.startsWith(thoughtStart)) {
      this.#begins = 0
      return this.#text
    }
    if (this.#thought === null) {
      const end = this.#text.indexOf(thoughtEnd, this.#text.length - piece.length - thoughtEnd.length + 1)
      if (end >= 0) this.#thought = end + thoughtEnd.length
    }
    const words = this.#thought === null ? '' : this.#text.slice(this.#thought).trimStart()
    if (words !== '') this.#begins = this.#text.length - words.length
    return words
  }

  /** Characters of text, thoughts and calls so far. */
  get size(): number {
    return this.#size
  }

  /** The answer, decided by what came. */
  end(): Turn {
    const { text, reasoning } = this.#split()
    const cutOff = this.#finish === 'length' || this.#finish === ''
    const seen = new Set<string>()
    const calls = this.#slots
      .filter(slot => slot.name !== '' || slot.args || (slot.whole !== absent && slot.whole !== null))
      .map((slot, i, all): ToolCall => {
        const id = slot.id === '' || seen.has(slot.id) ? this.#newId() : slot.id
        seen.add(id)
        // Only the last call can have been cut; those before it were complete when the next one began.
        const raw = slot.whole !== absent && slot.whole !== null && !slot.args ? slot.whole : (slot.args ?? slot.whole)
        const read = readArguments(raw, cutOff && i === all.length - 1)
        return { id, name: wellFormed(slot.name), ...read, ...(slot.extra === null ? {} : { extra: slot.extra }) }
      })
    const usage = this.#usage
    const base = { text, calls, usage, ...(reasoning === '' ? {} : { reasoning }) }
    if (!this.#answered)
      return { ...base, stop: 'error', fault: { kind: 'malformed', message: 'the answer held no choice' } }
    if (calls.length > 0) return { ...base, stop: 'calls' }
    if (this.#finish === 'content_filter') return { ...base, stop: 'filtered' }
    if (this.#finish === 'length') return { ...base, stop: 'length' }
    return { ...base, stop: text.trim() === '' ? 'empty' : 'end' }
  }

  /** Thoughts that a local model wrote in front of its answer are no part of it. */
  #split(): { text: string; reasoning: string } {
    const thought = /^\s*<think>([\s\S]*?)(?:<\/think>\s*|$)/.exec(this.#text)
    const text = thought ? this.#text.slice(thought[0].length) : this.#text
    return { text: wellFormed(text), reasoning: wellFormed(this.#reasoning + (thought?.[1] ?? '')) }
  }

  #call(piece: Loose | null, position: number, of: number): boolean {
    if (!piece) return false
    const fn = loose(piece.function) ?? piece
    const id = str(piece.id)
    const name = str(fn.name)
    const args = Object.hasOwn(fn, 'arguments') ? fn.arguments : absent
    const extra = loose(piece.extra_content)
    const index = typeof piece.index === 'number' ? piece.index : of > 1 ? position : null
    const slot = this.#find(id, name, index)
    if (slot.id === '') slot.id = id
    if (extra) slot.extra = extra
    // A name may come in pieces, or be repeated with each piece.
    if (name !== '' && name !== slot.name) slot.name += name
    if (typeof args === 'string') slot.args = (slot.args ?? '') + args
    else if (args !== absent && (args !== null || slot.whole === absent)) slot.whole = args
    this.#size +=
      name.length +
      (extra ? JSON.stringify(extra).length : 0) +
      (typeof args === 'string' ? args.length : args === absent ? 0 : JSON.stringify(args).length)
    return id !== '' || name !== '' || (args !== absent && args !== '' && args !== null)
  }

  /** Which call a piece belongs to: its id decides, then its index, and a name begins a new call where one is complete. */
  #find(id: string, name: string, index: number | null): Slot {
    const at = index === null ? this.#slots.at(-1) : this.#at.get(index)
    if (id !== '') {
      if (at && (at.id === id || (at.id === '' && name === ''))) return at
      // The same id again under no index, or under an index that another call took over since.
      const same = index === null || at ? this.#slots.find(slot => slot.id === id) : undefined
      return same ?? this.#begin(index)
    }
    if (!at) return this.#begin(index)
    if (name === '' || at.name === '') return at
    const hasArgs = Boolean(at.args) || (at.whole !== absent && at.whole !== null)
    const goesOn = hasArgs
      ? name === at.name && at.whole === absent && !isWholeObject(at.args ?? '')
      : at.id !== '' || name === at.name
    return goesOn ? at : this.#begin(index)
  }

  #begin(index: number | null): Slot {
    const slot: Slot = { id: '', name: '', args: null, whole: absent, extra: null }
    this.#slots.push(slot)
    this.#size += callSize
    this.#at.set(index ?? -1 - this.#slots.length, slot)
    return slot
  }
}
