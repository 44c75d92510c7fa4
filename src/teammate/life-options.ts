import { join } from 'node:path'
import type { Compaction } from '../agent/compact.ts'
import { isOfReview } from '../agent/renew.ts'
import { type Backoff, defaultBackoff, type Gate } from '../agent/retry.ts'
import type { Session } from '../agent/session.ts'
import type { Tool } from '../agent/tool.ts'
import { type Clock, iso } from '../lib/clock.ts'
import { makeRedactor } from '../lib/redact.ts'
import type { Model } from '../model/model.ts'
import type { Limits, Member } from '../protocol/config.ts'
import type { Call } from '../protocol/rpc.ts'
import type { FromThread } from '../protocol/thread.ts'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import { memoryFile } from '../store/files/memory-file.ts'

/** Asks for the conversation to be put together before the next round. Why it will not be, or null. */
export const askFor = (compaction: Compaction | null, focus: string | null): string | null =>
  compaction ? compaction.ask(focus) : 'a runbook goes by what was called: its conversation is not put together'

/** What the tools of a life have of where it works, all through it. */
export const toolPlace = ({ root, member, view, shell, session, limits, clock, ...o }: LifeOptions) => ({
  memory: {
    own: memoryFile(root, member.name),
    team: memoryFile(root),
    now: () => iso(clock.wall()),
    redact: o.redact ?? makeRedactor([]),
  },
  compact: (focus: string | null) => askFor(o.compaction ?? null, focus),
  name: member.name,
  view,
  shell,
  todo: {
    get: () => session.todo,
    set: (items: Parameters<Session['setTodo']>[0]) => session.setTodo(items),
  },
  limits: {
    commandSeconds: limits.commandSeconds,
    outputBytes: limits.outputBytes,
    outputMaxBytes: limits.outputMaxBytes,
  },
})

/** What every turn of a life is made with. */
export const turnPlace = ({ model, tools, session, limits, member, gate, backoff, compaction }: LifeOptions) => ({
  ...(compaction && { compaction }),
  model,
  tools,
  session,
  gate,
  backoff: backoff ?? defaultBackoff,
  limits: { rounds: limits.rounds, retries: limits.modelRetries, window: member.model.contextWindow ?? null },
})

/** Where the mail of a life comes from, and how much of it at once. */
export const intakePlace = ({ member, call, limits, view, session }: LifeOptions) => ({
  name: member.name,
  call,
  batch: limits.messageBatch,
  out: join(view.home, 'out'),
  window: member.model.contextWindow,
  isReading: () => session.context.inTurn && isOfReview(session),
})

export interface LifeOptions {
  readonly member: Member
  readonly root: string
  readonly limits: Limits
  readonly session: Session
  readonly call: Call
  readonly post: (message: FromThread) => void
  readonly model: Model
  readonly tools: readonly Tool[]
  readonly shell: Shell
  readonly view: View
  readonly gate: Gate
  readonly clock: Clock
  /** The system message as the files on disk make it now. */
  readonly prefix: () => string
  /** That of a subagent. */
  readonly subagentPrefix: () => string
  /** What changed of its skills since the last look, to be told; null where nothing did. */
  readonly skillNews?: () => string | null
  /** How its conversation is put together; null where it is not. */
  readonly compaction?: Compaction | null
  readonly backoff?: Backoff
  /** Takes secrets out of what is written where others read it; without it, what has the shape of one. */
  readonly redact?: (text: string) => string
  /** How long to wait, in milliseconds, when every retry failed; doubles each time. */
  readonly parkMs?: number
}
