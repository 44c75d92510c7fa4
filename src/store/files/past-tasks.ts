import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decode, idInName, readJson } from '../../protocol/drop.ts'
import { Task } from '../../protocol/task.ts'
import type { Store } from '../store.ts'
import { stamp } from './stamp.ts'

/** What a task's file holds, as far as it is a JSON object at all. */
export const readObject = (bytes: Uint8Array): Readonly<Record<string, unknown>> | string => {
  const text = decode(bytes)
  if (text === null) return 'not text: neither UTF-8 nor UTF-16'
  if (text.trim() === '') return 'the file is empty'
  const read = readJson(text)
  if (!read.ok) return read.reason
  const { value } = read
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : 'a task is a JSON object'
}

/** Revisions that files of known tasks stand at (id → revision), where these are older than the records. */
export const oldRevisions = (store: Store, dir: string): Map<string, number> => {
  const old = new Map<string, number>()
  for (const file of readdirSync(dir)) {
    const id = idInName(file)
    const rec = id === null ? undefined : store.tasks.get(id)
    if (id === null || !rec || !stamp(join(dir, file))) continue
    const found = readObject(readFileSync(join(dir, file)))
    if (typeof found !== 'string' && typeof found.rev === 'number' && found.rev < rec.rev) old.set(id, found.rev)
  }
  return old
}

/** The tasks at the revisions asked for (id → revision), as far back as the journal is kept. */
export const tasksAt = async (store: Store, wanted: ReadonlyMap<string, number>): Promise<Map<string, Task>> => {
  const found = new Map<string, Task>()
  if (wanted.size === 0) return found
  for await (const { put } of store.entries(0)) {
    if (put?.[0] !== 'tasks' || wanted.get(put[1]) !== put[2]) continue
    const task = Task.safeParse(put[3])
    if (task.success) found.set(put[1], task.data)
  }
  return found
}

/**
 * Where the run state is gone, tasks come back from the files that an earlier holder wrote (`v` and `rev` tell them from
 * drops). What was under way starts again, since nobody knows how far it got. Returns the ids.
 */
export const importTasks = (store: Store, dirs: readonly string[]): string[] => {
  const tasks = new Map<string, Task>()
  for (const dir of dirs)
    for (const file of readdirSync(dir)) {
      const id = idInName(file)
      // A pipe would keep its reader waiting for ever.
      if (id === null || tasks.has(id) || !stamp(join(dir, file))) continue
      const found = readObject(readFileSync(join(dir, file)))
      if (typeof found === 'string' || found.v !== 1 || typeof found.rev !== 'number') continue
      const task = Task.safeParse(found)
      if (task.success && task.data.id === id) tasks.set(id, task.data)
    }
  const order = [...tasks.values()].sort((a, b) => compare(a.createdAt, b.createdAt) || compare(a.id, b.id))
  for (const task of order)
    store.tasks.create(task.id, task.status === 'in_progress' ? restarted(task) : task, {
      event: 'task.created',
      by: 'supervisor',
      info: { imported: true },
    })
  return order.map(task => task.id)
}

const restarted = (task: Task): Task => ({
  ...task,
  status: 'pending',
  owner: null,
  claimed: null,
  error: 'the run state was lost while this was in progress: it starts again',
})

const compare = (a: string, b: string): number => (a === b ? 0 : a.localeCompare(b, 'en', { numeric: true }))
