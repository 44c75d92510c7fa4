import { fail, ok } from '../lib/result.ts'
import type { Core } from './core.ts'
import type { Table } from './handlers.ts'
import { endUse, listPermissions, removePermission, usePermission } from './permissions.ts'

type Methods = 'permission.use' | 'permission.done' | 'permission.list' | 'permission.remove'

/** What is asked about permissions; each answer is durable. */
export const permissionHandlers = (core: Core): Pick<Table, Methods> => ({
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
