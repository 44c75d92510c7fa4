import * as z from 'zod'
import { Name } from './ids.ts'

/**
 *   (spawn) ──▶ idle ⇄ working ⇄ waiting          draining ──▶ stopped
 *                 └──── any of them ──── shutdown ────┘
 *   a thread that died: restarted with back-off; given up after `limits.restarts` ──▶ failed
 */
export const teammateStates = ['starting', 'idle', 'working', 'waiting', 'draining', 'stopped', 'failed'] as const
export const TeammateState = z.enum(teammateStates)
export type TeammateState = z.infer<typeof TeammateState>

/** What a waiting teammate waits for, and on whom. */
export const Waiting = z.object({
  what: z.string(),
  whom: z.string(),
  /** When it is over, where that is known. */
  until: z.string().optional(),
  /** Where it waits for a decision: on which request. */
  request: z.string().optional(),
  /** The others that it asked for with it: it goes on when all are decided. */
  also: z.array(z.string()).optional(),
})
export type Waiting = z.infer<typeof Waiting>

/** A background command of a teammate that runs. */
export const RunningCommand = z.object({ id: z.string(), command: z.string(), since: z.string() })
export type RunningCommand = z.infer<typeof RunningCommand>

/** What keeps a teammate from its work: which of four things it is, in words, on whom it depends, since when, and how it ends. */
export const HeldUp = z.object({
  how: z.enum(['looping', 'stuck', 'dead', 'waiting']),
  what: z.string(),
  whom: z.string(),
  since: z.string(),
  remedy: z.string(),
})
export type HeldUp = z.infer<typeof HeldUp>

/** What is durable of a teammate: that it was stopped or given up, and why. The rest is live state. */
export const TeammateRecord = z.object({
  name: Name,
  /** stopped: by a shutdown request. failed: gave up after restarts. live: neither. */
  standing: z.enum(['live', 'stopped', 'failed']),
  reason: z.string().nullable(),
  at: z.string(),
})
export type TeammateRecord = z.infer<typeof TeammateRecord>
