import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { idInName } from '../../protocol/drop.ts'
import { isEnded, isOpen, type Task } from '../../protocol/task.ts'
import type { Store } from '../store.ts'

/** Which ended tasks have their file in `.tasks/archive/`, so that the folder people look at stays small. */
export class TaskArchive {
  readonly dir: string
  readonly #store: Store
  /** How many ended tasks stay. */
  readonly #keep: number
  readonly #archived = new Set<string>()
  /** Ended tasks whose file is not archived. */
  readonly #ended = new Set<string>()

  constructor(tasksDir: string, store: Store, keep: number) {
    this.dir = join(tasksDir, 'archive')
    this.#store = store
    this.#keep = keep
  }

  start(): void {
    for (const file of readdirSync(this.dir)) {
      const id = idInName(file)
      if (id !== null && this.#store.tasks.get(id)) this.#archived.add(id)
    }
    for (const [, { value }] of this.#store.tasks.list()) this.follow(value)
  }

  has(id: string): boolean {
    return this.#archived.has(id)
  }

  get size(): number {
    return this.#archived.size
  }

  get isDue(): boolean {
    return this.#ended.size > this.#keep
  }

  /** Is this an ended task that stands in the folder? */
  isCandidate(id: string): boolean {
    return this.#ended.has(id)
  }

  /** A task changed; one that is open again leaves the archive. */
  follow(task: Task): void {
    if (isOpen(task)) this.leave(task.id)
    if (isEnded(task) && !this.#archived.has(task.id)) this.#ended.add(task.id)
    else this.#ended.delete(task.id)
  }

  /** The task's file stands in the folder (again): the archived copy goes. */
  leave(id: string): void {
    if (!this.#archived.delete(id)) return
    rmSync(join(this.dir, `task_${id}.json`), { force: true })
    const task = this.#store.tasks.get(id)?.value
    if (task && isEnded(task)) this.#ended.add(id)
  }

  /**
   * The oldest ended tasks past the limit, except those that an open task depends on directly, and those whose file is not
   * `ready` to be put away.
   */
  oldest(isReady: (id: string) => boolean): string[] {
    const needed = new Set<string>()
    for (const [, { value }] of this.#store.tasks.list())
      if (isOpen(value)) for (const other of value.dependsOn) needed.add(other)
    const endedAt = (id: string): string => {
      const task = this.#store.tasks.get(id)?.value
      return task?.completedAt ?? task?.updatedAt ?? ''
    }
    return [...this.#ended]
      .filter(id => !needed.has(id) && isReady(id))
      .sort((a, b) => (endedAt(a) < endedAt(b) ? -1 : 1))
      .slice(0, Math.max(0, this.#ended.size - this.#keep))
  }

  /** The task's file was put away; false when the task is open again by now, and the copy is gone. */
  moved(id: string): boolean {
    const task = this.#store.tasks.get(id)?.value
    this.#ended.delete(id)
    this.#archived.add(id)
    if (!task || isEnded(task)) return true
    this.leave(id)
    return false
  }
}
