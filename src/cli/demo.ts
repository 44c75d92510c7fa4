import { fail, ok } from '../lib/result.ts'
import { type Cli, type Commands, handler } from './cli.ts'
import { personAt } from './demo/person.ts'
import { runDemo } from './demo/run.ts'

/** `team demo`. */
export const demo = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'demo',
    'A throwaway team on a small real repository; no key, no network, under a minute',
    y =>
      y
        .option('keep', {
          type: 'boolean',
          default: true,
          describe: 'keep its folder to look at; --no-keep removes it when all went well',
        })
        .option('interactive', {
          type: 'boolean',
          default: false,
          describe: 'you decide what waits, in place of the demo',
        })
        .option('json', { type: 'boolean', default: false, describe: 'the summary as JSON' })
        .example('$0 demo', 'watch four teammates at work')
        .example('$0 demo --no-keep --json', 'for a script'),
    handler(cli, async args => {
      if (args.interactive && !cli.interactive)
        return fail('usage', '--interactive needs a terminal', 'leave it out and the demo decides by itself')
      return ok(await runDemo({ keep: args.keep, json: args.json, person: args.interactive ? personAt(cli) : null }))
    }),
  )
