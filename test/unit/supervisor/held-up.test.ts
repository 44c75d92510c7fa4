import { expect, test } from 'vitest'
import { heldUp } from '../../../src/supervisor/held-up.ts'
import type { ThreadStatus } from '../../../src/supervisor/threads.ts'

const since = '2026-05-14T10:00:00.000Z'
const later = '2026-05-14T11:00:00.000Z'
const status = (more: Partial<ThreadStatus>): ThreadStatus => ({
  state: 'working',
  since,
  waiting: null,
  restarts: 0,
  reason: null,
  usage: { input: 0, cachedInput: 0, output: 0, calls: 0, context: null },
  stall: null,
  commands: [],
  stuck: null,
  ...more,
})
const stall = { task: '7', text: 'the same call of ls', since: later }

test('stuck, looping, dead and waiting are told apart, each with whom it depends on, since when, and how it ends', () => {
  const of = (more: Partial<ThreadStatus>, task: string | null = '7') => {
    const held = heldUp('alice', status(more), task)
    return held && [held.how, held.whom, held.since, held.remedy]
  }
  expect(of({ state: 'failed', reason: 'it threw' })).toEqual(['dead', 'human', since, 'team restart alice'])
  const waiting = { what: 'restart 2 of 5, in 2.0 s', whom: 'supervisor' }
  expect(of({ state: 'starting', restarts: 2, waiting })).toEqual([
    'dead',
    'supervisor',
    since,
    'it is started again by itself (restart 2 of 5, in 2.0 s)',
  ])
  const stuck = { text: 'its thread gives no sign of life', since: later }
  // An endless loop in the middle of a loop: the thread is what must be ended.
  expect(of({ stuck, stall })?.slice(0, 3)).toEqual(['stuck', 'supervisor', later])
  expect(of({ stall })).toEqual([
    'looping',
    'alice',
    later,
    expect.stringMatching(/the task fails.*team task cancel 7/),
  ])
  const wait = (more: object) => of({ state: 'waiting', stall, waiting: { what: 'w', whom: 'human', ...more } })
  expect(wait({ request: 'req_1' })?.slice(0, 4)).toEqual([
    'waiting',
    'human',
    since,
    'team requests req_1, team approve req_1',
  ])
  expect(wait({})?.[3]).toMatch(/team send alice/)
  expect(wait({ whom: 'openai/gpt' })?.[3]).toBe('it goes on by itself')
})

test('nothing holds up who works, is idle, starts for the first time, was stopped, or has another task by now', () => {
  for (const state of ['working', 'idle', 'starting', 'draining', 'stopped'] as const)
    expect([state, heldUp('alice', status({ state }), '7')]).toEqual([state, null])
  expect(heldUp('alice', status({ stall }), '8')).toBeNull()
})
