import yargs from 'yargs'
import { clock } from '../lib/clock.ts'
import { arm, killVariable } from '../lib/points.ts'
import { asFault, exitCode, FaultError, fail } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import { type Cli, type Commands, tell } from './cli.ts'
import { type CommandRow, commandTable } from './completion/table.ts'
import { processOut, wantsColours } from './out.ts'
import { oneLine, paint } from './render/text.ts'
import { badValue } from './values.ts'
import { version } from './version.ts'

/**
 * Runs one command: `argv` without node and script, `dist` the folder of the bundles. Sets the process's exit code: 0 done,
 * 1 it failed, 2 wrong use, 3 no team root or bad config, 4 nobody by that name or id, 5 refused, 6 no daemon.
 */
export const main = async ({ argv: all, dist }: { argv: readonly string[]; dist: string }): Promise<void> => {
  arm(process.env[killVariable])
  const { argv, rest } = split(all)
  const colours = wantsColours(process.env, process.stdout.isTTY === true, argv)
  const cli: Cli = {
    out: processOut(),
    paint: paint(colours),
    clock,
    env: process.env,
    cwd: process.cwd(),
    rest,
    dist,
    families: allFamilies,
    columns: process.stdout.columns,
    interactive: process.stdin.isTTY === true && process.stdout.isTTY === true,
  }
  const verbose = argv.includes('--verbose')
  try {
    const [first] = argv
    if (first !== undefined && !first.startsWith('-') && !isCommand(first)) throw new WrongUse(unknownCommand(first))
    if (cli.rest.length > 0 && !takesRest.has(argv.find(arg => !arg.startsWith('-')) ?? ''))
      throw new WrongUse(`nothing may follow -- here: ${cli.rest.join(' ')}`)
    const meant = await families(argv)
    const bad = asksForHelp(argv) ? null : badValue(argv, commandTable(meant, cli))
    if (bad !== null) throw new FaultError(fail('usage', bad.message, bad.hint).fault)
    await commands(cli, meant).parseAsync([...argv])
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown))
    const fault =
      error instanceof WrongUse || error.name === 'YError'
        ? fail('usage', usage(error.message, argv, commandTable(await families(argv), cli)), help(argv, error.message))
            .fault
        : asFault(error)
    tell(cli, fault.code === 'internal' ? { ...fault, hint: 'This is a bug; --verbose shows where.' } : fault, verbose)
    process.exitCode = exitCode(fault.code)
  }
  endWhenSaid()
}

/** The command line does not make sense: exit code 2, and no bug. */
class WrongUse extends Error {}

/** Each command's file is loaded when it may be the one meant, so that none pays for the others. */
const loads = {
  init: async () => (await import('./init.ts')).init,
  up: async () => (await import('./up.ts')).up,
  down: async () => (await import('./down.ts')).down,
  status: async () => (await import('./status.ts')).status,
  task: async () => (await import('./task.ts')).task,
  inbox: async () => (await import('./inbox.ts')).inbox,
  send: async () => (await import('./send.ts')).send,
  plan: async () => (await import('./plan.ts')).plan,
  chat: async () => (await import('./chat.ts')).chat,
  requests: async () => (await import('./requests.ts')).requests,
  permissions: async () => (await import('./permissions.ts')).permissions,
  merge: async () => (await import('./merge.ts')).merge,
  why: async () => (await import('./why.ts')).why,
  rescue: async () => (await import('./rescue.ts')).rescue,
  compact: async () => (await import('./compact.ts')).compact,
  restart: async () => (await import('./restart.ts')).restart,
  logs: async () => (await import('./logs.ts')).logs,
  replay: async () => (await import('./replay.ts')).replay,
  prefix: async () => (await import('./prefix.ts')).prefix,
  completion: async () => (await import('./completion.ts')).completion,
  doctor: async () => (await import('./doctor.ts')).doctor,
  demo: async () => (await import('./demo.ts')).demo,
} satisfies Record<string, () => Promise<(commands: Commands, cli: Cli) => Commands>>

type Family = (commands: Commands, cli: Cli) => Commands

/** Every command there is, for what tells of all of them. */
export const allFamilies = (): Promise<Family[]> => Promise.all(Object.values(loads).map(load => load()))

/** Which family a command belongs to, where its name is not the family's. */
const family: Readonly<Record<string, keyof typeof loads>> = {
  ps: 'status',
  approve: 'requests',
  reject: 'requests',
  ask: 'requests',
  answer: 'requests',
  diff: 'merge',
  land: 'merge',
}

const names = new Set([...Object.keys(loads), ...Object.keys(family)].filter(name => name !== 'merge'))
const isCommand = (word: string): boolean => names.has(word)

const unknownCommand = (word: string): string => {
  const near = nearest(word, names) ?? [...names].find(name => name.startsWith(word))
  return `unknown command: ${oneLine(word)}${near === undefined ? '' : `; did you mean ${near}?`}`
}

/** Commands whose text may stand after `--`, or be `-`. */
const takesRest = new Set(['send', 'answer', 'plan'])

/**
 * What yargs is given, and what it must not see: the words after `--`, and the `-` that stands for stdin in place of a text
 * (of which yargs makes an empty word).
 */
const split = (all: readonly string[]): { argv: readonly string[]; rest: readonly string[] } => {
  const end = all.indexOf('--')
  // A file's name: a dash at its beginning is no option's.
  if (end >= 0 && all.find(arg => !arg.startsWith('-')) === 'why')
    return { argv: [...all.slice(0, end), ...all.slice(end + 1).map(arg => arg.replace(/^-/, './-'))], rest: [] }
  if (end >= 0) return { argv: all.slice(0, end), rest: all.slice(end + 1) }
  const dash = all.findIndex((arg, i) => arg === '-' && all[i - 1] !== '--file')
  if (dash < 0 || !takesRest.has(all.find(arg => !arg.startsWith('-')) ?? '')) return { argv: all, rest: [] }
  return { argv: all.toSpliced(dash, 1), rest: ['-'] }
}

/** Commands with a text for people, which the shell splits where it is not quoted. */
const takesText = new Set(['send', 'answer', 'task'])

/** Options that may stand in any number: everything else given twice is a slip. */
const many = new Set(['after', 'needs', 'skill', 'tag', 'path', 'accept', 'id', 'names'])

const commands = (cli: Cli, meant: readonly Family[]): Commands => {
  let y: Commands = yargs()
    .scriptName('team')
    .usage('$0 <command>\n\nA team of coding agents on one repository, everything in files that a person can read.')
    .option('root', { type: 'string', global: true, describe: 'the team root (else TEAM_ROOT, else found from here)' })
    .option('verbose', { type: 'boolean', global: true, default: false, describe: 'say where a fault came from' })
    .option('color', {
      type: 'boolean',
      global: true,
      default: true,
      describe: 'colours on a terminal; --no-color: none',
    })
    .check(given => {
      for (const [name, value] of Object.entries(given))
        if (Array.isArray(value) && name !== '_' && !many.has(name))
          throw new WrongUse(`--${name} is given more than once`)
      return true
    }, true)
    .example('$0 demo', 'a team at work, nothing to set up')
    .example('cd my-repo && $0 init && $0 up', 'a team of your own')
    .strict()
    .recommendCommands()
    .demandCommand(1, 'say what to do; team demo shows a team at work')
    .locale('en')
    .detectLocale(false)
    .help()
    .alias('h', 'help')
    .version(version)
    .exitProcess(false)
    .fail((message, error) => {
      throw error ?? new WrongUse(message)
    })
    .wrap(Math.min(110, process.stdout.columns ?? 100))
    .parserConfiguration({
      'parse-numbers': false,
      'parse-positional-numbers': false,
      'greedy-arrays': false,
    })
    .epilogue(
      'Exit codes: 0 done, 1 it failed, 2 wrong use, 3 no team root or bad config, 4 nobody by that name or id, 5 refused, 6 no daemon',
    )
  for (const family of meant) y = family(y, cli)
  return y
}

/** The families that may be meant: the one that is named first, else all. */
const families = async (argv: readonly string[]): Promise<Family[]> => {
  const word = argv.find(arg => !arg.startsWith('-') && isCommand(arg))
  // `--root up status` names two; all are loaded then, as for help and for a name that nobody has.
  if (word === undefined || argv[0] !== word) return allFamilies()
  return [await loads[family[word] ?? (word as keyof typeof loads)]()]
}

const asksForHelp = (argv: readonly string[]): boolean =>
  ['--help', '-h', '--version'].some(each => argv.includes(each))

/** The arguments of the command that is meant, as its usage names them. */
const placesOf = (argv: readonly string[], rows: readonly CommandRow[]): readonly string[] => {
  const [first = '', second = ''] = argv.filter(arg => !arg.startsWith('-'))
  return (
    (rows.find(({ path }) => path === `${first} ${second}`) ?? rows.find(({ path }) => path === first))?.places ?? []
  )
}

/** What yargs says, in our manner: one line, small first letter, and the word it is about. */
const usage = (message: string, argv: readonly string[], rows: readonly CommandRow[]): string => {
  const places = placesOf(argv, rows)
  const missing = (had: string): string => {
    const place = places.filter(each => each.startsWith('<'))[Number(had)]
    return `an argument is missing${place === undefined ? '' : `: ${place}`}`
  }
  const given = (name: string): string => places.find(place => place === `<${name}>`) ?? `--${name}`
  return message
    .replace(/\s+/g, ' ')
    .replace(/^Not enough non-option arguments: got (\d+), .*$/, (_all, had: string) => missing(had))
    .replace(
      /^Did you mean /,
      `unknown command: ${argv
        .filter(arg => !arg.startsWith('-'))
        .slice(0, 2)
        .join(' ')}; did you mean `,
    )
    .replace(
      /^Invalid values: Argument: (\S+), Given: (.*), Choices: (.*)$/,
      (_all, name: string, got: string, choices: string) => `${given(name)} takes one of ${choices}, not ${got}`,
    )
    .replace(/^[A-Z](?=[a-z])/, c => c.toLowerCase())
}

/** The help that tells how the command meant is used; of a text in several words, what is wrong with it. */
const help = (argv: readonly string[], message: string): string => {
  const stray = /^Unknown argument: (.*)$/.exec(message)?.[1]
  if (stray !== undefined && argv.includes(stray) && takesText.has(argv[0] ?? ''))
    return 'Put a text of several words in quotes.'
  const words = argv
    .filter(arg => /^[a-z]+$/.test(arg))
    .slice(0, argv[0] === 'task' && !message.startsWith('Did you mean') ? 2 : 1)
  const known = words[0] !== undefined && isCommand(words[0])
  return `See team ${known ? `${words.join(' ')} ` : ''}--help.`
}

/**
 * The process ends by itself when nothing is left to do. Should something keep it that nobody waits for, it is ended, but
 * never before everything that was said has been read.
 */
const endWhenSaid = (): void => {
  const look = () => {
    if (process.stdout.writableLength === 0 && process.stderr.writableLength === 0) process.exit()
    setTimeout(look, 200).unref()
  }
  setTimeout(look, 1000).unref()
}
