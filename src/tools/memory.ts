import * as z from 'zod'
import { defineTool, error, said, type Tool, type ToolContext, type ToolResult } from '../agent/tool.ts'
import { ok, type Result } from '../lib/result.ts'
import { cut, wellFormed } from '../lib/text.ts'
import { defaultCategory, isOf, isTeams, MemoryCategory, type MemoryEntry } from '../protocol/memory.ts'
import { addMemory, readMemory } from '../store/files/memory-file.ts'
import { type Remembered, searchMemory } from './memory-search.ts'
import { refused } from './paths.ts'

const maxShown = 50
/** Of an entry among others; alone it is shown whole. */
const entryLines = 12
const entryChars = 1000
/** Of all that is shown. */
const maxChars = 12_000

export const memory: Tool = defineTool({
  name: 'memory',
  description: 'Long-term memory: save an entry, read the last, or search. Category team: shared.',
  input: z.strictObject({
    action: z.enum(['save', 'read', 'search']),
    content: z.string().optional(),
    category: MemoryCategory.optional(),
    query: z.string().max(1000).optional(),
    limit: z.number().int().min(1).max(maxShown).default(10),
  }),
  run({ action, content, category, query, limit }, context) {
    if (action === 'save') return save(content ?? '', category ?? defaultCategory, context)
    return action === 'read'
      ? read(category ?? null, limit, context)
      : search(query ?? content ?? '', category ?? null, limit, context)
  },
})

const save = async (text: string, category: string, { memory: place, call }: ToolContext): Promise<ToolResult> => {
  if (text.trim() === '') return error('content is empty: say what is to be remembered')
  const content = place.redact(wellFormed(text))
  const isShared = isTeams(category)
  const saved = isShared
    ? await call('memory.save', { content, category })
    : addMemory(place.own, { time: place.now(), category, who: null, content })
  if (!saved.ok) return refused(saved.fault)
  const { known } = saved.value
  const where = isShared ? "the team's memory" : 'memory.md'
  const redacted = content === wellFormed(text) ? '' : '; what looked like a secret was left out'
  return said(
    known === null
      ? `saved in ${where}, category ${category}${redacted}`
      : `it is in ${where} already: ${headOf({ entry: known, of: isShared ? 'team' : 'own' })}`,
  )
}

const read = (category: string | null, limit: number, context: ToolContext): ToolResult => {
  const all = everything(category, context)
  if (!all.ok) return refused(all.fault)
  if (all.value.length === 0) return said(nothing(category))
  const shown = all.value.slice(-limit).reverse()
  const older = all.value.length - shown.length
  return said(
    listed(shown, older === 0 ? [] : [`[${older} older: a higher limit, a category, or search]`], 'the last', 'newest'),
  )
}

const search = async (
  query: string,
  category: string | null,
  limit: number,
  context: ToolContext,
): Promise<ToolResult> => {
  if (query.trim() === '') return error('query is empty: say what to look for')
  const all = everything(category, context)
  if (!all.ok) return refused(all.fault)
  if (all.value.length === 0) return said(nothing(category))
  const found = await searchMemory(all.value, query)
  if (found.length === 0) return said(`nothing of ${entries(all.value.length)} fits`)
  const less = found.length > limit ? [`[${found.length - limit} more fit less: a higher limit]`] : []
  return said(listed(found.slice(0, limit), less, 'found', 'best'))
}

const entries = (n: number): string => `${n} ${n === 1 ? 'entry' : 'entries'}`

const nothing = (category: string | null): string =>
  category === null
    ? 'nothing is remembered yet'
    : `nothing is remembered in ${category}; read without a category shows all`

/** Own and shared, oldest first. */
const everything = (category: string | null, { memory: { own, team } }: ToolContext): Result<Remembered[]> => {
  const mine = readMemory(own)
  if (!mine.ok) return mine
  const shared = readMemory(team)
  if (!shared.ok) return shared
  const all = [...dated(mine.value, 'own'), ...dated(shared.value, 'team')]
  // Stable, so entries of one time stay in their file's order.
  all.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
  return ok(all.filter(({ entry }) => category === null || isOf(entry, category)))
}

/** What has no time of its own counts as of the entry before it. */
const dated = (entries: readonly MemoryEntry[], of: Remembered['of']): (Remembered & { readonly at: string })[] => {
  let at = ''
  return entries.map(entry => {
    if (entry.time !== null && entry.time > at) at = entry.time
    return { entry, of, at }
  })
}

const headOf = ({ entry, of }: Remembered): string =>
  [entry.time ?? 'no time', entry.category ?? 'no category', of === 'team' ? (entry.who ?? 'nobody named') : null]
    .filter(part => part !== null)
    .join(' · ')

const listed = (shown: readonly Remembered[], rest: readonly string[], what: string, first: string): string => {
  const rows: string[] = []
  let chars = 0
  for (const [i, each] of shown.entries()) {
    const content = framed(each.entry.content)
    const row = `[${each.of}] ${headOf(each)}\n${shown.length === 1 ? cut(content, maxChars) : shortened(content)}`
    chars += row.length
    if (chars > maxChars && i > 0) {
      rows.push(`[${shown.length - i} more would be too long: a lower limit, a category, or search]`)
      break
    }
    rows.push(row)
  }
  return [`${what} ${entries(shown.length)}${shown.length > 1 ? `, ${first} first` : ''}`, ...rows, ...rest].join('\n')
}

/** A line of an entry that would pass for the head of another, with who saved that, gets a backslash before it. */
const framed = (content: string): string => content.replace(/^(?=[^\S\n]*\\*\[(?:own|team)\])/gim, '\\')

const shortened = (content: string): string => {
  const lines = content.split('\n')
  const kept = cut(lines.slice(0, entryLines).join('\n'), entryChars)
  return kept.length === content.length ? content : `${kept}\n[cut: search for its words with limit 1 shows it whole]`
}
