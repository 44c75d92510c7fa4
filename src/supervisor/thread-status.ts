import type { Clock } from '../lib/clock.ts'
import type { Limits } from '../protocol/config.ts'
import type { RunningCommand, TeammateState, Waiting } from '../protocol/teammate.ts'
import type { FromThread, ToThread } from '../protocol/thread.ts'

export interface ThreadStatus {
  readonly state: TeammateState
  /** Wall time at which `state` was entered. */
  readonly since: string
  /** What it is parked on. While a restart is due: the restart, and `supervisor`. */
  readonly waiting: Waiting | null
  /** Restarts since the last progress. */
  readonly restarts: number
  /** Why it died last, was stopped or was given up; null once it makes progress. */
  readonly reason: string | null
  /** As the thread told it last. */
  readonly usage: Usage
  /** The task that it works on and gets nowhere with, and how that shows. */
  readonly stall: { readonly task: string; readonly text: string; readonly since: string } | null
  /** Its background commands that run. */
  readonly commands: readonly RunningCommand[]
  /** Nothing comes of what it does, or it gives no sign of life, for longer than is usual: in words, and since when. */
  readonly stuck: { readonly text: string; readonly since: string } | null
}

export type Usage = Omit<Extract<FromThread, { t: 'usage' }>, 't' | 'task' | 'call'>

/** Sends to the very thread that asked: false, and nothing sent, when that one has ended, even if a new one has begun. */
export type Reply = (message: ToThread) => boolean

export interface ThreadEvents {
  /** Everything a thread says but its heartbeats, and its warnings (see `ThreadOptions.onMessage`). */
  message(name: string, message: FromThread, reply: Reply): void
  state(name: string, status: ThreadStatus): void
  /**
   * It ended without being asked to: before `died`. True when that was no fault of its own, and what it died of is out of the
   * way, so that its restarts are counted from the start.
   */
  excused(name: string, why: string): boolean
  /** It ended without being asked to and is gone (its child processes may not be). `next` is null when it is given up. */
  died(name: string, why: string, next: { readonly restart: number; readonly inMs: number } | null): void
  /** Given up, after `died`. Only `restart` starts it again. */
  failed(name: string, why: string): void
}

export interface ThreadsOptions {
  readonly entry: string
  /** The whole environment of every thread. */
  readonly threadEnv: Readonly<Record<string, string>>
  readonly limits: Pick<Limits, 'heapMb' | 'heartbeatSeconds' | 'restarts' | 'stuckSeconds'>
  readonly clock: Clock
  readonly on: ThreadEvents
  /** For tests with a time and a chance of their own. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
  readonly random?: () => number
}
