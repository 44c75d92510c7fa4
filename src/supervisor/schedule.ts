import type { Member } from '../protocol/config.ts'
import type { Task } from '../protocol/task.ts'

/** Ready tasks in the order in which they are given out: sent back first, then priority, then age. Insertion is O(log n). */
export class ReadyList {
  readonly #order: { id: string; rank: number; priority: number; age: number }[] = []
  readonly #keys = new Map<string, { id: string; rank: number; priority: number; age: number }>()
  readonly #ages = new Map<string, number>()
  #age = 0

  /** Takes in that a task is ready (or that its rank changed). */
  add(task: Task): void {
    this.remove(task.id)
    let age = this.#ages.get(task.id)
    if (age === undefined) {
      age = this.#age++
      this.#ages.set(task.id, age)
    }
    const key = { id: task.id, rank: task.owner === null ? 1 : 0, priority: task.priority, age }
    this.#order.splice(this.#place(key), 0, key)
    this.#keys.set(task.id, key)
  }

  remove(id: string): void {
    const key = this.#keys.get(id)
    if (!key) return
    this.#keys.delete(id)
    this.#order.splice(this.#place(key), 1)
  }

  /** A task's age is when it was first seen; tell in order of creation. */
  see(id: string): void {
    if (!this.#ages.has(id)) this.#ages.set(id, this.#age++)
  }

  has(id: string): boolean {
    return this.#keys.has(id)
  }

  get size(): number {
    return this.#order.length
  }

  /** In order; the list must not change meanwhile. */
  *[Symbol.iterator](): IterableIterator<string> {
    for (const key of this.#order) yield key.id
  }

  #place(key: { rank: number; priority: number; age: number }): number {
    let low = 0
    let high = this.#order.length
    while (low < high) {
      const mid = (low + high) >> 1
      const at = this.#order[mid]
      if (at && compare(at, key) < 0) low = mid + 1
      else high = mid
    }
    return low
  }
}

const compare = (
  a: { rank: number; priority: number; age: number },
  b: { rank: number; priority: number; age: number },
): number => a.rank - b.rank || b.priority - a.priority || a.age - b.age

/** After so many rejections in review the work goes to somebody else. */
export const rejectedAtMost = 2

/** May this teammate be given the task at all? null when yes, else why not. `alive` says whether a teammate still can take its own. */
export const unfit = (task: Task, member: Member, alive: (name: string) => boolean): string | null => {
  if (task.notFor?.includes(member.name)) return `the work of ${member.name} on it was rejected ${rejectedAtMost} times`
  if (task.assignee !== null && task.assignee !== member.name) return `it is assigned to ${task.assignee}`
  if (task.owner !== null && task.owner !== member.name && alive(task.owner)) return `it was sent back to ${task.owner}`
  if (task.assignee === null && task.owner !== member.name && !member.autoClaim)
    return `${member.name} takes only what is assigned to it`
  const lacks = task.needs.filter(need => !member.can.includes(need) && !member.skills.includes(need))
  if (lacks.length > 0) return `it needs ${lacks.join(', ')}`
  return null
}

/** How well a task fits a teammate that may have it: its own first, then by matching skills. Higher is better. */
export const fitness = (task: Task, member: Member): number =>
  (task.owner === member.name ? 1000 : 0) +
  (task.assignee === member.name ? 100 : 0) +
  task.skills.filter(skill => member.skills.includes(skill)).length

/**
 * Pairs ready tasks with idle teammates: tasks in their order, each to the idle teammate it fits best (the one idle longest
 * among equals, `idle` being in that order). `free` is asked of each task that somebody could take, in their order, and
 * says whether it may start with this teammate beside those asked about before it.
 */
export const match = (
  ready: Iterable<Task>,
  idle: readonly Member[],
  alive: (name: string) => boolean,
  free: (task: Task, member: Member) => boolean,
): Pair[] => {
  const left = [...idle]
  const pairs: Pair[] = []
  for (const task of ready) {
    if (left.length === 0) break
    let best: Member | undefined
    let score = -1
    for (const member of left)
      if (unfit(task, member, alive) === null && fitness(task, member) > score) {
        best = member
        score = fitness(task, member)
      }
    if (!best || !free(task, best)) continue
    pairs.push({ task, member: best })
    left.splice(left.indexOf(best), 1)
  }
  return pairs
}

export interface Pair {
  readonly task: Task
  readonly member: Member
}

/** Does the task need a lease on its paths while it is worked on? Only writers do. */
export const writes = (task: Task): boolean => task.needs.includes('write') || task.needs.includes('exec')
