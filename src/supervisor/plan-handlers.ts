import { fail, ok, type Result } from '../lib/result.ts'
import type { Core } from './core.ts'
import type { Table } from './handlers.ts'
import { askForPlan, revisePlan } from './plans.ts'
import { shownOf } from './shown.ts'

const humanOnly = (actor: string, what: string): Result<null> =>
  actor === 'human' ? ok(null) : fail('refused', `only the human may ${what}`)

/** What a person asks of the lead, and changes in what the lead proposes. */
export const planHandlers = (core: Core): Pick<Table, 'plan.ask' | 'plan.revise'> => ({
  'plan.ask': ({ goal }, { actor }) => {
    const allowed = humanOnly(actor, 'ask for a plan')
    if (!allowed.ok) return allowed
    const asked = askForPlan(core, goal)
    return asked.ok ? ok({ task: shownOf(core, asked.value.id) }) : asked
  },
  'plan.revise': ({ id, tasks: changed }, { actor }) => {
    const allowed = humanOnly(actor, 'change a plan')
    if (!allowed.ok) return allowed
    const revised = revisePlan(core, id, changed)
    return revised.ok ? ok({ request: revised.value.request }) : revised
  },
})
