import { delay } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { connect } from '../store/rpc/client.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { downLines } from './render/down.ts'
import { withTeam } from './with-team.ts'

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
        .option('json', { type: 'boolean', default: false })
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
  return withTeam(cli, args, 'daemon', async team => {
    const names = args.names && args.names.length > 0 ? args.names : undefined
    const ended = await team.call('down', {
      force: args.force,
      timeoutMs: Math.round(args.timeout * 1000),
      ...(names ? { names } : {}),
    })
    if (!ended.ok) return ended
    if (args.json) cli.out.json(ended.value)
    else for (const line of downLines(ended.value)) cli.out.say(line)
    if (ended.value.rejected.length > 0) return ok(5)
    if (names) return ok(0)
    await gone(cli, team.root)
    if (!args.json) cli.out.say('the daemon has stopped')
    return ok(0)
  })
}

/** Waits until nobody listens any more, so that the next command finds the root free; ten seconds at most. */
const gone = async (cli: Cli, root: string): Promise<void> => {
  const until = cli.clock.mono() + 10_000
  while (cli.clock.mono() < until) {
    const client = await connect(root)
    if (!client.ok) return
    client.value.close()
    await delay(20)
  }
}
