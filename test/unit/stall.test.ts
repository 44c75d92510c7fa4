import { expect, test } from 'vitest'
import { Limits } from '../../src/protocol/config.ts'
import {
  advance as advanceWithin,
  asksWithoutEffect,
  atStart,
  callsAfterTask,
  type Pace,
  patience,
  type Step,
} from '../../src/teammate/stall.ts'

const { sameCalls, callsWithoutEffect } = Limits.parse({})
const advance = (pace: Pace, step: Step): Pace => advanceWithin(pace, step, { sameCalls, callsWithoutEffect })
const model: Step = { k: 'model' }
const tool = (name: string, args: object = {}, text = 'done', isError = false): Step => ({
  k: 'tool',
  name,
  args: JSON.stringify(args),
  text,
  isError,
})
const after = (...steps: readonly Step[]): Pace => steps.reduce(advance, atStart)
const times = (n: number, ...steps: Step[]): Step[] => Array.from({ length: n }, () => steps).flat()

test('the same call with the same arguments and result is a stall from the eighth on, however long a command took', () => {
  const run = (ms: number) => tool('bash', { command: 'npm test' }, `exit 1 in ${ms}.2 s\nred`)
  expect(after(...times(sameCalls - 1, model, run(1))).stall).toBeNull()
  expect(after(...times(sameCalls - 1, model, run(1)), model, run(12)).stall).toMatch(
    /^the same call of bash.* 8 times/,
  )
  // A refused one, one of no tool there is, and a write of the same file count as well.
  for (const each of [tool('x', {}, 'error: no tool', true), tool('write_file', { path: 'a', content: 'b' })])
    expect(after(...times(sameCalls, model, each)).stall).not.toBeNull()
})

test('other arguments, another result, or another call in between is no stall', () => {
  const loops = [
    (n: number) => tool('read_file', { path: `${n}` }),
    (n: number) => tool('read_file', { path: 'a' }, `${n}`),
    (n: number) => tool(n % 2 ? 'ls' : 'grep'),
  ]
  for (const each of loops)
    expect(after(...Array.from({ length: 3 * sameCalls }, (_, n) => [model, each(n)]).flat()).stall).toBeNull()
})

test('so many calls of the model without anything that lasts are a stall; what lasts begins the count anew, and ends it', () => {
  const look = Array.from({ length: callsWithoutEffect }, (_, n) => [model, tool('read_file', { path: `${n}` })]).flat()
  const early = look.slice(0, -2)
  expect(after(...early).stall).toBeNull()
  const stalled = after(...look)
  expect(stalled.stall).toMatch(/^100 calls of its model since/)
  const lasting = [
    tool('write_file'),
    tool('edit_file'),
    tool('message'),
    tool('request', { action: 'open' }),
    tool('ask_user'),
    tool('task', { action: 'create' }),
    tool('bash', { command: 'git add -A && git commit -qm x' }, 'exit 0 in 0.1 s'),
  ]
  for (const each of lasting) {
    expect(advance(stalled, each), JSON.stringify(each)).toMatchObject({ calls: 0, stall: null })
    expect(after(...early, each, ...early).stall).toBeNull()
  }
  for (const each of [
    tool('task', { action: 'list' }),
    tool('todo'),
    tool('write_file', {}, 'error: no', true),
    tool('bash', { command: 'git commit -qm x' }, 'exit 1 in 0.1 s'),
    tool('bash', { command: 'git log; ls commit' }, 'exit 0 in 0.1 s'),
  ])
    expect(advance(stalled, each).stall, JSON.stringify(each)).not.toBeNull()
})

test('requests in a row are a stall when nothing that lasts comes of them, whatever they are called and however they are taken back', () => {
  const open = (n: number): Step[] => [model, tool('request', { action: 'open', body: `${n}` }, `opened req_${n}`)]
  const ask = (n: number): Step[] => [model, tool('ask_user', { question: `${n}?` }, `opened req_${n}`)]
  const withdraw = (n: number): Step => tool('request', { action: 'withdraw', id: `req_${n}` }, `req_${n} is withdrawn`)
  const many = (count: number, each: (n: number) => Step[]) => Array.from({ length: count }, (_, n) => each(n)).flat()
  const loops = [open, ask, (n: number) => [...open(n), tool('ls'), withdraw(n)]]
  for (const each of loops) {
    expect(after(...many(asksWithoutEffect - 1, each)).stall).toBeNull()
    const stalled = after(...many(asksWithoutEffect, each))
    expect(stalled.stall).toMatch(/^32 requests opened since/)
    // Told once: it stays in the same words.
    expect(after(...many(3 * asksWithoutEffect, each)).stall).toBe(stalled.stall)
    expect(advance(stalled, tool('write_file')).stall).toBeNull()
  }
  const working = (n: number) => [...open(n), tool('write_file', { path: `${n}` })]
  expect(after(...many(3 * asksWithoutEffect, working)).stall).toBeNull()
  const deciding = (n: number) => [
    ...ask(n),
    tool('request', { action: 'decide', id: `req_${n}` }, `req_${n} is approved`),
  ]
  expect(after(...many(3 * asksWithoutEffect, deciding)).stall).toBeNull()
})

test('whoever goes on with it after it was told is at the end at three times as often, and not before', () => {
  const same = tool('read_file', { path: 'a' })
  expect(after(...times(patience * sameCalls - 1, model, same)).over).toBeNull()
  expect(after(...times(patience * sameCalls, model, same)).over).toMatch(/^the same call of read_file.* 24 times/)
  const look = (n: number) => Array.from({ length: n }, (_, i) => [model, tool('read_file', { path: `${i}` })]).flat()
  expect(after(...look(patience * callsWithoutEffect - 1)).over).toBeNull()
  expect(after(...look(patience * callsWithoutEffect)).over).toMatch(/^300 calls of its model/)
  const ask = (n: number) =>
    Array.from({ length: n }, (_, i) => [model, tool('ask_user', { question: `${i}?` })]).flat()
  expect(after(...ask(patience * asksWithoutEffect - 1)).over).toBeNull()
  expect(after(...ask(patience * asksWithoutEffect)).over).toMatch(/^96 requests/)
  // What lasts in between begins all of it anew.
  const gets = [...times(2 * sameCalls, model, same), tool('write_file'), ...times(2 * sameCalls, model, same)]
  expect(after(...gets).over).toBeNull()
})

test('with its task out of its hands, it is at the end when it ends it again and again, or goes on for long; with one in hand it is not', () => {
  const end = (hand: Step['hand'], n: number): Step => ({
    ...tool('task', { action: 'complete', summary: `done ${n}` }, 'error: you have no task in hand', true),
    ...(hand === undefined ? {} : { hand }),
  })
  for (const hand of ['left', 'none'] as const) {
    expect(after(end(hand, 1)).over).toBeNull()
    expect(after(end(hand, 1), model, end(hand, 2)).over).toMatch(/^it goes on ending a task/)
  }
  expect(after(end('full', 1), end('full', 2), end('full', 3)).over).toBeNull()
  const late = (hand: 'left' | 'none', n: number) =>
    Array.from({ length: n }, (_, i): Step[] => [
      { ...model, hand },
      { ...tool('ls', { path: `${i}` }), hand },
    ]).flat()
  expect(after(...late('left', callsAfterTask)).over).toBeNull()
  expect(after(...late('left', callsAfterTask + 1)).over).toMatch(/^it went on for 20 calls/)
  expect(after(...late('none', callsAfterTask + 1)).over).toBeNull()
})
