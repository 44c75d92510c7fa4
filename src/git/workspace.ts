import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { isAbsolute, relative, sep } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import { refs } from './repository.ts'
import { type Git, line, zParts } from './run.ts'
import { shellWord } from './script.ts'

/** The person's repository, as far as the team needs to know it. Looked at only; `land` alone writes there. */
export interface Workspace {
  /** The folder that config.json names, symlinks resolved: the work tree's top, or a folder below it. */
  readonly dir: string
  /** The work tree's top. */
  readonly top: string
  /** `dir` below `top`, without slashes at its ends; empty at the top. */
  readonly prefix: string
  readonly commonDir: string
  readonly objectFormat: 'sha1' | 'sha256'
  /** The base as people call it, and its full ref. */
  readonly baseName: string
  readonly baseRef: string
}

/** Where the repository's hooks come from. `inTree`: relative to the work tree's top, when `core.hooksPath` points below it. */
export interface HooksFolder {
  readonly dir: string
  readonly exists: boolean
  readonly inTree: string | null
}

const needed = [2, 38] as const

/** merge-tree without a work tree is what merging is built on. */
const checkVersion = async (git: Git, dir: string): Promise<Result<null>> => {
  const told = await git(['version'], { cwd: dir })
  if (!told.ok) return told
  const [, major, minor] = /(\d+)\.(\d+)/.exec(told.value.stdout) ?? []
  const has = Number(major) * 1000 + Number(minor) >= needed[0] * 1000 + needed[1]
  return has
    ? ok(null)
    : fail('config', `${line(told.value)} is too old`, `install git ${needed.join('.')} or newer, or set "mode": "dir"`)
}

const branchName = (ref: string): string => ref.replace(/^refs\/(heads|remotes)\//, '')

/** The branch that is being rebased in this work tree, or null. */
const rebasing = async (git: Git, dir: string): Promise<Result<string | null>> => {
  for (const file of ['rebase-merge/head-name', 'rebase-apply/head-name']) {
    const path = await git(['rev-parse', '--path-format=absolute', '--git-path', file], { cwd: dir })
    if (!path.ok) return path
    if (existsSync(line(path.value)))
      return ok(readFileSync(line(path.value), 'utf8').trim().replace('refs/heads/', ''))
  }
  return ok(null)
}

/** `known`: the ref that the hub holds as base already, which may be gone by now: its own branch tells, not the start. */
const resolveBase = async (
  git: Git,
  dir: string,
  base?: string,
  known?: string,
): Promise<Result<{ name: string; ref: string }>> => {
  const current = await git(['symbolic-ref', '-q', 'HEAD'], { cwd: dir, codes: [0, 1] })
  if (!current.ok) return current
  const head = current.value.code === 0 ? line(current.value) : null
  if (base === undefined && head === null) {
    const rebased = await rebasing(git, dir)
    if (!rebased.ok) return rebased
    const named = 'name a branch as "base" in config.json'
    return rebased.value === null
      ? fail(
          'config',
          `${dir}: HEAD is detached, so there is no branch to start from and to land in`,
          `check out a branch (git switch <branch>), or ${named.replace('a branch', 'one')}`,
        )
      : fail(
          'config',
          `${dir}: HEAD is detached: a rebase of ${rebased.value} is in progress`,
          `finish it (git rebase --continue) or give it up (git rebase --abort), or ${named}`,
        )
  }
  const candidates =
    base === undefined
      ? [head as string]
      : base.startsWith('refs/')
        ? [base]
        : [`refs/heads/${base}`, `refs/remotes/${base}`]
  for (const ref of candidates) {
    const found = await git(['rev-parse', '-q', '--verify', '--end-of-options', `${ref}^{commit}`], {
      cwd: dir,
      codes: [0, 1, 128],
    })
    if (!found.ok) return found
    if (found.value.code === 0) return ok({ name: branchName(ref), ref })
  }
  if (known !== undefined && candidates.includes(known)) return ok({ name: branchName(known), ref: known })
  if (base === undefined || `refs/heads/${base}` === head)
    return fail(
      'config',
      `${dir}: the branch ${candidates[0]?.replace('refs/heads/', '')} has no commit yet`,
      'make the first one: git commit --allow-empty -m "Start"',
    )
  const branches = await git(['for-each-ref', '--format=%(refname:short)', 'refs/heads', 'refs/remotes'], { cwd: dir })
  if (!branches.ok) return branches
  const near = nearest(base, branches.value.stdout.split('\n').filter(Boolean))
  return fail(
    'config',
    `${dir}: there is no branch "${base}" (base in config.json)`,
    near === undefined ? 'name an existing branch as "base"' : `did you mean "${near}"?`,
  )
}

/**
 * What the hub needs to know of the repository around `workspace`, or a `config` fault with its remedy for what cannot be
 * worked on: no repository, bare, shallow, a partial clone, submodules, an unborn branch, a detached HEAD without `base`. Writes nothing.
 * `known`: the base of a hub that stands already. Then that branch may be gone or have got submodules: a look at the base tells.
 */
export const inspectWorkspace = async (
  git: Git,
  workspace: string,
  base?: string,
  known?: string,
): Promise<Result<Workspace>> => {
  if (!existsSync(workspace)) return fail('config', `the workspace ${workspace} does not exist`)
  const dir = realpathSync(workspace)
  const version = await checkVersion(git, dir)
  if (!version.ok) return version
  const facts = await git(
    ['rev-parse', '--is-bare-repository', '--is-inside-work-tree', '--is-shallow-repository', '--show-object-format'],
    { cwd: dir, codes: [0, 128] },
  )
  if (!facts.ok) return facts
  if (facts.value.code !== 0)
    return fail(
      'config',
      `${dir} is not in a git repository`,
      'run git init there, or set "mode": "dir" in config.json',
    )
  const [bare, inside, shallow, format] = facts.value.stdout.split('\n')
  if (bare === 'true' || inside !== 'true')
    return fail(
      'config',
      `${dir} is a bare repository or a git folder`,
      'name a work tree as "workspace" in config.json',
    )
  if (shallow === 'true')
    return fail('config', `${dir} is a shallow clone: its history is cut off`, 'fetch the rest: git fetch --unshallow')
  // Which of the two it is told by depends on the git that cloned it.
  const partial = await git(
    ['config', '--name-only', '--get-regexp', '^(extensions\\.partialclone|remote\\..*\\.promisor)$'],
    {
      cwd: dir,
      codes: [0, 1],
    },
  )
  if (!partial.ok) return partial
  const promises = partial.value.stdout.split('\n').filter(Boolean)
  if (promises.length > 0)
    return fail(
      'config',
      `${dir} is a partial clone: some of its objects are elsewhere`,
      `fetch them: git fetch --refetch --no-filter, then ${promises.map(key => `git config --unset-all ${key}`).join(', ')}`,
    )
  const paths = []
  for (const which of ['--show-toplevel', '--git-common-dir']) {
    const path = await git(['rev-parse', '--path-format=absolute', which], { cwd: dir })
    if (!path.ok) return path
    paths.push(realpathSync(line(path.value)))
  }
  const [top = '', commonDir = ''] = paths
  const resolved = await resolveBase(git, dir, base, known)
  if (!resolved.ok) return resolved
  const module = known === undefined ? await submoduleIn(git, dir, resolved.value.ref) : ok(null)
  if (!module.ok) return module
  if (module.value !== null)
    return fail(
      'config',
      `${dir} has submodules (${module.value}), which a teammate's clone cannot fill`,
      'set "mode": "dir" in config.json',
    )
  return ok({
    dir,
    top,
    prefix: relative(top, dir).split(sep).join('/'),
    commonDir,
    objectFormat: format === 'sha256' ? 'sha256' : 'sha1',
    baseName: resolved.value.name,
    baseRef: resolved.value.ref,
  })
}

/** The repository, as the hub may be made from it or opened for it with this trunk; faults as of `inspectWorkspace`, or the trunk's name. */
export const checkWorkspace = async (
  anywhere: Git,
  o: { workspace: string; base?: string | undefined; trunk: string },
  known?: string,
): Promise<Result<Workspace>> => {
  const workspace = await inspectWorkspace(anywhere, o.workspace, o.base ?? known, known)
  if (!workspace.ok) return workspace
  const named = await checkTrunkName(anywhere, workspace.value, o.trunk)
  return named.ok ? workspace : named
}

/** In the hub the trunk stands beside the tasks' branches; one name must not be a folder of the other. */
const checkTrunkName = async (git: Git, workspace: Workspace, trunk: string): Promise<Result<null>> => {
  const valid = await git(['check-ref-format', '--branch', trunk], { cwd: workspace.dir, codes: [0, 1, 128] })
  if (!valid.ok) return valid
  if (valid.value.code !== 0 || trunk.startsWith('@'))
    return fail('config', `"${trunk}" cannot be a branch's name (trunk in config.json)`, 'use "team/trunk"')
  return trunk === 'team' || /^team\/task-/.test(trunk)
    ? fail('config', `a trunk named "${trunk}" collides with the tasks' branches, team/task-<id>`, 'use "team/trunk"')
    : ok(null)
}

/** A submodule's path in this commit, or null where it has none. */
export const submoduleIn = async (git: Git, dir: string, commit: string): Promise<Result<string | null>> => {
  const tree = await git(['ls-tree', '-r', '-z', '--full-tree', commit], { cwd: dir })
  if (!tree.ok) return tree
  const entry = zParts(tree.value.stdout).find(entry => entry.startsWith('160000 '))
  return ok(entry?.slice(entry.indexOf('\t') + 1) ?? null)
}

/** The base branch's commit in the person's repository now. Where that branch is gone, a `config` fault that says what can be done. */
export const readBase = async (git: Git, workspace: Workspace, hubDir: string): Promise<Result<string>> => {
  const { baseName, baseRef, dir, top } = workspace
  if (!existsSync(dir))
    return fail(
      'config',
      `the workspace ${dir} is gone`,
      'put it back, or name where it is as "workspace" in config.json, then team down and team up',
    )
  const head = await git(['rev-parse', '-q', '--verify', `${baseRef}^{commit}`], { cwd: dir, codes: [0, 1, 128] })
  if (!head.ok) return head
  if (head.value.code === 0) return ok(line(head.value))
  const renamed = await renamedTo(git, workspace)
  if (!renamed.ok) return renamed
  const anew = `make it again: git -C ${shellWord(top)} fetch ${shellWord(hubDir)} ${refs.base}:${shellWord(baseRef)}`
  return fail(
    'config',
    renamed.value === null
      ? `the base branch ${baseName} is gone from ${top}`
      : `the base branch ${baseName} of ${top} was renamed to ${renamed.value}`,
    renamed.value === null
      ? `${anew}; or name another one as "base" in config.json, then team down and team up`
      : `set "base": "${renamed.value}" in config.json, then team down and team up; or ${anew}`,
  )
}

/** What the base was renamed to, by the reflogs; null where that cannot be told. */
const renamedTo = async (git: Git, { baseRef, dir }: Workspace): Promise<Result<string | null>> => {
  const said = `Branch: renamed ${baseRef} to `
  const told = await git(['log', '-g', '--all', '--fixed-strings', `--grep-reflog=${said}`, '--format=%gs'], {
    cwd: dir,
    codes: [0, 128],
  })
  if (!told.ok) return told
  for (const subject of told.value.stdout.split('\n')) {
    if (!subject.startsWith(said)) continue
    const ref = subject.slice(said.length).trim()
    const found = await git(['rev-parse', '-q', '--verify', '--end-of-options', `${ref}^{commit}`], {
      cwd: dir,
      codes: [0, 1, 128],
    })
    if (!found.ok) return found
    if (found.value.code === 0) return ok(branchName(ref))
  }
  return ok(null)
}

/** The folder that git would run this repository's hooks from, the person's own configuration included. */
export const hooksFolder = async (git: Git, workspace: Workspace): Promise<Result<HooksFolder>> => {
  const told = await git(['rev-parse', '--path-format=absolute', '--git-path', 'hooks'], {
    cwd: workspace.top,
    as: 'user',
  })
  if (!told.ok) return told
  const given = line(told.value)
  const exists = existsSync(given)
  const dir = exists ? realpathSync(given) : given
  const below = relative(workspace.top, dir)
  const inTree =
    below !== '' &&
    !below.startsWith('..') &&
    !isAbsolute(below) &&
    !`${dir}${sep}`.startsWith(`${workspace.commonDir}${sep}`)
  return ok({ dir, exists, inTree: inTree ? below.split(sep).join('/') : null })
}
