import { readFileSync } from 'node:fs'
import { delay } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { DownReport, Hello } from '../protocol/rpc.ts'
import { findRoot } from '../store/find-root.ts'
import { connect } from '../store/rpc/client.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { downLines } from './render/down.ts'
import { endParents } from './waiting.ts'
import { type Team, withTeam } from './with-team.ts'

/** `team down`. */
export const down = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'down [names..]',
    'Ask everyone to shut down, then stop the daemon; one who rejects keeps it running (exit 5)',
    y =>
      y
        .positional('names', { type: 'string', array: true, describe: 'only these teammates; the daemon goes on' })
        .option('force', { type: 'boolean', default: false, describe: 'ask nobody: stop everyone now' })
        .option('timeout', {
          type: 'number',
          default: 30,
          describe: 'seconds to answer; who is silent is stopped by force',
        })
        .option('json', { type: 'boolean', default: false, describe: 'who stopped how, and who rejected why, as JSON' })
        .example('$0 down', 'everyone, then the daemon')
        .example('$0 down alice', 'alice alone, until team restart alice'),
    handler(cli, args => act(cli, args)),
  )

const act = async (
  cli: Cli,
  args: Globals & { names: string[] | undefined; force: boolean; timeout: number; json: boolean },
): Promise<Result<number>> => {
  if (!(args.timeout >= 0 && args.timeout <= 86_400))
    return fail('usage', '--timeout takes a number of seconds, up to a day')
  const ended = await withTeam(cli, args, 'daemon', async team => {
    const asked = await team.call('hello', {})
    if (!asked.ok) return asked
    const gone = whenGone(cli, asked.value)
    const names = args.names && args.names.length > 0 ? args.names : undefined
    const ended = await team.call('down', {
      force: args.force,
      timeoutMs: Math.round(args.timeout * 1000),
      ...(names ? { names } : {}),
    })
    if (!ended.ok) return ended
    if (args.json) cli.out.json(ended.value)
    else {
      const again = await startedAgain(team, ended.value)
      if (!again.ok) return again
      for (const line of downLines(ended.value, again.value)) cli.out.say(line)
    }
    if (ended.value.rejected.length > 0) return ok(5)
    if (names) return ok(0)
    if (!(await isFree(cli, team.root)) || !(await gone()))
      return fail(
        'io',
        `the daemon has stopped, but its process ${asked.value.pid} has not ended`,
        'see .team/logs/daemon.jsonl',
      )
    if (!args.json) cli.out.say('the daemon has stopped')
    return ok(0)
  })
  if (ended.ok || ended.fault.code !== 'offline') return ended
  return (await stopWaiting(cli, args)) ?? ended
}

/** The daemon has died, and its parent is about to start it again: that is ended. Null where there is none, or one teammate is meant. */
const stopWaiting = async (
  cli: Cli,
  args: Globals & { names: string[] | undefined; json: boolean },
): Promise<Result<number> | null> => {
  const root = findRoot({ root: args.root, cwd: cli.cwd, env: cli.env })
  if (!root.ok || (args.names && args.names.length > 0)) return null
  const parents = await endParents(root.value, cli.clock, patienceMs)
  const stays = parents.find(({ alive }) => alive)
  if (stays)
    return fail(
      'io',
      `no daemon runs, and its parent, process ${stays.pid}, which starts it again, has not ended`,
      `Is it stopped? kill -9 ${stays.pid} ends it.`,
    )
  if (parents.length === 0) return null
  if (args.json) cli.out.json({ stopped: [], rejected: [] } satisfies DownReport)
  else cli.out.say('the daemon had died and was about to be started again: it is not any more')
  return ok(0)
}

/** Who had agreed to go, and does not go since somebody rejects: the daemon starts them before it answers. */
const startedAgain = async (team: Team, { stopped, rejected }: DownReport): Promise<Result<string[]>> => {
  if (stopped.length === 0 || rejected.length === 0) return ok([])
  const status = await team.call('status', {})
  if (!status.ok) return status
  const gone = ['stopped', 'failed']
  const runs = status.value.teammates.filter(({ state }) => !gone.includes(state)).map(({ name }) => name)
  return ok(stopped.map(({ name }) => name).filter(name => runs.includes(name)))
}

/** How long what has stopped may take to be gone. */
const patienceMs = 10_000

/** Waits until nobody listens any more, so that the next command finds the root free; false when that takes too long. */
const isFree = async (cli: Cli, root: string): Promise<boolean> => {
  const until = cli.clock.mono() + patienceMs
  while (cli.clock.mono() < until) {
    const client = await connect(root)
    if (!client.ok) return true
    client.value.close()
    await delay(20)
  }
  return false
}

/**
 * To be called while the process answers, so that the number is its own: what then waits until it is gone. By its time of
 * start it is told apart from another program that gets the same number, or has it here while the daemon has it in a
 * container. Without /proc there is nothing to wait for.
 */
const whenGone = (cli: Cli, { pid, startedAt }: Hello): (() => Promise<boolean>) => {
  const before = startOf(pid)
  const age = before === null ? null : secondsUp() - Number(before) / ticksPerSecond
  const isIt = age !== null && Math.abs(age - (cli.clock.wall() - Date.parse(startedAt)) / 1000) < startSeconds
  return async () => {
    const until = cli.clock.mono() + patienceMs
    while (isIt && startOf(pid) === before) {
      if (cli.clock.mono() > until) return false
      await delay(10)
    }
    return true
  }
}

/** A daemon holds the root within this after its process was made. */
const startSeconds = 60
/** Of the times in /proc: the same on every Linux that Node runs on. */
const ticksPerSecond = 100
const secondsUp = (): number => Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0])

/** When a living process was started, in the kernel's ticks; null when it is gone. */
const startOf = (pid: number): string | null => {
  try {
    // The name in parentheses may hold anything, so read from the last one on: state is field 3, the start field 22.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? []
    return fields[0] === 'Z' ? null : (fields[19] ?? null)
  } catch {
    return null
  }
}
