import { describe, expect, test } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import type { RpcResults } from '../../src/protocol/rpc.ts'
import { circle, type Wait } from '../../src/protocol/wait-graph.ts'
import type { DaemonLog } from '../../src/supervisor/log.ts'
import { Notices } from '../../src/supervisor/notices.ts'
import { orphans, Waits } from '../../src/supervisor/waits.ts'
import { coreOf } from '../support/core.ts'

const graph =
  (edges: Readonly<Record<string, readonly string[]>>) =>
  (who: string): Wait[] =>
    (edges[who] ?? []).map(to => ({ from: who, to, by: `${who}${to}` }))

test('a circle is found through the one asked about only, in its order', () => {
  const waits = graph({ a: ['x', 'b'], b: ['c'], c: ['a'], d: ['b'], x: ['y'], y: ['x'] })
  expect(circle('a', waits)?.map(({ by }) => by)).toEqual(['ab', 'bc', 'ca'])
  expect(circle('c', waits)?.map(({ by }) => by)).toEqual(['ca', 'ab', 'bc'])
  expect(circle('d', waits)).toBeNull()
  expect(circle('nobody', waits)).toBeNull()
})

const settled = async () => {
  for (let i = 0; i < 5; i++) await new Promise(resolve => setImmediate(resolve))
}

const setup = (names: readonly string[], more: object = {}) => {
  const { core, store, handlers } = coreOf({ teammates: names.map(name => ({ name })), ...more })
  const failures: unknown[] = []
  const onFailure = (error: unknown) => failures.push(error)
  const waits = new Waits({ core, notices: new Notices(core, { error: onFailure } as unknown as DaemonLog), onFailure })
  core.leases.start({ runs: () => true, onFailure })
  const lease = async (who: string, ...what: string[]): Promise<string> => {
    const opened = await handlers.call(who, 'request.open', { type: 'resource_request', data: { kind: 'name', what } })
    await settled()
    return (unwrap(opened) as RpcResults['request.open']).request.id
  }
  const state = (id: string) => {
    const request = core.requests.get(id)?.value
    return request?.outcome === null ? 'waits' : (request?.status ?? 'gone')
  }
  const told = () =>
    store
      .inbox('user')
      .read(0)
      .map(({ value }) => value.message.content)
  return { core, lease, state, told, failures, waits, handlers }
}

describe('teammates that wait for one another', () => {
  test('two that each hold what the other wants: the later request is rejected with the circle spelled out, the other goes on', async () => {
    const { lease, state, told, core, failures } = setup(['ann', 'bob'])
    const [a, b] = [await lease('ann', 'a'), await lease('bob', 'b')]
    const wantsB = await lease('ann', 'b')
    expect([a, b, wantsB].map(state)).toEqual(['approved', 'approved', 'waits'])
    const wantsA = await lease('bob', 'a')
    expect([wantsB, wantsA].map(state)).toEqual(['waits', 'rejected'])
    const reason = core.requests.get(wantsA)?.value.reason ?? ''
    expect(reason).toContain(`ann waits for bob (${wantsB})`)
    expect(reason).toContain(`bob waits for ann (${wantsA})`)
    expect(told().filter(text => text.includes('waited for one another'))).toHaveLength(1)
    unwrap(core.leases.free(b, { by: 'bob', why: 'given back', isLost: false }))
    await settled()
    expect(state(wantsB)).toBe('approved')
    expect(failures).toEqual([])
  })

  test('a circle that closes through a fair queue, with one holder alone, and one of three', async () => {
    const one = setup(['ann', 'bob', 'cem'])
    await one.lease('ann', 'a')
    await one.lease('cem', 'c')
    const before = await one.lease('bob', 'a', 'c')
    // bob was there first, so ann would wait behind him, who waits for her.
    const behind = await one.lease('ann', 'c')
    expect([before, behind].map(one.state)).toEqual(['waits', 'rejected'])

    const three = setup(['ann', 'bob', 'cem'])
    for (const [who, what] of [
      ['ann', 'a'],
      ['bob', 'b'],
      ['cem', 'c'],
    ] as const)
      await three.lease(who, what)
    const asked = [await three.lease('ann', 'b'), await three.lease('bob', 'c'), await three.lease('cem', 'a')]
    expect(asked.map(three.state)).toEqual(['waits', 'waits', 'rejected'])
  })

  test('merely waiting in a queue is no circle, however long it is', async () => {
    const { lease, state, told } = setup(['ann', 'bob', 'cem'])
    await lease('ann', 'a')
    const waiting = [await lease('bob', 'a'), await lease('cem', 'a'), await lease('bob', 'a', 'b')]
    expect(waiting.map(state)).toEqual(['waits', 'waits', 'waits'])
    expect(told().filter(text => text.includes('waited for one another'))).toEqual([])
  })
})

test('a request to somebody who does not run is named, with who may decide it; one to the human is not', async () => {
  const { core, handlers } = setup(['ann', 'bob'], { lead: 'bob' })
  unwrap(await handlers.call('ann', 'request.open', { type: 'plan_request', body: 'all of it' }))
  unwrap(await handlers.call('ann', 'request.open', { type: 'question', body: 'why?' }))
  expect(core.requests.waiting().map(({ to }) => to)).toEqual(['bob', 'human'])
  expect(orphans(core)).toEqual([])
  core.store.teammates.create(
    'bob',
    { name: 'bob', standing: 'stopped', reason: null, at: '' },
    { event: 'teammate.stopped', by: 'human' },
  )
  expect(orphans(core)).toEqual([
    'req_1 (plan of ann) waits for bob, who does not run: decide it yourself (team approve req_1)',
  ])
})
