import { randomBytes } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { syncFolder } from '../lib/files.ts'
import { type Fault, fail, ok, type Result } from '../lib/result.ts'
import { makeTurns } from '../lib/turns.ts'
import type { LandReport } from '../protocol/rpc.ts'
import type { Restored, SavedShown } from '../protocol/work.ts'
import { type BaseReport, fetchBase, refreshBase, toldBase } from './base.ts'
import { type Blame, blame, broughtBy } from './blame.ts'
import { type CloneReport, ensureClone } from './clone.ts'
import { type Conflict, conflict } from './conflict.ts'
import { type CopyReport, copyFiles } from './copy.ts'
import { hubDamage } from './damage.ts'
import { ignoredAbsent } from './ignored.ts'
import { halfMade, removeHalfMade } from './inside.ts'
import { land } from './land.ts'
import {
  changedFiles,
  checkout,
  commitMerge,
  diff,
  forkPoint,
  merge,
  mergeOf,
  moveTrunk,
  offTrunk,
  type Prepared,
  type Preview,
  preview,
  showMerge,
} from './merge.ts'
import { countCommits, type HubRepository, isAncestor, needRef, readRef, recordedBase, refs } from './repository.ts'
import { listSaved, restoreAsBranch, restoreAsFolder } from './rescue.ts'
import { bindGit, type Environment, type Git } from './run.ts'
import { type Fetched, fetchBranch, fetchRescue } from './transfer.ts'
import { type Unmergeable, unmergeable } from './unmergeable.ts'
import { checkWorkspace, type Workspace } from './workspace.ts'

/**
 * The team's bare copy of the repository, `.team/hub.git`: the trunk, the tasks' branches and what was rescued. Its objects are
 * its own. Only the holder of the team root opens it; its changes of refs go one at a time.
 */
export interface Hub {
  readonly dir: string
  /** Made by this `openHub`. */
  readonly made: boolean
  /** What was put right when it was opened, in words. */
  readonly mended: readonly string[]
  readonly trunkName: string
  readonly baseName: string
  readonly workspace: Workspace
  /** What is wrong with its folder since it was opened, with the remedy; null where nothing is. Looks at files alone. */
  damage(): string | null
  /** The trunk's commit. Throws when the hub is broken: it always has one. */
  trunk(): Promise<string>
  /**
   * Where the trunk and the base (as last looked at) stand, and how many commits the trunk is ahead of the base. Remembered
   * until the next change of refs, so asking again costs no process. Throws when the hub is broken.
   */
  standing(): Promise<Standing>
  /** Looks at the base in the workspace. A trunk with nothing of its own follows it; a merge is told, for `merge` to make. */
  refreshBase(): Promise<Result<BaseReport>>
  /** See `toldBase` in base.ts. */
  toldBase(): Promise<Result<null>>
  ensureClone(name: string, dest: string): Promise<Result<CloneReport>>
  /** Copies what `patterns`, relative to the workspace, name to the same place in a clone. */
  copy(dest: string, patterns: readonly string[]): Result<CopyReport>
  /** What git ignores in the workspace and a clone has not. */
  absent(clone: string): Promise<readonly string[]>
  fetchBranch(clone: string, branch: string): Promise<Result<Fetched>>
  fetchRescue(clone: string, name: string): Promise<Result<string[]>>
  /** Who last wrote a line, and which commit of the trunk brought it there. */
  blame(what: { file: string; line: number; cwd: string; isHere: boolean }): Promise<Result<Blame>>
  broughtBy(commit: string): Promise<Result<{ id: string; subject: string } | null>>
  /** What was saved aside, newest first; of `clones` (by teammate) also what lies there alone. */
  saved(clones: ReadonlyMap<string, string>): Promise<Result<SavedShown[]>>
  /** Puts what was saved where nothing is yet: a branch of the workspace, or a folder. */
  restore(saved: SavedShown, to: { branch: string } | { folder: string }): Promise<Result<Restored>>
  branchHead(branch: string): Promise<Result<string | null>>
  /** Is this commit in it? */
  has(commit: string): Promise<boolean>
  /** Does `head` hold that commit, as its own or one before it? */
  holds(head: string, commit: string): Promise<Result<boolean>>
  /** Those of these commits that are in the hub and not on the trunk. */
  offTrunk(commits: readonly string[]): Promise<Result<string[]>>
  /** How many commits `head` is ahead of the trunk, and the paths it changes. */
  brings(head: string): Promise<Result<{ commits: number; files: string[] }>>
  /** What it brings that cannot be merged as it is, though git would. */
  unmergeable(head: string): Promise<Result<Unmergeable[]>>
  /** What merging `head` onto a commit (the trunk, where it is left out) would give. */
  preview(head: string, onto?: string): Promise<Result<Preview>>
  /** What a conflict that a preview told of is about: its places, and what the trunk took in there meanwhile. */
  conflict(what: { head: string; onto: string; files: readonly string[] }): Promise<Result<Conflict>>
  checkout(treeish: string, dir: string): Promise<Result<string>>
  commitMerge(what: Prepared): Promise<Result<{ commit: string }>>
  moveTrunk(chain: { from: string; to: string; heads: readonly string[] }): Promise<Result<null>>
  merge(what: Prepared): Promise<Result<{ commit: string }>>
  mergeOf(head: string, request?: string): Promise<Result<string | null>>
  /** Where `head` left `trunk`, a commit that it need not be at any more. */
  forkPoint(head: string, trunk: string): Promise<Result<string | null>>
  diff(head: string): Promise<Result<{ stat: string; patch: string }>>
  /** What a commit of the trunk brought. */
  show(commit: string): Promise<Result<{ stat: string; patch: string }>>
  land(): Promise<Result<LandReport>>
}

export interface Standing {
  readonly trunk: string
  readonly base: string
  readonly ahead: number
}

export interface HubOptions {
  readonly workspace: string
  readonly hubDir: string
  readonly trunk: string
  readonly base?: string | undefined
  /** Where PATH and HOME for git come from. */
  readonly env?: Environment | undefined
  readonly signal?: AbortSignal | undefined
}

/** The `config` fault, with its remedy, that would keep a first hub from being made for this workspace. Writes nothing. */
export const checkFirst = async (options: HubOptions): Promise<Result<null>> => {
  if (existsSync(options.hubDir)) return ok(null)
  const checked = await checkWorkspace(bindGit({ env: options.env ?? {}, signal: options.signal }), options)
  return checked.ok ? ok(null) : checked
}

/**
 * Opens the hub, making it when there is none: first everything is checked (a `config` fault with its remedy, nothing made), then it
 * is built aside and renamed, so that a crash leaves none or a whole one. For the holder of the team root only.
 */
export const openHub = async (options: HubOptions): Promise<Result<Hub>> => {
  const env = options.env ?? {}
  const dir = options.hubDir
  const anywhere = bindGit({ env, signal: options.signal })
  const git = bindGit({ env, signal: options.signal, gitDir: dir })
  const made = !existsSync(dir)
  const known = made ? undefined : await recordedBase(git)
  const workspace = await checkWorkspace(anywhere, options, known)
  if (!workspace.ok) return workspace
  const hub: HubRepository = {
    dir,
    git,
    anywhere,
    env,
    workspace: workspace.value,
    trunkName: options.trunk,
    trunkRef: refs.branch(options.trunk),
    isNew: made,
    inTurn: makeTurns(),
  }
  mkdirSync(dirname(dir), { recursive: true })
  removeHalfMade(dir)
  const mended: string[] = []
  if (made) {
    const built = await buildHub(hub)
    if (!built.ok) return built
  } else {
    const checked = await checkHub(hub)
    if (!checked.ok) return checked
    mended.push(...checked.value)
    // Only where it is another: a command that reads must not stand in the way of a daemon that starts.
    if (known !== workspace.value.baseRef) {
      const recorded = await git(['config', 'team.base', workspace.value.baseRef])
      if (!recorded.ok) return recorded
    }
  }
  return ok(assemble(hub, made, mended))
}

const assemble = (opened: HubRepository, made: boolean, mended: readonly string[]): Hub => {
  let seen: Promise<Standing> | null = null
  const since = now(opened.dir)
  /** A git failed: it may have been killed with a lock in its hands. */
  let mayBeLocked = false
  // Every change of the hub's refs happens in a turn, so what was seen holds until one ends, whatever became of it.
  const hub: HubRepository = {
    ...opened,
    git: ofSound(opened, () => {
      mayBeLocked = true
    }),
    inTurn: act =>
      opened.inTurn(() => {
        // Nobody else changes refs now, so what is locked since this holder began is locked by one that is dead.
        // Of a hub that is gone the change itself tells.
        if (mayBeLocked && damaged(opened.dir).ok) removeOldLocks(opened.dir, since)
        mayBeLocked = false
        return act().finally(() => {
          seen = null
        })
      }),
  }
  const broken = ({ message, hint, cause }: Fault) => {
    const text = message.startsWith(hub.dir) ? message : `${hub.dir}: ${message}`
    return new Error(hint === undefined ? text : `${text} (${hint})`, { cause })
  }
  const must = async (ref: string) => {
    const head = await needRef(hub.git, ref, ref)
    if (head.ok) return head.value
    throw broken(head.fault)
  }
  const look = async (): Promise<Standing> => {
    const [trunk, base, ahead] = await Promise.all([
      must(hub.trunkRef),
      must(refs.base),
      countCommits(hub.git, refs.base, hub.trunkRef),
    ])
    if (!ahead.ok) throw broken(ahead.fault)
    return { trunk, base, ahead: ahead.value }
  }
  return {
    dir: hub.dir,
    made,
    mended,
    trunkName: hub.trunkName,
    baseName: hub.workspace.baseName,
    workspace: hub.workspace,
    trunk: () => must(hub.trunkRef),
    damage: () => {
      const damage = damaged(hub.dir)
      return damage.ok ? null : broken(damage.fault).message
    },
    standing: () => {
      if (seen !== null && hubDamage(hub.dir) === null) return seen
      const now = look()
      seen = now
      now.catch(() => {
        if (seen === now) seen = null
      })
      return now
    },
    refreshBase: () => hub.inTurn(() => refreshBase(hub)),
    toldBase: () => hub.inTurn(() => toldBase(hub)),
    ensureClone: (name, dest) => ensureClone(hub, name, dest),
    copy: (dest, patterns) => {
      const { top, prefix } = hub.workspace
      return copyFiles(top, dest, prefix === '' ? patterns : patterns.map(pattern => `${prefix}/${pattern}`))
    },
    absent: clone => ignoredAbsent(hub, clone),
    fetchBranch: (clone, branch) => fetchBranch(hub, clone, branch),
    fetchRescue: (clone, name) => fetchRescue(hub, clone, name),
    blame: what => blame(hub, what),
    broughtBy: commit => broughtBy(hub, commit),
    saved: clones => listSaved(hub.git, clones),
    restore: ({ ref, commit }, to) =>
      'branch' in to ? restoreAsBranch(hub, ref, commit, to.branch) : restoreAsFolder(hub, commit, to.folder),
    branchHead: branch => readRef(hub.git, refs.branch(branch)),
    has: async commit => {
      const found = await readRef(hub.git, commit)
      return found.ok && found.value !== null
    },
    holds: (head, commit) => isAncestor(hub.git, commit, head),
    offTrunk: commits => offTrunk(hub, commits),
    brings: async head => {
      const commits = await countCommits(hub.git, hub.trunkRef, head)
      if (!commits.ok) return commits
      const files = await changedFiles(hub, head)
      return files.ok ? ok({ commits: commits.value, files: files.value }) : files
    },
    unmergeable: head => unmergeable(hub, head),
    preview: (head, onto) => preview(hub, head, onto),
    conflict: what => conflict(hub, what),
    checkout: (treeish, dir) => checkout(hub, treeish, dir),
    commitMerge: what => commitMerge(hub, what),
    moveTrunk: chain => moveTrunk(hub, chain),
    merge: what => merge(hub, what),
    mergeOf: (head, request) => mergeOf(hub, head, request),
    forkPoint: (head, trunk) => forkPoint(hub, head, trunk),
    diff: head => diff(hub, head),
    show: commit => showMerge(hub, commit),
    land: () => hub.inTurn(() => land(hub)),
  }
}

/** A fault where the hub's folder is gone or damaged. */
const damaged = (dir: string): Result<null> => {
  const damage = hubDamage(dir)
  return damage === null
    ? ok(null)
    : fail(
        'io',
        `${dir} ${damage}`,
        'put it back as it was; or move away what is left of it, then team down and team up make a new one from the workspace',
      )
}

/** Git in the hub: where that is damaged it says so, whatever a command made of it ("there is no such ref"). */
const ofSound =
  ({ dir, git }: HubRepository, onFault: () => void): Git =>
  async (args, options) => {
    const done = await git(args, options)
    if (done.ok && done.value.code === 0) return done
    if (!done.ok) onFault()
    const sound = damaged(dir)
    return sound.ok ? done : sound
  }

const buildHub = async (hub: HubRepository): Promise<Result<null>> => {
  const fresh = halfMade(hub.dir)
  mkdirSync(fresh, { mode: 0o700 })
  const git: Git = (args, more) => hub.git(args, { gitDir: fresh, ...more })
  const settings = {
    'gc.auto': '0',
    'maintenance.auto': 'false',
    // Refs, packs and loose objects are on the disk before a command ends: what the journal says was merged is there after a power cut.
    'core.fsync': 'committed,reference',
    'core.fsyncMethod': 'batch',
    'core.logAllRefUpdates': 'always',
    'team.base': hub.workspace.baseRef,
  }
  const steps = async (): Promise<Result<null>> => {
    const { objectFormat } = hub.workspace
    const init = await hub.anywhere(['init', '-q', '--bare', '--template=', `--object-format=${objectFormat}`, '.'], {
      cwd: fresh,
    })
    if (!init.ok) return init
    for (const [key, value] of Object.entries(settings)) {
      const set = await git(['config', key, value])
      if (!set.ok) return set
    }
    const fetched = await fetchBase(git, hub.workspace)
    if (!fetched.ok) return fetched
    const base = await needRef(git, refs.base, hub.workspace.baseName)
    if (!base.ok) return base
    const trunk = await git(['update-ref', '--create-reflog', '-m', 'start', hub.trunkRef, base.value])
    if (!trunk.ok) return trunk
    const head = await git(['symbolic-ref', 'HEAD', hub.trunkRef])
    return head.ok ? ok(null) : head
  }
  const done = await steps()
  if (done.ok) {
    renameSync(fresh, hub.dir)
    // Else a power cut could leave it under the name of a half-made one, with all that came into it since.
    syncFolder(dirname(hub.dir))
  } else rmSync(fresh, { recursive: true, force: true })
  return done
}

/** A hub that stands there already: the same kind of repository, with its trunk; locks that a power cut left are taken away. */
const checkHub = async (hub: HubRepository): Promise<Result<string[]>> => {
  const foreign = (why: string) =>
    fail('config', `${hub.dir} ${why}`, 'move it away; a new hub is made from the workspace')
  if (!lstatSync(hub.dir).isDirectory()) return foreign('is not a folder')
  const format = await hub.git(['rev-parse', '--show-object-format'], { codes: [0, 128] })
  if (!format.ok) return format
  if (format.value.code !== 0) return foreign('is not a git repository')
  if (format.value.stdout.trim() !== hub.workspace.objectFormat)
    return foreign('has another object format than the workspace')
  const mended = removeOldLocks(hub.dir)
  const base = await readRef(hub.git, refs.base)
  if (!base.ok) return base
  if (base.value === null) return foreign('has no base')
  const trunk = await readRef(hub.git, hub.trunkRef)
  if (!trunk.ok) return trunk
  if (trunk.value === null) {
    const heads = await hub.git(['symbolic-ref', '--short', 'HEAD'])
    return fail(
      'config',
      `${hub.dir} has no branch ${hub.trunkName}: its trunk is ${heads.ok ? heads.value.stdout.trim() : 'unknown'}`,
      'name that one as "trunk" in config.json, or move the hub away',
    )
  }
  return ok(mended)
}

const lockSeconds = 60

/** The time by the file system's own clock: of a file made just now. */
const now = (dir: string): number => {
  const probe = join(dir, `.now-${randomBytes(4).toString('hex')}`)
  mkdirSync(probe)
  const { mtimeMs } = statSync(probe)
  rmSync(probe, { recursive: true })
  return mtimeMs
}

/**
 * The hub is written by the holder's git children alone, none of which lives for a minute while it holds a lock: takes away
 * what is older than that, or was made `since` then, where the caller knows that no git of this holder changes refs.
 */
const removeOldLocks = (dir: string, since = Number.POSITIVE_INFINITY): string[] => {
  const at = now(dir)
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && entry.name.endsWith('.lock') && !entry.parentPath.includes(`${dir}/objects`))
    .flatMap(entry => {
      const path = join(entry.parentPath, entry.name)
      const { mtimeMs } = statSync(path)
      const age = Math.round((at - mtimeMs) / 1000)
      if (age < lockSeconds && mtimeMs < since) return []
      rmSync(path, { force: true })
      return [`removed ${path}, ${age} s old`]
    })
}
