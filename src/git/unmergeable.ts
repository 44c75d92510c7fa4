import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ok, type Result } from '../lib/result.ts'
import { startOf } from './merge.ts'
import { type HubRepository, readRef } from './repository.ts'
import { type Git, zParts } from './run.ts'

/** What a branch must not bring to the trunk, though git would take it. */
export interface Unmergeable {
  readonly path: string
  /** `repository`: a repository of its own, of which git keeps a commit's name alone. Else whose filter its content never passed. */
  readonly why: 'repository' | 'lfs' | 'git-crypt'
}

/** What stands in git of a file that one of these filters keeps. A clone has no such filter, so it sees exactly this. */
const kept: Record<'lfs' | 'git-crypt', RegExp> = {
  lfs: /^$|^version https?:\/\/(git-lfs\.github\.com|hawser\.github\.com|git-media\.io)\//,
  'git-crypt': /^$|^\0GITCRYPT\0/,
}

const filterOf = (value: string): 'lfs' | 'git-crypt' | null =>
  value === 'lfs' ? 'lfs' : /^git-crypt(-|$)/.test(value) ? 'git-crypt' : null

/**
 * What `head` brings, against where it left the trunk, that cannot be merged as it is: a nested repository that was added as such,
 * and a file kept by Git LFS or git-crypt that any of its commits holds unfiltered, large or readable for ever.
 */
export const unmergeable = async (hub: HubRepository, head: string): Promise<Result<Unmergeable[]>> => {
  const from = await startOf(hub, head)
  if (!from.ok) return from
  const asRaw = ['--raw', '-z', '--no-renames', '--no-abbrev']
  const now = await hub.git(['diff-tree', '-r', ...asRaw, from.value, head])
  if (!now.ok) return now
  const found: Unmergeable[] = entries(now.value.stdout).flatMap(({ mode, path }) =>
    mode === '160000' ? [{ path, why: 'repository' as const }] : [],
  )
  const places = [':(top,glob).gitattributes', ':(top,glob)**/.gitattributes']
  const named = await hub.git(['grep', '-q', '-E', 'filter=(lfs|git-crypt)', head, '--', ...places], { codes: [0, 1] })
  if (!named.ok) return named
  if (named.value.code === 1) return ok(found)
  const known = await readRef(hub.git, from.value)
  if (!known.ok) return known
  const all = await hub.git(['log', '--format=', ...asRaw, head, ...(known.value === null ? [] : [`^${known.value}`])])
  if (!all.ok) return all
  const files = [...entries(now.value.stdout), ...entries(all.value.stdout)].filter(({ mode }) =>
    mode.startsWith('100'),
  )
  const filters = await filtersOf(hub.git, head, [...new Set(files.map(({ path }) => path))])
  if (!filters.ok) return filters
  for (const { path, blob } of files) {
    const why = filters.value.get(path)
    if (why === undefined || found.some(each => each.path === path)) continue
    const start = await hub.git(['cat-file', 'blob', blob], { maxBytes: 64 })
    if (!start.ok) return start
    if (!kept[why].test(start.value.stdout)) found.push({ path, why })
  }
  return ok(found)
}

/** What raw `-z` output says stands there now; between commits there may be an empty part. */
const entries = (raw: string): { mode: string; blob: string; path: string }[] => {
  const parts = zParts(raw)
  const found: { mode: string; blob: string; path: string }[] = []
  for (let i = 0; i + 1 < parts.length; ) {
    const about = (parts[i++] ?? '').trimStart()
    if (!about.startsWith(':')) continue
    const [, mode = '', , blob = ''] = about.split(' ')
    found.push({ mode, blob, path: parts[i++] ?? '' })
  }
  return found
}

/** Which of these paths LFS or git-crypt keeps, by the attributes in the commit itself. */
const filtersOf = async (
  git: Git,
  commit: string,
  paths: readonly string[],
): Promise<Result<Map<string, 'lfs' | 'git-crypt'>>> => {
  // Attributes of a commit are read from an index.
  const folder = mkdtempSync(join(tmpdir(), 'team-attributes-'))
  const vars = { GIT_INDEX_FILE: join(folder, 'index') }
  try {
    const read = await git(['read-tree', commit], { vars })
    if (!read.ok) return read
    const told = await git(['check-attr', '--cached', '-z', '--stdin', 'filter'], {
      vars,
      input: `${paths.join('\0')}\0`,
    })
    if (!told.ok) return told
    const rows = zParts(told.value.stdout)
    const found = new Map<string, 'lfs' | 'git-crypt'>()
    // <path> <attribute> <value>
    for (let i = 0; i + 2 < rows.length; i += 3) {
      const filter = filterOf(rows[i + 2] ?? '')
      if (filter !== null) found.set(rows[i] ?? '', filter)
    }
    return ok(found)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const words: Record<Unmergeable['why'], string> = {
  repository:
    'is a repository of its own, of which git would keep the name of a commit alone: git rm --cached it, then add its files without its .git, or leave it out',
  lfs: 'is kept by Git LFS, which this clone has not: in its place its whole content was committed. Take that back (git checkout hub/trunk -- <path>, or git rm --cached), also from the commits before (git rebase), and put the file into out/ for the human',
  'git-crypt':
    'is encrypted by git-crypt, which this clone has not: it was committed readable. Take that back (git checkout hub/trunk -- <path>, or git rm --cached), also from the commits before (git rebase), and tell the human',
}

/** The same in words for its author. */
export const unmergeableWords = (found: readonly Unmergeable[]): string =>
  (['repository', 'lfs', 'git-crypt'] as const)
    .flatMap(why => {
      const paths = found.filter(each => each.why === why).map(each => each.path)
      const few = paths.length > 5 ? [...paths.slice(0, 5), `${paths.length - 5} more`] : paths
      return few.length === 0 ? [] : [`${few.join(', ')}: ${words[why]}.`]
    })
    .join(' ')
