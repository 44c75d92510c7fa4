import { lstatSync, readlinkSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'

/** `path` is `folder` itself or lies below it; both absolute and resolved. A sibling with the same prefix is not. */
export const isWithin = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)

/** As many links as the kernel follows before it calls the path a loop. */
const maxLinks = 40

/**
 * The real path of `path`, as the kernel would walk it from `from`: every symlink followed, `..` taken from where a link
 * led. What does not exist (yet) is kept as written below the last existing ancestor, so that a file still to be made is
 * judged by where it would be made. Faults: a loop of links, a part that is no folder, an ancestor that cannot be read.
 */
export const realPath = (from: string, path: string): Result<string> => {
  if (path.includes('\0')) return fail('usage', 'a path holds no NUL byte')
  let links = 0
  let at = isAbsolute(path) ? '/' : from
  const todo = path.split('/').reverse()
  for (let part = todo.pop(); part !== undefined; part = todo.pop()) {
    if (part === '' || part === '.') continue
    if (part === '..') {
      at = dirname(at)
      continue
    }
    const next = join(at, part)
    let isLink: boolean
    try {
      isLink = lstatSync(next).isSymbolicLink()
    } catch (thrown) {
      const code = (thrown as NodeJS.ErrnoException).code
      if (code === 'ENOENT') {
        at = next
        continue
      }
      if (code === 'ENOTDIR') return fail('io', `${at} is a file, not a folder`)
      if (code === 'ENAMETOOLONG') return fail('usage', `a name in the path is too long: ${part.slice(0, 60)}…`)
      return fail('io', `${next} cannot be read: ${code ?? String(thrown)}`, undefined, thrown)
    }
    if (!isLink) {
      at = next
      continue
    }
    if (++links > maxLinks) return fail('io', `${next} is a loop of links`)
    const target = readlinkSync(next)
    if (isAbsolute(target)) at = '/'
    todo.push(...target.split('/').reverse())
  }
  return ok(resolve(at))
}

/** `realPath` of an absolute path, or the path as it is where it cannot be resolved. */
export const realOrSame = (path: string): string => {
  const real = realPath('/', path)
  return real.ok ? real.value : resolve(path)
}
