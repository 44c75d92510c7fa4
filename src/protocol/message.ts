import * as z from 'zod'
import { MessageId, RequestId } from './ids.ts'

export const messageTypes = ['task', 'info', 'question', 'reply', 'request', 'decision', 'system'] as const
export const MessageType = z.enum(messageTypes)
export type MessageType = z.infer<typeof MessageType>

/** Types that only the daemon may stamp; from a foreign line they become `info`. */
export const daemonTypes: readonly MessageType[] = ['request', 'decision', 'system']

/** One line of an inbox, as the daemon writes it. */
export const Message = z.object({
  id: MessageId,
  from: z.string().min(1),
  to: z.string().min(1),
  timestamp: z.string(),
  type: MessageType,
  content: z.string(),
  urgent: z.boolean().optional(),
  replyTo: MessageId.optional(),
  requestId: RequestId.optional(),
  data: z.record(z.string(), z.unknown()).optional(),
})
export type Message = z.infer<typeof Message>

/** A line as a foreign writer may leave it: leniently read, unknown keys kept in `data`. */
export const ForeignMessage = z.looseObject({
  id: z.union([MessageId, z.number().transform(String)]).optional(),
  from: z.string().min(1),
  to: z.string().min(1),
  timestamp: z.union([z.string(), z.number()]).optional(),
  type: z.string().min(1),
  content: z.string(),
  urgent: z.boolean().optional(),
  replyTo: MessageId.optional(),
  requestId: z.string().optional(),
  data: z.record(z.string(), z.unknown()).optional(),
})

/**
 * Where a message came from: `daemon` lines have a sender that the holder stamped; a `file` line's `from` is a claim,
 * never human, lead or supervisor authority.
 */
export const Stored = z.object({
  message: Message,
  origin: z.enum(['daemon', 'file']),
  /** For foreign lines: the inbox file's generation, and the byte offset of the line in it. */
  place: z.object({ generation: z.number(), offset: z.number() }).optional(),
})
export type Stored = z.infer<typeof Stored>

/**
 * How far a message got. taken: its reader is past it without a model's context (you have read it, a `task` message became a
 * task). in context: it stands in the session of its reader. acted on: its reader answered it, or decided (or asked back, or
 * answered) the request that it told of.
 */
export type Receipt = 'stored' | 'taken' | 'in context' | 'acted on'

export const DeadLetter = z.object({
  at: z.string(),
  file: z.string(),
  offset: z.number(),
  reason: z.string(),
  line: z.string(),
})
export type DeadLetter = z.infer<typeof DeadLetter>
