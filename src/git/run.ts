import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { type Clock, delay, clock as realClock, timerMs } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'

/** The environment that a git child may be given parts of: PATH, HOME and what finds the user's own configuration. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface GitOptions {
  /** Where it runs; the git folder when left out. */
  readonly cwd?: string | undefined
  /** The repository, told rather than discovered. */
  readonly gitDir?: string | undefined
  readonly workTree?: string | undefined
  readonly input?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Default ten minutes. */
  readonly timeoutMs?: number | undefined
  /** Variables for this one call, `GIT_INDEX_FILE` and the like. */
  readonly vars?: Readonly<Record<string, string>> | undefined
  /** Where PATH and HOME come from; without it git is looked for in the usual places. */
  readonly env?: Environment | undefined
  /** Exit codes that are answers; any other one is a fault. Default 0 alone. */
  readonly codes?: readonly number[] | undefined
  /**
   * `team` (the default): no configuration but the repository's own, no hooks, the team's identity.
   * `user`: the person's own configuration and identity, for work in the person's own repository.
   */
  readonly as?: 'team' | 'user' | undefined
  /** Output past it is cut off (`truncated`); default 256 MB. */
  readonly maxBytes?: number | undefined
  /** How long a lock of somebody else is waited for; default 3 s. */
  readonly lockWaitMs?: number | undefined
  readonly clock?: Clock | undefined
}

export interface GitOutput<T = string> {
  readonly stdout: T
  readonly stderr: string
  readonly code: number
  readonly truncated: boolean
}

/** `git` with some options already given. */
export type Git = (args: readonly string[], options?: GitOptions) => Promise<Result<GitOutput>>

const passed = ['PATH', 'HOME', 'XDG_CONFIG_HOME', 'TMPDIR', 'USER', 'LOGNAME', 'SYSTEMROOT'] as const
const usualPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin'

/** Nothing inherited that says which repository, index or configuration: only what stands here (an allowlist, so that no GIT_* slips by). */
const environment = (options: GitOptions): Record<string, string> => {
  const from = options.env ?? {}
  const kept = passed.flatMap(name => (from[name] === undefined ? [] : [[name, from[name]] as const]))
  return {
    PATH: usualPath,
    ...Object.fromEntries(kept),
    LC_ALL: 'C',
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_EDITOR: 'true',
    // Repositories of teammates are never a reason to run a transport or to fetch a missing object from somewhere.
    GIT_ALLOW_PROTOCOL: 'file',
    GIT_NO_LAZY_FETCH: '1',
    ...(options.as === 'user'
      ? {}
      : {
          GIT_CONFIG_GLOBAL: '/dev/null',
          GIT_CONFIG_SYSTEM: '/dev/null',
          GIT_CONFIG_NOSYSTEM: '1',
          GIT_ATTR_NOSYSTEM: '1',
          ...teamIdentity,
        }),
    ...options.vars,
  }
}

/** Who the supervisor's own commits are by. */
export const teamIdentity = {
  GIT_AUTHOR_NAME: 'team',
  GIT_AUTHOR_EMAIL: 'team@team.invalid',
  GIT_COMMITTER_NAME: 'team',
  GIT_COMMITTER_EMAIL: 'team@team.invalid',
} as const

const settings = (options: GitOptions): string[] => {
  const always = ['safe.directory=*', 'gc.auto=0', 'maintenance.auto=false', 'core.fsmonitor=false']
  const own = ['core.hooksPath=/dev/null', 'core.quotePath=false', 'core.filesRefLockTimeout=2000']
  return [...always, ...(options.as === 'user' ? [] : own)].flatMap(setting => ['-c', setting])
}

/** Serves the other side of a local fetch; told in full, since `-c` does not reach it. */
export const uploadPack = '--upload-pack=git -c safe.directory=* -c core.hooksPath=/dev/null upload-pack'

/** What takes objects and the named refs from a folder that somebody else may have changed, and nothing besides. */
export const fetchArgs = [
  '-c',
  'fetch.fsckObjects=true',
  'fetch',
  '-q',
  '--no-tags',
  '--no-write-fetch-head',
  '--no-auto-maintenance',
  '--no-recurse-submodules',
  uploadPack,
]

/** How a person's repository takes objects from the hub: nothing else in it is written. A folder and a ref follow. */
export const takeFromHub = [
  'fetch',
  '-q',
  '--no-tags',
  '--no-prune',
  '--no-write-fetch-head',
  '--no-auto-maintenance',
  '--no-recurse-submodules',
  uploadPack,
]

const lockIn = (stderr: string): string | undefined => /Unable to create '(.+\.lock)': File exists/.exec(stderr)?.[1]

const lockFault = (lock: string, clock: Clock) => {
  const stat = statSync(lock, { throwIfNoEntry: false })
  const age = stat ? `${Math.max(0, Math.round((clock.wall() - stat.mtimeMs) / 1000))} s old` : 'gone by now'
  return fail('held', `git is locked by ${lock} (${age})`, 'if no git runs there, remove that file and try again')
}

/** The subcommand, behind `-c name=value` and the like. */
const commandOf = (args: readonly string[]): string =>
  args.find((arg, i) => !arg.startsWith('-') && args[i - 1] !== '-c') ?? ''

/** One run, in its own process group: Ctrl-C in the terminal does not cut a merge in half, and ending it ends its children. */
const once = async (args: readonly string[], options: GitOptions): Promise<Result<GitOutput<Buffer>>> => {
  const cwd = options.cwd ?? options.gitDir
  if (cwd === undefined) throw new Error('git: give cwd or gitDir')
  const name = commandOf(args)
  const limit = AbortSignal.timeout(timerMs(options.timeoutMs ?? 600_000))
  const stop = options.signal ? AbortSignal.any([options.signal, limit]) : limit
  if (options.signal?.aborted) return fail('closed', `git ${name}: stopped before it began`)
  const ended = new AbortController()
  const max = options.maxBytes ?? 268_435_456
  const notStarted = (error: NodeJS.ErrnoException) =>
    error.code === 'ENOENT' && existsSync(cwd)
      ? fail('config', 'git was not found', 'install git 2.38 or newer and see that it is in PATH', error)
      : fail('io', `git ${name} in ${cwd}: ${error.message}`, undefined, error)
  let child: ChildProcess
  try {
    child = spawn(
      'git',
      [
        ...settings(options),
        ...(options.gitDir === undefined ? [] : [`--git-dir=${options.gitDir}`]),
        ...(options.workTree === undefined ? [] : [`--work-tree=${options.workTree}`]),
        ...args,
      ],
      {
        cwd,
        env: environment(options),
        detached: true,
        stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      },
    )
  } catch (thrown) {
    return notStarted(thrown as NodeJS.ErrnoException) // No handle is left for its pipes.
  }
  const kill = (signal: NodeJS.Signals) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  const end = async () => {
    kill('SIGTERM')
    await delay(2000, ended.signal).then(
      () => kill('SIGKILL'),
      () => undefined,
    )
  }
  const onStop = () => void end()
  stop.addEventListener('abort', onStop, { once: true })
  const result = await whole(child, max, options.input, () => kill('SIGTERM'))
  stop.removeEventListener('abort', onStop)
  ended.abort()
  if (options.signal?.aborted) return fail('closed', `git ${name} was stopped`, undefined, options.signal.reason)
  if (limit.aborted) return fail('io', `git ${name} did not end in time`)
  if (result instanceof Error) return notStarted(result)
  const { stdout, code, signal, truncated } = result
  const stderr = result.stderr.toString('utf8')
  if (truncated) return ok({ stdout, stderr, code: 0, truncated })
  if (code === null) return fail('io', `git ${name} in ${cwd}: ended by ${signal}`, undefined, new Error(stderr))
  return ok({ stdout, stderr, code, truncated })
}

interface Whole {
  readonly stdout: Buffer
  readonly stderr: Buffer
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly truncated: boolean
}

/**
 * All that a process said, once nothing holds its pipes any more; or why it never started. Without a handle left for it, it
 * has no pipes at all, and says so in an event only.
 */
const whole = (
  child: ChildProcess,
  max: number,
  input: string | undefined,
  onFull: () => void,
): Promise<Whole | Error> => {
  let truncated = false
  const all = (stream: Readable | null | undefined): (() => Buffer) => {
    const parts: Buffer[] = []
    let size = 0
    stream?.on('data', (part: Buffer) => {
      parts.push(part.subarray(0, max - size))
      size += part.length
      if (size <= max) return
      truncated = true
      stream.destroy()
      onFull()
    })
    return () => Buffer.concat(parts)
  }
  const stdout = all(child.stdout)
  const stderr = all(child.stderr)
  child.stdin?.on('error', () => undefined) // It need not read what it is given.
  child.stdin?.end(input)
  return new Promise(resolve => {
    child.once('error', resolve)
    child.once('close', (code, signal) => resolve({ stdout: stdout(), stderr: stderr(), code, signal, truncated }))
  })
}

/**
 * Runs `git` with its output as bytes, for `-z` output whose names need not be UTF-8.
 * Faults: `config` (no git), `held` (a lock that stayed; its age and path told), `closed` (aborted), `io` (any exit code not in `codes`).
 */
export const gitBytes = async (args: readonly string[], options: GitOptions): Promise<Result<GitOutput<Buffer>>> => {
  const clock = options.clock ?? realClock
  const until = clock.mono() + (options.lockWaitMs ?? 3000)
  for (;;) {
    const done = await once(args, options)
    if (!done.ok || done.value.code === 0) return done
    const { stderr, code } = done.value
    const lock = lockIn(stderr)
    if (lock === undefined)
      return (options.codes ?? [0]).includes(code)
        ? done
        : fail('io', `git ${commandOf(args)} failed (${code}): ${firstLine(stderr)}`, undefined, new Error(stderr))
    if (clock.mono() >= until) return lockFault(lock, clock)
    await delay(100)
  }
}

/** Runs `git`; see `gitBytes` for the faults. Never a shell, never an inherited GIT_*, never a prompt. */
export const git = async (args: readonly string[], options: GitOptions): Promise<Result<GitOutput>> => {
  const done = await gitBytes(args, options)
  return done.ok ? ok({ ...done.value, stdout: done.value.stdout.toString('utf8') }) : done
}

/** `git` bound to options that a call may still overrule. */
export const bindGit =
  (defaults: GitOptions): Git =>
  (args, options = {}) =>
    git(args, { ...defaults, ...options })

/** The first line that says something: git puts `fatal:` and `error:` there. */
export const firstLine = (stderr: string): string => {
  const lines = stderr.split('\n').map(line => line.trim())
  const told = lines.find(line => /^(fatal|error):/.test(line)) ?? lines.find(line => line !== '')
  return told?.replace(/^(fatal|error): /, '') ?? 'it said nothing'
}

/** The parts of `-z` output. */
export const zParts = (text: string): string[] => {
  const parts = text.split('\0')
  if (parts.at(-1) === '') parts.pop()
  return parts
}

/** One line of output without its end. */
export const line = (output: GitOutput): string => output.stdout.replace(/\r?\n$/, '')
