import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { reach } from './points.ts'
import type { Fault } from './result.ts'

/** A line as it lies in a file: where it starts, and its bytes without the newline. */
export interface Line {
  readonly offset: number
  readonly bytes: Buffer
}

/**
 * The complete lines of `buffer`, whose first byte lies at `baseOffset` of its file. Lines end at byte 0x0A and nowhere
 * else: U+2028, NEL and a lone CR are text. `end` is the offset after the last newline; what follows it is `rest`.
 */
export const splitLines = (buffer: Buffer, baseOffset = 0): { lines: Line[]; rest: Buffer; end: number } => {
  const lines: Line[] = []
  let from = 0
  for (let at = buffer.indexOf(0x0a); at !== -1; at = buffer.indexOf(0x0a, from)) {
    lines.push({ offset: baseOffset + from, bytes: buffer.subarray(from, at) })
    from = at + 1
  }
  return { lines, rest: buffer.subarray(from), end: baseOffset + from }
}

/** Makes a new, renamed or removed name in `folder` last through a power failure. */
export const syncFolder = (folder: string): void => {
  const fd = openSync(folder, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** Makes a folder and those above it that are missing, for its owner alone; they last through a power failure. */
export const makeFolder = (folder: string): void => {
  const first = mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let at = folder; at.length >= first.length; at = dirname(at)) syncFolder(dirname(at))
}

/**
 * Makes a folder and those above it that are missing, up to `root`, for its owner alone. Not `root` itself: one that was moved or
 * given up is not to be brought back beside where it is now. Throws ENOENT then.
 */
export const makeFolderIn = (root: string, folder: string): void => {
  if (folder === root || dirname(folder) === folder) return
  makeFolderIn(root, dirname(folder))
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
  }
}

/** Makes what was written into a file by whoever it was last through a power failure. */
export const flushFile = (path: string): void => {
  const fd = openPlain(path, constants.O_RDONLY)
  try {
    fdatasyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/**
 * Replaces `path` as a whole: a reader sees the old content or the new one, and after this has resolved the new one
 * lasts through a power failure. The temporary file is a dotfile beside it, removed when writing fails.
 */
export const replaceFile = async (path: string, data: string | Buffer, mode = 0o600): Promise<void> => {
  const folder = dirname(path)
  const temporary = `${folder}/.${randomBytes(6).toString('hex')}.tmp`
  try {
    const file = await open(temporary, 'wx', mode)
    try {
      await file.writeFile(data)
      await file.sync()
    } finally {
      await file.close()
    }
    reach('file.write')
    await rename(temporary, path)
    reach('file.written')
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  syncFolder(folder)
}

/** Removes what a crash left of `replaceFile` in `folder`. For the one who writes there, before anything is written. */
export const removeTemporaries = (folder: string): void => {
  for (const name of readdirSync(folder))
    if (/^\.[0-9a-f]{12}\.tmp$/.test(name)) rmSync(join(folder, name), { force: true })
}

/** The errno code of a thrown file error, or undefined where it is something else. */
export const errnoOf = (thrown: unknown): string | undefined => {
  if (!(thrown instanceof Error)) return undefined
  const { code } = thrown as NodeJS.ErrnoException
  return typeof code === 'string' && /^E[A-Z0-9]+$/.test(code) ? code : undefined
}

/**
 * Opens a regular file. Anything else of that name is refused as the disk refuses: a pipe would keep its opener waiting for
 * the other end, a device may have no end.
 */
export const openPlain = (path: string, flags: number, mode?: number): number => {
  const there = statSync(path, { throwIfNoEntry: false })
  if (there && !there.isFile()) throw notPlain(there)
  const fd = openSync(path, flags | constants.O_NONBLOCK, mode)
  const stat = fstatSync(fd)
  if (stat.isFile()) return fd
  closeSync(fd)
  throw notPlain(stat)
}

const notPlain = (stat: Stats): Error =>
  Object.assign(new Error('this is not a file that can be read and written: take it away'), {
    code: stat.isDirectory() ? 'EISDIR' : 'ENOTSUP',
  })

/** The bytes of a regular file; see `openPlain`. */
export const readPlain = (path: string): Buffer => {
  const fd = openPlain(path, constants.O_RDONLY)
  try {
    return readFileSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** Does the file of `size` bytes end within a line? Whoever appends one of its own ends that first. `fd` must be readable. */
export const endsInLine = (fd: number, size: number): boolean => {
  const last = Buffer.alloc(1)
  return size > 0 && readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== 0x0a
}

/** What lies at `path` is of the wrong kind. */
export const misplaced = (path: string, is: string, belongs: 'folder' | 'file', cause?: unknown): Fault => ({
  code: 'config',
  message: `${path} is ${is}, where a ${belongs} belongs`,
  hint: `Move it away: mv ${path} ${path}.old`,
  cause,
})

/** The right to do so is missing. */
export const forbidden = (path: string, what: string, cause: unknown): Fault => ({
  code: 'config',
  message: `you may not ${what} ${path} (${errnoOf(cause)})`,
  hint: `Give yourself the right, as its owner: chmod -R u+rwX ${path}`,
  cause,
})

/**
 * Why a file of the team root could not be read, with its path and what to do: node says neither of a folder in its place.
 * Undefined for what is no refusal of the disk.
 */
export const unreadable = (path: string, thrown: unknown): Fault | undefined => {
  const code = errnoOf(thrown)
  if (code === undefined) return undefined
  if (code === 'EISDIR') return misplaced(path, 'a folder', 'file', thrown)
  if (code === 'ENOTDIR') return misplaced(dirname(path), 'a file', 'folder', thrown)
  if (code === 'EACCES' || code === 'EPERM') return forbidden(path, 'read', thrown)
  return {
    code: 'io',
    message: `cannot read ${path}: ${thrown instanceof Error ? thrown.message : thrown}`,
    cause: thrown,
  }
}
