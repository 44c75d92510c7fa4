import type { Permissions } from '../protocol/config.ts'

export type SandboxMode = 'required' | 'prefer' | 'off'

/** What the probe found: `bwrap` proved itself by running and by a forbidden write that failed. */
export interface Probe {
  readonly kind: 'bwrap' | 'none'
  /** Why there is none, or its version. */
  readonly detail: string
  /** What to do about it. */
  readonly remedy: string | null
}

export interface CommandResult {
  /** null when it was ended by a signal. */
  readonly exitCode: number | null
  readonly signal: string | null
  /** Head and tail of stdout and stderr as they came, well-formed, secrets redacted. */
  readonly output: string
  /** How many bytes there were in all. */
  readonly bytes: number
  readonly truncated: boolean
  /** Where the whole output stands, when it was longer than `output`. */
  readonly file: string | null
  readonly endedBy: 'itself' | 'time' | 'output' | 'abort'
  /** Commands that live on in its group or namespace after the command itself ended; they are ended with the teammate, or were with it (`endsLeft`). */
  readonly left: readonly { pid: number; command: string }[]
  readonly ms: number
}

/** Refused: nothing ran. `not allowed`: not by the rules, but a person may permit it. */
export interface Refused {
  readonly refused: 'no sandbox' | 'no folder' | 'not a command' | 'denied' | 'not allowed'
  readonly reason: string
}

export interface RunOptions {
  readonly command: string
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
  /** Extra environment on top of the scrubbed one. */
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly cwd?: string | undefined
  /** A person's own words (verify, setup, git plumbing) or permission: rules are not asked, the sandbox still is. */
  readonly trusted?: boolean | undefined
  readonly outputBytes: number
  readonly outputMaxBytes: number
  /** Folder for the whole output when it is longer than `outputBytes` or than 20 lines. */
  readonly outDir?: string | undefined
  /** The file, not there yet, that all of the output goes to line by line, however little it is. */
  readonly log?: string | undefined
  /** What it left running is ended with it. */
  readonly endsLeft?: boolean | undefined
  /** It runs; `fresh` answers what it said since the last call, where it is logged. */
  readonly onStart?: ((running: { fresh(): string }) => void) | undefined
  readonly stdin?: string | undefined
}

/** Runs `bash -c command` (`sh` where there is no bash) for one view: sandboxed where the probe says so, else by the rules alone. */
export interface Shell {
  readonly probe: Probe
  readonly mode: SandboxMode
  readonly permissions: Permissions
  run(options: RunOptions): Promise<CommandResult | Refused>
  /** From the next command on what these rules do not let run is refused too: only what they and the first ones allow runs. */
  tighten(permissions: Permissions): void
  /** Ends every process this shell started, and what they left: TERM, then KILL after `graceMs`. */
  stop(graceMs: number): Promise<void>
}
