import * as z from 'zod'
import type { Limits, Permissions } from './config.ts'
import { EventType, wordsShape } from './event.ts'
import { RunningCommand, Waiting } from './teammate.ts'

/** From the daemon to a teammate's thread. `res` answers a `req`; the rest are hints, the store is the truth. */
export type ToThread =
  | { readonly t: 'res'; readonly id: number; readonly ok: true; readonly value: unknown }
  | {
      readonly t: 'res'
      readonly id: number
      readonly ok: false
      readonly fault: { code: string; message: string; hint?: string | undefined }
    }
  /** This task is in your hands (durably, when it arrives). `branch` and `start` in git mode: switch the clone to it first. */
  | { readonly t: 'assign'; readonly task: AssignedTask }
  /** The task in hand was taken away (cancelled, or ended by a person). */
  | { readonly t: 'unassign'; readonly id: string; readonly reason: string }
  /** There is mail; `urgent` wakes a parked teammate too. */
  | { readonly t: 'mail'; readonly urgent: boolean }
  /** What your system message says of you and the team, from your next task on. */
  | ({ readonly t: 'team' } & Told)
  /** The rules for commands as config.json has them by now: what they forbid binds at once. */
  | { readonly t: 'rules'; readonly permissions: Permissions }
  /** Put the conversation together before the next step; `compact` answers whether that will be. */
  | { readonly t: 'compact'; readonly id: number; readonly focus: string | null }
  /** A person listens to what you write to them, while you write it; or nobody does any more. */
  | { readonly t: 'listen'; readonly on: boolean }
  /** End now, whatever is in hand: the grace time is over. */
  | { readonly t: 'stop'; readonly reason: string }

/** What a system message says of a teammate and its team. */
export interface Told {
  readonly role: string
  readonly systemPrompt: string
  readonly teammates: readonly { readonly name: string; readonly role: string }[]
  readonly lead: string
}

export interface AssignedTask {
  readonly id: string
  readonly title: string
  readonly description: string
  readonly attempt: number
  /** What its claim was sent back with, if it was. */
  readonly error: string | null
  readonly verify: readonly string[]
  /** Commands that must fail without the work and pass with it. */
  readonly accept: readonly string[]
  readonly paths: readonly string[]
  readonly branch: string | null
  /** The commit the branch starts at when it is new: the trunk's head, in the hub. */
  readonly start: string | null
  /** The branch's commit in the hub, when the task was worked on before. */
  readonly resume: string | null
  /** The trunk's commit that it was sent back for: unless the branch has it, the trunk is merged in first. */
  readonly mergeTrunk: string | null
  /** What git ignores in the person's workspace and the clone has not, where no `setup` would make it. */
  readonly absent?: readonly string[]
}

/** From a teammate's thread to the daemon. Parsed there; anything else is logged and ignored. */
export const FromThread = z.discriminatedUnion('t', [
  z.object({ t: z.literal('req'), id: z.number().int(), method: z.string(), params: z.unknown() }),
  /** `goesOn`: with what it was at before its restart, so nothing is to be given to it yet. */
  z.object({ t: z.literal('ready'), goesOn: z.boolean().optional() }),
  /**
   * A sign of life. `progress`: grows with each answer and result. `moves`: with whatever came of what it does, the pieces of an
   * answer too. `mayTake`: seconds that what it does now may take before anything comes of it.
   */
  z.object({
    t: z.literal('beat'),
    progress: z.number(),
    moves: z.number().optional(),
    mayTake: z.number().optional(),
  }),
  z.object({
    t: z.literal('state'),
    state: z.enum(['idle', 'working', 'waiting', 'draining']),
    waiting: Waiting.nullable(),
  }),
  z.object({ t: z.literal('event'), event: EventType, info: z.record(z.string(), z.unknown()) }),
  z.object({
    t: z.literal('usage'),
    input: z.number(),
    cachedInput: z.number(),
    output: z.number(),
    calls: z.number(),
    /** Who answered last, by label. */
    model: z.string().optional(),
    context: z.number().nullable(),
    /** The task that they were used for since the last time. */
    task: z.string().nullable(),
    /** The call that they were used by, of this subagent where it was one's; null where it is told again after a restart. */
    call: z.object({ stop: z.string(), calls: z.array(z.string()), sub: z.string().optional() }).nullable(),
  }),
  /** The background commands that run now. */
  z.object({ t: z.literal('commands'), running: z.array(RunningCommand) }),
  /** It works on this task and gets nowhere, in words; null: it got on after all. */
  z.object({ t: z.literal('stall'), task: z.string(), text: z.string().nullable() }),
  /** Why the conversation is not put together as asked, or null. */
  z.object({ t: z.literal('compact'), id: z.number().int(), no: z.string().nullable() }),
  /** A piece of an answer to a person, as it comes; while somebody listens. */
  z.object({ t: z.literal('words'), ...wordsShape }),
  /** The thread ends of its own will, all saved. */
  z.object({ t: z.literal('bye'), reason: z.string() }),
])
export type FromThread = z.infer<typeof FromThread>

/**
 * How often a thread gives a sign of life, in milliseconds: several times within the shortest time after whose silence it is taken
 * for one that hangs or is stuck.
 */
export const beatMs = ({ heartbeatSeconds, stuckSeconds }: Pick<Limits, 'heartbeatSeconds' | 'stuckSeconds'>): number =>
  Math.min(2000, 250 * Math.min(heartbeatSeconds, stuckSeconds))

/** What a thread is started with. Cloned, so plain data; secrets by name of variable, in `env` of the thread only. */
export interface ThreadData {
  readonly name: string
  readonly root: string
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  readonly member: unknown
  readonly limits: unknown
  readonly sandbox: {
    readonly mode: 'required' | 'prefer' | 'off'
    readonly kind: 'bwrap' | 'none'
    readonly detail: string
    readonly remedy: string | null
  }
  readonly dataPaths: readonly string[]
  readonly told: Told
  /** Values to redact from whatever a command prints. */
  readonly secrets: readonly string[]
}
