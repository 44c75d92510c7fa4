import { fail, ok, type Result } from '../lib/result.ts'
import type { InboxItem } from '../protocol/rpc.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { renderMail, renderSent } from './render/mail.ts'
import { oneLine, plural, when } from './render/text.ts'
import { type Team, withTeam } from './with-team.ts'

/** `team inbox [name]`. */
export const inbox = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'inbox [name]',
    'Read an inbox; looking consumes nothing',
    y =>
      y
        .positional('name', {
          type: 'string',
          default: 'user',
          describe: 'whose: a teammate, user (you) or supervisor',
        })
        .option('follow', { alias: 'f', type: 'boolean', default: false, describe: 'go on as mail comes in' })
        .option('unread', { type: 'boolean', default: false, describe: 'only what its owner has not taken yet' })
        .option('n', { type: 'number', default: 20, describe: 'so many read ones before the unread; 0 is all' })
        .option('ack', {
          type: 'boolean',
          default: false,
          describe: 'mark your own inbox as read; with --dead: those lines as seen',
        })
        .option('sent', {
          type: 'boolean',
          default: false,
          describe: 'what was sent from there instead, and how far it got: stored, taken, in context at turn n',
        })
        .option('dead', { type: 'boolean', default: false, describe: 'lines that could not be delivered, and why' })
        .option('json', { type: 'boolean', default: false, describe: 'print the messages as JSON' })
        .example('$0 inbox', 'your own')
        .example('$0 inbox alice --unread', 'what alice has not seen yet')
        .example('$0 inbox --sent', 'how far your own messages got')
        .example('$0 inbox --dead --ack', 'look at what was no message, and be reminded of it no more'),
    handler(cli, args => act(cli, args)),
  )

interface Inbox extends Globals {
  name: string
  follow: boolean
  unread: boolean
  n: number
  ack: boolean
  sent: boolean
  dead: boolean
  json: boolean
}

const act = async (cli: Cli, args: Inbox): Promise<Result<number>> => {
  if (args.ack && args.name !== 'user' && args.name !== 'human')
    return fail('usage', `--ack marks your own inbox; that of ${args.name} is marked by ${args.name} alone`)
  if (!Number.isInteger(args.n) || args.n < 0) return fail('usage', '-n takes a whole number, or 0 for all')
  if (args.sent && (args.follow || args.ack || args.unread))
    return fail('usage', '--sent takes none of --follow, --ack and --unread')
  if (args.json && args.follow) return fail('usage', '--follow has no --json; use team logs --follow --json')
  const need = args.follow ? 'daemon' : args.ack ? 'change' : 'read'
  return withTeam(cli, args, need, async team => {
    if (args.dead) return dead(cli, team, args)
    if (args.sent) return sent(cli, team, args)
    const first = await team.call('inbox.read', { name: args.name, after: 0, limit: 1 })
    if (!first.ok) return first
    const { cursor, last } = first.value
    const after = args.unread ? cursor : args.n === 0 ? 0 : Math.min(cursor, Math.max(0, last - Math.floor(args.n)))
    const items = await from(team, args.name, after)
    if (!items.ok) return items
    const print = (list: readonly InboxItem[]) => {
      if (list.length > 0) cli.out.say(renderMail(list, cursor, cli.clock.wall(), cli.paint))
    }
    if (args.json) cli.out.json({ name: args.name, cursor, last, items: items.value })
    else if (items.value.length === 0 && !args.follow)
      cli.out.say(
        last === 0
          ? `the inbox of ${args.name} is empty`
          : `nothing unread; ${plural(last, 'message')} so far (-n 0 shows all)`,
      )
    else print(items.value)
    if (args.ack) {
      const acked = await team.call('inbox.ack', { name: 'user', upTo: Math.max(last, items.value.at(-1)?.index ?? 0) })
      if (!acked.ok) return acked
    }
    return args.follow ? follow(cli, team, args.name, items.value.at(-1)?.index ?? last, print) : ok(0)
  })
}

/** Everything after `after`, page by page. */
const from = async (team: Team, name: string, after: number): Promise<Result<InboxItem[]>> => {
  const items: InboxItem[] = []
  for (;;) {
    const page = await team.call('inbox.read', { name, after, limit: 1000 })
    if (!page.ok) return page
    items.push(...page.value.items)
    const last = page.value.items.at(-1)?.index
    if (last === undefined || last >= page.value.last) return ok(items)
    after = last
  }
}

/** An entry of the journal is only the hint that there may be mail; the inbox is read again from where we were. */
const follow = async (
  cli: Cli,
  team: Team,
  name: string,
  after: number,
  print: (list: readonly InboxItem[]) => void,
): Promise<Result<number>> => {
  let at = after
  let reading: Promise<Result<null>> = Promise.resolve(ok(null))
  const look = async (): Promise<Result<null>> => {
    const items = await from(team, name, at)
    if (!items.ok) return items
    at = items.value.at(-1)?.index ?? at
    print(items.value)
    return ok(null)
  }
  const ended = await team.follow(entry => {
    if (entry.event === 'message.stored')
      reading = reading.then(
        // The inbox is written by one holder: a failed look is told at the end, and the next hint looks again.
        () => look(),
      )
  })
  const last = await reading
  return ended.ok && !last.ok && !cli.out.closed.aborted ? last : ended
}

const sent = async (cli: Cli, team: Team, { name, n, json }: Inbox): Promise<Result<number>> => {
  const listed = await team.call('inbox.sent', { name, limit: n === 0 ? 1000 : Math.min(n, 1000) })
  if (!listed.ok) return listed
  const { items } = listed.value
  if (json) cli.out.json({ name, items })
  else if (items.length === 0) cli.out.say(`${name} has sent nothing yet`)
  else cli.out.say(renderSent(items, cli.clock.wall(), cli.paint))
  return ok(0)
}

/** Nothing is deleted by `--ack`: what was shown here is only counted no more by `team status`. */
const dead = async (cli: Cli, team: Team, args: Inbox): Promise<Result<number>> => {
  const read = await team.call('inbox.dead', { limit: 1000 })
  if (!read.ok) return read
  const { last } = read.value
  const letters = read.value.letters.filter(letter => !args.unread || !letter.seen)
  if (args.json) cli.out.json(letters)
  else if (letters.length === 0) cli.out.say('no dead letters')
  else
    for (const letter of letters)
      cli.out.say(
        `${letter.seen ? ' ' : cli.paint.green('●')} ${when(letter.at, cli.clock.wall())} ${letter.file}, byte ${letter.offset}: ${oneLine(letter.reason, 200)}\n    ${oneLine(letter.line, 200)}`,
      )
  const seen = args.ack ? await team.call('inbox.deadSeen', { upTo: last }) : ok(null)
  return seen.ok ? ok(0) : seen
}
