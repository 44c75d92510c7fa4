import { lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { basename, sep } from 'node:path'
import { errnoOf } from '../../lib/files.ts'
import { dropKind, notRead } from '../../protocol/drop.ts'
import { type Stamp, stampOf } from './stamp.ts'

/** What stands under a name in the tasks folder. */
export type DroppedEntry =
  | { readonly kind: 'nothing' }
  /** A file to read at `path`. `own` is the stamp of the name itself: of the link, where it is one. */
  | { readonly kind: 'file'; readonly path: string; readonly own: Stamp }
  /** Somebody may take it for a drop, and nobody reads it. */
  | { readonly kind: 'unread'; readonly own: Stamp; readonly reason: string }

/**
 * Looks at one name, not at what is in it: no folder is walked, and a link is followed to its end in one step, so that none
 * of them leads round. `within` are the folders a link may lead into. Folders are people's own, unless named like a drop.
 */
export const droppedEntry = (path: string, within: readonly string[]): DroppedEntry => {
  const name = basename(path)
  const found = existing(() => lstatSync(path, { bigint: true, throwIfNoEntry: false }))
  if (found === undefined || typeof found === 'string') return { kind: 'nothing' }
  const own = stampOf(found)
  const unread = (reason: string): DroppedEntry => ({ kind: 'unread', own, reason })
  const isDrop = dropKind(name) !== null
  if (!found.isSymbolicLink()) {
    if (found.isDirectory()) return isDrop ? unread(folder(name)) : { kind: 'nothing' }
    if (!isDrop) return unread(notRead(name))
    return found.isFile() ? { kind: 'file', path, own } : unread('not a file that can be read: take it out')
  }
  const end = existing(() => ({ path: realpathSync(path), stat: statSync(path, { bigint: true }) }))
  const isFolder = typeof end === 'object' && end.stat.isDirectory()
  if (!isDrop) return isFolder ? { kind: 'nothing' } : unread(notRead(name))
  if (end === 'ELOOP') return unread('a link that leads back to itself: put the file itself here, or remove the link')
  if (typeof end !== 'object')
    return unread(`a link to ${target(path)}, which is not there: put the file itself here, or remove the link`)
  if (!within.some(dir => isWithin(dir, end.path)))
    return unread(
      `a link to ${target(path)}, which lies outside the team root and the workspace: put a copy of the file here`,
    )
  if (isFolder) return unread(folder(name))
  return end.stat.isFile()
    ? { kind: 'file', path: end.path, own }
    : unread('a link to what is not a file that can be read: remove it')
}

/** What stands in the place of a file that the program writes, and is no file. `what` says it to people. */
export type Misplaced = { readonly kind: 'link' | 'folder' | 'other'; readonly what: string }

/** Looks at the name itself; null when a file has it, or nothing. */
export const misplacedEntry = (path: string): Misplaced | null => {
  const found = existing(() => lstatSync(path, { throwIfNoEntry: false }))
  if (typeof found !== 'object' || found.isFile()) return null
  if (found.isSymbolicLink()) return { kind: 'link', what: `a link to ${target(path)}` }
  if (found.isDirectory()) return { kind: 'folder', what: 'a folder' }
  return { kind: 'other', what: found.isFIFO() ? 'a pipe' : found.isSocket() ? 'a socket' : 'a device' }
}

const folder = (name: string): string => `a folder, and only files are read here: put each task of ${name} in a file`

const target = (path: string): string => existing(() => readlinkSync(path))

/** What `look` finds, or the code of why there is nothing to be found. */
const existing = <T>(look: () => T): T | 'ENOENT' | 'ENOTDIR' | 'ELOOP' | 'ENAMETOOLONG' => {
  try {
    return look()
  } catch (error) {
    const code = errnoOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENAMETOOLONG') return code
    throw error
  }
}

const isWithin = (dir: string, path: string): boolean => {
  const real = existing(() => realpathSync(dir))
  return path.startsWith(real.endsWith(sep) ? real : real + sep)
}
