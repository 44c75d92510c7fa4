import { expect, test } from 'vitest'
import { makeTurns } from '../../src/lib/turns.ts'

/** Acts that end when they are told to, and what of them has begun. */
const acts = () => {
  const begun: string[] = []
  const ends = new Map<string, { ok: () => void; fail: (error: Error) => void }>()
  const act = (name: string) => () =>
    new Promise<string>((resolve, reject) => {
      begun.push(name)
      ends.set(name, { ok: () => resolve(name), fail: reject })
    })
  return { begun, act, end: (name: string) => ends.get(name) ?? expect.unreachable(`${name} has not begun`) }
}

test('a turn begins when the one before ended, in the order they were handed in, also after a failure', async () => {
  const { begun, act, end } = acts()
  const inTurn = makeTurns()
  const [a, b, c] = ['a', 'b', 'c'].map(name => inTurn(act(name)))
  expect(begun).toEqual(['a'])
  end('a').fail(new Error('no'))
  await expect(a).rejects.toThrow('no')
  expect(begun).toEqual(['a', 'b'])
  end('b').ok()
  expect(await b).toBe('b')
  const d = inTurn(act('d'))
  expect(begun).toEqual(['a', 'b', 'c'])
  end('c').ok()
  await c
  end('d').ok()
  expect(await d).toBe('d')
})

test('of several places each is taken once, and one that hangs holds back no other', async () => {
  const { begun, act, end } = acts()
  const inTurn = makeTurns(2)
  const all = ['hangs', 'b', 'c', 'd'].map(name => inTurn(act(name)))
  expect(begun).toEqual(['hangs', 'b'])
  for (const [n, name] of ['b', 'c', 'd'].entries()) {
    end(name).ok()
    await all[n + 1]
  }
  expect(begun).toEqual(['hangs', 'b', 'c', 'd'])
  end('hangs').ok()
  expect(await Promise.all(all)).toEqual(['hangs', 'b', 'c', 'd'])
})
