import { expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { sharedGate } from '../../src/teammate/gate.ts'

test('F11 one gate an endpoint: told to wait by one, all who use it wait, others do not', async () => {
  const name = `http://gate-${process.pid}`
  const gates = [sharedGate(name, clock), sharedGate(name, clock), sharedGate(`${name}-other`, clock)]
  const [first, second, other] = gates
  first?.close(3_600_000)
  expect(first?.closedFor()).toBeGreaterThan(3_000_000)
  for (const deadline = clock.mono() + 45_000; second?.closedFor() === 0 && clock.mono() < deadline; )
    await new Promise(resolve => setTimeout(resolve, 1))
  expect(second?.closedFor()).toBeGreaterThan(3_000_000)
  expect(other?.closedFor()).toBe(0)
  for (const gate of gates) gate.end()
})
