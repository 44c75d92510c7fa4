import { fail, ok, type Result } from '../lib/result.ts'
import { checkClone } from './clone.ts'
import { changedFiles } from './merge.ts'
import { countCommits, flushRefs, type HubRepository, isAncestor, needRef, readRef, refs } from './repository.ts'
import { fetchArgs, zParts } from './run.ts'

/** What a branch brought along. */
export interface Fetched {
  readonly head: string
  /** How many commits it is ahead of the trunk. */
  readonly commits: number
  /** The paths it changes against where it left the trunk. */
  readonly files: readonly string[]
  /** The head it had in the hub before, when the new one does not contain it; kept under `refs/team/old`. */
  readonly replaced: string | null
}

/**
 * Takes a task's branch from a teammate's clone into the hub. Objects and that one ref are all that is read there. A rewritten
 * branch replaces what the hub had, whose head stays under `refs/team/old`; nothing is ever lost by it.
 * Faults: `refused` (not a task's branch, or the clone was tampered with), `unknown` (no such branch there), `io` (broken objects).
 */
export const fetchBranch = async (hub: HubRepository, clone: string, branch: string): Promise<Result<Fetched>> =>
  hub.inTurn(async () => {
    if (!branch.startsWith('team/task-') || branch === hub.trunkName)
      return fail('refused', `${branch} is not a task's branch`)
    const sound = checkClone(hub, clone)
    if (!sound.ok) return sound
    const incoming = refs.incoming(branch)
    const taken = await hub.git([...fetchArgs, clone, `+${refs.branch(branch)}:${incoming}`], { codes: [0, 1, 128] })
    if (!taken.ok) return taken
    if (taken.value.code !== 0) {
      const why = taken.value.stderr
      return /couldn't find remote ref/i.test(why)
        ? fail('unknown', `there is no branch ${branch} in ${clone}`)
        : fail(
            'io',
            `${branch} cannot be fetched from ${clone}: ${why.trim().split('\n')[0]}`,
            undefined,
            new Error(why),
          )
    }
    const head = await needRef(hub.git, incoming, branch)
    if (!head.ok) return head
    const old = await readRef(hub.git, refs.branch(branch))
    if (!old.ok) return old
    const kept = old.value === null ? ok(true) : await isAncestor(hub.git, old.value, head.value)
    if (!kept.ok) return kept
    const zero = '0'.repeat(head.value.length)
    const moves = [
      ...(old.value === null || kept.value ? [] : [`update ${refs.old(branch, old.value)}\0${old.value}\0`]),
      `update ${refs.branch(branch)}\0${head.value}\0${old.value ?? zero}`,
      `delete ${incoming}\0${head.value}`,
    ]
    const moved = await hub.git(['update-ref', '-z', '--stdin'], { input: `${moves.join('\0')}\0` })
    if (!moved.ok) return moved
    flushRefs(hub.dir, [
      refs.branch(branch),
      ...(kept.value || old.value === null ? [] : [refs.old(branch, old.value)]),
    ])
    const commits = await countCommits(hub.git, hub.trunkRef, head.value)
    if (!commits.ok) return commits
    const files = await changedFiles(hub, head.value)
    if (!files.ok) return files
    return ok({
      head: head.value,
      commits: commits.value,
      files: files.value,
      replaced: kept.value ? null : old.value,
    })
  })

/** Takes what a clone saved aside (`refs/team/rescue/*`) into the hub, under the teammate's name. The refs that are new there. */
export const fetchRescue = async (hub: HubRepository, clone: string, name: string): Promise<Result<string[]>> =>
  hub.inTurn(async () => {
    const sound = checkClone(hub, clone)
    if (!sound.ok) return sound
    const list = async () => {
      const told = await hub.git(['for-each-ref', '--format=%(refname)%00', `${refs.rescue}/${name}`])
      return told.ok ? ok(zParts(told.value.stdout.replaceAll('\n', ''))) : told
    }
    const before = await list()
    if (!before.ok) return before
    const taken = await hub.git([...fetchArgs, clone, `${refs.rescue}/*:${refs.rescue}/${name}/*`])
    if (!taken.ok) return taken
    const after = await list()
    if (!after.ok) return after
    const fresh = after.value.filter(ref => !before.value.includes(ref))
    flushRefs(hub.dir, fresh)
    return ok(fresh)
  })
