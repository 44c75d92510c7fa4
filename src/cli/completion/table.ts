import type { Cli, Commands } from '../cli.ts'

/** What a value may be completed with: words, or a kind that is looked up when it is asked for; `file` is the shell's own. */
export type Values = readonly string[] | 'tasks' | 'requests' | 'things' | 'teammates' | 'inboxes' | 'file' | null

export interface OptionRow {
  /** `--json`, `-f`. */
  readonly flags: readonly string[]
  readonly about: string
  readonly takesValue: boolean
  readonly isNumber?: boolean
  /** `--verify ""` says something: there is none. */
  readonly mayBeEmpty?: boolean
  readonly values: Values
}

export interface CommandRow {
  /** `up`, `task show`. */
  readonly path: string
  readonly about: string
  readonly options: readonly OptionRow[]
  /** As usage has them: `<id..>`, `[name]`. */
  readonly places: readonly string[]
  readonly positionals: readonly Values[]
  /** The last positional may stand in any number. */
  readonly isOpen: boolean
  readonly examples: number
}

interface Given {
  readonly type?: string
  readonly alias?: string | readonly string[]
  readonly describe?: string
  readonly choices?: readonly string[]
  readonly hidden?: boolean
}

/** By `command positional` and `command --option`, the more general last. */
const kinds: readonly (readonly [RegExp, Values])[] = [
  [/^task (show|cancel|retry) id$/, 'tasks'],
  [/ --(after|blocked-by|task)$/, 'tasks'],
  [/^diff id$/, 'things'],
  [/^plan --edit$/, 'requests'],
  [/^(requests|approve|reject|ask|answer) id$/, 'requests'],
  [/^(send to|inbox name)$/, 'inboxes'],
  [/ (name|names)$/, 'teammates'],
  [/ --assignee$/, 'teammates'],
  [/ --(root|file|from|path|to)$/, 'file'],
  [/^(init dir|why place)$/, 'file'],
]
const kindOf = (place: string): Values => kinds.find(([pattern]) => pattern.test(place))?.[1] ?? null

/** Options of which an empty value is meant: all others need one. */
const mayBeEmpty = new Set(['init --verify'])

/** The command table, as the families give it to yargs: this listens in its place, so no word is written twice. */
export const commandTable = (
  families: readonly ((commands: Commands, cli: Cli) => Commands)[],
  cli: Cli,
): CommandRow[] => {
  const rows: CommandRow[] = []
  for (const family of families) family(listener(rows, '') as Commands, cli)
  const leaves = rows.filter(row => !rows.some(other => other.path.startsWith(`${row.path} `)))
  return leaves.sort((a, b) => (a.path < b.path ? -1 : 1))
}

type Builder = (commands: unknown) => unknown

/** Hears `command`, `option`, `positional` and `example`; whatever else is called on it changes nothing. */
const listener = (rows: CommandRow[], above: string): unknown => {
  const options: OptionRow[] = []
  const positionals = new Map<string, Values>()
  let examples = 0
  let path = above
  const heard: Record<string, (...args: never[]) => unknown> = {
    command: (spec: string | readonly string[], about: string | false, build?: Builder) => {
      const [first = '', ...aliases] = [spec].flat()
      const [name = '', ...places] = first.split(' ')
      if (about === false) return self
      // `$0` only says which one is meant where none is named.
      for (const word of [name, ...aliases].filter(each => each !== '$0')) {
        const made = listener(rows, `${above} ${word}`.trim()) as {
          row(about: string, places: readonly string[]): void
        }
        build?.(made)
        made.row(about, places)
      }
      return self
    },
    option: (name: string, given: Given) => {
      if (given.hidden) return self
      const names = [name, ...[given.alias ?? []].flat()]
      options.push({
        flags: names.map(each => (each.length === 1 ? `-${each}` : `--${each}`)),
        about: given.describe ?? '',
        takesValue: given.type !== 'boolean',
        isNumber: given.type === 'number',
        mayBeEmpty: mayBeEmpty.has(`${path} --${name}`),
        values: given.choices ?? kindOf(`${path} --${name}`),
      })
      return self
    },
    positional: (name: string, given: Given) => {
      positionals.set(name, given.choices ?? kindOf(`${path} ${name}`))
      return self
    },
    example: () => {
      examples++
      return self
    },
    row: (about: string, places: readonly string[]) => {
      const names = places.map(place => place.replace(/[<>[\].]/g, ''))
      rows.push({
        path,
        about: about.split('\n')[0] ?? '',
        options,
        places,
        positionals: names.map(name => positionals.get(name) ?? null),
        isOpen: places.at(-1)?.includes('..') ?? false,
        examples,
      })
    },
  }
  path = above
  const self: unknown = new Proxy(heard, { get: (target, name) => target[String(name)] ?? (() => self) })
  return self
}

/** Options that every command takes. */
export const globalOptions: readonly OptionRow[] = [
  { flags: ['--root'], about: 'the team root', takesValue: true, values: 'file' },
  { flags: ['--verbose'], about: 'say where a fault came from', takesValue: false, values: null },
  { flags: ['--help', '-h'], about: 'how the command is used', takesValue: false, values: null },
]
