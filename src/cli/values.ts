import { type CommandRow, globalOptions, type OptionRow } from './completion/table.ts'

/** What is wrong with an option's value, and how it is given. */
export interface BadValue {
  readonly message: string
  readonly hint: string
}

/**
 * The first on the command line that is an option without a value or with an empty one, or with what is no number where it
 * takes a number, or an empty argument; null where all have what they take. `rows` are the commands that may be meant. yargs would make 0 of an empty number, and
 * take an option without a value as one that was not given.
 */
export const badValue = (argv: readonly string[], rows: readonly CommandRow[]): BadValue | null => {
  let path = ''
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] ?? ''
    if (!word.startsWith('-') || word === '-') {
      const longer = path === '' ? word : `${path} ${word}`
      if (rows.some(row => row.path === longer || row.path.startsWith(`${longer} `))) path = longer
      else if (word === '' && path !== '' && !sayWhatIsEmpty.has(path))
        return { message: 'an argument is empty', hint: hint(path) }
      continue
    }
    const options = [...(rows.find(row => row.path === path)?.options ?? []), ...globalOptions]
    let isTaken = false
    for (const { flag, inside, isLast } of flagsIn(word)) {
      const option = options.find(each => isNamed(each, flag))
      if (!option?.takesValue) continue
      const next = isLast ? argv[i + 1] : undefined
      const isNext = inside === null && next !== undefined && (isNumber(next) || next === '-' || !next.startsWith('-'))
      const value = inside ?? (isNext ? next : '')
      isTaken = isNext
      if (value === '' && !(option.mayBeEmpty && (isNext || inside !== null)))
        return {
          message: `${flag} needs a value`,
          hint: hint(path, inside === null && !isNext ? next : undefined, flag),
        }
      if (option.isNumber && !isNumber(value))
        return { message: `${flag} takes a number, not ${JSON.stringify(value)}`, hint: hint(path) }
    }
    if (isTaken) i++
  }
  return null
}

interface Flag {
  readonly flag: string
  /** Its value, where that stands in the same word. */
  readonly inside: string | null
  /** The next word may be its value. */
  readonly isLast: boolean
}

/** The options of one word, as yargs reads it: `-fn5` is `-f -n 5`, and `-nf` is `-n` without a value and `-f`. */
const flagsIn = (word: string): Flag[] => {
  if (word.startsWith('--')) {
    const [flag = '', ...inside] = word.split('=')
    return [{ flag, inside: inside.length > 0 ? inside.join('=') : null, isLast: true }]
  }
  const found: Flag[] = []
  for (let at = 1; at < word.length; at++) {
    const rest = word.slice(at + 1)
    const inside = rest.startsWith('=') ? rest.slice(1) : isNumber(rest) || /^\W/.test(rest) ? rest : null
    found.push({ flag: `-${word[at]}`, inside, isLast: rest === '' })
    if (inside !== null) break
  }
  return found
}

/** Commands with a text, which say themselves what is empty; to nobody's name `send` says who there is. */
const sayWhatIsEmpty = new Set(['send', 'answer', 'plan', 'task add', 'init'])

/** yargs takes `--n` for `-n`, and `--replyTo` for `--reply-to`. */
const isNamed = ({ flags }: OptionRow, word: string): boolean => {
  const flag = word.replace(/[A-Z]/g, c => `-${c.toLowerCase()}`)
  return flags.includes(flag) || flags.includes(flag.slice(1))
}

const isNumber = (text: string): boolean => /^-?(?:\d+(?:\.\d+)?|\.\d+)$/.test(text)

const hint = (path: string, next?: string, flag?: string): string =>
  next === undefined
    ? `See team ${path === '' ? '' : `${path} `}--help.`
    : `${next} begins with a dash; as a value it stands behind =: ${flag}=${next}`
