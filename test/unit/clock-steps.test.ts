import { expect, test } from 'vitest'
import type { Clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import type { Request } from '../../src/protocol/request.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { coreOf } from '../support/core.ts'

const hour = 3_600_000
const settled = () => new Promise(setImmediate)

/** A team over a clock whose wall time is set at will, while the time that passes goes its own way. */
const team = () => {
  let wall = Date.UTC(2026, 0, 1)
  let mono = 0
  const clock: Clock = { wall: () => wall, mono: () => mono }
  const store = openMemoryStore(clock)
  const made = coreOf({ teammates: [{ name: 'alice' }, { name: 'bob' }] }, clock, { mode: 'git', store })
  made.core.leases.start({
    runs: () => true,
    onFailure: error => {
      throw error
    },
  })
  return {
    ...made,
    set: (ms: number) => {
      wall += ms
    },
    pass: (ms: number) => {
      wall += ms
      mono += ms
    },
    open: async (by: string, type: string, data: object, body = '') =>
      (unwrap(await made.handlers.call(by, 'request.open', { type, body, data })) as { request: Request }).request,
  }
}

for (const step of [hour, -hour, 24 * hour, -24 * hour])
  test(`J09 a clock set by ${step / hour} h ends no request and no lease before its time, and keeps none beyond it`, async () => {
    const it = team()
    const { requests, leases } = it.core
    const asked = unwrap(
      requests.open({
        type: 'shutdown_request',
        from: 'human',
        to: 'bob',
        title: 'shut down',
        body: '',
        data: { teammate: 'bob', graceMs: 10_000 },
      }),
    ).request
    const lease = await it.open('alice', 'resource_request', { kind: 'name', what: ['db'], seconds: 60 })
    const next = await it.open('bob', 'resource_request', { kind: 'name', what: ['db'], seconds: 60 })
    const question = await it.open('alice', 'question', {}, 'Tabs?')
    it.set(step)
    it.pass(9_999)
    expect([requests.expire(), requests.untilNext()]).toEqual([[], 1])
    leases.expire()
    await settled()
    expect([leases.isHeld(lease.id), leases.isHeld(next.id)]).toEqual([true, false])
    it.pass(1)
    expect(requests.expire().map(({ id, outcome }) => [id, outcome])).toEqual([[asked.id, 'expired']])
    it.set(-step)
    it.pass(49_999)
    leases.expire()
    await settled()
    expect(leases.isHeld(lease.id)).toBe(true)
    it.pass(1)
    leases.expire()
    await settled()
    expect([leases.isHeld(lease.id), leases.isHeld(next.id)]).toEqual([false, true])
    expect(requests.get(next.id)?.value.effect?.fence).toBe(2)
    // Nobody is bound to a time: it waits as it did.
    expect(requests.get(question.id)?.value).toMatchObject({ status: 'pending', outcome: null, deadline: null })
    leases.close()
  })

test('J09 what waits is listed in the order in which it came, and so is mail, however the clock was set in between', async () => {
  const it = team()
  for (const [n, step] of [-hour, 2 * hour, -24 * hour, hour].entries()) {
    await it.open('alice', 'question', {}, `${n}?`)
    unwrap(await it.handlers.call('bob', 'message.send', { to: 'alice', content: `${n}` }))
    it.set(step)
  }
  expect(it.core.requests.waiting().map(({ body }) => body)).toEqual(['0?', '1?', '2?', '3?'])
  expect(it.core.mail.read('alice', 0, 10).items.map(({ stored }) => stored.message.content)).toEqual([
    '0',
    '1',
    '2',
    '3',
  ])
  it.core.leases.close()
})
