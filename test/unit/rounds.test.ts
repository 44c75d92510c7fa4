import { expect, test } from 'vitest'
import { Rounds } from '../../src/supervisor/rounds.ts'

const exchange = (rounds: Rounds, times: number, ...names: string[]) => {
  for (let i = 0; i < times; i++)
    for (const [at, name] of names.entries()) rounds.sent(name, names[(at + 1) % names.length] ?? '')
}

test('mail answered by mail counts a round, for each of two', () => {
  const rounds = new Rounds()
  exchange(rounds, 5, 'alice', 'bob')
  expect([rounds.of('alice'), rounds.of('bob')]).toEqual([4, 5])
})

test('a circle of three counts like a pair', () => {
  const rounds = new Rounds()
  exchange(rounds, 5, 'alice', 'bob', 'carol')
  expect([rounds.of('alice'), rounds.of('bob'), rounds.of('carol')]).toEqual([4, 5, 5])
})

test('many messages at once, with nothing heard in between, are no round', () => {
  const rounds = new Rounds()
  for (let i = 0; i < 20; i++) rounds.sent('alice', 'bob')
  rounds.sent('bob', 'alice')
  expect([rounds.of('alice'), rounds.of('bob')]).toEqual([0, 1])
})

test('anything else that happens to one begins the count anew for everyone it wrote with, and for nobody else', () => {
  const rounds = new Rounds()
  exchange(rounds, 3, 'alice', 'bob', 'carol')
  exchange(rounds, 3, 'dave', 'erin')
  expect(rounds.happened('carol').sort()).toEqual(['alice', 'bob', 'carol'])
  expect(['alice', 'bob', 'carol', 'erin'].map(name => rounds.of(name))).toEqual([0, 0, 0, 3])
})
