import { expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { mayWrite } from '../../src/supervisor/gates.ts'
import { coreOf } from '../support/core.ts'

const config = { sandbox: 'off', teammates: [{ name: 'alice' }] }
type Team = ReturnType<typeof coreOf>

const give = ({ core }: Team, id: string) =>
  unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner: 'alice', branch: null }))
const plan = async ({ core, handlers }: Team, body: string) => {
  unwrap(await handlers.call('alice', 'request.open', { type: 'plan_request', body }))
  return core.requests.waiting().at(-1)?.id ?? ''
}
const gate = ({ core }: Team) => {
  const may = mayWrite(core, 'alice', [])
  return may.ok ? 'open' : may.fault.message
}

test('a task that a person retried needs a plan of its own; one that was given back and taken up again keeps the one it has', async () => {
  let team = coreOf(config)
  const [id = ''] = unwrap(team.core.tasks.add([{ title: 'risky', needsPlan: true }], { by: 'human' })).ids
  give(team, id)
  expect(gate(team)).toBe(`task ${id} needs an approved plan before anything is written`)
  unwrap(team.core.requests.decide(await plan(team, 'first this'), 'human', 'approve', null))
  expect(gate(team)).toBe('open')

  // Given back and taken up again, as at a restart.
  unwrap(team.core.tasks.move(id, 'supervisor', { move: 'release', reason: 'the daemon ended' }))
  give(team, id)
  expect(gate(team)).toBe('open')
  // So it stays where a retry is refused.
  expect(await team.handlers.call('human', 'task.retry', { id })).toMatchObject({ ok: false })
  expect(gate(team)).toBe('open')

  for (const round of [1, 2]) {
    unwrap(team.core.tasks.move(id, 'human', { move: round === 1 ? 'fail' : 'cancel', reason: 'it went wrong' }))
    unwrap(await team.handlers.call('human', 'task.retry', { id }))
    give(team, id)
    const closed = `task ${id} needs an approved plan before anything is written: it was retried, and plans of before count no more`
    expect(gate(team)).toBe(closed)
    // Another holder reads the same from the records.
    team = coreOf(config, clock, { store: team.store })
    expect(gate(team)).toBe(closed)
    // The same words again are a plan of this attempt.
    unwrap(team.core.requests.decide(await plan(team, 'first this'), 'human', 'approve', null))
    expect(gate(team)).toBe('open')
    team = coreOf(config, clock, { store: team.store })
    expect(gate(team)).toBe('open')
  }
})
