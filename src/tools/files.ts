import { closeSync, lstatSync, readdirSync, readSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { defineTool, error, said, type Tool, type ToolContext, type ToolResult } from '../agent/tool.ts'
import { cut, wellFormed } from '../lib/text.ts'
import { appendFileAt, openFile, replaceFileAt } from '../sandbox/open.ts'
import { isTop } from '../sandbox/view.ts'
import { likeBefore } from './endings.ts'
import { gate } from './gate.ts'
import { count, gitsOwn, isGits, refused, revision } from './paths.ts'

const maxEntries = 500
const maxRead = 81_920
const maxLine = 20_000
/** Files up to this size are counted to their end and can be edited. */
export const maxWhole = 33_554_432

export const ls: Tool = defineTool({
  name: 'ls',
  description: 'List a folder.',
  input: z.strictObject({ path: z.string().default('.') }),
  run({ path }, { view }) {
    if (isTop(view, path)) {
      const mounts = view.mounts.filter(
        mount => !mount.at.includes('/') && lstatSync(mount.real, { throwIfNoEntry: false }),
      )
      const rows = mounts.map(mount => `${mount.at}${statSync(mount.real).isDirectory() ? '/' : ''}  ${mount.access}`)
      // Where commands do not run inside of it, .. is no way to it.
      const at = view.cwd === join(view.home, 'repo') ? '' : `; for commands it is at ${view.home}`
      return said(
        [`. (your view${at}), ${rows.length === 1 ? '1 entry' : `${rows.length} entries`}`, ...rows].join('\n'),
      )
    }
    const found = view.resolve(path, 'read')
    if (!found.ok) return refused(found.fault)
    const { real, shown } = found.value
    const stat = statSync(real, { throwIfNoEntry: false })
    if (!stat) return error(`${shown} does not exist`)
    if (!stat.isDirectory()) return said(`${shown} is a file, ${stat.size} bytes`)
    const names = readdirSync(real)
      .filter(name => view.resolve(join(real, name), 'read').ok || isLink(join(real, name)))
      .sort((a, b) => (a < b ? -1 : 1))
    const rows = names.slice(0, maxEntries).map(name => entry(join(real, name), wellFormed(name)))
    const more = names.length > rows.length ? [`[${names.length - rows.length} more left out]`] : []
    return said(
      [`${shown}, ${names.length === 1 ? '1 entry' : `${names.length} entries`}`, ...rows, ...more].join('\n'),
    )
  },
})

const isLink = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true

const entry = (path: string, name: string): string => {
  const own = lstatSync(path, { throwIfNoEntry: false })
  if (own?.isSymbolicLink()) return `${name}  link`
  if (own?.isDirectory()) return `${name}/`
  return own?.isFile() ? `${name}  ${own.size}` : `${name}  special`
}

export const readFile: Tool = defineTool({
  name: 'read_file',
  description: 'Read a text file, lines numbered.',
  input: z.strictObject({
    path: z.string(),
    offset: z.number().int().min(1).default(1).describe('first line'),
    limit: z.number().int().min(1).default(200).describe('lines'),
  }),
  run({ path, offset, limit }, context) {
    const found = context.view.resolve(path, 'read')
    if (!found.ok) return refused(found.fault)
    const { real, shown } = found.value
    const file = openFile(real)
    if (!file.ok) return refused(file.fault, shown)
    const { fd, size } = file.value
    try {
      return size <= maxWhole
        ? readWhole(fd, { real, shown, offset, limit }, context)
        : readPart(fd, size, { shown, offset, limit })
    } finally {
      closeSync(fd)
    }
  },
})

const readWhole = (
  fd: number,
  { real, shown, offset, limit }: { real: string; shown: string; offset: number; limit: number },
  context: ToolContext,
): ToolResult => {
  const bytes = readBytes(fd, maxWhole)
  context.read.set(real, revision(bytes))
  if (bytes.subarray(0, 8192).includes(0))
    return error(`${shown} is no text (${bytes.length} bytes): look at it with bash`)
  const lines = linesOf(bytes)
  if (lines.length === 0) return said(`${shown}, empty`)
  if (offset > lines.length)
    return error(`${shown} has ${count(lines.length, 'line')}; offset ${offset} is past its end`)
  return numbered(shown, lines.slice(offset - 1, offset - 1 + limit), offset, lines.length)
}

/** A file too large to be read whole: looked through from its beginning for the lines asked for. */
const readPart = (
  fd: number,
  size: number,
  { shown, offset, limit }: { shown: string; offset: number; limit: number },
): ToolResult => {
  const wanted: Buffer[] = []
  let line = 1
  let bytes = 0
  const piece = Buffer.alloc(1_048_576)
  for (let n = readSync(fd, piece); n > 0 && line < offset + limit && bytes < maxRead * 2; n = readSync(fd, piece)) {
    for (let from = 0; from < n && line < offset + limit && bytes < maxRead * 2; ) {
      const newline = piece.subarray(0, n).indexOf(0x0a, from)
      const end = newline < 0 ? n : newline + 1
      if (line >= offset) {
        wanted.push(Buffer.from(piece.subarray(from, end)))
        bytes += end - from
      }
      if (newline >= 0) line++
      from = end
    }
  }
  if (wanted.length === 0) return error(`${shown} (${size} bytes) has fewer than ${offset} lines`)
  return numbered(shown, linesOf(Buffer.concat(wanted)), offset, null)
}

const readBytes = (fd: number, most: number): Buffer => {
  const pieces: Buffer[] = []
  let total = 0
  for (;;) {
    const piece = Buffer.alloc(Math.min(1_048_576, most - total + 1))
    const n = readSync(fd, piece)
    if (n === 0 || total > most) return Buffer.concat(pieces)
    pieces.push(piece.subarray(0, n))
    total += n
  }
}

/** Lines end at LF and nowhere else. A last one without it counts; the CR of a CRLF is not shown. */
const linesOf = (bytes: Buffer): string[] => {
  const lines = wellFormed(
    bytes
      .toString('utf8')
      .replace(/^\uFEFF/, '')
      .replaceAll('\0', '\uFFFD'),
  ).split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines.map(line => line.replace(/\r$/, ''))
}

const numbered = (shown: string, lines: readonly string[], offset: number, total: number | null): ToolResult => {
  const rows: string[] = []
  let bytes = 0
  for (const [i, line] of lines.entries()) {
    const text = line.length > maxLine ? `${cut(line, maxLine)}[… ${line.length - maxLine} more characters]` : line
    const row = `${offset + i}\t${text}`
    bytes += Buffer.byteLength(row) + 1
    if (bytes > maxRead && rows.length > 0) break
    rows.push(row)
  }
  const last = offset + rows.length - 1
  const isEnd = total !== null && last >= total
  const range = offset === 1 && isEnd ? count(last, 'line') : `lines ${offset}-${last} of ${total ?? 'many'}`
  const more = isEnd ? [] : [`[more: read_file with offset ${last + 1}]`]
  return said([`${shown}, ${range}`, ...rows, ...more].join('\n'))
}

export const writeFile: Tool = defineTool({
  name: 'write_file',
  description: 'Write a whole file (NOTES.md: append). Its folder must exist.',
  input: z.strictObject({ path: z.string(), content: z.string() }),
  async run({ path, content }, context) {
    const { view } = context
    const found = view.resolve(path, 'append')
    if (!found.ok) return refused(found.fault)
    const { real, shown, mount } = found.value
    if (isGits(shown)) return gitsOwn(shown)
    const closed = await gate(context, shown)
    if (closed) return closed
    const text = wellFormed(content)
    if (mount.access === 'append') return append(real, shown, text)
    const parent = dirname(real)
    if (!statSync(parent, { throwIfNoEntry: false })?.isDirectory())
      return error(`the folder of ${shown} does not exist: make it first (bash: mkdir -p)`)
    const before = existing(real)
    if (before === 'folder') return error(`${shown} is a folder`)
    if (before === 'special') return error(`${shown} is no regular file`)
    const seen = context.read.get(real)
    if (before && seen !== undefined && seen !== revision(before.bytes))
      return error(`${shown} changed since you read it: read_file it again, then write`)
    const { bytes, kept } = likeBefore(text, before?.bytes ?? null)
    const done = replaceFileAt(real, bytes, before?.mode ?? 0o644)
    if (!done.ok) return refused(done.fault, shown)
    context.read.set(real, revision(bytes))
    const what = before
      ? `replaced ${shown}, ${before.bytes.length} → ${bytes.length} bytes`
      : `wrote ${shown}, ${bytes.length} bytes`
    return said(`${what}${kept ? `, ${kept} kept` : ''}`)
  },
})

const append = (real: string, shown: string, text: string): ToolResult => {
  const before = existing(real)
  if (before === 'folder' || before === 'special') return error(`${shown} is no regular file`)
  const gap = before && before.bytes.length > 0 && before.bytes.at(-1) !== 0x0a ? '\n' : ''
  const bytes = Buffer.from(`${gap}${text}${text === '' || text.endsWith('\n') ? '' : '\n'}`)
  const done = appendFileAt(real, bytes)
  return done.ok ? said(`added ${bytes.length} bytes to ${shown}`) : refused(done.fault, shown)
}

/** What stands at a path now; null when nothing. */
export const existing = (real: string): { bytes: Buffer; mode: number } | 'folder' | 'special' | null => {
  const stat = lstatSync(real, { throwIfNoEntry: false })
  if (!stat) return null
  if (stat.isDirectory()) return 'folder'
  if (!stat.isFile()) return 'special'
  const file = openFile(real)
  if (!file.ok) return 'special'
  try {
    return { bytes: readBytes(file.value.fd, maxWhole), mode: file.value.mode }
  } finally {
    closeSync(file.value.fd)
  }
}
