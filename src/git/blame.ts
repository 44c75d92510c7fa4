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
 * `file` is meant from `cwd` where that lies in the repository, else from the workspace. Faults: `unknown` (no such file or line).
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

/** The path from the top of the work tree, with slashes; null where it leads out of it. */
const pathIn = (hub: HubRepository, file: string, cwd: string): string | null => {
  const { top, dir } = hub.workspace
  const inside = (path: string): string | null => {
    const rel = relative(top, path)
    return rel === '' || rel === '..' || rel.startsWith(`..${sep}`) || isAbsolute(rel) ? null : rel
  }
  const isWithin = cwd === top || inside(cwd) !== null
  const path = inside(isAbsolute(file) ? throughLinks(file) : isWithin ? resolve(cwd, file) : join(dir, file))
  return path === null ? null : path.split(sep).join('/')
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
