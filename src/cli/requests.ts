import { fail, ok, type Result } from '../lib/result.ts'
import { type Cli, type Commands, forEach, type Globals, handler } from './cli.ts'
import { readText } from './input.ts'
import { renderRequest } from './render/request.ts'
import { renderRequests } from './render/status.ts'
import { oneLine } from './render/text.ts'
import { withTeam } from './with-team.ts'

/** `team requests`, `approve`, `reject`, `ask` and `answer`. */
export const requests = (commands: Commands, cli: Cli): Commands =>
  commands
    .command(
      'requests [id]',
      'What waits for a decision, oldest first; with an id all about that one',
      y =>
        y
          .positional('id', { type: 'string', describe: 'a request (req_3, or 3 for short)' })
          .option('all', { type: 'boolean', default: false, describe: 'decided and ended ones too' })
          .option('json', { type: 'boolean', default: false, describe: 'print them, or the one, as JSON' })
          .example('$0 requests', 'what waits for somebody')
          .example('$0 requests 3', 'all about req_3'),
      handler(cli, args => list(cli, args)),
    )
    .command(
      'approve <id..>',
      'Approve requests',
      y =>
        y
          .positional('id', { type: 'string', array: true, demandOption: true, describe: 'req_3, or 3 for short' })
          .option('reason', { type: 'string', describe: 'kept with the decision' })
          .option('shown', {
            type: 'string',
            describe: 'approve only what is still this: the hash that requests <id> shows',
          })
          .option('always', {
            type: 'boolean',
            default: false,
            describe: 'of a permission: the rule that it shows holds from now on (see permissions)',
          })
          .example('$0 diff req_3 && $0 approve req_3', 'look at a merge, then let it through')
          .example('$0 approve 4 --always', 'the command of req_4, now and from now on'),
      handler(cli, args => approve(cli, args)),
    )
    .command(
      'reject <id..>',
      'Reject requests, or take back a lease that is held; the reason goes to who asked',
      y =>
        y
          .positional('id', { type: 'string', array: true, demandOption: true, describe: 'req_3, or 3 for short' })
          .option('reason', { type: 'string', describe: 'what has to change' })
          .example('$0 reject 3 --reason "No test covers it"', 'it goes back to who asked, with the reason')
          .example('$0 reject 5', 'of a lease that is held: it is taken from its holder, who is told'),
      handler(cli, args => reject(cli, args)),
    )
    .command(
      'ask <id..>',
      'Ask back before deciding; the request waits for the answer',
      y =>
        y
          .positional('id', { type: 'string', array: true, demandOption: true, describe: 'req_3, or 3 for short' })
          .option('reason', { type: 'string', demandOption: true, describe: 'the question' })
          .example('$0 ask 3 --reason "Why not in the parser?"', 'neither approved nor rejected yet'),
      handler(cli, args => askBack(cli, args)),
    )
    .command(
      'answer <id> [text]',
      'Answer what was asked about a request',
      y =>
        y
          .positional('id', { type: 'string', demandOption: true, describe: 'req_3, or 3 for short' })
          .positional('text', { type: 'string', describe: 'the answer; - reads stdin' })
          .example('$0 answer 3 "Because others call it too"', 'it then waits for its decider again'),
      handler(cli, args => answer(cli, args)),
    )

const list = (cli: Cli, args: Globals & { id: string | undefined; all: boolean; json: boolean }) =>
  withTeam(cli, args, 'read', async team => {
    if (args.id !== undefined) {
      const got = await team.call('request.get', { id: args.id })
      if (!got.ok) return got
      if (args.json) cli.out.json(got.value.request)
      else cli.out.say(renderRequest(got.value.request, cli.clock.wall(), cli.paint, got.value.ifApproved))
      return ok(0)
    }
    const listed = await team.call('request.list', { all: args.all })
    if (!listed.ok) return listed
    if (args.json) cli.out.json(listed.value.requests)
    else if (listed.value.requests.length === 0)
      cli.out.say(args.all ? 'no requests yet' : 'nothing waits for a decision')
    else cli.out.say(renderRequests(listed.value.requests, cli.clock.wall(), cli.paint, cli.columns))
    return ok(0)
  })

/**
 * Approves each: what it is stands in the answer, and the approval is bound to just that (or to what `--shown` names), so that
 * nothing else was let through should it have changed in between.
 */
const approve = async (
  cli: Cli,
  args: Globals & { id: string[]; reason: string | undefined; shown: string | undefined; always: boolean },
): Promise<Result<number>> => {
  const { always } = args
  if (args.shown !== undefined && args.id.length > 1) return fail('usage', '--shown goes with one request')
  return withTeam(cli, args, 'change', team =>
    forEach(cli, args, async id => {
      const got = await team.call('request.get', { id })
      if (!got.ok) return got
      const { title, bodyHash } = got.value.request
      const reason = args.reason === undefined ? {} : { reason: args.reason }
      const shown = args.shown ?? bodyHash
      const decided = await team.call('request.decide', { id, decision: 'approve', shown, always, ...reason })
      return decided.ok ? ok(`${decided.value.note} (${oneLine(title, 100)})`) : decided
    }),
  )
}

/** Rejects each; a lease was granted without anybody's decision, so while it is held a person may still say no to it. */
const reject = async (
  cli: Cli,
  args: Globals & { id: string[]; reason: string | undefined },
): Promise<Result<number>> =>
  withTeam(cli, args, 'change', team =>
    forEach(cli, args, async id => {
      const got = await team.call('request.get', { id })
      if (!got.ok) return got
      const { request } = got.value
      const reason = args.reason === undefined ? {} : { reason: args.reason }
      if (request.type === 'resource_request' && request.effect?.step === 'intent') {
        const freed = await team.call('request.withdraw', {
          id: request.id,
          reason: args.reason ?? 'taken back by human',
        })
        return freed.ok ? ok(`${request.id} taken back from ${request.from}`) : freed
      }
      const decided = await team.call('request.decide', { id, decision: 'reject', ...reason })
      return decided.ok ? ok(decided.value.note) : decided
    }),
  )

/** Asks back about each, however many of them are refused; ends with the first refusal's exit code. */
const askBack = async (cli: Cli, args: Globals & { id: string[]; reason: string }): Promise<Result<number>> =>
  withTeam(cli, args, 'change', team =>
    forEach(cli, args, async id => {
      const decided = await team.call('request.decide', { id, decision: 'ask', reason: args.reason })
      return decided.ok ? ok(decided.value.note) : decided
    }),
  )

const answer = async (cli: Cli, args: Globals & { id: string; text: string | undefined }): Promise<Result<number>> => {
  const read = await readText(cli, { text: args.text ?? cli.rest[0], file: undefined })
  if (!read.ok) return read
  const text = read.value
  if (text === undefined || text.trim() === '') return fail('usage', 'the answer is empty')
  return withTeam(cli, args, 'change', async team => {
    const answered = await team.call('request.answer', { id: args.id, text })
    if (!answered.ok) return answered
    const { request } = answered.value
    const goesOn = request.type === 'question' && request.status === 'approved'
    cli.out.say(
      goesOn
        ? `${request.id} answered; ${request.from} goes on`
        : `${request.id} answered; it waits for ${request.to} again`,
    )
    if (goesOn) team.later(`${request.from} goes on after the next team up.`)
    return ok(0)
  })
}
