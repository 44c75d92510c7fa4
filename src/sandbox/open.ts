import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  fsyncSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errnoOf } from '../lib/files.ts'
import { fail, ok, type Result } from '../lib/result.ts'

/**
 * File acts of the program itself on paths that a view resolved. Between resolving and opening, a command of the teammate
 * may put a link in the way; so what was opened is compared with what was meant, and a folder is held while in use.
 */

const { O_RDONLY, O_WRONLY, O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants

/** Opens a regular file for reading. The caller closes `fd`. Faults: not there, a folder, no regular file, moved away. */
export const openFile = (real: string): Result<{ fd: number; size: number; mode: number }> =>
  opened(real, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, fd => {
    const stat = fstatSync(fd)
    if (stat.isDirectory()) return fail('usage', 'it is a folder', 'use ls')
    if (!stat.isFile()) return fail('usage', 'it is no regular file')
    return ok({ fd, size: stat.size, mode: stat.mode & 0o7777 })
  })

/** Replaces or makes a file as a whole: a reader sees the old content or the new one, never a part. Its folder must exist. */
export const replaceFileAt = (real: string, bytes: Buffer, mode: number): Result<null> => {
  const folder = holdFolder(dirname(real))
  if (!folder.ok) return folder
  const { fd, path } = folder.value
  const temporary = join(path, `.${randomBytes(6).toString('hex')}.tmp`)
  try {
    const file = openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode)
    try {
      writeAll(file, bytes)
      fchmodSync(file, mode)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, join(path, basename(real)))
    fsyncSync(fd)
    return ok(null)
  } catch (thrown) {
    rmSync(temporary, { force: true })
    return ioFault(thrown)
  } finally {
    closeSync(fd)
  }
}

/** Adds to the end of a file, which is made where missing. */
export const appendFileAt = (real: string, bytes: Buffer): Result<null> => {
  const file = opened(real, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, fd =>
    fstatSync(fd).isFile() ? ok(fd) : fail('usage', 'it is no regular file'),
  )
  if (!file.ok) return file
  try {
    writeAll(file.value, bytes)
    return ok(null)
  } catch (thrown) {
    return ioFault(thrown)
  } finally {
    closeSync(file.value)
  }
}

/** A folder held open, and a path by which it is reached whatever happens to its name. */
const holdFolder = (real: string): Result<{ fd: number; path: string }> =>
  opened(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, fd => {
    const path = `/proc/self/fd/${fd}`
    return ok({ fd, path: existsSync(path) ? path : real })
  })

const opened = <T>(real: string, flags: number, use: (fd: number) => Result<T>): Result<T> => {
  let fd: number
  try {
    fd = openSync(real, flags, 0o644)
  } catch (thrown) {
    return ioFault(thrown)
  }
  const result = isMeant(fd, real) ? use(fd) : fail('refused', 'it was moved or replaced by a link just now')
  if (!result.ok) closeSync(fd)
  return result
}

const isMeant = (fd: number, real: string): boolean => {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`) === real
  } catch {
    return true // No /proc on this system: O_NOFOLLOW alone must do.
  }
}

const writeAll = (fd: number, bytes: Buffer): void => {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
}

const ioFault = (thrown: unknown): Result<never> => {
  const code = errnoOf(thrown)
  if (code === 'ENOENT') return fail('unknown', 'it does not exist')
  if (code === 'ENOTDIR') return fail('usage', 'a part of the path is a file, not a folder')
  if (code === 'EISDIR') return fail('usage', 'it is a folder', 'use ls')
  if (code === 'ELOOP') return fail('refused', 'it was replaced by a link just now')
  if (code === undefined) throw thrown
  return fail('io', `it cannot be opened or written (${code})`, undefined, thrown)
}
