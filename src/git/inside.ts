import { randomBytes } from 'node:crypto'
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'

/**
 * Writing into a folder that a teammate owns. It may have put a symlink anywhere in it, so nothing here follows one:
 * a link among the parents is refused, a link at the end is replaced and not written through.
 */

/** The folder `rel` below `top`, made where missing. A `refused` fault when a link or a file is in the way. */
export const folderInside = (top: string, rel: string): Result<string> => {
  let at = top
  for (const part of rel.split('/').filter(part => part !== '' && part !== '.')) {
    if (part === '..') return fail('refused', `${rel} leaves ${top}`)
    at = join(at, part)
    const stat = lstatSync(at, { throwIfNoEntry: false })
    if (stat === undefined) mkdirSync(at)
    else if (!stat.isDirectory()) return fail('refused', `${at} is not a folder`, 'move it away, then start again')
  }
  return ok(at)
}

/** Puts a file at `rel` below `top`, whole or not at all. True when it was changed, false when it stood there already. */
export const placeInside = (top: string, rel: string, content: Buffer | string, mode: number): Result<boolean> => {
  const parent = folderInside(top, dirname(rel))
  if (!parent.ok) return parent
  const path = join(top, rel)
  const bytes = Buffer.from(content)
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (stat?.isDirectory()) return fail('refused', `${path} is a folder`, 'move it away, then start again')
  if (stat?.isFile() && stat.size === bytes.length && (stat.mode & 0o777) === mode && readFileSync(path).equals(bytes))
    return ok(false)
  const temporary = join(parent.value, `.${randomBytes(6).toString('hex')}.tmp`)
  try {
    writeFileSync(temporary, bytes, { flag: 'wx', mode })
    chmodSync(temporary, mode)
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
  return ok(true)
}

/** The text of the regular file at `rel` below `top`; null when there is none or a link stands there or on the way. */
export const readInside = (top: string, rel: string): string | null => {
  let at = top
  const parts = rel.split('/')
  for (const [i, part] of parts.entries()) {
    at = join(at, part)
    const stat = lstatSync(at, { throwIfNoEntry: false })
    if (stat === undefined || !(i === parts.length - 1 ? stat.isFile() : stat.isDirectory())) return null
  }
  return readFileSync(at, 'utf8')
}

/** A name beside `path` for a folder that is built there and renamed to it when it is whole. */
export const halfMade = (path: string): string =>
  join(dirname(path), `.${basename(path)}.${randomBytes(4).toString('hex')}.new`)

/** Clears away what a crash left of building `path`. A git of the dead process may still be writing there, hence the retries. */
export const removeHalfMade = (path: string): void => {
  for (const entry of readdirSync(dirname(path)))
    if (entry.startsWith(`.${basename(path)}.`) && entry.endsWith('.new'))
      rmSync(join(dirname(path), entry), { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
}
