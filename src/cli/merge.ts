import { ok } from '../lib/result.ts'
import type { Request } from '../protocol/request.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { coloured } from './render/patch.ts'
import { harmless, oneLine, plural } from './render/text.ts'
import { withTeam } from './with-team.ts'

/** `team diff` and `team land`. */
export const merge = (commands: Commands, cli: Cli): Commands =>
  commands
    .command(
      'diff <id>',
      'What a merge would bring: of a request or a task',
      y =>
        y
          .positional('id', { type: 'string', demandOption: true, describe: 'a request (req_3) or a task (7)' })
          .option('stat', { type: 'boolean', default: false, describe: 'only which files, and how much' })
          .option('json', { type: 'boolean', default: false, describe: 'title, summary and patch as JSON' })
          .example('$0 diff req_3', 'before it is approved')
          .example('$0 diff 7 --stat', 'which files task 7 changes'),
      handler(cli, args => diff(cli, args)),
    )
    .command(
      'land',
      'Bring the trunk into the base branch of your repository; only on a clean tree',
      y =>
        y
          .option('json', { type: 'boolean', default: false, describe: 'what was landed, as JSON' })
          .example('$0 land', 'approved work, into the branch you have checked out'),
      handler(cli, args => land(cli, args)),
    )

const diff = (cli: Cli, args: Globals & { id: string; stat: boolean; json: boolean }) =>
  withTeam(cli, args, 'read', async team => {
    const got = await team.call('diff', { id: args.id })
    if (!got.ok) return got
    const { title, stat, patch } = got.value
    if (args.json) cli.out.json(got.value)
    else {
      cli.out.say(cli.paint.bold(oneLine(title, 200)))
      cli.out.say(stat === '' ? 'nothing is changed on its branch' : harmless(stat))
      if (!args.stat && patch !== '') cli.out.say(`\n${coloured(harmless(patch), cli.paint)}`)
    }
    return ok(0)
  })

const land = (cli: Cli, args: Globals & { json: boolean }) =>
  withTeam(cli, args, 'change', async team => {
    const landed = await team.call('land', {})
    if (!landed.ok) return landed
    const { branch, commits, from, to, how } = landed.value
    if (args.json) cli.out.json(landed.value)
    else if (how === 'already there') cli.out.say(`${branch} has everything of the trunk already (${to.slice(0, 10)})`)
    else
      cli.out.say(`${branch}: ${plural(commits, 'commit')} landed by ${how}, ${from.slice(0, 10)} → ${to.slice(0, 10)}`)
    const listed = await team.call('request.list', { all: true })
    if (!listed.ok) return listed
    const coming = listed.value.requests.filter(isComing).map(({ id }) => id)
    if (coming.length > 0)
      cli.out.note(
        `${coming.join(', ')} ${coming.length === 1 ? 'is' : 'are'} approved, but not merged yet: team land again when that is done (team status)`,
      )
    return ok(0)
  })

/** A merge that was approved and is not carried out. */
const isComing = ({ type, status, outcome, effect }: Request): boolean =>
  type === 'merge_request' && status === 'approved' && outcome === 'decided' && effect?.step !== 'done'
