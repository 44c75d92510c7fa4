import {
  type Assignment,
  type Command,
  forEachChild,
  parse,
  type Redirection,
  type SyntaxNode,
  type Word,
} from 'unbash'
import { isEvaluated, isOpen, numbersOf, setByShell } from './evaluated.ts'

/** One word of a simple command. `text` is what it says once quotes are removed; `open` when only a running shell knows that. */
export interface CommandWord {
  readonly text: string
  readonly open: boolean
}

/** One simple command, wherever it stands: in a pipe, a list, a loop, a function, a substitution, a here-document. */
export interface SimpleCommand {
  /** Assignments in front, then the name, then the arguments. */
  readonly words: readonly CommandWord[]
  /** Index in `words` of the name; equal to the length where there are only assignments or redirections. */
  readonly name: number
  /** Files it writes to by redirection. */
  readonly writes: readonly CommandWord[]
  /** As written. */
  readonly source: string
  /** Does its input come from a pipe or a here-document? */
  readonly fed: boolean
}

export type Reading =
  | {
      readonly ok: true
      readonly commands: readonly SimpleCommand[]
      /** The first part that the shell evaluates a second time, so that what it runs is not read here. */
      readonly evaluated: string | null
    }
  | { readonly ok: false; readonly why: string }

/**
 * Every simple command in `source`, which is read as bash; `nested` in a line that was read before. Pure; never runs
 * anything.
 */
export const simpleCommands = (source: string, nested = false): Reading => {
  const commands: SimpleCommand[] = []
  let why: string | undefined
  let evaluated: string | null = null
  const script = parse(source)
  const isNumber = numbersOf(script, nested)
  const visit = (node: SyntaxNode, text: string, fed: boolean): void => {
    if (node.type === 'Script') {
      if (node.errors?.length) why ??= node.errors[0]?.message ?? 'unreadable'
      const own = node.source ?? text
      forEachChild(node, child => visit(child, own, fed))
      return
    }
    if (isEvaluated(node, isNumber)) evaluated ??= text.slice(node.pos, node.end)
    const name = setByShell(node)
    // As an assignment: in capitals it may change what later commands run, else no command sees it.
    if (name !== null && /[A-Z]/.test(name)) commands.push(setting(name, text.slice(node.pos, node.end)))
    if (node.type === 'Pipeline') {
      for (const prefix of node.prefixes) visit(prefix, text, fed)
      for (const [i, command] of node.commands.entries()) visit(command, text, fed || i > 0)
      return
    }
    if (node.type === 'Command') commands.push(simple(node, text, fed))
    // A group, loop or test: what it writes to counts as a command without words.
    if (node.type === 'Redirected')
      commands.push({
        words: [],
        name: 0,
        writes: node.redirects.flatMap(written),
        source: text.slice(node.pos, node.end),
        fed,
      })
    forEachChild(node, child => visit(child, text, fed))
  }
  visit(script, source, false)
  return why === undefined ? { ok: true, commands, evaluated } : { ok: false, why }
}

const setting = (name: string, source: string): SimpleCommand => ({
  words: [{ text: `${name}=`, open: true }],
  name: 1,
  writes: [],
  source,
  fed: false,
})

const simple = (node: Command, source: string, fed: boolean): SimpleCommand => {
  const before = node.prefix.filter(part => part.type === 'Assignment').map(assigned)
  const args = node.args.map(arg => (arg.type === 'Assignment' ? assigned(arg) : word(arg)))
  const named = node.name ? [word(node.name)] : []
  return {
    words: [...before, ...named, ...args],
    name: before.length,
    writes: node.redirects.flatMap(written),
    source: source.slice(node.pos, node.end),
    fed: fed || node.redirects.some(redirect => redirect.operator.startsWith('<')),
  }
}

const word = (node: Word): CommandWord => ({
  text: node.value,
  open: /^~/.test(node.text) || (node.parts ?? []).some(isOpen),
})

const assigned = (node: Assignment): CommandWord => {
  const value = node.value.type === 'Word' ? word(node.value) : { text: '()', open: true }
  return { text: `${node.name}=${value.text}`, open: value.open || node.index !== undefined }
}

const written = (redirect: Redirection): CommandWord[] => {
  if (redirect.type !== 'Redirect' || redirect.operator === '<' || redirect.operator === '<&') return []
  if (!redirect.target) return [{ text: '', open: true }]
  const target = word(redirect.target)
  // 2>&1 and >&- name descriptors, not files.
  return redirect.operator === '>&' && /^(\d+|-)$/.test(target.text) ? [] : [target]
}
