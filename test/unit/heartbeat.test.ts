import { expect, test } from 'vitest'
import { beatMs } from '../../src/protocol/thread.ts'

test('a thread gives several signs of life within the shortest time after whose silence it is started anew', () => {
  expect(beatMs({ heartbeatSeconds: 30, stuckSeconds: 300 })).toBe(2000)
  for (const [heartbeatSeconds, stuckSeconds] of [
    [1, 300],
    [30, 1],
    [0.2, 0.4],
  ] as const)
    expect(beatMs({ heartbeatSeconds, stuckSeconds }) * 4).toBeLessThanOrEqual(
      1000 * Math.min(heartbeatSeconds, stuckSeconds),
    )
})
