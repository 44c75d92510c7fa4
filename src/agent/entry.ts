import * as z from 'zod'
import { Item } from './items.ts'

const count = z.number().int().min(0)
const Call = z.object({
  id: z.string(),
  name: z.string(),
  arguments: z.string().nullable(),
  fault: z.string().optional(),
  extra: z.record(z.string(), z.unknown()).optional(),
})
/** A message of a context, as it stands there. */
const Message = z.discriminatedUnion('role', [
  z.object({ role: z.literal('user'), text: z.string() }),
  z.object({
    role: z.literal('assistant'),
    text: z.string(),
    calls: z.array(Call),
    reasoning: z.string().optional(),
    model: z.string().optional(),
  }),
  z.object({ role: z.literal('tool'), callId: z.string(), name: z.string(), text: z.string() }),
])
const Todo = z.object({ id: z.string(), text: z.string(), status: z.enum(['pending', 'in_progress', 'completed']) })
/** `estimated`: the endpoint told nothing that can be believed. */
const UsageEntry = z.object({
  input: count,
  cachedInput: count,
  output: count,
  estimated: z.literal(true).optional(),
})
/** How a background command ended, in words, and the last that it said. */
const CommandEnd = z.object({ how: z.string(), tail: z.string() })
/** A background command that runs, or of whose end nothing was told yet (`end`). `task`: in hand when it was started. */
const Command = z.object({
  id: z.string(),
  command: z.string(),
  task: z.string().nullable(),
  /** When it was started. */
  since: z.string(),
  /** Where all that it says stands, as a path of the view. */
  log: z.string().nullable(),
  end: CommandEnd.nullable(),
})
/** `count`: of those started so far, so that no id is given twice. */
const Commands = z.object({ count, open: z.array(Command) })
/** How far the inbox is in the context: everything up to `upTo`, and these later ones that came early. */
export const MailMark = z.object({ upTo: count, early: z.array(count) })

/** The journal of a session, one entry a line. Each is on the disk before what follows from it happens. */
export const Entry = z.discriminatedUnion('k', [
  /** A context begins: with the system message as it stays. `keep`: only that changes. Carries over what outlives it. */
  z.object({
    k: z.literal('session'),
    v: z.literal(1),
    at: z.string(),
    system: z.string(),
    keep: z.boolean(),
    turn: count,
    mail: MailMark,
    todo: z.array(Todo),
    usage: UsageEntry.omit({ estimated: true }).extend({ calls: count }),
    commands: Commands.optional(),
  }),
  z.object({
    k: z.literal('turn'),
    at: z.string(),
    turn: count,
    step: z.enum(['start', 'end']),
    how: z.string().optional(),
  }),
  /** What one boundary brought: the items are the receipt of the mail among them, and of the background commands that `ended`. */
  z.object({
    k: z.literal('items'),
    at: z.string(),
    items: z.array(Item),
    mail: MailMark.optional(),
    ended: z.array(z.string()).optional(),
  }),
  z.object({
    k: z.literal('assistant'),
    at: z.string(),
    text: z.string(),
    reasoning: z.string().optional(),
    /** Who answered. Not in entries of before there were fallbacks. */
    model: z.string().optional(),
    calls: z.array(Call),
    usage: UsageEntry.nullable(),
    /** The digest of the context that it answers, for `team replay --verify`. */
    sent: z.string().optional(),
  }),
  /** An answer without words and calls: all that is left of it is what it used. */
  z.object({ k: z.literal('blank'), at: z.string(), usage: UsageEntry, sent: z.string().optional() }),
  /** What a call of the model used that a subagent made, before that does anything with the answer. */
  z.object({ k: z.literal('spent'), v: z.literal(2), at: z.string(), sub: z.string(), usage: UsageEntry }),
  z.object({ k: z.literal('tool.start'), at: z.string(), id: z.string(), name: z.string() }),
  z.object({
    k: z.literal('tool.result'),
    at: z.string(),
    id: z.string(),
    name: z.string(),
    text: z.string(),
    isError: z.boolean(),
    /** Background commands whose end it tells. */
    ended: z.array(z.string()).optional(),
  }),
  /** A background command runs from now on. That it was to be started stands before, with the call of its tool. */
  z.object({
    k: z.literal('command.start'),
    v: z.literal(2),
    at: z.string(),
    id: z.string(),
    command: z.string(),
    task: z.string().nullable(),
    log: z.string().nullable(),
  }),
  z.object({ k: z.literal('command.end'), v: z.literal(2), at: z.string(), id: z.string() }).extend(CommandEnd.shape),
  /** Results that became placeholders. */
  z.object({ k: z.literal('dropped'), at: z.string(), ids: z.array(z.string()) }),
  /**
   * The context is put together: what stands here takes the place of all before, at once. It needs no entry before it, so that
   * it may stand first in a file but for the `session` that says what outlives a context. `tail`: the last messages, as they were.
   */
  z.object({
    k: z.literal('compacted'),
    v: z.literal(2),
    at: z.string(),
    why: z.enum(['full', 'asked', 'overflow']),
    system: z.string(),
    items: z.array(Item),
    tail: z.array(Message),
    task: Item.options[0].nullable(),
    done: z.array(z.string()),
    mail: z.array(Item),
    asked: z.string().nullable(),
    turn: count,
    inTurn: z.boolean(),
    usage: UsageEntry,
  }),
  z.object({ k: z.literal('todo'), at: z.string(), items: z.array(Todo) }),
  z.object({ k: z.literal('task.end'), at: z.string(), task: z.string(), how: z.string() }),
])
export type Entry = z.infer<typeof Entry>
type Bare<E> = E extends unknown ? Omit<E, 'at'> : never
export type NewEntry = Bare<Entry>
export type MailMark = z.infer<typeof MailMark>
export type Command = z.infer<typeof Command>
export type Commands = z.infer<typeof Commands>
