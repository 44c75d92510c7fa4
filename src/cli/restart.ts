import { ok } from '../lib/result.ts'
import { type Cli, type Commands, handler } from './cli.ts'
import { withTeam } from './with-team.ts'

/** `team restart <name>`. */
export const restart = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'restart <name>',
    'Start a teammate again that was stopped or given up',
    y =>
      y
        .positional('name', { type: 'string', demandOption: true, describe: 'the teammate' })
        .example('$0 restart alice', 'after team down alice, or when it was given up'),
    handler(cli, args =>
      withTeam(cli, args, 'daemon', async team => {
        const restarted = await team.call('teammate.restart', { name: args.name })
        if (!restarted.ok) return restarted
        cli.out.say(`${restarted.value.name} starts again`)
        return ok(0)
      }),
    ),
  )
