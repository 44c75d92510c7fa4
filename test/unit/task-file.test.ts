import { expect, it } from 'vitest'
import { newTask, Task } from '../../src/protocol/task.ts'
import { renderTask, taskFile } from '../../src/protocol/task-file.ts'

const at = '2026-01-02T03:04:05.678Z'
const given = { id: '7', dependsOn: ['3', '5'], createdAt: at, updatedAt: at, file: null }

it('a task file says all that the record holds, as JSON in two-space steps, in the order that people look for', () => {
  const task: Task = {
    ...newTask({ title: 'Zeile "1"', description: 'a\nb\u2028c', paths: ['src/**'], tags: [] }, given),
    claimed: { head: null, summary: 'done', at },
    result: { outcome: 'merged', summary: '', commit: 'abc' },
  }
  const file = taskFile(task, 4, ['5'])
  const text = renderTask(file)
  const parsed = JSON.parse(text)
  expect(parsed).toEqual({ ...file })
  expect(text).toBe(`${JSON.stringify(parsed, null, 2)}\n`)
  expect(Object.keys(parsed).slice(0, 5)).toEqual(['id', 'title', 'description', 'status', 'blockedBy'])
})

it('a new task holds what the schema of a stored one would give it', () => {
  const bare = { id: '7', title: 'T', dependsOn: ['3', '5'], createdAt: at, updatedAt: at }
  expect(newTask({ title: 'T' }, given)).toEqual(Task.parse(bare))
  expect(Object.keys(newTask({ title: 'T' }, given))).toEqual(Object.keys(Task.parse(bare)))
})
