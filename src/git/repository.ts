import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { syncFolder } from '../lib/files.ts'
import { reach } from '../lib/points.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { type Environment, type Git, line } from './run.ts'
import type { Workspace } from './workspace.ts'

/** The refs of the hub: `refs/heads/<trunk>`, `refs/heads/team/task-<id>`, and what people do not see, under `refs/team`. */
export const refs = {
  base: 'refs/team/base',
  /** Where the base stood before it was rewritten, until that was told. */
  baseBefore: 'refs/team/base-before',
  branch: (name: string) => `refs/heads/${name}`,
  /** Where a fetched branch waits until its old head is safe. */
  incoming: (name: string) => `refs/team/incoming/${name}`,
  /** A head that its branch no longer contains. */
  old: (name: string, head: string) => `refs/team/old/${name}/${head}`,
  rescue: 'refs/team/rescue',
} as const

/** The open hub: what its parts (clone, transfer, merge, land) work on. */
export interface HubRepository {
  readonly dir: string
  /** Runs in the hub. */
  readonly git: Git
  /** Runs without a place: give cwd or gitDir. */
  readonly anywhere: Git
  readonly env: Environment
  readonly workspace: Workspace
  readonly trunkName: string
  readonly trunkRef: string
  /** It was made just now: whatever borrows from it borrowed from another one. */
  readonly isNew: boolean
  /** One change of refs at a time, first come first served. */
  inTurn<T>(act: () => Promise<T>): Promise<T>
}

/** The commit that `ref` names, or null. */
export const readRef = async (git: Git, ref: string): Promise<Result<string | null>> => {
  const found = await git(['rev-parse', '-q', '--verify', '--end-of-options', `${ref}^{commit}`], {
    codes: [0, 1, 128],
  })
  if (!found.ok) return found
  return ok(found.value.code === 0 ? line(found.value) : null)
}

/** The commit that `ref` names; a fault `unknown` when there is none. */
export const needRef = async (git: Git, ref: string, what: string): Promise<Result<string>> => {
  const found = await readRef(git, ref)
  if (!found.ok) return found
  return found.value === null ? fail('unknown', `${what} does not exist`) : ok(found.value)
}

export const isAncestor = async (git: Git, older: string, newer: string): Promise<Result<boolean>> => {
  const told = await git(['merge-base', '--is-ancestor', older, newer], { codes: [0, 1] })
  return told.ok ? ok(told.value.code === 0) : told
}

/** The best common ancestor, or null where the histories have nothing in common. */
export const mergeBase = async (git: Git, a: string, b: string): Promise<Result<string | null>> => {
  const told = await git(['merge-base', a, b], { codes: [0, 1] })
  return told.ok ? ok(told.value.code === 0 ? line(told.value) : null) : told
}

export const countCommits = async (git: Git, without: string, head: string): Promise<Result<number>> => {
  const told = await git(['rev-list', '--count', head, `^${without}`])
  return told.ok ? ok(Number(line(told.value))) : told
}

/** Moves `ref` from `old` to `next`, only if it is still at `old` (all zeros: only if there is none). A fault `conflict` when it moved. */
export const moveRef = async (git: Git, ref: string, next: string, old: string, why: string): Promise<Result<null>> => {
  reach('ref.move')
  const done = await git(['update-ref', '--create-reflog', '-m', why, ref, next, old], { codes: [0, 1, 128] })
  reach('ref.moved')
  if (!done.ok) return done
  if (done.value.code === 0) return ok(null)
  const now = await readRef(git, ref)
  if (!now.ok) return now
  const name = ref.replace('refs/heads/', '')
  return (now.value ?? '0'.repeat(old.length)) === old
    ? fail('io', `${name} could not be moved: ${done.value.stderr.trim()}`)
    : fail(
        'conflict',
        `${name} moved meanwhile: it is at ${now.value?.slice(0, 10) ?? 'nothing'}, not at ${old.slice(0, 10)}`,
      )
}

/**
 * Makes refs of the hub that moved last through a power failure. git flushes the objects and the ref's file (`core.fsync`), not
 * the folder in which the file then gets its name; the names that came before it, those of objects too, go to the disk with that.
 */
export const flushRefs = (dir: string, names: readonly string[]): void => {
  const folders = new Set<string>()
  for (const name of names) for (let at = dirname(name); at !== '.'; at = dirname(at)) folders.add(join(dir, at))
  // git takes a folder away that has become empty.
  for (const folder of folders) if (existsSync(folder)) syncFolder(folder)
}

/** A commit of `tree` with these parents; nothing points at it yet. */
export const commitTree = async (
  git: Git,
  tree: string,
  parents: readonly string[],
  message: string,
): Promise<Result<string>> => {
  const made = await git(['commit-tree', tree, ...parents.flatMap(parent => ['-p', parent]), '-F', '-'], {
    input: message.endsWith('\n') ? message : `${message}\n`,
  })
  return made.ok ? ok(line(made.value)) : made
}

/** The branch that the hub was made from or last told: checking out another one in the workspace changes no base. */
export const recordedBase = async (git: Git): Promise<string | undefined> => {
  const told = await git(['config', '--get', 'team.base'], { codes: [0, 1, 128] })
  return told.ok && told.value.code === 0 ? line(told.value) : undefined
}
