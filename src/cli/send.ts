import { ulid } from 'ulid'
import { fail, ok, type Result } from '../lib/result.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { readText } from './input.ts'
import { withTeam } from './with-team.ts'

/** `team send <name|all> <text>`. */
export const send = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'send <to> [text]',
    'Send a message to a teammate, or to all',
    y =>
      y
        .positional('to', {
          type: 'string',
          demandOption: true,
          describe: "a teammate's name, lead (who leads, else you), or all",
        })
        .positional('text', { type: 'string', describe: 'the message; - reads stdin, byte for byte' })
        .option('file', { type: 'string', describe: 'read the message from this file, byte for byte' })
        .option('type', {
          choices: ['info', 'question', 'reply', 'task'] as const,
          default: 'info' as const,
          describe: 'what it is; task makes a task of it',
        })
        .option('urgent', {
          type: 'boolean',
          default: false,
          describe: 'before other mail; wakes a waiting teammate too',
        })
        .option('reply-to', { type: 'string', describe: 'id of the message this answers' })
        .option('json', { type: 'boolean', default: false, describe: 'to whom and under which id, as JSON' })
        .example('$0 send alice "Use the new parser, please"', 'to one')
        .example('$0 send alice -- "-v is the flag"', 'a text that begins with a dash')
        .example('git log -5 | $0 send all -', 'a text from another program, to everyone'),
    handler(cli, args => act(cli, args)),
  )

interface Send extends Globals {
  to: string
  text: string | undefined
  file: string | undefined
  type: 'info' | 'question' | 'reply' | 'task'
  urgent: boolean
  replyTo: string | undefined
  json: boolean
}

const act = async (cli: Cli, args: Send): Promise<Result<number>> => {
  const [after, ...more] = cli.rest
  if (more.length > 0 || (after !== undefined && args.text !== undefined))
    return fail('usage', 'the text is one word of the command line', 'Put it in quotes.')
  const given = args.text ?? after
  if (given !== undefined && args.file !== undefined)
    return fail('usage', 'give the message as text or by --file, not both')
  const read = await readText(cli, { text: given, file: args.file })
  if (!read.ok) return read
  const content = read.value
  if (content === undefined)
    return fail('usage', 'there is no text to send', 'Give it last, or - to read it from stdin.')
  if (content.trim() === '') return fail('usage', 'the message is empty')
  // One id however often it is sent again: an answer that got lost makes no second message.
  const id = `msg_${ulid(cli.clock.wall()).toLowerCase()}`
  return withTeam(cli, args, 'change', async team => {
    const sent = await team.call('message.send', {
      to: args.to,
      content,
      type: args.type,
      id,
      ...(args.urgent ? { urgent: true } : {}),
      ...(args.replyTo === undefined ? {} : { replyTo: args.replyTo }),
    })
    if (!sent.ok) return sent
    if (args.json) cli.out.json(sent.value.sent)
    else
      for (const one of sent.value.sent) {
        const how = team.online ? one.how : 'queued'
        cli.out.say(`${one.id} ${how} for ${one.to}${one.note === undefined ? '' : `: ${one.note}`}`)
      }
    team.later('It is read after the next team up.')
    return ok(0)
  })
}
