import { type CommandRow, globalOptions, type OptionRow, type Values } from './table.ts'

const quoted = (text: string): string => `'${text.replace(/'/g, `'\\''`)}'`

/** Commands that say a value's candidates, a line each. */
const say = (values: Values, ask: (kind: string) => string): string | null =>
  values === null || values === 'file'
    ? null
    : typeof values === 'string'
      ? ask(values)
      : `printf '%s\\n' ${values.map(quoted).join(' ')}`

/** In fish a backslash is one within quotes too. */
const inFish = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`

/**
 * What printed the script, by absolute paths: an alias is no command that a function could call. Where it is gone (another
 * version of Node, another machine), `team` on PATH is asked.
 */
interface Program {
  readonly node: string
  readonly script: string
}

const groups = (rows: readonly CommandRow[]): string[] => [
  ...new Set(rows.flatMap(({ path }) => (path.includes(' ') ? [path.split(' ')[0] ?? ''] : []))),
]
const firstWords = (rows: readonly CommandRow[]): string[] => [
  ...new Set(rows.map(({ path }) => path.split(' ')[0] ?? '')),
]

/**
 * The function that both bash and zsh use: given the word begun and the words before it, it says the candidates, a line each.
 * Plain words come from the table; ids and names are asked of `program`.
 */
const words = (rows: readonly CommandRow[], program: Program): string => {
  const ask = (kind: string) => `_team_ask ${kind} "$root"`
  const valued = (row: CommandRow) => row.options.filter(option => option.takesValue)
  const skips = rows.flatMap(row =>
    valued(row).flatMap(({ flags }) => flags.map(flag => quoted(`${row.path} ${flag}`))),
  )
  const values = rows.flatMap(row =>
    valued(row).flatMap(({ flags, values }) => {
      const said = say(values, ask)
      return said === null ? [] : [`      ${flags.map(flag => quoted(`${row.path} ${flag}`)).join('|')}) ${said} ;;`]
    }),
  )
  const flagsOf = (options: readonly OptionRow[]) =>
    options
      .flatMap(({ flags }) => flags)
      .map(quoted)
      .join(' ')
  const options = rows.map(
    row => `      ${quoted(row.path)}) printf '%s\\n' ${flagsOf([...row.options, ...globalOptions])} ;;`,
  )
  const places = rows.flatMap(row =>
    row.positionals.flatMap((each, i) => {
      const said = say(each, ask)
      const pattern =
        row.isOpen && i === row.positionals.length - 1 ? `${quoted(row.path)}\\ *` : quoted(`${row.path} ${i}`)
      return said === null ? [] : [`    ${pattern}) ${said} ;;`]
    }),
  )
  const subs = groups(rows).map(group => {
    const names = rows.flatMap(({ path }) => (path.startsWith(`${group} `) ? [path.slice(group.length + 1)] : []))
    return `    ${quoted(`${group} 0`)}) printf '%s\\n' ${names.map(quoted).join(' ')} ;;`
  })
  const [node, script] = [quoted(program.node), quoted(program.script)]
  return `_team_run() {
  if [ -x ${node} ] && [ -f ${script} ]; then ${node} ${script} "$@"; else command team "$@"; fi
}
_team_ask() {
  case "$2" in '~'|'~/'*) set -- "$1" "$HOME\${2:1}" ;; esac
  if [ -n "$2" ]; then _team_run __complete "$1" --root "$2"; else _team_run __complete "$1"; fi 2>/dev/null | cut -f 1
}
_team_words() {
  local cur="$1" at='' n=0 skip='' prev='' root='' w
  shift
  for w in "$@"; do
    if [ -n "$skip" ]; then
      if [ "$w" = = ]; then continue; fi
      if [ "$skip" = root ]; then root="$w"; fi
      skip=''
      continue
    fi
    prev="$w"
    case "$at $w" in
      *' --root') skip=root; continue ;;
      *' --root='*) root="\${w#--root=}"; continue ;;
      ${skips.join('|')}) skip=value; continue ;;
    esac
    case "$w" in
      -*) ;;
      *)
        case "$at" in
          '') at="$w" ;;
          ${groups(rows).map(quoted).join('|')}) at="$at $w" ;;
          *) n=$((n + 1)) ;;
        esac ;;
    esac
  done
  if [ -n "$skip" ]; then
    case "$at $prev" in
${values.join('\n')}
    esac
    return 0
  fi
  case "$cur" in -*)
    case "$at" in
${options.join('\n')}
      *) printf '%s\\n' ${flagsOf([...globalOptions, { flags: ['--version'], about: '', takesValue: false, values: null }])} ;;
    esac
    return 0 ;;
  esac
  case "$at $n" in
    ' 0') printf '%s\\n' ${firstWords(rows).map(quoted).join(' ')} ;;
${[...subs, ...places].join('\n')}
  esac
}`
}

const bash = (
  rows: readonly CommandRow[],
  program: Program,
): string => `# bash completion of team; source it, or: team completion bash > ~/.local/share/bash-completion/completions/team
${words(rows, program)}
_team() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" line
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in "$cur"*) COMPREPLY+=("$line") ;; esac
  done < <(_team_words "$cur" "\${COMP_WORDS[@]:1:COMP_CWORD-1}")
}
complete -o bashdefault -o default -F _team team
`

const zsh = (rows: readonly CommandRow[], program: Program): string => `#compdef team
# zsh completion of team; put it as _team into a folder of $fpath, or source it after compinit
${words(rows, program)}
_team() {
  local -a found
  found=("\${(@f)$(_team_words "\${words[CURRENT]}" "\${(@)words[2,CURRENT-1]}")}")
  found=("\${(@)found:#}")
  if (( \${#found} )); then compadd -- "\${found[@]}"; else _files; fi
}
if [ "\${funcstack[1]}" = _team ]; then _team "$@"; else compdef _team team; fi
`

/** What was typed so far as fish has it: the root that was named, and whether a command was. */
const fishWords = ({ node, script }: Program): string => `function __team_root
    set -l next no
    for word in (commandline -opc)
        if test $next = yes
            echo -- $word
            return
        end
        switch $word
            case '--root=*'
                string replace -- --root= '' $word
                return
            case --root
                set next yes
        end
    end
end
function __team_run
    if test -x ${inFish(node)}; and test -f ${inFish(script)}
        ${inFish(node)} ${inFish(script)} $argv
    else
        command team $argv
    end
end
function __team_ask
    set -l root (__team_root | string replace -r '^~(?=/|$)' -- $HOME)
    if test -n "$root"
        __team_run __complete $argv[1] --root $root 2>/dev/null
    else
        __team_run __complete $argv[1] 2>/dev/null
    end
end
function __team_none
    set -l words (commandline -opc)
    set -e words[1]
    set -l value no
    for word in $words
        switch $value$word
            case 'yes*'
                set value no
            case 'no--root'
                set value yes
            case 'no-*'
            case '*'
                return 1
        end
    end
end`

const fish = (rows: readonly CommandRow[], program: Program): string => {
  const all = groups(rows)
  const inside = (path: string): string => {
    const [first = '', second] = path.split(' ')
    return second === undefined
      ? `__fish_seen_subcommand_from ${first}`
      : `__fish_seen_subcommand_from ${first}; and __fish_seen_subcommand_from ${second}`
  }
  const values = (each: Values): string =>
    each === 'file'
      ? ' -F'
      : each === null
        ? ''
        : ` -a ${quoted(typeof each === 'string' ? `(__team_ask ${each})` : each.join(' '))}`
  const flag = (name: string): string => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`)
  const option = (condition: string, { flags, about, takesValue, values: of }: OptionRow): string =>
    `complete -c team${condition} ${flags.map(flag).join(' ')}${takesValue ? (of === 'file' ? ' -r' : ' -x') : ''}${takesValue ? values(of) : ''} -d ${quoted(about)}`
  const lines = [
    '# fish completion of team: team completion fish > ~/.config/fish/completions/team.fish',
    fishWords(program),
    'complete -c team -f',
  ]
  for (const each of globalOptions) lines.push(option('', each))
  for (const row of rows) {
    const [first = '', second] = row.path.split(' ')
    const condition =
      second === undefined
        ? '__team_none'
        : `__fish_seen_subcommand_from ${first}; and not __fish_seen_subcommand_from ${rows
            .flatMap(({ path }) => (path.startsWith(`${first} `) ? [path.split(' ')[1]] : []))
            .join(' ')}`
    lines.push(`complete -c team -n ${quoted(condition)} -a ${second ?? first} -d ${quoted(row.about)}`)
    for (const each of row.options) lines.push(option(` -n ${quoted(inside(row.path))}`, each))
    for (const each of row.positionals) {
      const said = values(each)
      if (said !== '') lines.push(`complete -c team -n ${quoted(inside(row.path))}${said}`)
    }
  }
  for (const group of all) lines.push(`complete -c team -n '__team_none' -a ${group}`)
  return `${lines.join('\n')}\n`
}

export const scripts = { bash, zsh, fish } as const
