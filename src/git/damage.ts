import { lstatSync, readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { readInside } from './inside.ts'

/** Real folders and files where git will read: a link here would make it read somebody else's repository. */
const kinds = { '.git': 'folder', '.git/HEAD': 'file', '.git/objects': 'folder', '.git/refs': 'folder' } as const

/** What of a clone's git folder is not as git needs it, and what is wrong with it; null where nothing is. */
export const brokenPart = (dest: string): { readonly path: string; readonly what: string } | null => {
  for (const [path, kind] of Object.entries(kinds)) {
    const stat = lstatSync(join(dest, path), { throwIfNoEntry: false })
    if (kind === 'folder' ? !stat?.isDirectory() : !stat?.isFile()) return { path, what: `is not a ${kind}` }
  }
  if (lstatSync(join(dest, '.git/commondir'), { throwIfNoEntry: false }))
    return { path: '.git/commondir', what: 'exists' }
  return /^(ref:\s*refs\/|[0-9a-f]{40})/.test(readInside(dest, '.git/HEAD') ?? '')
    ? null
    : { path: '.git/HEAD', what: 'names no commit and no branch' }
}

/**
 * What became of a clone that was there, in words that follow its name; null where nothing did. Looks at files alone: git is
 * not run in a folder that somebody else may have changed.
 */
export const cloneDamage = (dest: string): string | null => {
  if (!lstatSync(join(dest, '.git'), { throwIfNoEntry: false })) return 'was deleted'
  const broken = brokenPart(dest)
  return broken === null ? null : `is damaged (${broken.path} ${broken.what})`
}

/** What became of a hub that was opened, in words that follow its name; null where git can work in it. */
export const hubDamage = (dir: string): string | null => {
  if (!lstatSync(dir, { throwIfNoEntry: false })) return 'is gone'
  for (const [part, kind] of Object.entries({ HEAD: 'file', objects: 'folder', refs: 'folder' })) {
    const stat = lstatSync(join(dir, part), { throwIfNoEntry: false })
    if (kind === 'folder' ? !stat?.isDirectory() : !stat?.isFile()) return `is damaged (${part} is not a ${kind})`
  }
  return null
}

/** Moves what stands at `dest` aside, to a name beside it that is free, which is the answer; null where there was nothing. */
export const setAside = (dest: string): string | null => {
  const stat = lstatSync(dest, { throwIfNoEntry: false })
  if (stat === undefined || (stat.isDirectory() && readdirSync(dest).length === 0)) return null
  for (let n = 1; ; n++) {
    const aside = `${dest}.damaged-${n}`
    if (lstatSync(aside, { throwIfNoEntry: false })) continue
    renameSync(dest, aside)
    return aside
  }
}
