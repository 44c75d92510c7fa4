import { parseDocument } from 'yaml'

/** One step of a runbook, in the order of the text. `line` is where it stands in the task's text, counted from 1. */
export type Step = { readonly line: number } & (
  | {
      readonly kind: 'run'
      readonly command: string
      /** A failing command does not fail the task; its exit code is only reported. */
      readonly mayFail: boolean
      readonly timeoutS: number | null
      /** Lines that must appear in its output; null where nothing is expected. */
      readonly expect: readonly string[] | null
    }
  | { readonly kind: 'write'; readonly path: string; readonly content: string }
  | { readonly kind: 'message'; readonly to: string; readonly text: string }
  | { readonly kind: 'note'; readonly text: string }
  | { readonly kind: 'commit'; readonly message: string }
  | { readonly kind: 'ask'; readonly question: string }
  /** `tasks`: what it proposes to create, where it proposes tasks. */
  | { readonly kind: 'plan'; readonly plan: string; readonly tasks: readonly unknown[] | null }
  | { readonly kind: 'lease'; readonly of: 'path' | 'port' | 'name'; readonly what: readonly string[] }
)

/** A task's text read as a runbook. Nothing of it may be run while there are `problems`. */
export interface Runbook {
  readonly steps: readonly Step[]
  /** The part under a heading "If sent back", used instead of `steps` when the task was sent back; null: there is none. */
  readonly mend: readonly Step[] | null
  readonly problems: readonly string[]
  /** The reason to give when asked to shut down in the middle of it; null: agree. */
  readonly rejectShutdown: string | null
}

const shells = new Set(['sh', 'bash', 'shell'])
/**
 * Reads Markdown: fenced `sh` blocks, fenced blocks with `file=path`, `expect` blocks, and the lines `@name: …`, `note: …`,
 * `commit: …`, `ask: …`, `plan: …`, `lease: …`. Everything else is prose. Pure; never throws: what cannot be read is named in `problems`.
 */
export const parseRunbook = (text: string): Runbook => {
  const main: Step[] = []
  let mend: Step[] | null = null
  let into = main
  let mendLevel = 0
  let rejectShutdown: string | null = null
  const problems: string[] = []
  const lines = text.replace(/\r\n?/g, '\n').split('\n')
  for (let i = 0; i < lines.length; i++) {
    const raw = lines[i] ?? ''
    const at = i + 1
    const fence = openFence(raw)
    if (fence) {
      const body: string[] = []
      let closed = false
      while (!closed && ++i < lines.length) {
        const inner = lines[i] ?? ''
        closed = fence.closes(inner)
        if (!closed) body.push(fence.unindent(inner))
      }
      if (closed) problems.push(...block(into, fence.info, body, at))
      else problems.push(`line ${at}: this block is not closed by ${fence.mark}`)
      continue
    }
    const heading = /^ {0,3}(#{1,6})\s+(.*)$/.exec(raw)
    if (heading) {
      const level = heading[1]?.length ?? 1
      if (/\bif sent back\b/i.test(heading[2] ?? '')) {
        mend ??= []
        into = mend
        mendLevel = level
      } else if (into === mend && level <= mendLevel) into = main
      continue
    }
    const shutdown = /^\s*on shutdown:\s*reject\b\s*(.*)$/i.exec(raw)
    if (shutdown) {
      rejectShutdown = shutdown[1]?.trim() || 'the task in hand is not done yet'
      continue
    }
    const problem = directive(into, raw, at)
    if (problem) problems.push(problem)
  }
  return { steps: main, mend, problems, rejectShutdown }
}

interface Fence {
  readonly mark: string
  readonly info: string
  closes(line: string): boolean
  unindent(line: string): string
}

/** CommonMark's fences: three or more of one mark, closed by at least as many, indented by at most three spaces. */
const openFence = (line: string): Fence | null => {
  const open = /^( {0,3})(`{3,}|~{3,})(.*)$/.exec(line)
  const [, indent = '', mark = '', info = ''] = open ?? []
  if (!open || (mark.startsWith('`') && info.includes('`'))) return null
  const close = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`)
  return {
    mark,
    info: info.trim(),
    closes: inner => close.test(inner),
    unindent: inner => inner.replace(new RegExp(`^ {0,${indent.length}}`), ''),
  }
}

/** Adds what a fenced block means; returns what is wrong with it. */
const block = (into: Step[], info: string, body: readonly string[], line: number): string[] => {
  const words = info.match(/[^\s"']*(?:"[^"]*"|'[^']*')|\S+/g) ?? []
  const [lang = '', ...rest] = words
  const file = words.find(word => word.startsWith('file='))
  if (file !== undefined) {
    const path = unquote(file.slice('file='.length)).replace(/^(?:\.\/)+/, '')
    if (path === '' || path.endsWith('/')) return [`line ${line}: file= needs the path of a file`]
    const more = words.filter(word => word !== file && word !== lang).join(' ')
    if (more !== '')
      return [`line ${line}: a file block knows file=<path> alone, not ${more}; put a path with spaces in quotes`]
    into.push({ kind: 'write', line, path, content: body.map(each => `${each}\n`).join('') })
    return []
  }
  if (lang === 'expect') return expectation(into, body, line)
  if (lang === 'tasks') return proposal(into, body, line)
  if (!shells.has(lang)) return []
  const command = body.join('\n').trim()
  if (command === '') return [`line ${line}: this block has no command`]
  let mayFail = false
  let timeoutS: number | null = null
  const problems: string[] = []
  for (const word of rest) {
    const timeout = /^timeout=(\d{1,5})$/.exec(word)
    if (word === 'may-fail') mayFail = true
    else if (timeout) timeoutS = Number(timeout[1])
    else problems.push(`line ${line}: a command block knows may-fail and timeout=<seconds>, not ${word}`)
  }
  into.push({ kind: 'run', line, command, mayFail, timeoutS, expect: null })
  return problems
}

const expectation = (into: Step[], body: readonly string[], line: number): string[] => {
  const before = into.at(-1)
  if (before?.kind !== 'run' || before.expect !== null)
    return [`line ${line}: an expect block belongs right after the sh block whose output it is about`]
  const expect = body.map(each => each.trim()).filter(each => each !== '')
  if (expect.length === 0) return [`line ${line}: this expect block is empty`]
  into[into.length - 1] = { ...before, expect }
  return []
}

/** The tasks, in YAML or JSON, that the plan right before this block proposes. */
const proposal = (into: Step[], body: readonly string[], line: number): string[] => {
  const before = into.at(-1)
  if (before?.kind !== 'plan' || before.tasks !== null)
    return [`line ${line}: a tasks block belongs right after the "plan:" line that proposes them`]
  const document = parseDocument(body.join('\n'))
  const tasks: unknown = document.errors.length === 0 ? document.toJS() : null
  if (!Array.isArray(tasks) || tasks.length === 0)
    return [
      `line ${line}: this tasks block is no list: ${document.errors[0]?.message.split('\n')[0] ?? 'begin each task with "- title: …"'}`,
    ]
  into[into.length - 1] = { ...before, tasks }
  return []
}

/** Adds what a line outside blocks means, if anything; returns what is wrong with it. */
const directive = (into: Step[], raw: string, line: number): string | null => {
  const mail = /^ {0,3}(?:[-*]\s+)?@([a-z0-9][a-z0-9-]{0,62}):\s+(.*\S)\s*$/.exec(raw)
  if (mail) into.push({ kind: 'message', line, to: mail[1] ?? '', text: mail[2] ?? '' })
  const word = /^ {0,3}(?:[-*]\s+)?(note|commit|plan|ask|lease):\s+(.*\S)\s*$/.exec(raw)
  const [, name = '', text = ''] = word ?? []
  if (name === 'note') into.push({ kind: 'note', line, text })
  if (name === 'commit') into.push({ kind: 'commit', line, message: text })
  if (name === 'ask') into.push({ kind: 'ask', line, question: text })
  if (name === 'plan') into.push({ kind: 'plan', line, plan: text, tasks: null })
  if (name === 'lease') {
    // A comma at the end of a word separates; within one it may belong to a glob ({a,b}).
    const [first = '', ...rest] = text
      .split(/\s+/)
      .map(each => each.replace(/,+$/, ''))
      .filter(Boolean)
    const of = first === 'port' || first === 'name' || first === 'path' ? first : null
    const what = of === null ? [first, ...rest] : rest
    if (what.length === 0) return `line ${line}: "lease: ${first}" needs what it is about`
    into.push({ kind: 'lease', line, of: of ?? 'path', what })
  }
  return null
}

const unquote = (word: string): string => /^(["'])(.*)\1$/.exec(word)?.[2] ?? word
