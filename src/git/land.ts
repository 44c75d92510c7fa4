import { existsSync, realpathSync } from 'node:fs'
import { fail, ok, type Result } from '../lib/result.ts'
import type { LandReport } from '../protocol/rpc.ts'
import { mergeTree } from './merge.ts'
import { commitTree, countCommits, type HubRepository, isAncestor, moveRef, needRef } from './repository.ts'
import { firstLine, type Git, line, takeFromHub, teamIdentity, zParts } from './run.ts'
import { shellWord } from './script.ts'
import { readBase, type Workspace } from './workspace.ts'

/**
 * Brings the trunk into the base branch of the person's repository: the one act that writes there. It takes the trunk's objects,
 * decides on the commit to land (the trunk itself, or a merge of both made without a work tree), then moves the base to it by
 * fast-forward: with the files where it is checked out, by compare-and-set of the ref where it is not. No ref besides the base is
 * made or moved, no hook runs; the person's own settings (line endings, filters, identity) hold.
 * Faults, with nothing changed: `refused` (uncommitted changes, an operation in progress, files in the way, no branch to land in,
 * signatures asked for),
 * `conflict` (the histories conflict, or the base moved meanwhile), `held` (a git lock that stayed).
 */
export const land = async (hub: HubRepository): Promise<Result<LandReport>> => {
  const { workspace } = hub
  const { baseName: branch, baseRef, top } = workspace
  if (!baseRef.startsWith('refs/heads/'))
    return fail(
      'refused',
      `${branch} is a remote's branch: nothing can land in it here`,
      'name a local branch as "base" in config.json',
    )
  const git: Git = (args, more) =>
    hub.anywhere(['-c', 'core.hooksPath=/dev/null', ...args], { cwd: top, as: 'user', ...more })
  const trunk = await needRef(hub.git, hub.trunkRef, `the trunk ${hub.trunkName}`)
  if (!trunk.ok) return trunk
  const base = await readBase(hub.anywhere, workspace, hub.dir)
  if (!base.ok) return base
  const signed = await git(['config', '--type=bool', '--get', 'merge.verifySignatures'], { codes: [0, 1] })
  if (!signed.ok) return signed
  if (signed.value.stdout.trim() === 'true')
    return fail(
      'refused',
      `merge.verifySignatures is set for ${top}, and the commits of teammates are not signed`,
      `git -C ${shellWord(top)} config merge.verifySignatures false, then land again`,
    )
  const report = { from: base.value, to: trunk.value, branch }
  const taken = await git([...takeFromHub, hub.dir, hub.trunkRef])
  if (!taken.ok) return taken
  const landed = await isAncestor(git, trunk.value, base.value)
  if (!landed.ok) return landed
  if (landed.value) return ok({ ...report, to: base.value, commits: 0, how: 'already there' })
  const commits = await countCommits(git, base.value, trunk.value)
  if (!commits.ok) return commits
  const trees = await worktrees(git, hub.workspace)
  if (!trees.ok) return trees
  const busy = await findOperation(git, trees.value, baseRef)
  if (!busy.ok) return busy
  const home = trees.value.find(tree => tree.branch === baseRef)
  if (home) {
    const clean = await checkClean(git, home.path)
    if (!clean.ok) return clean
  }
  const target = await landingCommit(git, hub, base.value, trunk.value)
  if (!target.ok) return target
  const moved = home
    ? await fastForward(git, home.path, target.value.commit, branch)
    : await moveRef(git, baseRef, target.value.commit, base.value, `team land: ${target.value.how}`)
  return moved.ok ? ok({ ...report, to: target.value.commit, commits: commits.value, how: target.value.how }) : moved
}

/** The commit that the base is to stand at: the trunk where the base is behind it, else a merge of both. */
const landingCommit = async (
  git: Git,
  hub: HubRepository,
  base: string,
  trunk: string,
): Promise<Result<{ commit: string; how: 'fast-forward' | 'merge' }>> => {
  const behind = await isAncestor(git, base, trunk)
  if (!behind.ok) return behind
  if (behind.value) return ok({ commit: trunk, how: 'fast-forward' })
  const { baseName } = hub.workspace
  const trial = await mergeTree(git, base, trunk)
  if (!trial.ok) return trial
  if (!trial.value.clean)
    return fail(
      'conflict',
      `${baseName} and ${hub.trunkName} both changed ${trial.value.files.join(', ')}`,
      `let a task bring ${baseName} into the trunk and settle it there, then land again`,
    )
  const known = await git(['var', 'GIT_COMMITTER_IDENT'], { codes: [0, 128] })
  if (!known.ok) return known
  const author = known.value.code === 0 ? {} : { vars: teamIdentity }
  const commit = await commitTree(
    (args, more) => git(args, { ...more, ...author }),
    trial.value.tree,
    [base, trunk],
    `Merge ${hub.trunkName} into ${baseName}`,
  )
  return commit.ok ? ok({ commit: commit.value, how: 'merge' }) : commit
}

interface Worktree {
  readonly path: string
  /** The full ref that is checked out there; null when detached. */
  readonly branch: string | null
}

const worktrees = async (git: Git, { top, commonDir }: Workspace): Promise<Result<Worktree[]>> => {
  const told = await git(['worktree', 'list', '--porcelain', '-z'])
  if (!told.ok) return told
  const own = await git(['rev-parse', '--path-format=absolute', '--git-dir'])
  if (!own.ok) return own
  // Where the git folder lies elsewhere (--separate-git-dir, a submodule), git calls that folder the main work tree.
  const main = realpathSync(line(own.value)) === commonDir ? top : undefined
  const found: Worktree[] = []
  let path: string | undefined
  let branch: string | null = null
  let bare = false
  let first = true
  for (const part of told.value.stdout.split('\0')) {
    if (part.startsWith('worktree ')) path = (first ? main : undefined) ?? part.slice(9)
    else if (part.startsWith('branch ')) branch = part.slice(7)
    else if (part === 'bare') bare = true
    else if (part === '' && path !== undefined) {
      if (!bare && existsSync(path)) found.push({ path, branch })
      path = undefined
      branch = null
      bare = false
      first = false
    }
  }
  return ok(found)
}

const operations = {
  MERGE_HEAD: 'a merge',
  CHERRY_PICK_HEAD: 'a cherry-pick',
  REVERT_HEAD: 'a revert',
  'rebase-merge/head-name': 'a rebase',
  'rebase-apply/head-name': 'a rebase',
} as const

/** A rebase detaches HEAD and moves its branch at the end, so the base may be in use where no work tree says so. */
const findOperation = async (git: Git, trees: readonly Worktree[], baseRef: string): Promise<Result<null>> => {
  for (const tree of trees)
    for (const [file, name] of Object.entries(operations)) {
      const told = await git(['rev-parse', '--path-format=absolute', '--git-path', file], { cwd: tree.path })
      if (!told.ok) return told
      if (!existsSync(line(told.value))) continue
      if (tree.branch === baseRef || name === 'a rebase')
        return fail('refused', `${name} is in progress in ${tree.path}`, 'finish or abort it, then land again')
    }
  return ok(null)
}

const few = (names: readonly string[]): string =>
  names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ')

const checkClean = async (git: Git, tree: string): Promise<Result<null>> => {
  const told = await git(['status', '--porcelain=v1', '-z', '--untracked-files=no', '--no-renames'], { cwd: tree })
  if (!told.ok) return told
  const changed = zParts(told.value.stdout).map(entry => entry.slice(3))
  return changed.length === 0
    ? ok(null)
    : fail('refused', `${tree} has uncommitted changes: ${few(changed)}`, 'commit or stash them, then land again')
}

/** Git's own fast-forward: all files or none; it refuses when one not under version control, ignored or not, would be overwritten. */
const fastForward = async (git: Git, tree: string, commit: string, branch: string): Promise<Result<null>> => {
  const args = ['merge', '-q', '--ff-only', '--no-autostash', '--no-overwrite-ignore', commit]
  const done = await git(args, { cwd: tree, codes: [0, 1, 128] })
  if (!done.ok) return done
  const { code, stderr } = done.value
  if (code === 0) return ok(null)
  const listed = stderr.split('\n').flatMap(text => (text.startsWith('\t') ? [text.trim()] : []))
  if (listed.length > 0)
    return fail(
      'refused',
      `in ${tree} these files would be overwritten: ${few(listed)}`,
      'move them away, then land again',
    )
  return /not possible to fast-forward|diverging/i.test(stderr)
    ? fail('conflict', `${branch} moved meanwhile`, 'land again')
    : fail('io', `git merge in ${tree} failed (${code}): ${firstLine(stderr)}`, undefined, new Error(stderr))
}
