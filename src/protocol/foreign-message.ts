import { isDeepStrictEqual } from 'node:util'
import { cut, wellFormed } from '../lib/text.ts'
import { RequestId } from './ids.ts'
import { issueLines } from './issues.ts'
import { daemonTypes, ForeignMessage, type Message, MessageType } from './message.ts'

/** A message before it has its id and its time. */
export type Draft = Omit<Message, 'id' | 'timestamp'> & {
  readonly id: string | undefined
  readonly timestamp: string | undefined
}

/** What makes two messages the same one, apart from their id. */
export interface Said {
  readonly from: string
  readonly to: string
  readonly type: string
  readonly content: string
  readonly urgent?: boolean | undefined
  readonly replyTo?: string | undefined
  readonly requestId?: string | undefined
  readonly data?: Readonly<Record<string, unknown>> | undefined
}

export type ForeignLine =
  /** `said` is what stood there; `draft` is what it counts for. */
  | { readonly kind: 'message'; readonly draft: Draft; readonly said: Said }
  | { readonly kind: 'blank' }
  | { readonly kind: 'bad'; readonly reason: string }

/** How much of the name and of the time that a foreign writer gave is kept: both are a claim, and go where mail is shown. */
const longestSender = 128
const longestTime = 64

const fields = new Set(Object.keys(ForeignMessage.shape))

/**
 * Reads one line of `owner`'s inbox as a foreign writer may have left it. A sender is taken at its word and no further:
 * types that carry the daemon's word become `info`, unknown types too, with their own name kept in `data.type`.
 */
export const readForeign = (owner: string, line: string): ForeignLine => {
  const text = line.replace(/^\uFEFF/, '').trim()
  if (text === '') return { kind: 'blank' }
  let raw: unknown
  try {
    raw = JSON.parse(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return { kind: 'bad', reason: `not JSON: ${error.message}` }
  }
  const parsed = ForeignMessage.safeParse(raw)
  if (!parsed.success) return { kind: 'bad', reason: issueLines(parsed.error.issues, [...fields]).join('; ') }
  const { id, from, to, timestamp, type, content, urgent, replyTo, requestId, data, ...unknown } = parsed.data
  if (to !== owner && !(owner === 'user' && to === 'human'))
    return { kind: 'bad', reason: `addressed to ${JSON.stringify(cut(to, 80))}, but this is the inbox of ${owner}` }
  const known = MessageType.safeParse(type)
  const plainType = known.success && !daemonTypes.includes(known.data) ? known.data : 'info'
  const request = RequestId.safeParse(requestId)
  const extra: Record<string, unknown> = {
    ...unknown,
    ...(requestId !== undefined && !request.success ? { requestId } : {}),
    ...data,
    ...(plainType === type ? {} : { type }),
  }
  return {
    kind: 'message',
    said: parsed.data,
    draft: {
      id,
      from: cut(wellFormed(from), longestSender),
      to: owner,
      timestamp: timestamp === undefined ? undefined : stampOf(timestamp),
      type: plainType,
      content: wellFormed(content),
      ...(urgent === undefined ? {} : { urgent }),
      ...(replyTo === undefined ? {} : { replyTo }),
      ...(request.success ? { requestId: request.data } : {}),
      ...(Object.keys(extra).length === 0 ? {} : { data: extra }),
    },
  }
}

/** Where a line that is no message ends in a whole one (two writers met on one line): the offset of that message. */
export const wholeTail = (owner: string, line: string): number | null => {
  // Bounded, since a long line may hold many braces.
  let tries = Math.min(32, Math.ceil(8_000_000 / line.length))
  for (let at = line.indexOf('{"', 1); at !== -1 && tries > 0; at = line.indexOf('{"', at + 1)) {
    tries--
    if (readForeign(owner, line.slice(at)).kind === 'message') return at
  }
  return null
}

/** Is this the same message said twice? The time is not compared: it may have been filled in. */
export const sameMessage = (a: Said, b: Said): boolean =>
  a.from === b.from &&
  a.to === b.to &&
  a.type === b.type &&
  a.content === b.content &&
  (a.urgent ?? false) === (b.urgent ?? false) &&
  a.replyTo === b.replyTo &&
  a.requestId === b.requestId &&
  isDeepStrictEqual(a.data ?? {}, b.data ?? {})

/** Seconds (as most languages count) or milliseconds since 1970, or any text a writer likes. */
const stampOf = (timestamp: string | number): string => {
  if (typeof timestamp === 'string') return cut(timestamp, longestTime)
  const ms = Math.abs(timestamp) < 1e11 ? timestamp * 1000 : timestamp
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : String(timestamp)
}

/** A message as its line in an inbox file: what people look for first. */
export const renderMessage = (message: Message): string => {
  const { id, from, to, timestamp, type, content, ...rest } = message
  return `${JSON.stringify({ id, from, to, timestamp, type, content, ...rest })}\n`
}

/** How much of a body stays in a message whose line is too long. */
const headLength = 2000

/** The message with the head of its body and a word on where the whole is. */
export const beheaded = (message: Message, bytes: number, file: string): Message => {
  const { data: _data, ...rest } = message
  return {
    ...rest,
    content: `${cut(message.content, headLength)}\n[cut: ${bytes} bytes in all, the whole is in ${file}]`,
    data: { cut: true, bytes, file },
  }
}
