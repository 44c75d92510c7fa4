import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import type { Clock } from '../../lib/clock.ts'
import { delay } from '../../lib/clock.ts'
import { fail, ok, type Result } from '../../lib/result.ts'
import { type Client, connect } from '../../store/rpc/client.ts'

/** How the demo runs the real command: `team` is the program and its first arguments. */
export interface Command {
  readonly team: readonly [string, ...string[]]
  readonly env: Readonly<Record<string, string>>
  readonly clock: Clock
}

export interface Ended {
  readonly exit: number | null
  readonly signal: NodeJS.Signals | null
  readonly output: string
}

/** The daemon, run in front by a child process. */
export interface DaemonChild {
  readonly client: Client
  /** Resolves when the process has ended, however it did. */
  readonly ended: Promise<Ended>
  /** Ends what still runs: SIGTERM asks everyone, SIGKILL after `graceMs`. */
  stop(graceMs: number): Promise<Ended>
}

const start = (command: Command, root: string, args: readonly string[], out: number): ChildProcess => {
  const [program, ...first] = command.team
  return spawn(program, [...first, ...args, '--root', root], {
    cwd: root,
    // Whoever runs the demo stops what it started, by its own pid.
    env: { ...command.env, TEAM_PARENT: 'off' },
    stdio: ['ignore', out, out],
  })
}

const ending = (child: ChildProcess, log: string): Promise<Ended> =>
  new Promise(resolve => {
    const end = (exit: number | null, signal: NodeJS.Signals | null, more = '') =>
      resolve({ exit, signal, output: readFileSync(log, 'utf8') + more })
    child.once('error', error => end(null, null, error.message))
    child.once('exit', (exit, signal) => end(exit, signal))
  })

/** Runs `team <args>` to its end, its output into `log`. A fault unless it exits 0. */
export const runTeam = async (
  command: Command,
  root: string,
  args: readonly string[],
  log: string,
): Promise<Result<string>> => {
  const out = openSync(log, 'w')
  const { exit, signal, output } = await ending(start(command, root, args, out), log).finally(() => closeSync(out))
  if (exit === 0) return ok(output)
  return fail('internal', `team ${args.join(' ')} ended with ${signal ?? `exit ${exit}`}: ${lastLines(output)}`)
}

/** Starts `team up` and waits until it answers, `patienceMs` at most. */
export const startDaemonChild = async (
  command: Command,
  root: string,
  log: string,
  patienceMs: number,
): Promise<Result<DaemonChild>> => {
  const out = openSync(log, 'w')
  const child = start(command, root, ['up'], out)
  closeSync(out)
  let isOver = false
  const ended = ending(child, log).then(end => {
    isOver = true
    return end
  })
  const stop = async (graceMs: number): Promise<Ended> => {
    if (!isOver) child.kill('SIGTERM')
    const patience = new AbortController()
    const kill = delay(graceMs, patience.signal).then(
      () => void child.kill('SIGKILL'),
      () => undefined, // It ended by itself.
    )
    const end = await ended
    patience.abort()
    await kill
    return end
  }
  const until = command.clock.mono() + patienceMs
  while (!isOver && command.clock.mono() < until) {
    const client = await connect(root)
    if (client.ok) {
      const hello = await client.value.call('hello', {})
      if (hello.ok && hello.value.kind === 'daemon') return ok({ client: client.value, ended, stop })
      client.value.close()
    }
    await delay(50)
  }
  const { output } = await stop(2000)
  return fail('internal', `team up did not come up: ${lastLines(output)}`)
}

const lastLines = (text: string): string => text.trim().split('\n').slice(-5).join(' · ') || 'it said nothing'
