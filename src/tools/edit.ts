import * as z from 'zod'
import { defineTool, error, said, type Tool } from '../agent/tool.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { cut, wellFormed } from '../lib/text.ts'
import { replaceFileAt } from '../sandbox/open.ts'
import { asBytes, bom, endingsOf, flatten, mainEnding } from './endings.ts'
import { existing, maxWhole } from './files.ts'
import { gate } from './gate.ts'
import { count, gitsOwn, isGits, refused, revision } from './paths.ts'

export interface Edit {
  readonly old_text: string
  readonly new_text: string
}

export const editFile: Tool = defineTool({
  name: 'edit_file',
  description: 'Replace texts in a file, each found exactly once; all or nothing.',
  input: z.strictObject({
    path: z.string(),
    edits: z.array(z.strictObject({ old_text: z.string().min(1), new_text: z.string() })).min(1),
  }),
  async run({ path, edits }, context) {
    const found = context.view.resolve(path, 'write')
    if (!found.ok) return refused(found.fault)
    const { real, shown } = found.value
    if (isGits(shown)) return gitsOwn(shown)
    const closed = await gate(context, shown)
    if (closed) return closed
    const before = existing(real)
    if (before === null) return error(`${shown} does not exist: make it with write_file`)
    if (before === 'folder' || before === 'special') return error(`${shown} is no regular file`)
    if (before.bytes.length >= maxWhole) return error(`${shown} is too large to edit (${maxWhole} bytes at most)`)
    const seen = context.read.get(real)
    if (seen !== undefined && seen !== revision(before.bytes))
      return error(`${shown} changed since you read it: read_file it again, then edit`)
    const made = applyEdits(before.bytes, edits)
    if (!made.ok) return error(`${shown}, nothing changed: ${made.fault.message}`)
    const done = replaceFileAt(real, made.value.bytes, before.mode)
    if (!done.ok) return refused(done.fault, shown)
    context.read.set(real, revision(made.value.bytes))
    const kept = made.value.isEnded ? ', the newline at its end kept' : ''
    return said([`edited ${shown}, ${count(edits.length, 'place')}${kept}`, ...made.value.diff].join('\n'))
  },
})

interface Place {
  readonly edit: Edit
  /** Byte offsets in the file as it is. */
  readonly from: number
  readonly to: number
  readonly line: number
  readonly text: string
}

/**
 * Makes all edits, each judged against the file as it is, or none. Matching takes CRLF for LF; new text gets the line
 * endings of what it replaces, and every other byte stays. A file that ended with a newline ends with one after it:
 * `isEnded` when an edit had taken it. `diff` shows each place in a few lines. Faults: not found, found more than once (with
 * the lines), no change, places that overlap.
 */
export const applyEdits = (
  file: Buffer,
  edits: readonly Edit[],
): Result<{ bytes: Buffer; diff: string[]; isEnded: boolean }> => {
  const raw = file.toString('latin1')
  const { text, at } = flatten(raw)
  const isFlat = text.length === raw.length
  const main = mainEnding(raw)
  // In a file without CRLF a text is taken as it is, CRLF of its own included.
  const flat = (some: string) =>
    isFlat ? asBytes(wellFormed(some)) : asBytes(wellFormed(some)).replaceAll('\r\n', '\n')
  const places: Place[] = []
  for (const [i, edit] of edits.entries()) {
    const name = edits.length === 1 ? 'old_text' : `old_text of edit ${i + 1}`
    const wanted = flat(edit.old_text)
    const found = text.indexOf(wanted)
    if (found < 0) return fail('unknown', `${name} is not there${near(text, wanted)}`)
    const lines = [found]
    for (
      let next = text.indexOf(wanted, found + 1);
      next >= 0 && lines.length < 6;
      next = text.indexOf(wanted, next + 1)
    )
      lines.push(next)
    if (lines.length > 1)
      return fail(
        'conflict',
        `${name} is there more than once (lines ${lines.map(index => lineOf(text, index)).join(', ')}): add lines around it`,
      )
    const [from, to] = [at(found), at(found + wanted.length)]
    const replacement = flat(edit.new_text)
    const written = isFlat ? replacement : endingsOf(replacement, raw.slice(from, to), main)
    if (written === raw.slice(from, to)) return fail('usage', `${name} and its new_text are the same`)
    places.push({ edit, from, to, line: lineOf(text, found), text: written })
  }
  places.sort((a, b) => a.from - b.from)
  let made = ''
  let done = 0
  for (const [i, place] of places.entries()) {
    const last = places[i - 1]
    if (last && place.from < last.to) return fail('conflict', `two edits overlap at line ${place.line}: make them one`)
    made += raw.slice(done, place.from) + place.text
    done = place.to
  }
  made += raw.slice(done)
  const isEnded = raw.endsWith('\n') && made !== '' && made !== bom && !made.endsWith('\n')
  const ended = isEnded ? (raw.endsWith('\r\n') ? '\r\n' : '\n') : ''
  const bytes = Buffer.from(made + ended, 'latin1')
  if (bytes.equals(file)) return fail('usage', 'with the newline at its end kept, the file would be the same')
  return ok({ bytes, diff: places.flatMap(shownPlace), isEnded })
}

const lineOf = (text: string, index: number): number => {
  let line = 1
  for (let at = text.indexOf('\n'); at >= 0 && at < index; at = text.indexOf('\n', at + 1)) line++
  return line
}

/** Why a text may not have been found: white space, or line numbers copied along. */
const near = (text: string, wanted: string): string => {
  if (/^\s*\d+\t/.test(wanted)) return '; leave out the line numbers that read_file shows'
  const squeezed = (line: string) => line.replace(/\s+/g, ' ').trim()
  const first = squeezed(wanted.split('\n').find(line => line.trim() !== '') ?? '')
  if (first === '') return ''
  const lines = text.split('\n').flatMap((line, i) => (squeezed(line) === first ? [i + 1] : []))
  return lines.length === 0
    ? '; read_file it again'
    : `; its first line is at line ${lines.slice(0, 5).join(', ')}, but white space or what follows differs`
}

const shownPlace = ({ edit, line }: Place): string[] => [
  `@@ line ${line} @@`,
  ...marked('-', edit.old_text),
  ...marked('+', edit.new_text),
]

const marked = (mark: string, text: string): string[] => {
  if (text === '') return []
  const lines = wellFormed(text).replace(/\n$/, '').split('\n')
  const rows = lines.slice(0, 12).map(line => `${mark}${cut(line.replace(/\r$/, ''), 200)}`)
  return lines.length > rows.length ? [...rows, `${mark}[… ${lines.length - rows.length} more lines]`] : rows
}
