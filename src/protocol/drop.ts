import matter from 'gray-matter'
import { isMap, LineCounter, parseAllDocuments } from 'yaml'
import type * as z from 'zod'
import { issueLines, keyPath } from './issues.ts'
import { jsonFault, place } from './json-place.ts'
import { runState, TaskDrop } from './task.ts'

export type DropKind = 'json' | 'md' | 'yaml'

/** The largest drop that is read, in bytes. */
export const maxDropBytes = 4 * 1024 * 1024

export type Drops =
  | { readonly ok: true; readonly drops: readonly TaskDrop[] }
  | {
      readonly ok: false
      /** One line for each thing that is wrong, each with its line and column or its key path. */
      readonly reasons: readonly string[]
      /** The text itself cannot be read, so it may be half of one that is still being written. */
      readonly torn: boolean
    }

const sideFile = [
  /^[.#~]/,
  // README.md, README-fr.md, readme.txt; but readme-tests.md is somebody's task.
  /^README/,
  /^readme(?:\.|$)/i,
  /~$/,
  /#$/,
  /^4913$/,
  /\.(?:swp|swo|tmp|temp|bak|orig|rej|part|partial|crdownload|download|lock)$/i,
  /\.error\.txt$/,
  /\.rejected-[^/]*\.json$/,
  /\.(?:tmp|swp|part|bak)\.[^.]*$/i,
  /^(?:Thumbs\.db|desktop\.ini|Icon\r)$/i,
]

/** Is it a dotfile, a README, an editor's or desktop's side file, or a note of the program's own? Nobody means those as a task. */
export const isSideFile = (file: string): boolean => sideFile.some(pattern => pattern.test(file))

/** How a file of this name in the tasks folder is read; null when it is not (a side file, or another ending). */
export const dropKind = (file: string): DropKind | null => {
  if (isSideFile(file)) return null
  const extension = /\.([a-z]+)$/i.exec(file)?.[1]?.toLowerCase()
  if (extension === 'json' || extension === 'md') return extension
  return extension === 'yaml' || extension === 'yml' ? 'yaml' : null
}

/** Why a file of this name, whose ending is none of a drop's, is not read, and what to do. */
export const notRead = (file: string): string => {
  const ending = /[^.](\.[^.]*)$/.exec(file)?.[1]
  const stem = ending === undefined ? file : file.slice(0, -ending.length)
  const isText = ending === undefined || /^\.(?:te?xt|markdown|mdown|mkdn?|)$/i.test(ending)
  const better = !isText ? '' : ` to ${dropKind(stem) === null ? `${stem}.md` : stem}`
  return `${ending === undefined ? 'a file without an ending' : `the ending ${ending}`} is not read, only .md, .json, .yaml and .yml are: rename it${better}, or take it out`
}

/** The id in the name of a task's file, `task_<id>.json`; null for another name. */
export const idInName = (file: string): string | null =>
  /^task_([A-Za-z0-9][A-Za-z0-9._-]{0,63})\.json$/.exec(file)?.[1] ?? null

/** Text as people's editors save it: UTF-8 or UTF-16, with or without a byte order mark. Null when it is neither. */
export const decode = (bytes: Uint8Array): string | null => {
  const encoding =
    bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le' : bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : 'utf-8'
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch (error) {
    // The decoder's only complaint about well-typed input: these bytes are not text.
    if (error instanceof TypeError) return null
    throw error
  }
}

/**
 * The tasks that a dropped file describes, or exactly why it describes none. A hand-made `task_<id>.json` takes its id from
 * its name where the text has none. A Markdown file has its fields in YAML frontmatter, its body is the description, and
 * its first heading is the title where the frontmatter has none.
 */
export const parseDrops = (file: string, bytes: Uint8Array): Drops => {
  if (bytes.length > maxDropBytes)
    return { ok: false, reasons: [`larger than ${maxDropBytes} bytes (${bytes.length})`], torn: false }
  const text = decode(bytes)
  if (text === null) return torn('not text: neither UTF-8 nor UTF-16')
  if (text.trim() === '') return torn('the file is empty')
  const kind = dropKind(file)
  const read = kind === 'md' ? readMarkdown(text) : kind === 'yaml' ? readYaml(text, 0) : readJson(text)
  if (!read.ok) return torn(read.reason)
  return check(file, read.value)
}

type Read = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly reason: string }

const torn = (reason: string): Drops => ({ ok: false, reasons: [reason], torn: true })

/** One JSON value, or the line and column where it stops being one. */
export const readJson = (text: string): Read => {
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    const fault = jsonFault(text)
    return {
      ok: false,
      reason: fault ? `${place(text, fault.offset)}: not valid JSON: ${fault.reason}` : error.message,
    }
  }
}

const readYaml = (text: string, linesBefore: number): Read => {
  const lineCounter = new LineCounter()
  const documents = parseAllDocuments(text, { lineCounter, prettyErrors: false, merge: true })
  const values: unknown[] = []
  for (const document of Array.isArray(documents) ? documents : []) {
    const [error] = document.errors
    if (error) {
      const { line, col } = lineCounter.linePos(error.pos[0])
      return { ok: false, reason: `line ${line + linesBefore}, column ${col}: not valid YAML: ${error.message}` }
    }
    let value: unknown
    try {
      value = document.toJS({ maxAliasCount: 100 })
    } catch (error) {
      // The one thing that goes wrong here on text that parsed: aliases that blow up, or point nowhere.
      if (error instanceof ReferenceError) return { ok: false, reason: `not valid YAML: ${error.message}` }
      throw error
    }
    if (value !== null && value !== undefined) values.push(value)
    else if (isMap(document.contents)) values.push({})
  }
  // Several documents in one file are several tasks.
  return { ok: true, value: values.length > 1 ? values.flat() : values[0] }
}

/** Frontmatter is data: an engine that runs code, or that nobody expects here, is refused. */
const engines = (found: { reason?: string }) => {
  const deny = {
    parse: (): object => {
      found.reason = 'line 1: frontmatter is read as YAML only'
      return {}
    },
  }
  const yaml = {
    parse: (text: string): object => {
      const read = readYaml(text, 0)
      if (!read.ok) found.reason = read.reason
      else if (typeof read.value === 'object' && read.value !== null && !Array.isArray(read.value)) return read.value
      else found.reason = 'line 2: the frontmatter is not a list of keys and values'
      return {}
    },
  }
  return { yaml, yml: yaml, javascript: deny, js: deny, coffee: deny, coffeescript: deny, cson: deny, json: deny }
}

const readMarkdown = (raw: string): Read => {
  const text = raw.replaceAll('\r\n', '\n')
  const opening = /^---[ \t]*([^\n]*)\n/.exec(text)
  let fields: Record<string, unknown> = {}
  let body = text
  if (opening) {
    const language = (opening[1] ?? '').trim()
    if (language !== '' && !/^ya?ml$/i.test(language))
      return { ok: false, reason: `line 1: frontmatter is read as YAML only, not as ${language}` }
    if (!/\n---[ \t]*(?:\n|$)/.test(text.slice(opening[0].length - 1)))
      return { ok: false, reason: 'the frontmatter that starts on line 1 has no closing ---' }
    const found: { reason?: string } = {}
    const parsed = matter(text.replace(/^---[^\n]*/, '---'), { language: 'yaml', engines: engines(found) })
    if (found.reason !== undefined) return { ok: false, reason: found.reason }
    fields = parsed.data
    body = parsed.content
  }
  body = body.replace(/^(?:[ \t]*\n)+/, '').trimEnd()
  const title = fields.title ?? heading(body)
  const described = typeof fields.description === 'string' ? [fields.description, body] : [body]
  return {
    ok: true,
    value: {
      ...fields,
      ...(title === undefined ? {} : { title }),
      ...(fields.description === undefined || typeof fields.description === 'string'
        ? { description: described.filter(part => part !== '').join('\n\n') }
        : {}),
    },
  }
}

/** The first heading outside a fenced block. */
const heading = (body: string): string | undefined => {
  let fence: string | undefined
  for (const line of body.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    if (mark !== undefined) {
      if (fence === undefined) fence = mark
      else if (mark.startsWith(fence)) fence = undefined
    } else if (fence === undefined) {
      const title = /^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$/.exec(line)?.[1]
      if (title) return title
    }
  }
  return undefined
}

const known = Object.keys(TaskDrop.shape)

/** Run-state fields carry a meaning unless they say nothing: null, "", [], 0, false. */
const saysNothing = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  value === 0 ||
  value === false ||
  (Array.isArray(value) && value.length === 0)

const check = (file: string, value: unknown): Drops => {
  const isList = Array.isArray(value)
  const items: readonly unknown[] = isList ? value : [value]
  const reasons: string[] = []
  const drops: TaskDrop[] = []
  if (items.length === 0) reasons.push('an empty list: there is no task in it')
  items.forEach((item, index) => {
    const under = isList ? [index] : []
    if (typeof item !== 'object' || item === null || Array.isArray(item)) {
      const where = keyPath(under)
      reasons.push(`${where === '' ? '' : `${where}: `}a task is an object with a title, not ${named(item)}`)
      return
    }
    const fields: Record<string, unknown> = { ...item }
    reasons.push(...unfit(fields, under))
    const idOfName = idInName(file)
    if (idOfName !== null && !isList) {
      if (fields.id === undefined || fields.id === null) fields.id = idOfName
      else if (String(fields.id) !== idOfName)
        reasons.push(`id: ${JSON.stringify(fields.id)} is not the id in the file's name (${idOfName}): make them one`)
    }
    const parsed = TaskDrop.safeParse(fields)
    if (parsed.success) drops.push(parsed.data)
    else
      reasons.push(
        ...issueLines(
          parsed.error.issues.map(issue => (isUntitled(issue, fields) ? untitled(issue, file) : issue)),
          known,
          under,
        ),
      )
  })
  return reasons.length > 0 ? { ok: false, reasons, torn: false } : { ok: true, drops }
}

const isUntitled = (issue: z.core.$ZodIssue, fields: Readonly<Record<string, unknown>>): boolean =>
  issue.path.length === 1 && issue.path[0] === 'title' && (fields.title === undefined || fields.title === null)

/** A missing title is the commonest slip of all, so it is told with where one may stand. */
const untitled = (issue: z.core.$ZodIssue, file: string): z.core.$ZodIssue => ({
  ...issue,
  message: `is missing${dropKind(file) === 'md' ? ': begin with a heading, "# …", or with frontmatter that has a title' : ''}`,
})

/** Takes out of `fields` what needs no schema: run state. Returns what is wrong with it. */
const unfit = (fields: Record<string, unknown>, under: readonly PropertyKey[]): string[] => {
  const reasons: string[] = []
  for (const key of [...runState, 'v']) {
    if (!(key in fields)) continue
    if (!saysNothing(fields[key])) reasons.push(`${keyPath([...under, key])}: set by the supervisor, leave it out`)
    delete fields[key]
  }
  if (fields.status !== undefined && fields.status !== 'pending') {
    reasons.push(`${keyPath([...under, 'status'])}: a new task is "pending", the supervisor moves it on; leave it out`)
    delete fields.status
  }
  if (fields.file === null || fields.file === '') delete fields.file
  return reasons
}

const named = (value: unknown): string =>
  value === undefined || value === null ? 'nothing' : Array.isArray(value) ? 'a list' : `a ${typeof value}`
