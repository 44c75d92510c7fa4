import { fail, ok, type Result } from '../lib/result.ts'
import { mergeTree } from './merge.ts'
import { type HubRepository, isAncestor, mergeBase, moveRef, needRef, readRef, refs } from './repository.ts'
import { type Git, uploadPack } from './run.ts'
import { readBase, submoduleIn, type Workspace } from './workspace.ts'

/** What became of a look at the base. */
export interface BaseReport {
  /** The base's head differs from the one seen at the last look, or a rewrite has not been told since (`toldBase`). */
  readonly moved: boolean
  /** The base's head at the last look, and now. */
  readonly from: string
  readonly to: string
  /** The base no longer contains the head seen before: somebody rewrote it. */
  readonly rewritten: boolean
  /**
   * Of a rewritten one, where the trunk has what it had and has no more: those commits, `<commit> <subject>`, newest first, at
   * most ten, without those of which it has a rewritten copy. Else null.
   */
  readonly dropped: readonly string[] | null
  /**
   * How it comes into the trunk. `none`: it is there already. `fast-forward`: it was moved there. `merge`: both moved, and the
   * trunk waits for somebody to merge `tree`. `conflict`: it cannot. In the last two the trunk stays where it was.
   */
  readonly how: 'none' | 'fast-forward' | 'merge' | 'conflict'
  /** The trunk's commit now. */
  readonly trunk: string
  /** The paths in conflict. */
  readonly files: readonly string[]
  /** Of a clean merge: the tree that merging `to` into `trunk` gives. */
  readonly tree: string | null
}

/** Takes the base into the hub by the local transport, so that objects are copied and no file is shared with the workspace. */
export const fetchBase = async (git: Git, workspace: Workspace): Promise<Result<null>> => {
  const done = await git([
    'fetch',
    '-q',
    '--no-write-fetch-head',
    '--no-auto-maintenance',
    '--no-recurse-submodules',
    uploadPack,
    workspace.commonDir,
    `+${workspace.baseRef}:${refs.base}`,
  ])
  return done.ok ? ok(null) : done
}

/**
 * Fetches the base from the workspace when it moved. A trunk without anything of its own follows it; where both moved, what their
 * merge would give is told, and nothing moves. Safe to repeat: after a crash in between, the next call goes on, and a rewritten base is reported until `toldBase`. Faults: `config` (the base is gone), `refused` (nothing in common with the trunk).
 */
export const refreshBase = async (hub: HubRepository): Promise<Result<BaseReport>> => {
  const at = await needRef(hub.git, refs.base, 'the base')
  if (!at.ok) return at
  const untold = await readRef(hub.git, refs.baseBefore)
  if (!untold.ok) return untold
  const from = ok(untold.value ?? at.value)
  const now = await readBase(hub.anywhere, hub.workspace, hub.dir)
  if (!now.ok) return now
  const isNew = now.value !== at.value
  if (isNew) {
    // First, so that a crash behind the fetch loses no word about what was rewritten.
    const kept = untold.value === null ? await hub.git(['update-ref', refs.baseBefore, at.value]) : ok(null)
    if (!kept.ok) return kept
    const fetched = await fetchBase(hub.git, hub.workspace)
    if (!fetched.ok) return fetched
  }
  // What was fetched, which may be newer still than what was read.
  const to = await needRef(hub.git, refs.base, 'the base')
  if (!to.ok) return to
  const trunk = await needRef(hub.git, hub.trunkRef, `the trunk ${hub.trunkName}`)
  if (!trunk.ok) return trunk
  const grew = from.value === to.value ? ok(true) : await isAncestor(hub.git, from.value, to.value)
  if (!grew.ok) return grew
  const told = grew.value && (isNew || untold.value !== null) ? await toldBase(hub) : ok(null)
  if (!told.ok) return told
  const moved = to.value !== from.value
  const dropped = grew.value ? ok(null) : await droppedBy(hub, from.value, to.value)
  if (!dropped.ok) return dropped
  const report = {
    moved,
    from: from.value,
    to: to.value,
    rewritten: !grew.value,
    dropped: dropped.value,
    files: [],
    tree: null,
  }
  const held = await isAncestor(hub.git, to.value, trunk.value)
  if (!held.ok) return held
  if (held.value) return ok({ ...report, how: 'none', trunk: trunk.value })
  const module = await submoduleIn(hub.git, hub.dir, to.value)
  if (!module.ok) return module
  if (module.value !== null)
    return fail(
      'refused',
      `${hub.workspace.baseName} has submodules now (${module.value}), which a teammate's clone cannot fill`,
      `the trunk stays where it is: take ${module.value} out of ${hub.workspace.baseName} again, or team down and set "mode": "dir" in config.json`,
    )
  const behind = await isAncestor(hub.git, trunk.value, to.value)
  if (!behind.ok) return behind
  const { baseName } = hub.workspace
  if (behind.value) {
    const done = await moveRef(hub.git, hub.trunkRef, to.value, trunk.value, `fast-forward to ${baseName}`)
    return done.ok ? ok({ ...report, how: 'fast-forward', trunk: to.value }) : done
  }
  const trial = await mergeTree(hub.git, trunk.value, to.value)
  if (!trial.ok)
    return trial.fault.code === 'refused'
      ? fail(
          'refused',
          `${baseName} in ${hub.workspace.top} has no history in common with the trunk`,
          'name the right branch as "base" in config.json, or start with a new hub: move .team/hub.git away',
          trial.fault,
        )
      : trial
  return ok(
    trial.value.clean
      ? { ...report, how: 'merge', trunk: trunk.value, tree: trial.value.tree }
      : { ...report, how: 'conflict', trunk: trunk.value, files: trial.value.files },
  )
}

/** What the last look said of a rewritten base has been told: the next one counts from where it stands now. */
export const toldBase = async (hub: HubRepository): Promise<Result<null>> => {
  const done = await hub.git(['update-ref', '-d', refs.baseBefore])
  return done.ok ? ok(null) : done
}

const droppedBy = async (hub: HubRepository, from: string, to: string): Promise<Result<string[] | null>> => {
  const shared = await mergeBase(hub.git, hub.trunkRef, from)
  if (!shared.ok) return shared
  if (shared.value === null) return ok(null)
  const kept = await isAncestor(hub.git, shared.value, to)
  if (!kept.ok || kept.value) return kept.ok ? ok(null) : kept
  const told = await hub.git([
    'log',
    '-n',
    '10',
    '--no-merges',
    '--cherry-pick',
    '--right-only',
    '--format=%h %s',
    `${to}...${shared.value}`,
  ])
  return told.ok ? ok(told.value.stdout.split('\n').filter(Boolean)) : told
}
