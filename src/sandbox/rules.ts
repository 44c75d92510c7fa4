import { basename } from 'node:path'
import type { Permissions } from '../protocol/config.ts'
import { type CommandWord, type SimpleCommand, simpleCommands } from './commands.ts'

/**
 * What the rules say of a command line. `opaque`: it cannot be known which commands it runs, so no rule can allow it.
 * `unmatched`: readable, but nothing allows all of it.
 */
export interface Judgement {
  readonly verdict: 'deny' | 'ask' | 'allow' | 'opaque' | 'unmatched'
  /** The rule that decided, for deny and ask. */
  readonly rule: string | null
  /** The part of the command line that decided, or why it is opaque. */
  readonly what: string
}

/**
 * A rule that a person gave for one teammate: the words of one command, each as it is. It lets that command through where
 * nothing allows it, and past the `ask` rules named, which were in its way when it was given; past no other, and only where
 * the rest of the line is allowed too.
 */
export interface Given {
  readonly rule: string
  readonly past: readonly string[]
}

/**
 * Judges a command line by rules on the simple commands in it, in the order deny, ask, allow. Rules on paths are not
 * supported yet. Rules are words; `*` within a word stands for any characters, alone for one word, alone at the end for
 * any number of words, none too.
 *
 * - allow (`npm test`, `git *`): must match the whole of each simple command, assignments in front included. A command
 *   whose name only a running shell knows (`$x`, `$(…)`), an `eval` or `sh -c` of such a text, a shell that is fed its
 *   script, and output sent anywhere but below the working folder are never allowed by a rule.
 * - deny and ask (`rm -rf`, `curl`): match the beginning of a command, by its base name, flags in any order and form
 *   (`-r -f`), also behind `sudo`, `env`, `xargs` and their like and inside a readable `sh -c`.
 *
 * Only the sandbox keeps a command inside: a script file or an interpreter can do what no rule sees. deny and ask are
 * guard rails, not walls.
 */
export const judge = (command: string, permissions: Permissions, given: readonly Given[] = []): Judgement => {
  const found = unfold(command, 0)
  /** An `ask` rule that a given one led past. */
  let passed: { rule: string; what: string } | null = null
  const ruled = (rules: readonly string[], past: readonly Given[]) => {
    for (const { part } of found.commands)
      for (const rule of rules) {
        if (!starts(rule, part)) continue
        if (!past.some(each => each.past.includes(rule) && lets(each, part))) return { rule, what: part.source }
        passed ??= { rule, what: part.source }
      }
    return null
  }
  const denied = ruled(permissions.deny, [])
  if (denied) return { verdict: 'deny', ...denied }
  const asked = ruled(permissions.ask, given)
  if (asked) return { verdict: 'ask', ...asked }
  if (found.opaque !== null) return { verdict: 'opaque', rule: null, what: found.opaque }
  const strays = found.commands.some(({ part }) => leaves(part))
  for (const { part, judgedInside } of found.commands) {
    const outside = part.writes.find(target => !isNowhere(target) && (strays || !isBelow(target)))
    const isLet = judgedInside || isAllowed(part, permissions) || given.some(each => lets(each, part))
    if (isLet && !outside) continue
    // Beside commands that nobody spoke of, a given rule's words may not do what they did alone.
    if (passed) return { verdict: 'ask', ...(passed as { rule: string; what: string }) }
    return { verdict: 'unmatched', rule: null, what: isLet ? `output to ${outside?.text || 'a file'}` : part.source }
  }
  return { verdict: 'allow', rule: null, what: command }
}

/**
 * The narrowest rule that lets this command line through from now on: the exact words of the one command in it that is in
 * the way, no wildcard. Null where no such rule can be: more than one is in the way, its words are not all plain (quoted
 * blanks, patterns, variables), or it is fed its input, which no rule would see.
 */
export const narrowRule = (command: string, permissions: Permissions): Given | null => {
  const rules = new Set<string>()
  const past = new Set<string>()
  for (const { part, judgedInside } of unfold(command, 0).commands) {
    const asks = permissions.ask.filter(rule => starts(rule, part))
    if (asks.length === 0 && (judgedInside || isAllowed(part, permissions))) continue
    if (part.fed || part.words.length === 0 || !part.words.every(isPlain)) return null
    rules.add(part.words.map(({ text }) => text).join(' '))
    for (const rule of asks) past.add(rule)
  }
  const [rule, another] = rules
  if (rule === undefined || another !== undefined) return null
  const given = { rule, past: [...past] }
  return judge(command, permissions, [given]).verdict === 'allow' ? given : null
}

/** Why a command line may not be run by the rules; null when it may. `asks`: a person may permit it. */
export const obstacle = (
  command: string,
  permissions: Permissions,
  sandboxed: boolean,
  given: readonly Given[] = [],
): { readonly asks: boolean; readonly reason: string } | null => {
  const judged = judge(command, permissions, given)
  switch (judged.verdict) {
    case 'deny':
      return { asks: false, reason: `a rule forbids \`${judged.rule}\`, and this runs ${judged.what}` }
    case 'ask':
      return { asks: true, reason: `\`${judged.rule}\` needs a person's word, and this runs ${judged.what}` }
    case 'opaque': {
      const ruled = permissions.deny.length + permissions.ask.length > 0
      return ruled || !sandboxed ? { asks: true, reason: `rules cannot judge it: ${judged.what}` } : null
    }
    case 'unmatched': {
      const allowed = permissions.allow.filter(rule => rule !== 'network').join(', ') || 'nothing'
      return sandboxed
        ? null
        : {
            asks: true,
            reason: `there is no sandbox here, so only allowed commands run, and no rule allows ${judged.what}. Allowed: ${allowed}`,
          }
    }
    case 'allow':
      return null
  }
}

const shells = new Set(['sh', 'bash', 'dash', 'zsh', 'ksh', 'ash', 'busybox'])
const evals = new Set(['eval', 'trap'])
/** Run the command that follows among their arguments. */
const carriers = new Set(
  'sudo doas env command builtin exec nohup time timeout nice ionice chrt setsid stdbuf xargs parallel find watch strace unshare chroot script busybox fakeroot'.split(
    ' ',
  ),
)
/** Change nothing and run nothing, with any arguments. */
const plain = new Set([':', 'true', 'false', 'pwd', 'echo', 'test', '[', 'exit', 'cd', 'break', 'continue', 'return'])

interface Unfolded {
  /** `judgedInside`: a plain `sh -c '…'`, whose script's commands stand in the list too and are what allow rules look at. */
  readonly commands: readonly { readonly part: SimpleCommand; readonly judgedInside: boolean }[]
  readonly opaque: string | null
}

/** The simple commands of a line, those inside a readable `sh -c` or `eval` too, and why not all of them are known. */
const unfold = (source: string, depth: number): Unfolded => {
  if (depth > 4) return { commands: [], opaque: 'it nests shells too deeply' }
  const reading = simpleCommands(source, depth > 0)
  if (!reading.ok) return { commands: [], opaque: `it cannot be read as a shell command: ${reading.why}` }
  const commands: { part: SimpleCommand; judgedInside: boolean }[] = []
  let opaque = reading.evaluated && `only a running shell knows what ${reading.evaluated} evaluates`
  for (const part of reading.commands) {
    const name = part.words[part.name]
    if (name?.open) opaque ??= `only a running shell knows what ${part.source} runs`
    const inside = name === undefined || name.open ? undefined : scriptOf(part.words.slice(part.name), part.fed)
    commands.push({ part, judgedInside: inside?.plain === true && part.name === 0 })
    if (inside?.script === null) opaque ??= `the script that ${part.source} runs cannot be read`
    else if (inside) {
      const more = unfold(inside.script, depth + 1)
      commands.push(...more.commands)
      opaque ??= more.opaque
    }
  }
  return { commands, opaque }
}

const isFlag = (word: CommandWord): boolean => word.text.startsWith('-')

/**
 * The script that a shell or `eval` runs, its text null where that is not known; undefined where the words are neither.
 * `plain`: nothing but the script is given, so that it says all that is run.
 */
const scriptOf = (
  words: readonly CommandWord[],
  fed: boolean,
): { script: string | null; plain: boolean } | undefined => {
  const name = basename(words[0]?.text ?? '')
  const args = words.slice(1)
  if (carriers.has(name) && !shells.has(name)) {
    const at = args.findIndex(word => shells.has(basename(word.text)) || evals.has(word.text))
    const carried = at < 0 ? undefined : scriptOf(args.slice(at), fed)
    return carried && { ...carried, plain: false }
  }
  if (evals.has(name)) {
    const text = name === 'trap' ? args.filter(word => !isFlag(word)).slice(0, 1) : args
    return { script: text.some(word => word.open) ? null : text.map(word => word.text).join(' '), plain: true }
  }
  if (!shells.has(name)) return undefined
  const flag = args.findIndex(word => /^-[A-Za-z]*c[A-Za-z]*$/.test(word.text))
  if (flag >= 0) {
    const at = args.findIndex((word, i) => i > flag && !isFlag(word))
    const script = args[at]
    return {
      script: script === undefined || script.open ? null : script.text,
      plain: flag === 0 && at === 1 && /^-[ceux]+$/.test(args[0]?.text ?? ''),
    }
  }
  // Without a file to run it reads its input.
  return fed && args.every(isFlag) ? { script: null, plain: false } : undefined
}

/** Changes nothing and runs nothing. A mere assignment is not harmless: it may change what later commands run. */
const harmless = (part: SimpleCommand): boolean => {
  const name = part.words[part.name]
  return name === undefined ? part.words.length === 0 : part.name === 0 && plain.has(name.text)
}

const isAllowed = (part: SimpleCommand, permissions: Permissions): boolean =>
  harmless(part) || permissions.allow.some(rule => covers(rule, part))

/** A given rule is its words and nothing else: what stands for more in a rule of config.json does not in it. */
const lets = ({ rule }: Given, part: SimpleCommand): boolean =>
  !part.fed && part.words.every(isPlain) && part.words.map(({ text }) => text).join(' ') === rule

/** A word that a shell takes as it stands, and that reads the same in a rule. */
const isPlain = ({ text, open }: CommandWord): boolean => !open && /^[\w@%+=:,./-]+$/.test(text)

const wordsOf = (rule: string): string[] => rule.trim().split(/\s+/)

const pattern = (word: string): RegExp =>
  new RegExp(`^${word.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`, 's')

/** Does an allow rule match the whole of a command? */
const covers = (rule: string, command: SimpleCommand): boolean => {
  const wanted = wordsOf(rule)
  const words = command.words
  for (let i = 0; i < wanted.length; i++) {
    const want = wanted[i] ?? ''
    if (want === '*' && i === wanted.length - 1 && i > command.name) return true
    const word = words[i]
    if (!word || word.open || !pattern(want).test(word.text)) return false
  }
  return wanted.length === words.length
}

/** Does a deny or ask rule match a command, or one that it carries? */
const starts = (rule: string, command: SimpleCommand): boolean => {
  const wanted = wordsOf(rule)
  const words = command.words.slice(command.name)
  const carries = words[0] !== undefined && carriers.has(basename(words[0].text))
  for (let from = 0; from < (carries ? words.length : 1); from++) if (startsAt(wanted, words.slice(from))) return true
  return false
}

const startsAt = (wanted: readonly string[], words: readonly CommandWord[]): boolean => {
  const flags = words.slice(1).filter(word => /^-[A-Za-z]+$/.test(word.text))
  const letters = new Set(flags.flatMap(word => [...word.text.slice(1)]))
  const others = words.filter((word, i) => i === 0 || !flags.includes(word))
  let at = 0
  for (const [i, want] of wanted.entries()) {
    if (want === '*' && i === wanted.length - 1) return true
    // A cluster of flags is there when each of its letters is, in whatever cluster and order.
    if (i > 0 && /^-[A-Za-z]+$/.test(want)) {
      if (![...want.slice(1)].every(letter => letters.has(letter))) return false
      continue
    }
    const word = others[at++]
    if (!word) return false
    const text = i === 0 && !want.includes('/') ? basename(word.text) : word.text
    // An open argument may be anything, so it may be what is denied.
    if (i > 0 && word.open) continue
    if (!pattern(want).test(text)) return false
  }
  return true
}

/** May the line go on in a folder that is not below the working folder, so that what it writes to lies elsewhere? */
const leaves = (command: SimpleCommand): boolean => {
  if (starts('pushd', command) || starts('popd', command)) return true
  if (!starts('cd', command)) return false
  const at = command.words.findIndex(({ text }) => text === 'cd')
  const [to, another] = command.words.slice(at + 1).filter(({ text }) => !/^-[LPe@]*-?$/.test(text) || text === '-')
  return at < 0 || to === undefined || another !== undefined || to.text === '-' || !isBelow(to)
}

const isNowhere = (target: CommandWord): boolean =>
  !target.open && ['/dev/null', '/dev/stdout', '/dev/stderr'].includes(target.text)

/** What a team root holds of its own: where the workspace is the root, rules, mail and run state lie below it. */
const ofTheRoot = new Set(['config.json', 'team', '.team', '.tasks', '.messages', '.transcripts'])

/** Below the working folder by name, and no file of git's or of a team root's own. */
const isBelow = (target: CommandWord): boolean => {
  if (target.open || target.text === '' || target.text.startsWith('/')) return false
  const parts = target.text.split('/').filter(part => part !== '' && part !== '.')
  return !parts.includes('..') && !parts.includes('.git') && !ofTheRoot.has(parts[0] ?? '')
}
