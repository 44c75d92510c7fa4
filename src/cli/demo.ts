import { ok } from '../lib/result.ts'
import { type Cli, type Commands, handler } from './cli.ts'
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
        .option('json', { type: 'boolean', default: false, describe: 'the summary as JSON' })
        .example('$0 demo', 'watch four teammates at work')
        .example('$0 demo --no-keep --json', 'for a script'),
    handler(cli, async args => ok(await runDemo({ keep: args.keep, json: args.json }))),
  )
