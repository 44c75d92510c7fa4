import { join } from 'node:path'
import { clonesIn, findSaved } from '../git/rescue.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { taskBranch } from '../protocol/ids.ts'
import type { Task } from '../protocol/task.ts'
import type { SavedShown } from '../protocol/work.ts'
import { type Core, keepRescued } from './core.ts'
import { noHub, showDiff } from './diff.ts'
import type { Table } from './handlers.ts'
import { landTrunk } from './landing.ts'
import { whyLine } from './why.ts'

type Methods = 'diff' | 'land' | 'why' | 'rescue.list' | 'rescue.show' | 'rescue.restore'

const humanOnly = (actor: string, what: string): Result<null> =>
  actor === 'human' ? ok(null) : fail('refused', `only the human may ${what}`)

/** What is asked of the work itself, in git: what a merge brings, what was saved aside, and the way back to the person. */
export const workHandlers = (core: Core): Pick<Table, Methods> => ({
  diff: ({ id }) => showDiff(core, id),
  land: async (_params, { actor }) => {
    const allowed = humanOnly(actor, 'land')
    return allowed.ok ? landTrunk(core) : allowed
  },
  why: (params, { actor }) => {
    const allowed = humanOnly(actor, 'ask whence a line is')
    return allowed.ok ? whyLine(core, params) : allowed
  },
  'rescue.list': async ({ task }) => {
    const known = task === undefined ? undefined : core.tasks.get(task)
    if (task !== undefined && !known) return fail('unknown', `there is no task ${task}`, 'team task list shows them')
    const saved = known ? await savedOf(core, known.value) : await allSaved(core)
    return saved.ok ? ok({ saved: saved.value }) : saved
  },
  'rescue.show': async ({ id }, { actor }) => {
    const found = await inHub(core, actor, id)
    if (!found.ok) return found
    const { saved, hub } = found.value
    const shown = saved.kind === 'uncommitted' ? await hub.show(saved.commit) : await hub.diff(saved.commit)
    return shown.ok ? ok({ saved, ...shown.value }) : shown
  },
  'rescue.restore': async ({ id, branch, folder }, { actor }) => {
    if (branch !== undefined && folder !== undefined)
      return fail('usage', 'name a branch or a folder, not both', 'the other may be made by a second call')
    const found = await inHub(core, actor, id)
    if (!found.ok) return found
    const { saved, hub } = found.value
    const restored = await hub.restore(
      saved,
      folder === undefined ? { branch: branch ?? `rescue/${saved.id}` } : { folder },
    )
    if (restored.ok) {
      core.store.note({ event: 'work.restored', by: 'human', info: { ref: saved.ref, ...restored.value } })
      await core.store.flushed()
    }
    return restored
  },
})

const allSaved = ({ hub, root }: Core): Promise<Result<SavedShown[]>> | Result<SavedShown[]> =>
  hub ? hub.saved(clonesIn(join(root, 'team'))) : ok([])

/** What was saved aside of a task's branch. */
export const savedOf = async (core: Core, task: Pick<Task, 'id'>): Promise<Result<SavedShown[]>> => {
  const saved = await allSaved(core)
  return saved.ok ? ok(saved.value.filter(({ branch }) => branch === taskBranch(task.id))) : saved
}

/** The one that is asked for, taken into the hub where only a clone had it. */
const inHub = async (core: Core, actor: string, id: string) => {
  const allowed = humanOnly(actor, 'look into what was saved aside')
  if (!allowed.ok) return allowed
  const { hub } = core
  const all = await allSaved(core)
  if (!all.ok) return all
  const found = findSaved(all.value, id)
  if (!found.ok) return found
  const saved = found.value
  if (!hub) return noHub(core, 'nothing is saved aside')
  if (saved.isInCloneAlone && saved.teammate !== null) await keepRescued(core, saved.teammate)
  return (await hub.has(saved.commit))
    ? ok({ saved: { ...saved, isInCloneAlone: false }, hub })
    : fail('refused', `${saved.ref} cannot be read from the clone of ${saved.teammate}`, 'team logs says why')
}
