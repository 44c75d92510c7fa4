import { expect, test } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import { rejectedAtMost } from '../../src/supervisor/opening.ts'
import { coreOf } from '../support/core.ts'

test('what is asked about a task that was taken from its asker meanwhile is refused: nobody would wait for the answer', async () => {
  const { core, handlers } = coreOf({ sandbox: 'off', teammates: [{ name: 'alice' }] })
  const [id = ''] = unwrap(core.tasks.add([{ title: 'one' }], { by: 'human' })).ids
  unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner: 'alice', branch: null }))
  const asked = [
    { type: 'question', body: 'Tabs?' },
    { type: 'plan_request', body: 'First this' },
    { type: 'permission_request', data: { command: 'npm publish' } },
    { type: 'resource_request', data: { kind: 'name', what: ['db'] } },
  ]
  expect(await handlers.call('alice', 'request.open', { ...asked[0], during: id })).toMatchObject({
    ok: true,
    value: { request: { data: { task: id } } },
  })
  unwrap(core.tasks.move(id, 'human', { move: 'cancel', reason: 'not needed' }))
  for (const each of asked)
    expect(await handlers.call('alice', 'request.open', { ...each, during: id })).toMatchObject({
      ok: false,
      fault: { code: 'refused', message: `task ${id} is not in your hands any more` },
    })
  expect(core.requests.waiting().filter(({ data }) => !('task' in data) || data.task !== id)).toEqual([])
  // Without a task it may ask all the same.
  expect(await handlers.call('alice', 'request.open', asked[0])).toMatchObject({ ok: true })
})

test('a task whose plans a teammate rejected over and over asks a person next; after that person its lead again', async () => {
  const { core, handlers } = coreOf({ teammates: [{ name: 'alice' }, { name: 'boss' }], lead: 'boss' })
  const [id = ''] = unwrap(core.tasks.add([{ title: 'one' }], { by: 'human' })).ids
  unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner: 'alice', branch: null }))
  let n = 0
  const plan = async () => {
    unwrap(await handlers.call('alice', 'request.open', { type: 'plan_request', body: `plan ${++n}` }))
    return core.requests.waiting().at(-1)
  }
  for (let i = 0; i < rejectedAtMost; i++) {
    const asked = await plan()
    expect(asked?.to).toBe('boss')
    unwrap(core.requests.decide(asked?.id ?? '', 'boss', 'reject', 'no'))
  }
  const asked = await plan()
  expect(asked?.to).toBe('human')
  unwrap(core.requests.decide(asked?.id ?? '', 'human', 'reject', 'smaller steps, please'))
  expect((await plan())?.to).toBe('boss')
})
