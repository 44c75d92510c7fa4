import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import type { WhyShown } from '../protocol/work.ts'
import { type HubRepository, isAncestor, readRef } from './repository.ts'
import { type Git, type GitOutput, line as oneLine } from './run.ts'
import { unquotePath } from './script.ts'

/** Who last wrote a line, as git sees it through moves and copies. */
export type Blame = Pick<WhyShown, 'path' | 'line' | 'text' | 'commit'>

/**
 * Who last wrote this line: of the trunk, or (`isHere`) of the file as it lies in the person's repository, which is looked at only.
 * `file` is meant from `cwd` where that lies in the repository or in a teammate's clone of it, else from the workspace. Faults: `unknown` (no such file or line).
 */
export const blame = async (
  hub: HubRepository,
  what: { file: string; line: number; cwd: string; isHere: boolean },
): Promise<Result<Blame>> => {
  const { top } = hub.workspace
  const path = pathIn(hub, what.file, what.cwd)
  if (path === null) return fail('unknown', `${what.file} is not in ${top}`)
  const git: Git = (args, more) =>
    what.isHere ? hub.anywhere(args, { cwd: top, as: 'user', ...more }) : hub.git(args, more)
  const where = what.isHere ? `in ${top}` : `on ${hub.trunkName}`
  const at = what.isHere ? [] : [hub.trunkRef]
  const told = await git(['blame', '--porcelain', '-M', '-C', '-L', `${what.line},${what.line}`, ...at, '--', path], {
    codes: [0, 128],
  })
  if (!told.ok) return told
  if (told.value.code === 0) return ok({ path, line: what.line, ...parsed(told.value) })
  const lines = /has only (\d+) lines?/.exec(told.value.stderr)?.[1]
  if (lines !== undefined) return fail('unknown', `${path} has ${lines} lines ${where}, so no line ${what.line}`)
  return fail(
    'unknown',
    `there is no file ${path} ${where}`,
    what.isHere ? 'git must track it' : '--here looks at your repository as it lies',
    new Error(told.value.stderr),
  )
}

/** The path from the top of the work tree, with slashes; null where it leads out of it. In a teammate's clone it is that of the clone. */
const pathIn = (hub: HubRepository, file: string, cwd: string): string | null => {
  const { top, dir } = hub.workspace
  const stands = [top, cloneAround(hub, cwd)].some(
    tree => tree !== null && (cwd === tree || inside(tree, cwd) !== null),
  )
  const meant = isAbsolute(file) ? throughLinks(file) : stands ? resolve(cwd, file) : join(dir, file)
  const path = inside(cloneAround(hub, meant) ?? top, meant)
  return path === null ? null : path.split(sep).join('/')
}

/** `path` from `top`, or null where it is not below it. */
const inside = (top: string, path: string): string | null => {
  const rel = relative(top, path)
  return rel === '' || rel === '..' || rel.startsWith(`..${sep}`) || isAbsolute(rel) ? null : rel
}

/** The top of the clone that `path` lies in: they stand beside the hub's own folder, one for each teammate. */
const cloneAround = (hub: HubRepository, path: string): string | null => {
  const team = join(dirname(dirname(hub.dir)), 'team')
  const [name, repo] = (inside(team, path) ?? '').split(sep)
  const clone = join(team, name ?? '', 'repo')
  // In dir mode that is a link to the workspace itself.
  return repo === 'repo' && existsSync(join(clone, '.git', 'team-clone')) ? clone : null
}

/** The same place with the links on the way to its folder followed, as far as that is there; what is not may be on the trunk. */
const throughLinks = (path: string): string => {
  const parent = dirname(path)
  if (parent === path) return path
  return join(existsSync(parent) ? realpathSync(parent) : throughLinks(parent), basename(path))
}

const parsed = ({ stdout }: GitOutput): Pick<Blame, 'text' | 'commit'> => {
  const rows = stdout.split('\n')
  const [id = '', from = ''] = (rows[0] ?? '').split(' ')
  const value = (key: string) => rows.find(row => row.startsWith(`${key} `))?.slice(key.length + 1) ?? ''
  const text = rows.find(row => row.startsWith('\t'))?.slice(1) ?? ''
  if (/^0+$/.test(id)) return { text, commit: null }
  const at = new Date(Number(value('author-time')) * 1000).toISOString()
  const path = unquotePath(value('filename'))
  return { text, commit: { id, author: value('author'), at, subject: value('summary'), path, line: Number(from) } }
}

/** The commit of the trunk that brought this one there: itself, or the merge that did; null where the trunk has it not. */
export const broughtBy = async (
  hub: HubRepository,
  commit: string,
): Promise<Result<{ id: string; subject: string } | null>> => {
  const there = await readRef(hub.git, commit)
  if (!there.ok) return there
  const held = there.value === null ? ok(false) : await isAncestor(hub.git, commit, hub.trunkRef)
  if (!held.ok) return held
  if (!held.value) return ok(null)
  const chain = await hub.git(['rev-list', '--first-parent', hub.trunkRef, `^${commit}`])
  if (!chain.ok) return chain
  // Newest first. Those that hold it stand before those that do not, so the oldest that does is found by halving.
  const ids = chain.value.stdout.split('\n').filter(id => id !== '')
  let low = 0
  let high = ids.length
  while (low < high) {
    const middle = (low + high) >> 1
    const holds = await isAncestor(hub.git, commit, ids[middle] as string)
    if (!holds.ok) return holds
    if (holds.value) low = middle + 1
    else high = middle
  }
  // Of what stands on the trunk itself every commit after it holds it, and none of them brought it.
  const own = await hub.git([
    'rev-list',
    '--first-parent',
    '--max-count=1',
    low === 0 ? hub.trunkRef : `${ids[low - 1]}^1`,
  ])
  if (!own.ok) return own
  const id = oneLine(own.value) === commit || low === 0 ? commit : (ids[low - 1] as string)
  const subject = await hub.git(['log', '-1', '--format=%s', id])
  return subject.ok ? ok({ id, subject: oneLine(subject.value) }) : subject
}
