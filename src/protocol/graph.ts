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
   * A cycle that would stand if the tasks in `edges` (new ones, or known ones with changed edges) depended on what it says, as
   * ids from one round to the same; null when there would be none. Each edge is walked once.
   */
  cycle(edges: ReadonlyMap<string, readonly string[]>): string[] | null {
    const of = (id: string): readonly string[] => edges.get(id) ?? this.#tasks.get(id)?.dependsOn ?? []
    const left = new Set<string>()
    for (const start of edges.keys()) {
      if (left.has(start)) continue
      // Depth first with a stack of its own: a chain of ten thousand tasks must not overflow the thread's.
      const path: { id: string; next: number }[] = [{ id: start, next: 0 }]
      const on = new Set([start])
      for (let top = path.at(-1); top; top = path.at(-1)) {
        const to = of(top.id)[top.next++]
        if (to === undefined) {
          path.pop()
          on.delete(top.id)
          left.add(top.id)
        } else if (on.has(to)) return [...path.slice(path.findIndex(step => step.id === to)).map(step => step.id), to]
        else if (!left.has(to)) {
          path.push({ id: to, next: 0 })
          on.add(to)
        }
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
