import { expect, test } from 'vitest'
import { delay, maxDelay, timerMs } from '../../src/lib/clock.ts'

test('any number of milliseconds becomes one that timers take', async () => {
  expect([1e300, Number.POSITIVE_INFINITY, 2 ** 31].map(timerMs)).toEqual([maxDelay, maxDelay, maxDelay])
  expect([-5, -1e300, Number.NaN, Number.NEGATIVE_INFINITY, 0].map(timerMs)).toEqual([0, 0, 0, 0, 0])
  expect([0.2, 1.5, 7].map(timerMs)).toEqual([1, 2, 7])
  for (const ms of [1e300, 2 ** 31 - 0.5]) expect(() => AbortSignal.timeout(timerMs(ms))).not.toThrow()
  await delay(-1)
  await delay(Number.NaN)
})
