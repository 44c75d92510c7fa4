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
        .option('n', {
          type: 'number',
          default: 200,
          describe: 'so many of the last entries; 0 is all (of the last 100000)',
        })
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

/** Entries that are asked for at the most. */
const most = 100_000

/** Where the last `n` entries that have a line begin; null when there are not so many. */
const beginOf = (entries: readonly JournalEntry[], n: number, line: (entry: JournalEntry) => string | null) => {
  let left = n
  for (let i = entries.length - 1; i >= 0; i--) {
    const entry = entries[i]
    if (entry && line(entry) !== null && --left === 0) return i
  }
  return null
}

const act = async (cli: Cli, args: Logs): Promise<Result<number>> => {
  if (!Number.isInteger(args.n) || args.n < 0) return fail('usage', '-n takes a whole number, or 0 for all')
  const line = (entry: JournalEntry) =>
    args.json ? jsonText(entry) : renderEvent(entry, { now: cli.clock.wall(), paint: cli.paint, all: args.all })
  const print = (entry: JournalEntry) => {
    const text = line(entry)
    if (text !== null) cli.out.say(text)
  }
  const name = args.name === undefined ? {} : { name: args.name }
  const n = args.n === 0 ? Number.POSITIVE_INFINITY : args.n
  return withTeam(cli, args, args.follow ? 'daemon' : 'read', async team => {
    // Small steps are not shown, so what is asked for grows until that many lines can be.
    let limit = Math.min(n, most)
    let got = await team.call('events', { after: 0, limit, ...name })
    let first = got.ok ? beginOf(got.value.entries, n, line) : 0
    while (got.ok && first === null && got.value.entries.length === limit && limit < most) {
      limit = Math.min(limit * 8, most)
      got = await team.call('events', { after: 0, limit, ...name })
      first = got.ok ? beginOf(got.value.entries, n, line) : 0
    }
    if (!got.ok) return got
    const shown = got.value.entries.slice(first ?? 0)
    if (args.follow) return team.follow(print, { limit: Math.max(shown.length, 1), ...name })
    for (const entry of shown) print(entry)
    if (got.value.entries.length > 0 || args.name === undefined) return ok(0)
    // Who left is still told of by what happened; nothing at all may be a slip of the hand.
    const status = await team.call('status', {})
    if (!status.ok) return status
    return status.value.teammates.some(({ name }) => name === args.name)
      ? ok(0)
      : fail('unknown', `nothing is known of a teammate ${args.name}`)
  })
}
