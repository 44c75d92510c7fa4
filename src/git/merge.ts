import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import { commitTree, flushRefs, type HubRepository, isAncestor, mergeBase, moveRef, needRef } from './repository.ts'
import { type Git, zParts } from './run.ts'

/** What a merge would give. Nothing is written but loose objects. */
export type Preview =
  | {
      readonly clean: true
      /** The merged tree. */
      readonly tree: string
      /** The commit that it was merged with. */
      readonly onto: string
      /** That commit holds the head already: merging it would be no work merged. */
      readonly upToDate: boolean
    }
  | {
      readonly clean: false
      readonly onto: string
      /** The paths in conflict. */
      readonly files: readonly string[]
      /** Git's own words, one a conflict. */
      readonly messages: readonly string[]
    }

type Trial = { clean: true; tree: string } | { clean: false; files: string[]; messages: string[] }

/** Merges two commits without a work tree. A fault `refused` when they have no common history. */
export const mergeTree = async (git: Git, ours: string, theirs: string): Promise<Result<Trial>> => {
  const base = await mergeBase(git, ours, theirs)
  if (!base.ok) return base
  if (base.value === null)
    return fail(
      'refused',
      `${theirs.slice(0, 10)} has no history in common with ${ours.slice(0, 10)}`,
      'start the branch at the trunk: git rebase --onto hub/trunk --root',
    )
  const done = await git(['merge-tree', '--write-tree', '-z', '--name-only', '--messages', ours, theirs], {
    codes: [0, 1],
  })
  if (!done.ok) return done
  const parts = zParts(done.value.stdout)
  const tree = parts[0] ?? ''
  if (done.value.code === 0) return ok({ clean: true, tree })
  // <tree> <path>… <empty> then, for each message: <count> <path>×count <kind> <text>
  const end = parts.indexOf('', 1)
  const files = [...new Set(parts.slice(1, end === -1 ? undefined : end))]
  const messages: string[] = []
  for (let i = end === -1 ? parts.length : end + 1; i < parts.length; ) {
    const paths = Number(parts[i])
    const kind = parts[i + 1 + paths] ?? ''
    const text = (parts[i + 2 + paths] ?? '').trim()
    if (kind.startsWith('CONFLICT') || text.startsWith('CONFLICT')) messages.push(text)
    i += 3 + paths
  }
  return ok({ clean: false, files, messages })
}

/** What merging `head` into `into` (the trunk, where it is left out) would give, now. */
export const preview = async (hub: HubRepository, head: string, into?: string): Promise<Result<Preview>> => {
  const onto =
    into === undefined
      ? await needRef(hub.git, hub.trunkRef, `the trunk ${hub.trunkName}`)
      : await needRef(hub.git, into, `the commit ${into.slice(0, 12)} to merge onto`)
  if (!onto.ok) return onto
  const known = await needRef(hub.git, head, `the commit ${head.slice(0, 12)} of its branch`)
  if (!known.ok) return known
  const held = await isAncestor(hub.git, known.value, onto.value)
  if (!held.ok) return held
  const trial = await mergeTree(hub.git, onto.value, known.value)
  if (!trial.ok) return trial
  return ok(
    trial.value.clean
      ? { clean: true, tree: trial.value.tree, onto: onto.value, upToDate: held.value }
      : { ...trial.value, onto: onto.value },
  )
}

/** A merge that was previewed: its tree, and what it is made of. */
export interface Prepared {
  readonly head: string
  readonly tree: string
  readonly onto: string
  readonly message: string
}

/** Makes the merge commit of a previewed tree. Nothing points at it before the trunk moves there. */
export const commitMerge = async (hub: HubRepository, what: Prepared): Promise<Result<{ commit: string }>> => {
  const commit = await commitTree(hub.git, what.tree, [what.onto, what.head], what.message)
  return commit.ok ? ok({ commit: commit.value }) : commit
}

/**
 * Moves the trunk from `from` to `to`, the last of a chain of merges, only if the trunk is still at `from`: a fault `conflict`
 * when it moved, and the caller previews and verifies again. The chain must be the merges of exactly these heads in this order,
 * each with the tree that git gives for its two parents now: a fault `refused` else, since then something of what one of them
 * brings would be lost, or something be added that nobody wrote.
 */
export const moveTrunk = async (
  hub: HubRepository,
  { from, to, heads }: { from: string; to: string; heads: readonly string[] },
): Promise<Result<null>> =>
  hub.inTurn(async () => {
    const sound = await isMadeOf(hub, from, to, heads)
    if (!sound.ok) return sound
    const why = `merge ${heads.map(head => head.slice(0, 10)).join(' ')}`
    const moved = await moveRef(hub.git, hub.trunkRef, to, from, why)
    if (!moved.ok) return moved
    flushRefs(hub.dir, [hub.trunkRef])
    return ok(null)
  })

const isMadeOf = async (
  hub: HubRepository,
  from: string,
  to: string,
  heads: readonly string[],
): Promise<Result<null>> => {
  const log = await hub.git(['log', '--first-parent', '--reverse', '--format=%H %T %P', `${from}..${to}`])
  if (!log.ok) return log
  const rows = log.value.stdout.split('\n').filter(row => row !== '')
  const short = (id: string) => id.slice(0, 12)
  if (rows.length !== heads.length)
    return fail(
      'refused',
      `${short(to)} is ${rows.length} commits ahead of ${short(from)}, not the ${heads.length} that were verified`,
    )
  let before = from
  for (const [i, row] of rows.entries()) {
    const [commit = '', tree, ...parents] = row.split(' ')
    const head = heads[i] ?? ''
    if (parents.length !== 2 || parents[0] !== before || parents[1] !== head)
      return fail('refused', `${short(commit)} is not a merge of ${short(head)} into ${short(before)}`)
    const again = await mergeTree(hub.git, before, head)
    if (!again.ok) return again
    if (!again.value.clean || again.value.tree !== tree)
      return fail('refused', `${short(commit)} does not hold what merging ${short(head)} into ${short(before)} gives`)
    before = commit
  }
  return ok(null)
}

/** Makes the merge commit of a previewed (and by then verified) tree, and moves the trunk to it, as `moveTrunk` does. */
export const merge = async (hub: HubRepository, what: Prepared): Promise<Result<{ commit: string }>> => {
  const made = await commitMerge(hub, what)
  if (!made.ok) return made
  const moved = await moveTrunk(hub, { from: what.onto, to: made.value.commit, heads: [what.head] })
  return moved.ok ? made : moved
}

/** How the message of a merge says for which request it was made, at the start of a line. */
export const madeFor = (request: string): string => `Request: ${request}`

/**
 * The commit on the trunk that merged exactly this head, or null: how a merge cut by a crash is told from one not begun.
 * `request`: only one that says it was made for that.
 */
export const mergeOf = async (hub: HubRepository, head: string, request?: string): Promise<Result<string | null>> => {
  const says = request === undefined ? [] : [`--grep=^${madeFor(request)}, `]
  const found = await hub.git([
    'rev-list',
    '--first-parent',
    '--merges',
    '--parents',
    ...says,
    hub.trunkRef,
    `^${head}`,
  ])
  if (!found.ok) return found
  const row = found.value.stdout.split('\n').find(row => row.split(' ')[2] === head)
  return ok(row?.split(' ')[0] ?? null)
}

/**
 * A clean checkout of a commit or tree in `dir` (made, or empty). It is a repository of its own, detached, without remotes,
 * hooks or any clone's configuration, borrowing the hub's objects, so that checks which ask git something find an answer;
 * a tree is wrapped in a commit on the trunk that no ref names. The commit it stands at.
 */
export const checkout = async (hub: HubRepository, treeish: string, dir: string): Promise<Result<string>> => {
  mkdirSync(dir, { recursive: true })
  if (readdirSync(dir).length > 0) return fail('refused', `${dir} is not empty`)
  const kind = await hub.git(['cat-file', '-t', treeish], { codes: [0, 128] })
  if (!kind.ok) return kind
  if (kind.value.code !== 0) return fail('unknown', `there is no commit or tree ${treeish} in the hub`)
  const commit =
    kind.value.stdout.trim() === 'tree'
      ? await wrapTree(hub, treeish)
      : await needRef(hub.git, treeish, `commit ${treeish}`)
  if (!commit.ok) return commit
  const steps = [
    ['init', '-q', '--template=', `--object-format=${hub.workspace.objectFormat}`, '.'],
    ['checkout', '-q', '--detach', commit.value],
  ]
  for (const [i, step] of steps.entries()) {
    const done = await hub.anywhere(step, { cwd: dir })
    if (!done.ok) return done
    if (i === 0) {
      mkdirSync(join(dir, '.git', 'info'), { recursive: true })
      mkdirSync(join(dir, '.git', 'objects', 'info'), { recursive: true })
      writeFileSync(join(dir, '.git', 'objects', 'info', 'alternates'), `${join(hub.dir, 'objects')}\n`)
    }
  }
  return commit
}

const wrapTree = async (hub: HubRepository, tree: string): Promise<Result<string>> => {
  const trunk = await needRef(hub.git, hub.trunkRef, `the trunk ${hub.trunkName}`)
  return trunk.ok ? commitTree(hub.git, tree, [trunk.value], 'To be verified') : trunk
}

const patchBytes = 4 * 1024 * 1024

/** What `head` brings against where it left the trunk, for people. A patch past 4 MB is cut, and says so. */
export const diff = async (hub: HubRepository, head: string): Promise<Result<{ stat: string; patch: string }>> => {
  const from = await startOf(hub, head)
  return from.ok ? compare(hub, from.value, head) : from
}

const compare = async (
  hub: HubRepository,
  from: string,
  to: string,
): Promise<Result<{ stat: string; patch: string }>> => {
  const common = ['diff', '--no-color', '--no-ext-diff', '--no-textconv', '-M']
  const stat = await hub.git([...common, '--stat', from, to, '--'])
  if (!stat.ok) return stat
  const patch = await hub.git([...common, from, to, '--'], { maxBytes: patchBytes })
  if (!patch.ok) return patch
  const rest = patch.value.truncated ? '\n[the patch is longer than 4 MB and cut here]\n' : ''
  return ok({ stat: stat.value.stdout, patch: patch.value.stdout + rest })
}

/** What a commit of the trunk brought, against the trunk before it (its first parent). */
export const showMerge = async (
  hub: HubRepository,
  commit: string,
): Promise<Result<{ stat: string; patch: string }>> => {
  const before = await needRef(hub.git, `${commit}^1`, `the commit before ${commit}`)
  return before.ok ? compare(hub, before.value, commit) : before
}

/** The paths that `head` changes against where it left the trunk. */
export const changedFiles = async (hub: HubRepository, head: string): Promise<Result<string[]>> => {
  const from = await startOf(hub, head)
  if (!from.ok) return from
  const names = await hub.git(['diff', '--name-only', '--no-renames', '-z', from.value, head, '--'])
  return names.ok ? ok(zParts(names.value.stdout)) : names
}

/** Where `head` left the trunk; the empty tree for a head that never was on it. */
export const startOf = async (hub: HubRepository, head: string): Promise<Result<string>> => {
  const known = await needRef(hub.git, head, `commit ${head}`)
  if (!known.ok) return known
  const base = await mergeBase(hub.git, hub.trunkRef, known.value)
  if (!base.ok || base.value !== null) return base as Result<string>
  const empty = await hub.git(['hash-object', '-t', 'tree', '-w', '--stdin'], { input: '' })
  return empty.ok ? ok(empty.value.stdout.trim()) : empty
}

/** Where `head` left `trunk`; null where they have nothing in common. */
export const forkPoint = (hub: HubRepository, head: string, trunk: string): Promise<Result<string | null>> =>
  mergeBase(hub.git, trunk, head)

/** Those of these commits that are in the hub and not on the trunk. */
export const offTrunk = async (hub: HubRepository, commits: readonly string[]): Promise<Result<string[]>> => {
  const told = await hub.git(['rev-list', '--ignore-missing', ...commits, `^${hub.trunkRef}`, '--'])
  if (!told.ok) return told
  const off = new Set(told.value.stdout.split('\n'))
  return ok(commits.filter(commit => off.has(commit)))
}
