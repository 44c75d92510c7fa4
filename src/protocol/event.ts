import * as z from 'zod'

/**
 * The one vocabulary of what happens. Each journal line carries one of these, and so does each line of the daemon's log,
 * so that `team logs`, live screens and replay read the same words.
 */
export const eventTypes = [
  'holder.started',
  'holder.stopped',
  'journal.cut',
  'task.created',
  'task.started',
  'task.claimed',
  'task.returned',
  'task.released',
  'task.completed',
  'task.failed',
  'task.cancelled',
  'task.retried',
  'task.edited',
  'task.resolved',
  'task.archived',
  'task.stuck',
  'task.death',
  'task.suspected',
  'drop.taken',
  'drop.refused',
  'edit.refused',
  'message.stored',
  'message.taken',
  'message.held',
  'message.dead',
  'inbox.read',
  'inbox.rotated',
  'request.opened',
  'request.decided',
  'request.asked',
  'request.answered',
  'request.expired',
  'request.withdrawn',
  'effect.intent',
  'effect.done',
  'plan.outdated',
  'permission.given',
  'permission.removed',
  'teammate.spawned',
  'teammate.ready',
  'teammate.state',
  'teammate.died',
  'teammate.restarted',
  'teammate.stopped',
  'teammate.failed',
  'teammate.revived',
  'teammate.joined',
  'teammate.left',
  'teammate.renewed',
  'teammate.stalled',
  'teammate.turn',
  'teammate.tool',
  'model.call',
  'model.failed',
  'model.learned',
  'model.fallback',
  'context.compacted',
  'subagent.started',
  'subagent.ended',
  'memory.saved',
  'command.started',
  'command.ended',
  'command.orphan',
  'background.started',
  'background.ended',
  'outside.changed',
  'clone.made',
  'clone.mended',
  'setup.started',
  'clone.ready',
  'branch.fetched',
  'work.rescued',
  'work.restored',
  'verify.started',
  'verify.ended',
  'trunk.moved',
  'base.moved',
  'landed',
  'config.changed',
  'config.refused',
  'config.warning',
  'sandbox.state',
  'warning',
] as const
export const EventType = z.enum(eventTypes)
export type EventType = z.infer<typeof EventType>

/** Why a change was made: the event it is, who made it, and what a reader of the log wants to know besides. */
export interface Why {
  readonly event: EventType
  readonly by: string
  readonly info?: Readonly<Record<string, unknown>> | undefined
}

/** Entries of a log that entered their reader's context, and at which turn. */
export const TakenIn = z.object({ turn: z.number().int(), indexes: z.array(z.number().int()) })
export type TakenIn = z.infer<typeof TakenIn>

/**
 * One line of the journal. At most one record or log is changed by it (`put`, `append`, `ack`, `trim`); none for a mere event.
 *   put     [collection, id, revision, value]
 *   append  [log, index, value]
 *   ack     [log, reader, index, what entered the reader's context with it]
 *   trim    [log, index]: entries up to and including index are forgotten
 */
export const JournalEntry = z.object({
  seq: z.number().int(),
  at: z.string(),
  event: EventType,
  by: z.string(),
  info: z.record(z.string(), z.unknown()).optional(),
  put: z.tuple([z.string(), z.string(), z.number().int(), z.unknown()]).optional(),
  append: z.tuple([z.string(), z.number().int(), z.unknown()]).optional(),
  ack: z.tuple([z.string(), z.string(), z.number().int(), TakenIn.optional()]).optional(),
  trim: z.tuple([z.string(), z.number().int()]).optional(),
})
export type JournalEntry = z.infer<typeof JournalEntry>

export const wordsShape = {
  /** Grows with each call of the model, also where one is made again: its words begin anew. */
  call: z.number().int(),
  text: z.string(),
} as const
/** A piece of what a teammate writes to a person. In no journal: what counts is the message that it ends as. */
export interface Words {
  readonly name: string
  readonly call: number
  readonly text: string
}
