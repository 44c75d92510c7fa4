import type { Task, TaskFile } from '../../protocol/task.ts'
import { type HandEdit, taskFile } from '../../protocol/task-file.ts'
import type { Store } from '../store.ts'
import { tasksAt } from './past-tasks.ts'

/** Earlier contents of a task's file that are remembered, since an editor may still have them open. */
const kept = 4

/** What the files of tasks show, showed at earlier revisions, and were made to say by hand. */
export class ShownTasks {
  readonly #store: Store
  readonly #blockedBy: (task: Task) => readonly string[]
  /** By id: the last revisions, newest last. */
  readonly #shown = new Map<string, TaskFile[]>()
  /** What hands set last, and the revision that they had open. */
  readonly #byHand = new Map<string, { readonly rev: unknown; readonly edit: HandEdit }>()
  /** Task values at older revisions that files stood at when this holder started. */
  #past = new Map<string, Task>()

  constructor(store: Store, blockedBy: (task: Task) => readonly string[]) {
    this.#store = store
    this.#blockedBy = blockedBy
  }

  /** Looks these revisions up at once, for the look at all files that follows. */
  async prepare(revisions: ReadonlyMap<string, number>): Promise<void> {
    this.#past = await tasksAt(this.#store, revisions)
  }

  prepared(): void {
    this.#past.clear()
  }

  now(id: string, task: Task, rev: number): TaskFile {
    const last = this.#shown.get(id)?.at(-1)
    const blockedBy = this.#blockedBy(task)
    return last?.rev === rev && String(last.blockedBy) === String(blockedBy) ? last : taskFile(task, rev, blockedBy)
  }

  /** What stood in the journal at the revision of `found`, where that was looked up at the start. */
  past(id: string): Task | undefined {
    return this.#past.get(id)
  }

  /**
   * What the file showed when whoever wrote `found` opened it, as far as the journal is kept. Undefined where that is what it
   * shows now (at revision `current`), or where nobody knows, as for a text without a revision.
   */
  async base(id: string, found: Readonly<Record<string, unknown>>, current: number): Promise<TaskFile | undefined> {
    const { rev, blockedBy } = found
    const shown = this.#shown.get(id)?.find(each => each.rev === rev)
    if (shown || typeof rev !== 'number' || rev >= current) return shown
    const past = this.#past.get(id) ?? (await tasksAt(this.#store, new Map([[id, rev]]))).get(id)
    if (!past) return undefined
    const then = Array.isArray(blockedBy) ? past.dependsOn.filter(other => blockedBy.includes(other)) : []
    return taskFile(past, rev, then)
  }

  /** This stands in the file now. */
  keep(id: string, shown: TaskFile): void {
    const before = (this.#shown.get(id) ?? []).filter(each => each.rev !== shown.rev)
    this.#shown.set(id, [...before.slice(1 - kept), shown])
  }

  /** What was set by hand in a text of this revision. */
  byHand(id: string, rev: unknown): HandEdit {
    const hand = this.#byHand.get(id)
    return hand && hand.rev === rev ? hand.edit : {}
  }

  setByHand(id: string, rev: unknown, edit: HandEdit): void {
    if (Object.keys(edit).length > 0) this.#byHand.set(id, { rev, edit: { ...this.byHand(id, rev), ...edit } })
  }

  forget(id: string): void {
    this.#shown.delete(id)
    this.#byHand.delete(id)
  }
}
