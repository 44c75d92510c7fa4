import * as z from 'zod'

/**
 * Long-term memory is plain Markdown: an entry is a heading `## <time> · <category>[ · <who>]` and the text below it, up to the
 * next heading of that rank. The program adds entries at the end and changes nothing else; what a person writes there in any
 * other form is read too, as far as it goes.
 */
export interface MemoryEntry {
  /** As it stands in the heading; null where a person wrote none. */
  readonly time: string | null
  readonly category: string | null
  /** Who saved it, in the team's memory. */
  readonly who: string | null
  readonly content: string
}

/** What is saved, before it has a time. */
export type MemoryNote = Pick<MemoryEntry, 'content'> & { readonly category: string }

/** In bytes: an entry is a thing worth knowing, not a document; a file of this size takes a person to tidy up. */
export const maxEntryBytes = 8192
export const maxMemoryBytes = 1_048_576

export const defaultCategory = 'note'
/** Its entries go to the memory that the team shares; so do those of its subcategories, `team/<more>`. */
export const isTeams = (category: string): boolean => /^team(?:\/|$)/i.test(category)

/** Letters, digits and `/ _ . -`, no more: it stands in a heading, between its marks. */
export const MemoryCategory = z
  .string()
  .max(60)
  .regex(/^[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}/_. -]*[\p{L}\p{M}\p{N}])?$/u, 'letters, digits and / _ . - only')

const mark = ' · '
/** A heading of a person's may be of this length to be taken for a category. */
const longestCategory = 60

/** The entry as it stands in the file, LF after each line. A line of the text that would be a heading gets a backslash before it. */
export const writeEntry = ({ time, category, who, content }: MemoryEntry): string => {
  const heading = [time, category, who].filter(part => part !== null).join(mark)
  return `## ${heading}\n${tidy(content).replace(/(^|\n)(\\*## )/g, '$1\\$2')}\n`
}

/** What of a text is kept: line breaks as LF, nothing at its ends, no NUL. */
export const tidy = (content: string): string =>
  content
    .replace(/\r\n?/g, '\n')
    .replaceAll('\0', '\uFFFD')
    .replace(/^(?:[^\S\n]*\n)+/, '')
    .trimEnd()

/** The entries of a file in its order, whoever wrote it. Text before the first heading is one of its own; empty ones are none. */
export const readEntries = (text: string): MemoryEntry[] => {
  const entries: MemoryEntry[] = []
  let heading: string | null = null
  let lines: string[] = []
  const close = () => {
    const content = tidy(lines.join('\n'))
    const head = heading === null ? null : headingOf(heading)
    if (content !== '') entries.push(entryOf(head, content))
    // A heading alone says something too, unless it is one of the program's that somebody emptied.
    else if (heading && head?.time === null) entries.push({ time: null, category: null, who: null, content: heading })
  }
  for (const raw of text.replace(/^\uFEFF/, '').split('\n')) {
    const line = raw.replace(/\r$/, '')
    if (line.startsWith('## ')) {
      close()
      heading = line.slice(3).trim()
      lines = []
    } else lines.push(line.replace(/^\\(\\*## )/, '$1'))
  }
  close()
  return entries
}

type Head = Omit<MemoryEntry, 'content'> & {
  /** What of the heading is neither: it belongs to the text. */ rest: string | null
}

const headingOf = (heading: string): Head => {
  const parts = heading.split('·').map(part => part.trim())
  const time = /^\d{4}-\d\d-\d\d/.test(parts[0] ?? '') ? (parts.shift() ?? null) : null
  const [category = '', who = null, ...more] = parts
  if (more.length > 0 || category.length > longestCategory) return { time, category: null, who: null, rest: heading }
  return { time, category: category || null, who, rest: null }
}

const entryOf = (head: Head | null, content: string): MemoryEntry => {
  const { time = null, category = null, who = null, rest = null } = head ?? {}
  return { time, category, who, content: [rest, content].filter(part => part).join('\n') }
}

/** Is this what was saved here before? Who saved it, and when, does not matter. */
export const isSame = (entry: MemoryEntry, note: MemoryNote): boolean =>
  entry.category === note.category && entry.content === tidy(note.content)

/** Is the entry of this category, or of one below it? */
export const isOf = (entry: MemoryEntry, category: string): boolean => {
  const [own, wanted] = [entry.category?.toLowerCase() ?? '', category.toLowerCase()]
  return own === wanted || own.startsWith(`${wanted}/`)
}
