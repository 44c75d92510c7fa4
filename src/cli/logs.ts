import { fail, ok, type Result } from '../lib/result.ts'
import type { JournalEntry } from '../protocol/event.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { renderEvent } from './render/event.ts'
import { jsonText } from './render/text.ts'
import { withTeam } from './with-team.ts'

/** `team logs [name]`. */
export const logs = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'logs [name]',
    'What happened, oldest first',
    y =>
      y
        .positional('name', { type: 'string', describe: 'only what concerns this teammate' })
        .option('follow', { alias: 'f', type: 'boolean', default: false, describe: 'go on as it happens' })
        .option('n', { type: 'number', default: 200, describe: 'so many of the last entries' })
        .option('all', {
          type: 'boolean',
          default: false,
          describe: 'the small steps too (mail taken, tools, model calls)',
        })
        .option('json', { type: 'boolean', default: false, describe: 'one JSON object a line, every entry' })
        .example('$0 logs -f', 'watch the team')
        .example('$0 logs alice --all -n 50', 'the last 50 steps of alice'),
    handler(cli, args => act(cli, args)),
  )

interface Logs extends Globals {
  name: string | undefined
  follow: boolean
  n: number
  all: boolean
  json: boolean
}

const act = async (cli: Cli, args: Logs): Promise<Result<number>> => {
  if (!Number.isInteger(args.n) || args.n < 1) return fail('usage', '-n takes a whole number above 0')
  const print = (entry: JournalEntry) => {
    if (args.json) return cli.out.say(jsonText(entry))
    const line = renderEvent(entry, { now: cli.clock.wall(), paint: cli.paint, all: args.all })
    if (line !== null) cli.out.say(line)
  }
  const name = args.name === undefined ? {} : { name: args.name }
  return withTeam(cli, args, args.follow ? 'daemon' : 'read', async team => {
    const limit = Math.min(args.n, 100_000)
    if (args.follow) return team.follow(print, { limit, ...name })
    const got = await team.call('events', { after: 0, limit, ...name })
    if (!got.ok) return got
    for (const entry of got.value.entries) print(entry)
    if (got.value.entries.length > 0 || args.name === undefined) return ok(0)
    // Who left is still told of by what happened; nothing at all may be a slip of the hand.
    const status = await team.call('status', {})
    if (!status.ok) return status
    return status.value.teammates.some(({ name }) => name === args.name)
      ? ok(0)
      : fail('unknown', `nothing is known of a teammate ${args.name}`)
  })
}
