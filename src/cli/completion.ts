import { join } from 'node:path'
import { ok } from '../lib/result.ts'
import { type Cli, type Commands, handler } from './cli.ts'
import { scripts } from './completion/scripts.ts'
import { commandTable } from './completion/table.ts'

/** `team completion <shell>`. */
export const completion = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'completion <shell>',
    'Print the completion script of a shell',
    y =>
      y
        .positional('shell', {
          choices: ['bash', 'zsh', 'fish'] as const,
          demandOption: true,
          describe: 'the shell to complete in',
        })
        .example('source <($0 completion bash)', 'for this shell')
        .example('$0 completion fish | source', 'the same in fish'),
    handler(cli, async ({ shell }) => {
      const program = { node: process.execPath, script: join(cli.dist, 'team.cjs') }
      cli.out.say(scripts[shell](commandTable(await cli.families(), cli), program))
      return ok(0)
    }),
  )
