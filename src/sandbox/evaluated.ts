import type { Command, SyntaxNode, Word, WordPart } from 'unbash'
import { forEachChild } from 'unbash'

/**
 * A shell reads some words twice: what a variable holds is an expression once it stands in arithmetic, in a subscript or
 * behind `-v`, and a substitution in there is run. Such a part says nothing of what it runs.
 */
export type IsNumber = (name: string) => boolean

/**
 * Which variables hold nothing but numbers whatever runs first: every word of the line that sets them is one, or nothing
 * sets them and the environment of commands has none of that name. `nested`: the line is part of another, which may have set
 * anything.
 */
export const numbersOf = (script: SyntaxNode, nested: boolean): IsNumber => {
  if (nested) return () => false
  const numbers = new Map<string, boolean>()
  let isClouded = false
  const set = (name: string, isNumber: boolean) => numbers.set(name, isNumber && numbers.get(name) !== false)
  const visit = (node: SyntaxNode): void => {
    switch (node.type) {
      case 'For':
        set(node.name.value, node.wordlist?.every(word => isLiteral(word) || isRange(word)) === true)
        break
      case 'Select':
        set(node.name.value, false)
        break
      case 'Coproc':
        set(node.name?.value ?? 'COPROC', false)
        break
      case 'Assignment':
        set(node.name, (node.value.type === 'Word' ? [node.value] : node.value.elements).every(isLiteral))
        break
      case 'ParameterExpansion':
        if (node.operation?.type === 'Default') set(node.parameter, isLiteral(node.operation.operand))
        break
      case 'Command':
        isClouded ||= setters.has(node.name?.value ?? '')
        break
    }
    forEachChild(node, visit)
  }
  visit(script)
  return name => !isClouded && (numbers.get(name) ?? !/[A-Z]/.test(name))
}

/** Set variables, or run what does. */
const setters = new Set(
  'read mapfile readarray getopts declare typeset local export readonly let printf eval trap source . wait command builtin'.split(
    ' ',
  ),
)

/** Does the shell evaluate a part of this node itself (not of what lies deeper) a second time? */
export const isEvaluated = (node: SyntaxNode, isNumber: IsNumber): boolean => {
  const counts = (word: Word) => isLiteral(word) || isCounted(word.text, isNumber)
  switch (node.type) {
    case 'ArithmeticWord':
      return !isCounted(node.value, isNumber)
    case 'ArithmeticCommandExpansion':
      return true
    case 'ParameterExpansion': {
      const { index, operation, prefix } = node
      const isEach = index !== undefined && ['@', '*'].includes(index.text)
      if (prefix === '!' && operation?.type !== 'Names' && !isEach) return true
      if (index && !isEach && !counts(index)) return true
      if (operation?.type === 'Slice')
        return !counts(operation.offset) || (operation.length !== undefined && !counts(operation.length))
      return operation?.type === 'Unknown' || (operation?.type === 'Transform' && operation.operand.text.includes('P'))
    }
    case 'Assignment':
      return node.index !== undefined && !counts(node.index)
    case 'ArrayValue':
      return node.elements.some(({ text }) => text.startsWith('[') && !/^\[\d+\]=/.test(text))
    case 'TestUnary':
      return /^-[vR]$/.test(node.operator) && !/^\w+$/.test(node.operand.text)
    case 'TestBinary':
      return /^-(eq|ne|lt|le|gt|ge)$/.test(node.operator) && !(counts(node.left) && counts(node.right))
    case 'Command':
      return evaluates(node, counts)
    default:
      return false
  }
}

/** Do the words of a builtin name variables, or expressions, that are evaluated? */
const evaluates = (command: Command, counts: (word: Word) => boolean): boolean => {
  const all = [...(command.name ? [command.name] : []), ...command.args]
  const at = all.findIndex(each => each.type === 'Assignment' || !/^(command|builtin|-.*)$/.test(each.value))
  const first = all[at]
  if (first?.type !== 'Word') return false
  const args = all.slice(at + 1)
  const words = args.filter(each => each.type === 'Word')
  const has = (flags: RegExp) => words.some(({ value }) => flags.test(value))
  const names = () => words.some(word => word.value.includes('[') || (word.parts ?? []).some(isOpen))
  switch (first.value) {
    case 'test':
    case '[':
      return tests(words, counts)
    case 'let':
    case 'compgen':
    case 'complete':
    case 'enable':
      return true
    case 'declare':
    case 'typeset':
    case 'local':
    case 'readonly':
    case 'export':
      return names() || has(/^-\w*[in]/)
    case 'mapfile':
    case 'readarray':
      return names() || has(/^-\w*C/)
    case 'unset':
    case 'read':
    case 'getopts':
      return names()
    case 'printf':
      return has(/^-v/) && names()
    case 'wait':
      return has(/^-\w*p/) && names()
    default:
      return false
  }
}

/** `-v` evaluates its operand, and so does what becomes a `-v`. */
const tests = (words: readonly Word[], counts: (word: Word) => boolean): boolean => {
  if (words.some(({ value }) => /^-[vR]$/.test(value)) && words.some(word => !/^[\w!=\]-]+$/.test(word.text)))
    return true
  return words.some((word, i) => {
    if (counts(word)) return false
    // Without quotes it may become several words.
    if ((word.parts ?? []).some(part => part.type !== 'DoubleQuoted' && isOpen(part))) return true
    const next = words[i + 1]?.value
    return (word.parts ?? []).some(isOpen) && next !== undefined && !/^(]|[!=]?=|[<>]|-\w+)$/.test(next)
  })
}

/** The names that a node sets by the shell's own doing, where no assignment stands. */
export const setByShell = (node: SyntaxNode): string | null => {
  switch (node.type) {
    case 'For':
    case 'Select':
      return node.name.value
    case 'Coproc':
      return node.name?.value ?? 'COPROC'
    case 'ParameterExpansion':
      return node.operation?.type === 'Default' && node.operation.operator.endsWith('=') ? node.parameter : null
    case 'FileDescriptorVariable':
      return node.name
    case 'ArithmeticBinary':
      return /^([-+*/%&|^]|<<|>>)?=$/.test(node.operator) && node.left.type === 'ArithmeticWord'
        ? node.left.value
        : null
    case 'ArithmeticUnary':
      return /^(\+\+|--)$/.test(node.operator) && node.operand.type === 'ArithmeticWord' ? node.operand.value : null
    default:
      return null
  }
}

/** Parts whose outcome depends on variables, files or other commands. */
export const isOpen = (part: WordPart): boolean => {
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

/** A number as it stands, or arithmetic and nothing else. */
const isLiteral = (word: Word): boolean => {
  const [only, ...more] = word.parts ?? []
  if (only === undefined) return /^-?\d+$/.test(word.value)
  const inside = only.type === 'DoubleQuoted' ? only.parts : [only]
  return more.length === 0 && inside.length === 1 && inside[0]?.type === 'ArithmeticExpansion'
}

const isRange = ({ text }: Word): boolean => /^\{-?\d+\.\.-?\d+(\.\.-?\d+)?\}$/.test(text)

/** A number, or a variable that holds one. */
const isCounted = (text: string, isNumber: IsNumber): boolean => {
  const bare = text.replace(/^"(.*)"$/s, '$1')
  if (/^(-?\d+|0[xX][\da-fA-F]+|\$[?#$!]|\$\{#\w+\})$/.test(bare)) return true
  const name = /^(?:\$?([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)\})$/.exec(bare)
  return name !== null && isNumber(name[1] ?? name[2] ?? '')
}
