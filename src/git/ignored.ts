import { existsSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import type { HubRepository } from './repository.ts'
import { zParts } from './run.ts'

/**
 * What git ignores in the person's work tree and a clone has not (installed packages, files of the environment): relative to the
 * top, folders with a slash at their end, those nearest to the top first. The team root itself is left out. Empty where git
 * cannot tell: it is a word of help, and nothing is built on it.
 */
export const ignoredAbsent = async (
  { anywhere, dir, workspace: { top } }: Pick<HubRepository, 'anywhere' | 'dir' | 'workspace'>,
  clone: string,
): Promise<readonly string[]> => {
  const listed = await anywhere(['ls-files', '--others', '--ignored', '--exclude-standard', '--directory', '-z'], {
    cwd: top,
  })
  if (!listed.ok) return []
  const root = dirname(dirname(dir)) + sep
  const depth = (path: string) => path.replace(/\/$/, '').split('/').length
  const all = zParts(listed.value.stdout)
  // A folder that is not ignored itself is listed as well where it holds nothing else.
  const holds = new Set(all.flatMap(path => parents(path)))
  return all
    .filter(path => {
      if (holds.has(path)) return false
      const at = join(top, path)
      const isOfTeam = root.startsWith(at.endsWith(sep) ? at : at + sep) || at.startsWith(root)
      return !isOfTeam && !existsSync(join(clone, path))
    })
    .sort((a, b) => depth(a) - depth(b) || (a < b ? -1 : 1))
}

/** `a/b/c/`: `a/` and `a/b/`. */
const parents = (path: string): string[] =>
  [...path.replace(/\/$/, '').matchAll(/\//g)].map(({ index }) => path.slice(0, index + 1))
