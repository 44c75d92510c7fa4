import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { afterDeath, longestDelay, restartDelay } from '../../../src/supervisor/backoff.ts'

const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

test('C07 every wait for a restart is longer than the one before it, until the cap of a minute', async () => {
  await fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000 }), chance, chance, (restart, a, b) => {
      const before = restartDelay(restart, a)
      const after = restartDelay(restart + 1, b)
      expect(before).toBeGreaterThanOrEqual(750)
      expect(after).toBeLessThanOrEqual(longestDelay)
      if (restart < 6) expect(after).toBeGreaterThan(before)
      else expect(after).toBeGreaterThanOrEqual(longestDelay * 0.75)
    }),
  )
})

test('C07 the limit of restarts is kept exactly, none allowed included', async () => {
  await fc.assert(
    fc.property(fc.nat(30), fc.nat(30), chance, (restarts, limit, random) => {
      const then = afterDeath(restarts, limit, random)
      expect(then.next).toBe(restarts < limit ? 'restart' : 'fail')
      if (then.next === 'restart') expect(then.restart).toBe(restarts + 1)
    }),
  )
})
