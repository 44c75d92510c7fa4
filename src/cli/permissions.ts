import { ok } from '../lib/result.ts'
import type { RpcResults } from '../protocol/rpc.ts'
import { type Cli, type Commands, forEach, type Globals, handler } from './cli.ts'
import { oneLine, table, when } from './render/text.ts'
import { withTeam } from './with-team.ts'

/** `team permissions`: what was allowed on request beyond config.json, and how to take it back. */
export const permissions = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'permissions',
    'What you allowed teammates on request, beside the rules of config.json',
    y =>
      y
        .command(
          ['list', '$0'],
          'Rules that hold from now on, and runs that were permitted and have not come',
          z =>
            z
              .option('json', { type: 'boolean', default: false, describe: 'the listing as JSON' })
              .example('$0 permissions list', 'what is allowed beside config.json, and to whom'),
          handler(cli, args => list(cli, args)),
        )
        .command(
          'remove <id..>',
          'Take permissions back; what runs already goes on',
          z =>
            z
              .positional('id', {
                type: 'string',
                array: true,
                demandOption: true,
                describe: 'the request that asked for it (req_3, or 3 for short)',
              })
              .example('$0 permissions remove 3', 'ask about it again from now on'),
          handler(cli, args =>
            withTeam(cli, args, 'change', team =>
              forEach(cli, args, async id => {
                const removed = await team.call('permission.remove', { id })
                return removed.ok ? ok(removed.value.removed) : removed
              }),
            ),
          ),
        )
        .example('$0 permissions remove 3', 'take back what req_3 was given'),
    () => undefined,
  )

const list = (cli: Cli, args: Globals & { json: boolean }) =>
  withTeam(cli, args, 'read', async team => {
    const listed = await team.call('permission.list', {})
    if (!listed.ok) return listed
    if (args.json) cli.out.json(listed.value)
    else cli.out.say(render(cli, listed.value))
    return ok(0)
  })

const render = (cli: Cli, { rules, unused }: RpcResults['permission.list']): string => {
  const now = cli.clock.wall()
  const rows = [
    ...rules.map(({ request, teammate, rule, at }) => [request, teammate, 'always', when(at, now), oneLine(rule, 200)]),
    ...unused.map(({ id, from, decidedAt, data }) => [
      id,
      from,
      `once${data.task === null ? '' : `, for task ${data.task}`}`,
      when(decidedAt ?? '', now),
      oneLine(data.command, 200),
    ]),
  ]
  return rows.length === 0 ? 'nothing is allowed beside the rules of config.json' : table(rows)
}
