import { fail, ok } from '../lib/result.ts'
import type { Core } from './core.ts'
import { mayWrite } from './gates.ts'
import type { Table } from './handlers.ts'
import { endUse, listPermissions, removePermission, usePermission } from './permissions.ts'
import { isGuarded, strays } from './touched.ts'

type Methods =
  | 'task.gate'
  | 'task.strays'
  | 'budget.reserve'
  | 'budget.rests'
  | 'model.enter'
  | 'model.leave'
  | 'permission.use'
  | 'permission.done'
  | 'permission.list'
  | 'permission.remove'

/** What is asked before something is done: may it be written, may the model be called, may a command run? Each answer is durable. */
export const gateHandlers = (core: Core): Pick<Table, Methods> => ({
  'task.gate': ({ paths }, { actor }) => mayWrite(core, actor, paths),
  'task.strays': ({ paths }, { actor }) => {
    const task = core.tasks.inHand(actor)?.value
    const guarded = task !== undefined && isGuarded(core, actor, task)
    return ok({ guarded, strays: guarded && paths !== null ? strays(core, task, actor, paths) : [] })
  },
  'model.enter': async ({ call }, { actor }) => {
    if (actor === 'human') return fail('refused', 'only a teammate calls a model')
    await core.modelCalls.enter(actor, call)
    return ok(null)
  },
  'model.leave': ({ call }, { actor }) => {
    core.modelCalls.leave(actor, call)
    return ok(null)
  },
  'budget.reserve': async (params, { actor }) => {
    if (actor === 'human') return fail('refused', 'only a teammate calls a model')
    const over = core.budget.reserve(actor, params)
    if (!over.ok || over.value !== null) await core.store.flushed()
    return over
  },
  'budget.rests': (_params, { actor }) => ok(core.budget.rests(actor)),
  'permission.use': async ({ command }, { actor }) => {
    const use = usePermission(core, actor, command)
    await core.store.flushed()
    return use
  },
  'permission.done': async (params, { actor }) => {
    const ended = endUse(core, actor, params)
    await core.store.flushed()
    return ended
  },
  'permission.list': () => ok(listPermissions(core)),
  'permission.remove': async ({ id }, { actor }) => {
    if (actor !== 'human') return fail('refused', 'only the human may take a permission back')
    const removed = removePermission(core, id)
    if (!removed.ok) return removed
    await core.store.flushed()
    return ok({ removed: removed.value })
  },
})
