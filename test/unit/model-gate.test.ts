import { expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { ok } from '../../src/lib/result.ts'
import type { Call } from '../../src/protocol/rpc.ts'
import { sharedGate } from '../../src/teammate/gate.ts'

const free = (async () => ok(null)) as Call

test('F11 one gate an endpoint: told to wait by one, all who use it wait, others do not', async () => {
  const name = `http://gate-${process.pid}`
  const gates = [sharedGate(name, clock, free), sharedGate(name, clock, free), sharedGate(`${name}-other`, clock, free)]
  const [first, second, other] = gates
  first?.close(3_600_000)
  expect(first?.closedFor()).toBeGreaterThan(3_000_000)
  for (const deadline = clock.mono() + 45_000; second?.closedFor() === 0 && clock.mono() < deadline; )
    await new Promise(resolve => setTimeout(resolve, 1))
  expect(second?.closedFor()).toBeGreaterThan(3_000_000)
  expect(other?.closedFor()).toBe(0)
  for (const gate of gates) gate.end()
})

test('a place among the calls is asked of the holder, given back once, and given up when the signal aborts', async () => {
  const asked: string[] = []
  let grant = (): void => undefined
  const call = ((method: string, { call }: { call: number }) => {
    asked.push(`${method} ${call}`)
    return method === 'model.enter' && call > 1
      ? new Promise(resolve => (grant = () => resolve(ok(null))))
      : Promise.resolve(ok(null))
  }) as unknown as Call
  const gate = sharedGate(`http://places-${process.pid}`, clock, call)
  const never = new AbortController()
  const leave = await gate.enter(never.signal, () => expect.unreachable())
  leave?.()
  const quits = new AbortController()
  const second = gate.enter(quits.signal, () => undefined)
  quits.abort()
  expect(await second).toBeNull()
  let isQueued = false
  const third = gate.enter(never.signal, () => {
    isQueued = true
    grant()
  })
  ;(await third)?.()
  expect(isQueued).toBe(true)
  expect(await gate.enter(quits.signal, () => undefined)).toBeNull()
  expect(asked).toEqual([1, 2, 3, 4].flatMap(id => [`model.enter ${id}`, `model.leave ${id}`]))
  gate.end()
})
