import { isEnded, type Task } from './task.ts'

/**
 * The task DAG, derived from `dependsOn` with counters, so that a completion costs its dependants and nothing else.
 * An edge may name a task that does not exist (yet): it blocks, and is shown as waiting.
 */
export class Graph {
  readonly #tasks = new Map<string, Task>()
  /** Edge target (existing or not) → ids that depend on it. */
  readonly #dependants = new Map<string, Set<string>>()
  /** How many distinct dependencies of a task are not completed yet. */
  readonly #missing = new Map<string, number>()
  readonly #ready = new Map<string, Task>()

  get(id: string): Task | undefined {
    return this.#tasks.get(id)
  }

  get size(): number {
    return this.#tasks.size
  }

  tasks(): IterableIterator<Task> {
    return this.#tasks.values()
  }

  /** Tasks that are pending with every dependency completed. */
  ready(): IterableIterator<Task> {
    return this.#ready.values()
  }

  isReady(id: string): boolean {
    return this.#ready.has(id)
  }

  dependants(id: string): readonly string[] {
    return [...(this.#dependants.get(id) ?? [])]
  }

  /** What of `dependsOn` is not completed yet, in its order: the projection `blockedBy`. */
  blockedBy(task: Task): string[] {
    return [...new Set(task.dependsOn)].filter(id => this.#tasks.get(id)?.status !== 'completed')
  }

  /** Takes a task's new state in. Returns the ids of tasks that became ready by it (itself included). */
  put(task: Task): string[] {
    const old = this.#tasks.get(task.id)
    this.#tasks.set(task.id, task)
    const freed: string[] = []
    if (!old || !sameEdges(old.dependsOn, task.dependsOn)) {
      for (const id of new Set(old?.dependsOn)) this.#dependants.get(id)?.delete(task.id)
      let missing = 0
      for (const id of new Set(task.dependsOn)) {
        let set = this.#dependants.get(id)
        if (!set) {
          set = new Set()
          this.#dependants.set(id, set)
        }
        set.add(task.id)
        if (this.#tasks.get(id)?.status !== 'completed') missing++
      }
      this.#missing.set(task.id, missing)
    }
    const was = old?.status === 'completed'
    const is = task.status === 'completed'
    if (was !== is)
      for (const id of this.#dependants.get(task.id) ?? []) {
        const missing = (this.#missing.get(id) ?? 0) + (is ? -1 : 1)
        this.#missing.set(id, missing)
        const dependant = this.#tasks.get(id)
        if (dependant && this.#settle(dependant)) freed.push(id)
      }
    if (this.#settle(task)) freed.push(task.id)
    return freed
  }

  /** Ended dependencies that keep `task` blocked for good: failed or cancelled ones. */
  deadBlockers(task: Task): Task[] {
    const dead: Task[] = []
    for (const id of new Set(task.dependsOn)) {
      const other = this.#tasks.get(id)
      if (other && isEnded(other) && other.status !== 'completed') dead.push(other)
    }
    return dead
  }

  /**
   * The cycle that would close if `id` had the edges `dependsOn` (as ids, from `id` round to `id`), or null.
   * `extra` holds edges of tasks not taken in yet (the other tasks of one drop).
   */
  cycle(
    id: string,
    dependsOn: readonly string[],
    extra: ReadonlyMap<string, readonly string[]> = new Map(),
  ): string[] | null {
    const seen = new Set<string>()
    const edges = (at: string): readonly string[] =>
      at === id ? dependsOn : (extra.get(at) ?? this.#tasks.get(at)?.dependsOn ?? [])
    // Depth first with an explicit stack: a chain of ten thousand tasks must not overflow.
    const path: { id: string; next: number }[] = [{ id, next: 0 }]
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const to = edges(top.id)[top.next++]
      if (to === undefined) path.pop()
      else if (to === id) return [...path.map(step => step.id), id]
      else if (!seen.has(to)) {
        seen.add(to)
        path.push({ id: to, next: 0 })
      }
    }
    return null
  }

  /** Puts the task in or out of the ready set; true when it newly became ready. */
  #settle(task: Task): boolean {
    const ready = task.status === 'pending' && (this.#missing.get(task.id) ?? 0) === 0
    const was = this.#ready.has(task.id)
    if (ready) this.#ready.set(task.id, task)
    else this.#ready.delete(task.id)
    return ready && !was
  }
}

const sameEdges = (a: readonly string[], b: readonly string[]): boolean =>
  a === b || (a.length === b.length && a.every((id, i) => id === b[i]))
