import { closeSync, constants, fstatSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf, openPlain } from '../lib/files.ts'
import { ok, type Result } from '../lib/result.ts'
import { listJournal, newerFormat, readHeader } from './files/epochs.ts'
import { layout } from './root.ts'

/** The longest page or first line that is read whole; a longer one is nobody's. */
const mostBytes = 4 * 1024 * 1024

/**
 * Did a newer version of this program write anything here? Then a `refused` fault that names the file. Asked before anything is
 * written; touches nothing. What cannot be read is not judged here, nor what has no version: `docs/files.md` lists that.
 */
export const checkVersions = (root: string): Result<null> => {
  const at = layout(root)
  const epochs = listed(() => listJournal(at.journal).epochs)
  for (const epoch of epochs) {
    const header = readHeader(at.journal, epoch)
    if (!header.ok && header.fault.code === 'refused') return header
  }
  for (const path of inFolder(at.journal, /^snapshot-\d+\.json$/)) {
    const newer = newerFormat({ v: versionAtStart(path) }, path)
    if (newer) return newer
  }
  const holder = newerFormat(objectIn(at.holder), at.holder)
  if (holder) return holder
  const models = newerFormat(objectIn(at.models), at.models)
  if (models) return models
  for (const path of inFolder(at.sessions, /\.jsonl$/)) {
    const newer = newerFormat(objectIn(path, 'line'), path)
    if (newer) return newer
  }
  const pages = [
    ...inFolder(at.tasks, /^task_.+\.json$/),
    // They are many, and nobody reads them while there is a journal.
    ...(epochs.length === 0 ? inFolder(at.taskArchive, /^task_.+\.json$/) : []),
    ...inFolder(at.requests, /^req_.+\.json$/),
  ]
  for (const path of pages) {
    const page = objectIn(path)
    // A hand-made file has no revision: what else is in it is told as of a drop.
    const newer = typeof page?.rev === 'number' ? newerFormat(page, path) : null
    if (newer) return newer
  }
  return ok(null)
}

/** None where that cannot be listed: whoever needs it says why. */
const listed = <T>(list: () => T[]): T[] => {
  try {
    return list()
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return []
  }
}

const inFolder = (folder: string, pattern: RegExp): string[] =>
  listed(() => readdirSync(folder)).flatMap(name => (pattern.test(name) ? [join(folder, name)] : []))

/** The JSON object that a file holds, or its first line; null for what is none. */
const objectIn = (path: string, part: 'whole' | 'line' = 'whole'): Readonly<Record<string, unknown>> | null => {
  try {
    const fd = openPlain(path, constants.O_RDONLY)
    try {
      const text = part === 'line' ? firstLine(fd) : headOf(fd, mostBytes).toString('utf8')
      const value: unknown = JSON.parse(text)
      return typeof value === 'object' && value !== null ? { ...value } : null
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    if (error instanceof SyntaxError || errnoOf(error) !== undefined) return null
    throw error
  }
}

/** Of a large file that begins with its version, as snapshots do. */
const versionAtStart = (path: string): number | undefined => {
  try {
    const fd = openPlain(path, constants.O_RDONLY)
    try {
      const version = /^\s*\{\s*"v"\s*:\s*(\d+)/.exec(headOf(fd, 200).toString('utf8'))?.[1]
      return version === undefined ? undefined : Number(version)
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return undefined
  }
}

const firstLine = (fd: number): string => {
  for (let size = 16 * 1024; ; size *= 4) {
    const head = headOf(fd, size)
    const end = head.indexOf(0x0a)
    if (end !== -1) return head.toString('utf8', 0, end)
    if (head.length < size || size >= mostBytes) return ''
  }
}

const headOf = (fd: number, most: number): Buffer => {
  const buffer = Buffer.alloc(Math.min(most, fstatSync(fd).size + 1))
  let length = 0
  for (let read = 1; read > 0 && length < buffer.length; length += read)
    read = readSync(fd, buffer, length, buffer.length - length, length)
  return buffer.subarray(0, length)
}
