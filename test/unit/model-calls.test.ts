import { expect, test } from 'vitest'
import { ModelCalls } from '../../src/supervisor/model-calls.ts'

/** Who is in, in the order in which they came in. */
const world = (limit: { now: number }) => {
  const calls = new ModelCalls(() => limit.now)
  const entered: string[] = []
  const enter = (name: string, call = 1) => void calls.enter(name, call).then(() => entered.push(`${name}${call}`))
  const now = async (): Promise<string[]> => {
    await new Promise(resolve => setImmediate(resolve))
    return [...entered]
  }
  return { calls, enter, now }
}

test('so many calls at a time, and then who waits longest', async () => {
  const { calls, enter, now } = world({ now: 2 })
  for (const name of ['a', 'b', 'c', 'd']) enter(name)
  expect(await now()).toEqual(['a1', 'b1'])
  calls.leave('b', 1)
  calls.leave('b', 1)
  expect(await now()).toEqual(['a1', 'b1', 'c1'])
  calls.leave('a', 1)
  calls.leave('c', 1)
  expect(await now()).toEqual(['a1', 'b1', 'c1', 'd1'])
})

test('who makes many at a time lets in who makes one', async () => {
  const { calls, enter, now } = world({ now: 2 })
  for (const call of [1, 2, 3, 4]) enter('many', call)
  enter('one')
  expect(await now()).toEqual(['many1', 'many2'])
  calls.leave('many', 1)
  expect(await now()).toEqual(['many1', 'many2', 'one1'])
})

test('what is given up or belongs to a thread that ended keeps nobody out, and a higher limit lets in at once', async () => {
  const limit = { now: 1 }
  const { calls, enter, now } = world(limit)
  for (const name of ['a', 'b', 'c', 'd', 'e']) enter(name)
  calls.leave('b', 1)
  expect(await now()).toEqual(['a1', 'b1'])
  calls.gone('a')
  expect(await now()).toEqual(['a1', 'b1', 'c1'])
  limit.now = 3
  calls.look()
  expect(await now()).toEqual(['a1', 'b1', 'c1', 'd1', 'e1'])
})
