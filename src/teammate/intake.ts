import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MailMark } from '../agent/entry.ts'
import { type Item, type Origin, shorten } from '../agent/items.ts'
import { usualWindow } from '../agent/renew.ts'
import { wellFormed } from '../lib/text.ts'
import { isWaiting } from '../protocol/request.ts'
import type { Call, InboxItem } from '../protocol/rpc.ts'

/** What of the unread mail enters at this boundary, the mark once it did, and whether there is more. */
export interface Choice {
  readonly picked: readonly InboxItem[]
  /** Everything unread that comes first, however much of it was picked. */
  readonly first: readonly InboxItem[]
  readonly mark: MailMark
  readonly more: boolean
}

/** A message longer than this (or than the room there is) enters cut, its whole text in a file of the view. In characters. */
const longestMessage = 16_000

/** How many unread entries are looked at to find what is urgent among them. */
export const lookAhead = 1000

/** Urgent mail, decisions and requests: before the rest, and a reason to end a wait for the model. */
export const comesFirst = ({ stored: { message } }: InboxItem): boolean =>
  message.urgent === true || message.type === 'decision' || message.type === 'request'

/** A claim to be read, or word of it: with nothing in hand, alone, in a conversation of its own. */
export const isReview = ({ stored: { message, origin } }: InboxItem): boolean =>
  origin === 'daemon' && message.type === 'request' && message.data?.type === 'review_request'

/** What may come between while a review is read: the person, and the supervisor's word. The rest waits for its end. */
const maySpeak = (item: InboxItem): boolean =>
  comesFirst(item) &&
  item.stored.origin === 'daemon' &&
  ['supervisor', 'human', 'user'].includes(item.stored.message.from)

/** How much of a message counts towards the room of a batch, and the room, in characters. */
export interface Room {
  readonly longest: number
  readonly total: number
}

/** For a window of so many tokens. One character may be a token in some scripts, so even then three quarters stay free. */
export const roomFor = (window: number | undefined): Room => {
  const total = Math.floor((window ?? usualWindow) / 4)
  return { longest: Math.min(longestMessage, total), total }
}

/**
 * Decisions, requests and urgent messages first, then the others, each in the order they came; at most `batch`, and no more
 * than there is room for (one always is). The mark
 * moves over everything that is in the context without a gap; what came early is remembered one by one, so that each
 * message enters exactly once. What `isHeld` says is left for later. `unread` is everything after the mark, at most `lookAhead`; `last` the log's last index.
 */
export const choose = (
  unread: readonly InboxItem[],
  mark: MailMark,
  batch: number,
  last: number,
  room: Room = roomFor(undefined),
  isHeld: (item: InboxItem) => boolean = () => false,
): Choice => {
  const early = new Set(mark.early)
  const all = unread.filter(item => item.index > mark.upTo).sort((a, b) => a.index - b.index)
  // A page that is full moves on only by what is taken from it.
  const holds = all.length < lookAhead ? isHeld : () => false
  const fresh = all.filter(item => !early.has(item.index) && !holds(item))
  const picked: InboxItem[] = []
  let left = room.total
  const first = fresh.filter(comesFirst)
  for (const item of [...first, ...fresh.filter(item => !comesFirst(item))].slice(0, batch)) {
    left -= Math.min(item.stored.message.content.length, room.longest)
    if (left < 0 && picked.length > 0) break
    picked.push(item)
  }
  return {
    picked,
    first,
    mark: advance(all, mark, picked, last),
    more: fresh.length > picked.length || all.length >= lookAhead,
  }
}

const advance = (all: readonly InboxItem[], mark: MailMark, picked: readonly InboxItem[], last: number): MailMark => {
  const taken = new Set([...mark.early, ...picked.map(item => item.index)])
  const gap = all.findIndex(item => !taken.has(item.index))
  // Indexes that are no mail of ours (messages that became tasks) are passed over with what surrounds them.
  const before = gap < 0 ? (all.length < lookAhead ? last : all.at(-1)?.index) : all[gap - 1]?.index
  const upTo = Math.max(mark.upTo, before ?? mark.upTo)
  return { upTo, early: [...taken].filter(index => index > upTo).sort((a, b) => a - b) }
}

/** Reads the teammate's inbox from where the session's journal ends. Looking consumes nothing; `acknowledge` does. */
export class Intake {
  readonly #o: { name: string; call: Call; batch: number; out: string; isReading?: () => boolean }
  readonly #room: Room
  /** Look again: something told so, or the last look left some. */
  due = true
  /** The last look left a review for when there is nothing else. */
  #hasReview = false
  /** The last look was made while a review was read, so it left most of what there is. */
  #wasReading = false

  /** `window`: of the model, in tokens, where it is known. `isReading`: a review is being read. */
  constructor(o: {
    name: string
    call: Call
    batch: number
    out: string
    window: number | undefined
    isReading?: () => boolean
  }) {
    this.#o = o
    this.#room = roomFor(o.window)
  }

  /** The next batch after `mark`, no review in it, or null when there is none or the holder could not be asked (then it stays due). */
  async next(mark: MailMark): Promise<Choice | null> {
    const isReading = this.#o.isReading?.() ?? false
    if (!this.due && (isReading || !this.#wasReading)) return null
    this.due = false
    this.#wasReading = isReading
    const page = await this.#o.call('inbox.read', { name: this.#o.name, after: mark.upTo, limit: lookAhead })
    if (!page.ok) {
      this.due ||= page.fault.code !== 'closed'
      return null
    }
    const { items, cursor, last } = page.value
    // The holder is ahead only when the session's journal was taken away: what it gave then was read by that session.
    const from = cursor > mark.upTo ? { upTo: cursor, early: mark.early.filter(index => index > cursor) } : mark
    const isHeld = (item: InboxItem) => isReview(item) || (isReading && !maySpeak(item))
    const choice = choose(items, from, this.#o.batch, last, this.#room, isHeld)
    this.#hasReview = items.some(isReview)
    // What came while the holder was asked may not be on this page.
    this.due ||= choice.more
    if (choice.picked.length > 0) {
      // What was left aside is to be come to after this.
      this.due ||= this.#hasReview
      return choice
    }
    if (choice.mark.upTo > cursor) await this.acknowledge(choice.mark.upTo)
    return null
  }

  /** The oldest review after `mark` alone, as the last look told of one; null when there is none. */
  async review(mark: MailMark): Promise<Choice | null> {
    if (!this.#hasReview) return null
    const page = await this.#o.call('inbox.read', { name: this.#o.name, after: mark.upTo, limit: lookAhead })
    if (!page.ok) return null
    const one = page.value.items.find(item => isReview(item) && !mark.early.includes(item.index))
    this.#hasReview = one !== undefined
    return one === undefined ? null : this.only(one, mark)
  }

  /** Only `one` of what was chosen, the rest stays unread. */
  only(one: InboxItem, mark: MailMark): Choice {
    this.due = true
    const early = new Set([...mark.early, one.index])
    let { upTo } = mark
    while (early.delete(upTo + 1)) upTo++
    return {
      picked: [one],
      first: [one].filter(comesFirst),
      mark: { upTo, early: [...early].sort((a, b) => a - b) },
      more: true,
    }
  }

  /** The mail is in the session's journal: the holder may forget it. Repeating is harmless, so a failure is left to the next. */
  async acknowledge(upTo: number, taken?: { readonly turn: number; readonly indexes: number[] }): Promise<void> {
    await this.#o.call('inbox.ack', { name: this.#o.name, upTo, ...(taken === undefined ? {} : { taken }) })
  }

  /** As it enters the context. A request is shown as the ledger has it, not as the message tells it. */
  async item({ index, stored }: InboxItem): Promise<Item> {
    const { message, origin } = stored
    const content = this.#shorten(message.id, wellFormed(message.content))
    if (message.type === 'request' && message.requestId !== undefined && origin === 'daemon') {
      const found = await this.#o.call('request.get', { id: message.requestId })
      if (found.ok && isWaiting(found.value.request)) {
        const { id, type, from, title, body } = found.value.request
        const announced = message.id === `msg_${id}`
        const text = this.#shorten(`${message.id}-body`, announced ? body : `${body}\n${content}`)
        const changes = type === 'review_request' ? await this.#changes(id) : ''
        return { k: 'request', index, id, type, from, title, body: `${text}${changes}` }
      }
    }
    const reply = message.replyTo === undefined ? {} : { replyTo: message.replyTo }
    return {
      k: 'message',
      index,
      id: message.id,
      from: message.from,
      origin: originOf(message.from, origin),
      type: message.type,
      content,
      ...reply,
    }
  }

  /** What the claim changes, for its reviewer: as much as there is room for, and a file of the view with all of it. */
  async #changes(id: string): Promise<string> {
    const diff = await this.#o.call('diff', { id })
    if (!diff.ok) return diff.fault.code === 'refused' ? '' : `\n\nIts diff cannot be shown: ${diff.fault.message}`
    const { stat, patch } = diff.value
    mkdirSync(join(this.#o.out, 'review'), { recursive: true })
    writeFileSync(join(this.#o.out, 'review', `${id}.diff`), patch)
    const half = Math.floor(this.#room.longest / 2)
    return `\n\n${shorten(stat.trimEnd(), half, 'the rest of the list is in the diff')}\n\n${shorten(patch, half, `the whole diff is in out/review/${id}.diff`)}`
  }

  #shorten(id: string, text: string): string {
    const { longest } = this.#room
    if (text.length <= longest) return text
    const name = `${id.replace(/[^\w.-]+/g, '_').slice(0, 100)}.txt`
    mkdirSync(join(this.#o.out, 'mail'), { recursive: true })
    writeFileSync(join(this.#o.out, 'mail', name), text)
    return shorten(text, longest, `the whole is in out/mail/${name}`)
  }
}

/** A line from a file only claims its sender, so it has no one's authority. */
const originOf = (from: string, origin: 'daemon' | 'file'): Origin =>
  origin === 'file'
    ? 'file'
    : from === 'user' || from === 'human'
      ? 'human'
      : from === 'supervisor'
        ? 'supervisor'
        : 'peer'
