import type { Argv } from 'yargs'
import type { Clock } from '../lib/clock.ts'
import { exitCode, type Fault, fail, ok, type Result } from '../lib/result.ts'
import type { Out } from './out.ts'
import { oneLine, type Paint } from './render/text.ts'

export type Env = Readonly<Record<string, string | undefined>>

/** What a command is given of the world. */
export interface Cli {
  readonly out: Out
  readonly paint: Paint
  readonly clock: Clock
  readonly env: Env
  readonly cwd: string
  /** A text that yargs would not take as it is: what stood after `--`, or `-` for stdin. */
  readonly rest: readonly string[]
  /** The folder of the bundles: team.cjs and teammate.js. */
  readonly dist: string
  /** Every command's family, for what tells of all of them. */
  readonly families: () => Promise<((commands: Commands, cli: Cli) => Commands)[]>
  /** A person sits at stdin and stdout, who can be asked. */
  readonly interactive: boolean
  /** How wide the terminal at stdout is; undefined where there is none. */
  readonly columns: number | undefined
}

/** Options that every command takes. */
export interface Globals {
  readonly root: string | undefined
  readonly verbose: boolean
}

export type Commands = Argv<Globals>

/**
 * Makes a command's handler: runs `act` and turns what it returns into the exit code. A fault is told on stderr in one or two
 * lines; a bug is thrown on, to `main`. Node ends a process in which nothing goes on any more, with 0, whoever still waits: a
 * command that has no result by then says so and fails.
 */
export const handler =
  <A extends Globals>(cli: Cli, act: (args: A) => Promise<Result<number>>) =>
  async (args: A): Promise<void> => {
    const ranDry = () => {
      tell(cli, fail('internal', 'it came to its end without a result', 'This is a bug.').fault, args.verbose)
      process.exitCode = 1
    }
    process.once('beforeExit', ranDry)
    const result = await act(args).finally(() => process.off('beforeExit', ranDry))
    if (!result.ok) tell(cli, result.fault, args.verbose)
    process.exitCode = result.ok ? result.value : exitCode(result.fault.code)
  }

/** One line what was wrong and where, one what to do; `--verbose` adds where in the program it came from. */
export const tell = (cli: Cli, fault: Fault, verbose: boolean): void => {
  cli.out.note(`${cli.paint.red('team:')} ${oneLine(fault.message, 2000)}`)
  if (fault.hint !== undefined) cli.out.note(`      ${oneLine(fault.hint, 2000)}`)
  if (verbose && fault.cause !== undefined)
    cli.out.note(fault.cause instanceof Error ? (fault.cause.stack ?? fault.cause.message) : String(fault.cause))
}

/** Does the same for each id, however many are refused; each refusal is told, and the first one's exit code is the answer. */
export const forEach = async (
  cli: Cli,
  args: Globals & { readonly id: readonly string[] },
  act: (id: string) => Promise<Result<string>>,
): Promise<Result<number>> => {
  let exit = 0
  for (const id of args.id) {
    const result = await act(id)
    if (result.ok) cli.out.say(result.value)
    else {
      tell(cli, result.fault, args.verbose)
      exit ||= exitCode(result.fault.code)
    }
  }
  return ok(exit)
}
