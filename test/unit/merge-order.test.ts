import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inOrder } from '../../src/supervisor/merge-order.ts'

const order = (...priorities: number[]) =>
  inOrder(priorities.map((priority, i) => ({ ordinal: i + 1, priority }))).map(({ ordinal }) => ordinal)

test('first approved, first served; a higher priority goes ahead by as many places as it is higher', () => {
  expect(order(0, 0, 0)).toEqual([1, 2, 3])
  expect(order(0, 0, 2)).toEqual([1, 3, 2])
  expect(order(0, 0, 3)).toEqual([3, 1, 2])
  expect(order(-1, 0, 0)).toEqual([1, 2, 3])
  expect(order(-2, 0, 0)).toEqual([2, 1, 3])
})

test('nobody is passed over for ever: of those that come later at most nineteen go ahead, whatever their priority', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -1000, max: 1000 }), { minLength: 1, maxLength: 80 }), priorities => {
      const line = order(...priorities)
      for (const ordinal of line) {
        const ahead = line.slice(0, line.indexOf(ordinal)).filter(other => other > ordinal)
        expect(ahead.length).toBeLessThanOrEqual(19)
      }
    }),
  )
  expect(order(-1000, ...Array.from({ length: 30 }, () => 1000)).indexOf(1)).toBe(19)
})
