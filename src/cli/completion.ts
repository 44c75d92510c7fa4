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
      cli.out.say(scripts[shell](commandTable(await cli.families(), cli)))
      return ok(0)
    }),
  )
