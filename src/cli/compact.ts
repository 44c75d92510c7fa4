import { ok } from '../lib/result.ts'
import { type Cli, type Commands, handler } from './cli.ts'
import { withTeam } from './with-team.ts'

/** `team compact <name>`. */
export const compact = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'compact <name>',
    "Have a teammate's conversation put together into a summary",
    y =>
      y
        .positional('name', { type: 'string', demandOption: true, describe: 'the teammate' })
        .option('focus', { type: 'string', describe: 'what the summary is to keep above all' })
        .option('json', { type: 'boolean', default: false, describe: 'its state, and when it does it, as JSON' })
        .example('$0 compact alice', 'before its next step')
        .example('$0 compact alice --focus "the failing tests"', 'and what matters'),
    handler(cli, args =>
      withTeam(cli, args, 'daemon', async team => {
        const asked = await team.call('teammate.compact', {
          name: args.name,
          ...(args.focus === undefined ? {} : { focus: args.focus }),
        })
        if (!asked.ok) return asked
        if (args.json) cli.out.json(asked.value)
        else cli.out.say(`${asked.value.name} puts its conversation together ${asked.value.when}`)
        return ok(0)
      }),
    ),
  )
