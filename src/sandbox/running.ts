import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { type Clock, delay, timerMs } from '../lib/clock.ts'
import { descendants, findMarked, isStill, type Kin, kinOf, type Leftover, markVariable, signal } from './leftover.ts'
import { Output } from './output.ts'
import type { CommandResult, RunOptions } from './shell.ts'

export interface RunningOptions {
  /** Program and arguments that the command runs under; empty outside the sandbox. */
  readonly prefix: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly mark: string
  readonly run: RunOptions
  readonly redact: (text: string) => string
  readonly longest: number
  readonly clock: Clock
}

/** Between TERM and KILL when the time is over. */
const graceMs = 1_000
/** How long what a dead command had said may take to arrive while something still holds its pipe. */
const drainMs = 250
/** Of what left-over processes say, so much is thrown away; then they wait at a full pipe and cost nothing. */
const leftBytes = 1_048_576

/**
 * Both streams become one at the source, so that their order is kept. In the sandbox the first process tells the exit
 * code over descriptor 3 and then holds the namespace, for what was left running, until descriptor 4 closes.
 */
const merge = 'exec 2>&1; exec "$@"'
const mergeAndHold = 'exec 2>&1; "$@" 3>&- 4<&-; echo $? >&3; exec 3>&- >/dev/null 2>&1 </dev/null; read -r _ <&4'

const first = (...paths: string[]): string | undefined => paths.find(path => existsSync(path))
const shellPath = first('/bin/bash', '/usr/bin/bash', '/usr/local/bin/bash') ?? '/bin/sh'

/** Bounds that hold with and without a sandbox. Never on address space: WebAssembly reserves much more than it uses. */
const limits = (sandboxed: boolean): string[] => {
  const prlimit = first('/usr/bin/prlimit', '/bin/prlimit')
  if (prlimit === undefined) return []
  // Counted within the sandbox's own user namespace; outside it the count would be of all that this user runs.
  const processes = sandboxed ? ['--nproc=1024'] : []
  return [prlimit, '--core=0', '--data=4294967296', '--fsize=2147483648', ...processes, '--']
}

/** One command from its start until nothing of it lives any more. */
export class Running {
  readonly mark: string
  readonly result: Promise<CommandResult>
  readonly #options: RunningOptions
  readonly #child: ChildProcess
  readonly #output: Output
  /** All that held its pipes is gone. */
  readonly #closed: Promise<void>
  readonly #began: number
  #isListening = true
  /** The command has ended; what comes now comes late, or from what it left. */
  #isDraining = false
  #ignored = 0
  /** The process itself is gone, and in the sandbox all that it started. */
  #exited = false
  /** Outside the sandbox: what belongs to it whatever became of its mark, as it was last seen. */
  #kin: Kin[] = []
  #endedBy: CommandResult['endedBy'] = 'itself'
  #ending: Promise<void> | null = null
  #startFault: Error | null = null
  /** The exit code came over descriptor 3, so the command did run. */
  #isTold = false

  constructor(options: RunningOptions) {
    const { run, prefix, env } = options
    this.#options = options
    this.mark = options.mark
    this.#began = options.clock.mono()
    this.#output = new Output({
      keep: run.outputBytes,
      folder: run.outDir,
      log: run.log,
      redact: options.redact,
      longest: options.longest,
    })
    const sandboxed = prefix.length > 0
    const inner = [
      '/bin/sh',
      '-c',
      sandboxed ? mergeAndHold : merge,
      'sh',
      ...limits(sandboxed),
      shellPath,
      '-c',
      run.command,
    ]
    const [file = '/bin/sh', ...args] = [...prefix, ...inner]
    try {
      this.#child = spawn(file, args, {
        cwd: options.cwd,
        // bubblewrap itself sees nothing of what the command is given, except the mark to be known by.
        env: sandboxed ? { PATH: '/usr/local/bin:/usr/bin:/bin', [markVariable]: options.mark } : env,
        detached: true,
        stdio: [
          run.stdin === undefined ? 'ignore' : 'pipe',
          'pipe',
          'pipe',
          ...(sandboxed ? (['pipe', 'pipe'] as const) : []),
        ],
      })
    } catch (error) {
      this.#output.end()
      throw error
    }
    this.#closed = new Promise(resolve => this.#child.once('close', () => resolve()))
    this.result = this.#watch(sandboxed)
  }

  /** bubblewrap could not make the sandbox, so that nothing ran: what it said. To be asked after the result. */
  neverRan(result: CommandResult): string | null {
    const isOwn =
      this.#isSandboxed && !this.#isTold && result.endedBy === 'itself' && result.output.startsWith('bwrap: ')
    return isOwn ? result.output.trim() : null
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** What it said since the last call, of a log. */
  fresh(): string {
    return this.#output.fresh()
  }

  /** Nothing of it lives any more. */
  isOver(): boolean {
    if (!this.#exited) this.#release()
    return this.#exited && (this.#isSandboxed || this.#alive().length === 0)
  }

  /** Ends the command and what it left. Safe to call at any time, more than once. */
  end(grace: number): Promise<void> {
    this.#ending ??= this.#kill(grace)
    return this.#ending
  }

  get #isSandboxed(): boolean {
    return this.#options.prefix.length > 0
  }

  /** None, whatever its type says, when no file handle was left to start it with. */
  get #pipes(): ChildProcess['stdio'] | [] {
    return (this.#child.stdio as ChildProcess['stdio'] | undefined) ?? []
  }

  async #watch(sandboxed: boolean): Promise<CommandResult> {
    const { run, clock } = this.#options
    const child = this.#child
    const stop = (why: CommandResult['endedBy']) => {
      if (this.#endedBy === 'itself') this.#endedBy = why
      void this.end(graceMs)
    }
    const exit = new Promise<Exit>(resolve => {
      child.once('error', error => {
        this.#startFault = error
        this.#exited = true
        resolve({ code: null, signal: null })
      })
      child.once('exit', (code, name) => {
        if (!sandboxed) this.#look()
        this.#exited = true
        resolve({ code, signal: name })
      })
    })
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (piece: Buffer) => this.#hear(piece, stop))
    if (run.stdin !== undefined && child.stdin) {
      child.stdin.on('error', () => undefined) // A command that does not read its input is no fault.
      child.stdin.end(run.stdin)
    }
    const told = sandboxed
      ? toldCode(this.#pipes[3] as Readable | undefined, () => {
          this.#isTold = true
        })
      : new Promise<never>(() => undefined)
    const timer = setTimeout(() => stop('time'), timerMs(run.timeoutMs))
    const onAbort = () => stop('abort')
    run.signal?.addEventListener('abort', onAbort, { once: true })
    if (run.signal?.aborted) onAbort()

    const outcome = await Promise.race([exit, told])
    clearTimeout(timer)
    run.signal?.removeEventListener('abort', onAbort)
    if (this.#endedBy !== 'itself') await this.end(graceMs)
    this.#isDraining = true
    const settled = this.#alive().length === 0
    if (settled) this.#release()
    await Promise.race([this.#closed, delay(settled ? 2_000 : drainMs, undefined, true)])
    this.#isListening = false
    // Asked again: much of what lived at the end was about to end, or had not become its own program yet.
    const left = settled ? [] : this.#alive()
    if (left.length === 0) this.#release()
    else if (run.endsLeft) await this.end(graceMs)
    if (this.#startFault)
      throw new Error(`the shell does not start: ${this.#startFault.message}`, { cause: this.#startFault })
    const { text, truncated, file } = this.#output.end()
    // What it left must not keep this process from ending.
    for (const stream of this.#pipes) (stream as { unref?: () => void } | null)?.unref?.()
    child.unref()
    return {
      exitCode: this.#endedBy === 'itself' ? outcome.code : null,
      signal: outcome.signal,
      output: text,
      bytes: this.#output.bytes,
      truncated,
      file,
      endedBy: this.#endedBy,
      left: left.map(({ pid, command }) => ({ pid, command: this.#options.redact(command) })),
      ms: Math.round(clock.mono() - this.#began),
    }
  }

  #hear(piece: Buffer, stop: (why: CommandResult['endedBy']) => void): void {
    if (this.#isListening) {
      const room = this.#options.run.outputMaxBytes - this.#output.bytes
      if (room > 0) this.#output.push(piece.subarray(0, room))
      if (piece.length < room) return
      if (!this.#isDraining) stop('output')
      this.#isListening = false
    }
    this.#ignored += piece.length
    if (this.#ignored > leftBytes && this.#endedBy === 'itself')
      for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.pause()
  }

  /** Lets the namespace go, once nothing in it is left. */
  #release(): void {
    if (this.#isSandboxed && !this.#exited && this.#alive().length === 0)
      (this.#pipes[4] as Writable | undefined)?.destroy()
  }

  async #kill(grace: number): Promise<void> {
    const until = this.#options.clock.mono() + grace
    for (const { pid } of this.#alive()) signal(pid, 'SIGTERM')
    while (this.#alive().length > 0 && this.#options.clock.mono() < until) await delay(20)
    // The death of bubblewrap ends its namespace; the group is this child's own for as long as it is not reaped.
    if (this.pid !== undefined && !this.#exited) signal(this.#isSandboxed ? this.pid : -this.pid, 'SIGKILL')
    for (const { pid } of this.#isSandboxed ? [] : this.#alive()) signal(pid, 'SIGKILL')
    const last = this.#options.clock.mono() + 2_000
    while (this.#alive().length > 0 && this.#options.clock.mono() < last) await delay(10)
    // What it said last is still in the pipe.
    if (!this.#startFault) await Promise.race([this.#closed, delay(drainMs, undefined, true)])
    for (const stream of this.#pipes) stream?.destroy()
  }

  /** All that the command started, itself included: in the sandbox everything but the two processes that hold it. */
  #alive(): Leftover[] {
    if (!this.#isSandboxed) {
      this.#look()
      const marked = findMarked(this.mark)
      return [...marked, ...this.#kin.filter(one => !marked.some(({ pid }) => pid === one.pid))]
    }
    if (this.#exited || this.pid === undefined) return []
    const [, ...inside] = descendants(this.pid)
    return inside.filter(({ command }) => !command.startsWith(holder))
  }

  /**
   * A process that threw its environment away, or wrote over it as servers do that change their title, has no mark; it is
   * known by its session, and by its parents while the command itself lives. The number of the session is the command's own
   * until the command is reaped, and after that for as long as one that was seen in it lives: then nobody else is given it.
   */
  #look(): void {
    const { pid } = this
    if (pid === undefined) return
    const still = this.#kin.filter(isStill)
    const isOurs = !this.#exited || still.some(({ session }) => session === pid)
    const seen = isOurs ? kinOf(pid, !this.#exited) : []
    this.#kin = [...seen, ...still.filter(one => !seen.some(other => other.pid === one.pid))]
  }
}

/** How the process that holds the namespace shows in /proc. */
const holder = `/bin/sh -c ${mergeAndHold.slice(0, 20)}`

type Exit = { readonly code: number | null; readonly signal: string | null }

/** The exit code told over descriptor 3. Never settles when it closed without one, since the teller was killed: then it exits. */
const toldCode = (stream: Readable | undefined, onTold: () => void): Promise<Exit> =>
  new Promise(resolve => {
    let said = ''
    stream?.setEncoding('utf8')
    stream?.on('data', (piece: string) => {
      said += piece
      if (!said.includes('\n')) return
      onTold()
      resolve({ code: Number(said.trim()), signal: null })
    })
  })
