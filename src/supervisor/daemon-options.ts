import type { Clock } from '../lib/clock.ts'
import type { Result } from '../lib/result.ts'
import type { Config, Member } from '../protocol/config.ts'
import type { JournalEntry } from '../protocol/event.ts'
import type { Call, DownReport, Hello } from '../protocol/rpc.ts'
import type { Probe } from '../sandbox/shell.ts'
import type { DownOptions } from './shutdown.ts'

/** What threads need to reach their models. */
export interface Endpoints {
  /** Each with its model resolved. */
  readonly members: readonly Member[]
  /** What the threads need of the environment for it, keys included. */
  readonly env: Readonly<Record<string, string>>
  /** Values that must never reach a log, a journal, a message or a model. */
  readonly secrets: readonly string[]
}

export interface DaemonOptions {
  readonly root: string
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  readonly config: Config
  readonly members: readonly Member[]
  /** The endpoints of other members, while this runs: config.json may be edited. Faults name the member and what is missing. */
  readonly endpoints: (members: readonly Member[]) => Promise<Result<Endpoints>>
  /** Real paths of config.json's `data`. */
  readonly dataPaths: readonly string[]
  /** Values that must never reach a log, a journal, a message or a model. */
  readonly secrets: readonly string[]
  /** The whole environment of the teammates' threads. */
  readonly threadEnv: Readonly<Record<string, string>>
  readonly threadEntry: string
  /** The built file of scribe-main.ts: task files are then written in a thread of their own. */
  readonly scribeEntry?: string | undefined
  readonly probe: Probe
  readonly version: string
  readonly clock: Clock
  /** End by itself when nothing can go on without a person. */
  readonly once: boolean
  /** The person's word that a holder on another host is dead. */
  readonly takeover: boolean
  /** How the daemon before this one died, in the words of their parent (`SIGABRT`, `exit 7`); null: it did not, or nobody saw it. */
  readonly died: string | null
  /** It is known which task that was counted against. */
  readonly onDeathCounted: () => void
  /** A teammate is told of a task for the first time: from now on a death of this process may be the doing of one. */
  readonly onWork: () => void
  readonly onEntry: (entry: JournalEntry) => void
}

export interface Daemon {
  readonly hello: Hello
  readonly handlers: Call
  /** Resolves when every teammate was brought up or could not be, or when the daemon ended before that. */
  readonly ready: Promise<void>
  /** Resolves when the daemon has ended and let go of the root. */
  readonly done: Promise<Ended>
  /** It has begun to end: everyone was stopped, and it lets go of the root. */
  readonly isEnding: boolean
  down(o: DownOptions): Promise<Result<DownReport>>
}

/** How the daemon ended. `isDisk`: since the disk did not let it go on, which may be over in a while. */
export interface Ended {
  readonly exit: number
  readonly reason: string
  readonly isDisk: boolean
}
