import {
  type Assignment,
  type Command,
  forEachChild,
  parse,
  type Redirection,
  type SyntaxNode,
  type Word,
  type WordPart,
} from 'unbash'

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
  | { readonly ok: true; readonly commands: readonly SimpleCommand[] }
  | { readonly ok: false; readonly why: string }

/** Every simple command in `source`, which is read as bash. Pure; never runs anything. */
export const simpleCommands = (source: string): Reading => {
  const commands: SimpleCommand[] = []
  let why: string | undefined
  const visit = (node: SyntaxNode, text: string, fed: boolean): void => {
    if (node.type === 'Script') {
      if (node.errors?.length) why ??= node.errors[0]?.message ?? 'unreadable'
      const own = node.source ?? text
      forEachChild(node, child => visit(child, own, fed))
      return
    }
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
  visit(parse(source), source, false)
  return why === undefined ? { ok: true, commands } : { ok: false, why }
}

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

/** Parts whose outcome depends on variables, files or other commands. */
const isOpen = (part: WordPart): boolean => {
  switch (part.type) {
    case 'Literal':
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return false
    case 'DoubleQuoted':
    case 'LocaleString':
      return part.parts.some(isOpen)
    default:
      return true
  }
}

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
