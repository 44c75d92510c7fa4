import { closeSync, constants, fdatasyncSync, fstatSync, ftruncateSync, readFileSync, writeSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { endsInLine, errnoOf, flushFile, openPlain, syncFolder, unreadable } from '../../lib/files.ts'
import { reach } from '../../lib/points.ts'
import { fail, ok, type Result } from '../../lib/result.ts'
import {
  isSame,
  type MemoryEntry,
  type MemoryNote,
  maxEntryBytes,
  maxMemoryBytes,
  readEntries,
  tidy,
  writeEntry,
} from '../../protocol/memory.ts'

/** A file that a person made as large as this is not read. */
const maxRead = 8 * maxMemoryBytes
/** How often an entry is written anew into a file that somebody replaces in that very moment. */
const mostTries = 5

const { O_RDONLY, O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW } = constants

/** Where a teammate's memory lies; without a name, the team's. */
export const memoryFile = (root: string, name?: string): string => join(root, 'team', name ?? '', 'memory.md')

/** What is remembered in this file, oldest first; nothing where there is none. Never changes it. */
export const readMemory = (file: string): Result<MemoryEntry[]> => {
  const text = textOf(file)
  return text.ok ? ok(readEntries(text.value)) : text
}

/**
 * Adds an entry at the end, and answers when the file of that name has it and keeps it through a power failure; what stands there is left as it is,
 * byte for byte. The same text in the same category is not added twice: `known` is the one that is there. Only one
 * may add to a file at a time; a person may edit or replace it meanwhile.
 */
export const addMemory = (
  file: string,
  entry: MemoryEntry & MemoryNote,
): Result<{ readonly known: MemoryEntry | null }> => {
  if (tidy(entry.content) === '') return fail('usage', 'there is nothing in it to remember')
  const written = writeEntry(entry)
  const bytes = Buffer.byteLength(written)
  if (bytes > maxEntryBytes)
    return fail(
      'usage',
      `this entry has ${bytes} bytes, and ${maxEntryBytes} are the most`,
      'put the long of it into a file, and what is to be known, with the path, here',
    )
  for (let tries = 0; tries < mostTries; tries++) {
    const before = textOf(file)
    if (!before.ok) return before
    const known = readEntries(before.value).find(each => isSame(each, entry))
    // Behind the first look it is the entry itself: an editor that put another file in the place of the one that was written to is seen so.
    if (known && tries > 0) return ok({ known: null })
    if (known) {
      // It may have been written by who died before it was flushed.
      flushFile(file)
      return ok({ known })
    }
    const appended = append(file, written, before.value.includes('\r\n'))
    if (!appended.ok) return appended
  }
  return fail('conflict', `${basename(file)} is being rewritten all the time`, 'try again later')
}

const append = (file: string, written: string, hasCrlf: boolean): Result<null> => {
  try {
    const fd = openPlain(file, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
    try {
      const { size } = fstatSync(fd)
      const gap = size === 0 ? '' : endsInLine(fd, size) ? '\n\n' : '\n'
      const text = `${gap}${written}`
      const bytes = Buffer.from(hasCrlf ? text.replaceAll('\n', '\r\n') : text)
      if (size + bytes.length > maxMemoryBytes)
        return fail(
          'refused',
          `${basename(file)} is full: ${size} bytes, and ${maxMemoryBytes} are the most`,
          `nothing was added; ask a person to shorten ${file}`,
        )
      reach('memory.write')
      const put = writeSync(fd, bytes)
      if (put < bytes.length) {
        // A full disk: half an entry is none.
        if (fstatSync(fd).size === size + put) ftruncateSync(fd, size)
        return fail('io', `${file} could not be written whole`, 'is the disk full?')
      }
      fdatasyncSync(fd)
      if (size === 0) syncFolder(dirname(file))
      reach('memory.written')
      return ok(null)
    } finally {
      closeSync(fd)
    }
  } catch (thrown) {
    const code = errnoOf(thrown)
    return code === undefined || ['ELOOP', 'EISDIR', 'ENOTDIR', 'ENOTSUP'].includes(code)
      ? refusal(file, thrown)
      : fail('io', `${file} could not be written (${code})`, 'nothing was added', thrown)
  }
}

const textOf = (file: string): Result<string> => {
  try {
    const fd = openPlain(file, O_RDONLY | O_NOFOLLOW)
    try {
      const { size } = fstatSync(fd)
      if (size > maxRead)
        return fail(
          'io',
          `${basename(file)} is too large to be read: ${size} bytes, and ${maxRead} are the most`,
          `ask a person to shorten ${file}`,
        )
      return ok(readFileSync(fd, 'utf8'))
    } finally {
      closeSync(fd)
    }
  } catch (thrown) {
    return errnoOf(thrown) === 'ENOENT' ? ok('') : refusal(file, thrown)
  }
}

/** What the disk said, in words; a throw that is none of its refusals is a bug. */
const refusal = (file: string, thrown: unknown): Result<never> => {
  if (errnoOf(thrown) === 'ELOOP')
    return fail('io', `${file} is a link, where a file belongs`, 'ask a person to put the file itself there', thrown)
  const fault = unreadable(file, thrown)
  if (fault === undefined) throw thrown
  return { ok: false, fault }
}
