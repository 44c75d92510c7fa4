import { expect, test } from 'vitest'
import { Task } from '../../../src/protocol/task.ts'
import { endedText } from '../../../src/supervisor/notices.ts'

const at = '2026-01-01T00:00:00Z'
const task = (more: object) =>
  Task.parse({ v: 1, rev: 1, id: '1', title: 'Test it', status: 'failed', createdAt: at, updatedAt: at, ...more })

test('why a task failed, what it blocks and how to try again stand in lines of their own', () => {
  expect(endedText(task({ error: 'verify failed: `c8 npm test` exited 127\nsh: 1: c8: not found' }), ['2', '3'])).toBe(
    `Task 1 "Test it" failed: verify failed: \`c8 npm test\` exited 127
sh: 1: c8: not found
Blocked by it: 2, 3
To try again: team task retry 1`,
  )
})

test('a reason that says how to try again is not followed by the same', () => {
  expect(endedText(task({ error: 'no model is set; set one, then: team task retry 1' }), [])).toBe(
    'Task 1 "Test it" failed: no model is set; set one, then: team task retry 1',
  )
  for (const error of [null, 'cancelled'])
    expect(endedText(task({ status: 'cancelled', error }), ['2'])).toContain(
      'was cancelled: no reason given\nBlocked by it: 2\n',
    )
})
