import { ok } from '../lib/result.ts'
import { type Cli, type Commands, handler } from './cli.ts'
import { renderStatus } from './render/status.ts'
import { withTeam } from './with-team.ts'

/** `team status`, also `ps`. With a daemon running, team.ts answers it before this is loaded. */
export const status = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    ['status', 'ps'],
    'The daemon, the teammates, the tasks, what waits for you, and anything wrong',
    y =>
      y
        .option('json', { type: 'boolean', default: false, describe: 'the whole as JSON' })
        .example('$0 status', 'a look at everything')
        .example('$0 status --json', 'for a program'),
    handler(cli, args =>
      withTeam(cli, args, 'status', async team => {
        const got = await team.call('status', {})
        if (!got.ok) return got
        if (args.json) cli.out.json(got.value)
        else cli.out.say(renderStatus(got.value, cli.clock.wall(), cli.paint, cli.columns))
        return ok(0)
      }),
    ),
  )
