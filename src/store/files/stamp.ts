import {
  type BigIntStats,
  closeSync,
  fstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errnoOf } from '../../lib/files.ts'

/** What tells one state of a file from another without reading it. */
export interface Stamp {
  readonly dev: bigint
  readonly ino: bigint
  readonly size: bigint
  readonly mtimeNs: bigint
}

export const sameStamp = (a: Stamp | undefined, b: Stamp | undefined): boolean =>
  a === b ||
  (a !== undefined &&
    b !== undefined &&
    a.ino === b.ino &&
    a.size === b.size &&
    a.mtimeNs === b.mtimeNs &&
    a.dev === b.dev)

/** The stamp of what was found. */
export const stampOf = (stat: BigIntStats): Stamp => ({
  dev: stat.dev,
  ino: stat.ino,
  size: stat.size,
  mtimeNs: stat.mtimeNs,
})

/** The stamp of a regular file (links followed); undefined for anything else, or nothing. */
export const stamp = (path: string): Stamp | undefined => {
  const found = stampOrOther(path)
  return found === 'other' ? undefined : found
}

/** The same, that tells what is no regular file from nothing. */
export const stampOrOther = (path: string): Stamp | 'other' | undefined => {
  try {
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    if (!stat) return undefined
    return stat.isFile() ? stampOf(stat) : 'other'
  } catch (error) {
    // A link that leads to itself, or a name that no file can have.
    if (errnoOf(error) === 'ELOOP' || errnoOf(error) === 'ENAMETOOLONG') return undefined
    throw error
  }
}

/** A file's bytes with the stamp they were read at; undefined when it is gone or changed while being read. */
export const readStamped = (path: string): { readonly stamp: Stamp; readonly bytes: Buffer } | undefined => {
  const before = stamp(path)
  if (!before) return undefined
  let bytes: Buffer
  try {
    bytes = readFileSync(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
  const after = stamp(path)
  return after && sameStamp(before, after) ? { stamp: after, bytes } : undefined
}

/**
 * Replaces (or makes) the file in one step: a reader sees the old text or the new one. Not flushed to the disk: only for
 * what can be made again from the journal. The new text is first written in `folder`; `mayReplace` is asked last of all, right
 * before the one step, so that what a hand writes meanwhile is not written over. Returns the stamp of what was written, or
 * null where that was not allowed.
 */
export const swapFile = (
  path: string,
  text: string,
  mayReplace: () => boolean,
  folder = dirname(path),
): Stamp | null => {
  const temporary = join(folder, `.${basename(path)}.tmp`)
  const file = openSync(temporary, 'w', 0o600)
  let written: Stamp
  try {
    writeFileSync(file, text)
    written = stampOf(fstatSync(file, { bigint: true }))
  } finally {
    closeSync(file)
  }
  try {
    if (!mayReplace()) {
      rmSync(temporary)
      return null
    }
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
  return written
}
