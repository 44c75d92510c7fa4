import { fail, ok } from '../lib/result.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { renderWhy } from './render/why.ts'
import { withTeam } from './with-team.ts'

/** `team why`. */
export const why = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'why <place>',
    'Whence a line is: its commit, merge and task, and what was decided and written about it',
    y =>
      y
        .positional('place', { type: 'string', demandOption: true, describe: 'a file and a line: src/a.js:12' })
        .option('here', {
          type: 'boolean',
          default: false,
          describe: 'the line as it lies in your repository, not as it is on the trunk',
        })
        .option('json', { type: 'boolean', default: false, describe: 'all of it as JSON' })
        .example('$0 why src/a.js:12', 'the line on the trunk')
        .example('$0 why --here src/a.js:12', 'the line that you have in your editor'),
    handler(cli, (args: Globals & { place: string; here: boolean; json: boolean }) => {
      const [, file, line] = /^(.+):([1-9]\d{0,8})$/s.exec(args.place) ?? []
      if (file === undefined) return Promise.resolve(fail('usage', `<place> is a file and a line, like src/a.js:12`))
      return withTeam(cli, args, 'read', async team => {
        const found = await team.call('why', { file, line: Number(line), cwd: cli.cwd, here: args.here })
        if (!found.ok) return found
        if (args.json) cli.out.json(found.value)
        else cli.out.say(renderWhy(found.value, cli.clock.wall(), cli.paint))
        return ok(0)
      })
    }),
  )
