import { iso } from '../lib/clock.ts'
import { asFault, fail, ok } from '../lib/result.ts'
import { makeTurns } from '../lib/turns.ts'
import { readLearned, writeLearned } from '../store/learned.ts'
import type { Core } from './core.ts'
import type { Table } from './handlers.ts'

/** What teammates find out of the endpoints, kept for all of them and over restarts. */
export const modelHandlers = (core: Core): Pick<Table, 'model.learn'> => {
  // Each reads what the one before wrote.
  const inTurn = makeTurns()
  return {
    'model.learn': async ({ baseURL, name, learned, why }, { actor }) => {
      if (actor === 'human') return fail('refused', 'what an endpoint takes is learned by calling it', 'set quirks')
      try {
        await inTurn(() => writeLearned(core.root, { baseURL, name, learned, why, at: iso(core.clock.wall()) }))
      } catch (thrown) {
        return { ok: false, fault: asFault(thrown) }
      }
      const what = Object.entries(learned).map(([key, value]) => `${key}: ${value}`)
      core.store.note({
        event: 'model.learned',
        by: actor,
        info: { model: name, endpoint: baseURL, what: what.join(', '), why },
      })
      return ok(null)
    },
  }
}

/** A file of what was learned that cannot be read is no reason not to go on: it is learned again. */
export const tellDamaged = ({ root, store }: Core): void => {
  const { damage } = readLearned(root)
  if (damage === null) return
  const text = `${damage}: the team goes on without it, and what endpoints refuse is learned again`
  store.note({ event: 'warning', by: 'supervisor', info: { text } })
}
