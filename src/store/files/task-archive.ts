import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { idInName } from '../../protocol/drop.ts'
import { isEnded, isOpen, type Task } from '../../protocol/task.ts'
import type { Store } from '../store.ts'

/** Which ended tasks have their file in `.tasks/archive/`, so that the folder people look at stays small. */
export class TaskArchive {
  readonly dir: string
  readonly #tasksDir: string
  readonly #store: Store
  /** How many ended tasks stay. */
  readonly #keep: number
  readonly #archived = new Set<string>()
  /** Ended tasks whose file is not archived. */
  readonly #ended = new Set<string>()

  constructor(tasksDir: string, store: Store, keep: number) {
    this.dir = join(tasksDir, 'archive')
    this.#tasksDir = tasksDir
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
   * Moves the oldest ended tasks past the limit away, except those that an open task depends on directly, and those whose
   * file is not `ready`. Returns their ids.
   */
  moveOldest(isReady: (id: string) => boolean): string[] {
    const needed = new Set<string>()
    for (const [, { value }] of this.#store.tasks.list())
      if (isOpen(value)) for (const other of value.dependsOn) needed.add(other)
    const endedAt = (id: string): string => {
      const task = this.#store.tasks.get(id)?.value
      return task?.completedAt ?? task?.updatedAt ?? ''
    }
    const oldest = [...this.#ended].filter(id => !needed.has(id)).sort((a, b) => (endedAt(a) < endedAt(b) ? -1 : 1))
    const moved: string[] = []
    for (const id of oldest) {
      if (!this.isDue) break
      if (!isReady(id)) continue
      mkdirSync(this.dir, { recursive: true, mode: 0o700 })
      renameSync(join(this.#tasksDir, `task_${id}.json`), join(this.dir, `task_${id}.json`))
      this.#archived.add(id)
      this.#ended.delete(id)
      moved.push(id)
    }
    return moved
  }
}
