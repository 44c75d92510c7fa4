import { reach } from '../lib/points.ts'
import { cut } from '../lib/text.ts'
import type { ChatMessage, ToolSchema, Turn, Usage } from '../model/model.ts'
import { type Item, shorten } from './items.ts'
import type { Session } from './session.ts'

/** Why a conversation is put together: it fills the window, somebody asked for it, or the endpoint refused it as too large. */
export type Why = 'full' | 'asked' | 'overflow'

/** What a summary must say, each under its heading. */
const parts = ['Goal', 'Decisions', 'State', 'Open', 'Files'] as const

/** What the model is asked for. It stands behind the conversation, so that all of that is as it was for the prompt cache. */
export const instruction = (focus: string | null): string =>
  [
    '<note>Your conversation is put together now: all above goes away and what you write next takes its place. Call no tool. Write a summary from which you can go on without anything above, as text, as short as that allows, under exactly these headings ("none" where there is nothing):',
    '## Goal',
    'what is to be reached, for whom, and every demand that still holds',
    '## Decisions',
    'what was decided or found out, and why, so that it is not done again',
    '## State',
    'what is done and proven, what is half done, what failed and how',
    '## Open',
    'the next steps, in order; whom you still owe an answer, and what you wait for',
    '## Files',
    'each file that matters, by path, and what of it',
    ...(focus === null ? [] : [`Keep above all: ${focus}`]),
    '</note>',
  ].join('\n')

/** Why this answer is no summary to go on from; null where it is one. What it would save is not looked at here. */
export const notUsable = ({ stop, text, calls, fault }: Turn): string | null => {
  if (stop === 'error') return fault ? `${fault.kind}: ${fault.message}` : 'the answer could not be read'
  if (calls.length > 0) return 'it called a tool'
  if (stop === 'length') return 'it was cut off'
  if (stop === 'filtered') return 'it was withheld by a filter'
  if (text.trim() === '') return 'it was empty'
  // Who writes in another language translates the headings too.
  if ((text.match(/^#{1,6}[ \t]+\S/gm) ?? []).length >= parts.length) return null
  const missing = parts.filter(part => !new RegExp(`^\\W*${part}\\b`, 'im').test(text))
  return missing.length > 0 ? `it says nothing of ${missing.join(', ')}` : null
}

/** The last round as it stands, if it is small enough to keep: its call, its results, and what was told after them. */
const tailOf = (session: Session, room: number): readonly ChatMessage[] => {
  const { context } = session
  const from = context.messages.findLastIndex(({ role }) => role === 'assistant')
  const last = context.messages[from]
  if (last?.role !== 'assistant' || last.calls.length === 0) return []
  // A task is told anew, so not a second time.
  if (context.unheard.some(({ k }) => k === 'task') || context.sizeFrom(from) > room) return []
  return context.messages.slice(from)
}

/** What is told again by the records, not by the summary. */
export interface Retold {
  /** The system message as it is by now. */
  readonly system: string
  /** What waits for a decision, the todo list: each as it stands. */
  readonly items: readonly Item[]
}

const isThis = (id: string) => (item: Item) => item.k === 'request' && item.id === id
const note = (text: string): Item => ({ k: 'note', text })
/** So much of what was done, and of the mail, is carried along. */
const carried = 20
const mostRequests = 50

/** The entry that puts `summary` in the place of the conversation; null where that would not be smaller by enough. */
export const compacted = (
  session: Session,
  o: {
    readonly summary: string
    readonly why: Why
    readonly window: number
    readonly retold: Retold
    readonly usage: Usage & { readonly estimated?: true }
  },
): Parameters<Session['compact']>[0] | null => {
  const { context } = session
  const { system, items } = o.retold
  const tail = tailOf(session, o.window / 8)
  const task = context.task?.item ?? null
  const done = context.done.slice(-carried)
  const all: Item[] = [
    note(
      'The conversation before this was put together into a summary, which is your own words: it is a memory, and nobody approved anything by it. What stands below it is as it is now.',
    ),
    { k: 'summary', text: o.summary.trim() },
    ...(done.length > 0 ? [note(`Done before: ${done.join('; ')}`)] : []),
    ...(system === context.system
      ? []
      : [note('Your rules, team or skills changed: they stand in your system message as they are now.')]),
    ...(task === null
      ? []
      : [{ ...task, description: shorten(task.description, Math.floor(o.window / 4), 'the whole is in TASK.md') }]),
    // What entered since the last answer stands at the end, once.
    ...items.filter(item => item.k !== 'request' || !context.unheard.some(isThis(item.id))),
    ...(tail.length > 0 ? [] : context.unheard.filter(({ k }) => k !== 'task')),
  ]
  const before = context.sizeFrom(0)
  const after =
    context.weigh(JSON.stringify(all)) + (tail.length > 0 ? context.sizeFrom(context.messages.length - tail.length) : 0)
  // One that saves little would be due again at once.
  if (after >= before * (o.why === 'asked' ? 1 : 0.6)) return null
  return {
    why: o.why,
    system,
    items: all,
    tail: tail.map(message => (message.role === 'assistant' ? { ...message, calls: [...message.calls] } : message)),
    task,
    done,
    mail: kept(context.mail),
    asked: context.asked,
    turn: context.turn,
    inTurn: context.inTurn,
    usage: { ...o.usage },
  }
}

/** The last of the mail, and of the requests more: by these it is known what waits for a decision, and what is read for a review. */
const kept = (mail: readonly Item[]): Item[] => {
  const requests = new Set(mail.filter(({ k }) => k === 'request').slice(-mostRequests))
  const last = mail.length - carried
  return mail.filter((item, i) => i >= last || requests.has(item))
}

/**
 * What of the conversation goes with the question for a summary, within `room` tokens: results become one line each, the oldest
 * first; then whole rounds go, the oldest first. No call loses its result, no result its call.
 */
export const within = (
  messages: readonly ChatMessage[],
  room: number,
  weigh: (text: string) => number,
): readonly ChatMessage[] => {
  const size = (message: ChatMessage): number =>
    6 +
    weigh(message.text) +
    (message.role === 'assistant' ? message.calls.reduce((sum, call) => sum + 10 + weigh(call.arguments ?? ''), 0) : 0)
  const sizes = messages.map(size)
  let left = sizes.reduce((sum, each) => sum + each, 0)
  if (left <= room) return messages
  const fitted = messages.map((message, i): ChatMessage => {
    const most = message.role === 'tool' ? 200 : 4000
    if (left <= room || message.role === 'assistant' || message.text.length <= most * 2) return message
    const short = { ...message, text: `${cut(message.text, most)}\n(cut: ${message.text.length} characters)` }
    left -= (sizes[i] ?? 0) - size(short)
    sizes[i] = size(short)
    return short
  })
  let from = 0
  while (from < fitted.length && (left > room || fitted[from]?.role === 'tool')) {
    left -= sizes[from] ?? 0
    from++
  }
  if (from < fitted.length) return fitted.slice(from)
  const last = messages.at(-1)
  return last === undefined ? [] : [{ role: 'user', text: cut(last.text, Math.max(500, Math.floor(room))) }]
}

export interface CompactionOptions {
  readonly session: Session
  readonly schemas: readonly ToolSchema[]
  /** Of the model, in tokens, and the most that it answers, where that is bounded. */
  readonly window: number
  readonly answer: number | undefined
  /** Null: the records cannot be asked now. */
  retell(): Promise<Retold | null>
  /** Saves the whole conversation; back when it is on the disk. */
  save(): string
  readonly on: {
    done(what: { why: Why; before: number; after: number; transcript: string }): void
    /** `last`: it is not tried again until the context begins anew. */
    failed(why: string, last: boolean): void
  }
}

/** Failures in a row after which it is left alone, and how many messages come before it is tried again. */
const mostFailures = 3
const pause = 6
/** A conversation of fewer tokens than this is not worth it. */
const least = 1000

/** Asks the model. What it used is told with its answer. */
type Ask = (
  messages: readonly ChatMessage[],
) => Promise<{ readonly turn: Turn; readonly usage: Usage & { readonly estimated?: true } }>

/**
 * Puts the conversation of one session together where it has to be: saves it whole, asks the model for a summary, and puts that in
 * its place once it is proven to be one.
 *
 *   due ──▶ saved ──▶ asked ──usable──▶ the summary and what the records say, as one entry
 *                       └──else──▶ all stays as it was; again some rounds later, three times
 */
export class Compaction {
  readonly #o: CompactionOptions
  #window: number
  #asked: { readonly focus: string | null } | null = null
  #failures = 0
  /** Not before so many messages, and since how many it counts failures. */
  #next = 0
  #since = 0

  constructor(o: CompactionOptions) {
    this.#o = o
    this.#window = o.window
  }

  /** Of the model, as far as it is known by now. */
  get window(): number {
    return this.#window
  }

  /** It is to be done before the next round, about `focus` above all. Answers why it will not be, or null. */
  ask(focus: string | null): string | null {
    const size = Math.round(this.#o.session.context.sizeFrom(0))
    if (size < least) return `the conversation is short, about ${size} tokens: there is nothing to gain`
    this.#asked = { focus }
    return null
  }

  /** Is there a reason to do it now, between rounds? */
  due(): Why | null {
    if (this.#asked) return 'asked'
    const { context } = this.#o.session
    if (context.messages.length < this.#since) this.#forget()
    if (context.messages.length < this.#next || this.#failures >= mostFailures) return null
    return context.estimate(this.#o.schemas) > this.#threshold ? 'full' : null
  }

  /** The endpoint refused a request of about so many tokens as too large: it knows its window better. */
  overflowed(size: number): void {
    this.#window = Math.min(this.#window, Math.floor(size * 0.95))
  }

  /** Does it. False: all is as it was. */
  async run(why: Why, ask: Ask): Promise<boolean> {
    const { session, schemas, retell, save, on } = this.#o
    const { context } = session
    const focus = this.#asked?.focus ?? null
    const before = context.estimate(schemas)
    const retold = await retell()
    if (retold === null) return this.#fail('the records could not be asked')
    const transcript = save()
    reach('compact.saved')
    const question: ChatMessage = { role: 'user', text: instruction(focus) }
    const fixed = before - context.sizeFrom(0) + context.weigh(question.text)
    // What does not fit by the endpoint's word is asked about by a smaller part.
    let room = (why === 'overflow' ? before * 0.7 : this.#window) - fixed - this.#forAnswer
    for (let tries = 0; ; tries++) {
      const messages = within(context.messages, room, text => context.weigh(text))
      const { turn, usage } = await ask([...messages, question])
      if (turn.fault?.kind === 'aborted') return false
      this.#asked = null
      if (turn.fault?.kind === 'overflow' && tries < 2) {
        room *= 0.6
        continue
      }
      const no = notUsable(turn)
      const entry =
        no === null ? compacted(session, { summary: turn.text, why, window: this.#window, retold, usage }) : null
      if (entry === null) {
        if (turn.stop !== 'error') session.append({ k: 'blank', usage })
        return this.#fail(no ?? 'it would save too little')
      }
      reach('compact.asked')
      session.compact(entry)
      this.#forget()
      on.done({ why, before, after: context.estimate(schemas), transcript })
      return true
    }
  }

  get #forAnswer(): number {
    return Math.min(this.#o.answer ?? 4096, this.#window / 4)
  }

  /** Four fifths of the window; less where a long answer has to have room besides, but never less than half. */
  get #threshold(): number {
    const window = this.#window
    return Math.min(window * 0.8, Math.max(window / 2, window * 0.95 - (this.#o.answer ?? 0)))
  }

  #fail(why: string): false {
    this.#asked = null
    this.#failures++
    this.#since = this.#o.session.context.messages.length
    this.#next = this.#since + pause
    this.#o.on.failed(why, this.#failures >= mostFailures)
    return false
  }

  #forget(): void {
    this.#failures = 0
    this.#next = 0
    this.#since = 0
  }
}
