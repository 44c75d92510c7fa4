import type { Clock } from '../lib/clock.ts'
import { iso } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { UsedFor } from '../protocol/budget.ts'
import type { Why } from '../protocol/event.ts'
import { Graph } from '../protocol/graph.ts'
import { isEnded, move, newTask, Task, type TaskDrop, type TaskMove } from '../protocol/task.ts'
import type { Rec, Store, Write } from '../store/store.ts'
import { describe, events, verb } from './task-words.ts'

/** Fields of a task that a hand edit may change; `cancel` stands for `status: cancelled`. */
export interface TaskEdit {
  readonly title?: string
  readonly description?: string
  readonly priority?: number
  readonly verify?: string | null
  readonly accept?: readonly string[]
  readonly dependsOn?: readonly string[]
  readonly blockedBy?: readonly string[]
  readonly cancel?: boolean
}

/**
 * Every act on tasks: ids, names of dependencies, cycles, moves. One instance a holder; the graph follows the store.
 * A mark `drop/<key>` makes adding idempotent, and atomic over a crash: it holds the whole tasks until all are created.
 * From then on it holds their ids, and stays as they do: nobody can say when a file that was put back from `dropped/`, or a
 * line of an old inbox, is read for the last time, and no id is given twice.
 */
export class Tasks {
  readonly graph = new Graph()
  readonly #store: Store
  readonly #clock: Clock
  readonly #mode: 'git' | 'dir'
  #nextId = 1
  /** Reference that names no task yet → tasks that wait for it. */
  readonly #unresolved = new Map<string, Set<string>>()
  readonly #byTitle = new Map<string, Set<string>>()
  readonly #byFile = new Map<string, string>()
  readonly #inHand = new Map<string, string>()
  readonly #freedListeners = new Set<(ids: readonly string[]) => void>()
  /** What models used for a task. */
  #usedFor: (id: string) => UsedFor | null = () => null

  /** `mode`: what a task may ask for depends on it. */
  constructor(store: Store, clock: Clock, mode: 'git' | 'dir' = 'git') {
    this.#store = store
    this.#clock = clock
    this.#mode = mode
    for (const [, rec] of store.tasks.list()) this.#follow(rec.value, undefined)
    for (const [id, mark] of store.marks.list())
      if (id.startsWith('drop/')) for (const used of (mark.value.ids as string[] | undefined) ?? []) this.#reserve(used)
    store.tasks.watch((_id, rec, old) => {
      const freed = this.#follow(rec.value, old?.value)
      if (freed.length > 0) for (const listener of this.#freedListeners) listener(freed)
    })
  }

  /** Finishes additions that a crash cut short. Call once after taking over. */
  recover(): void {
    for (const [id, mark] of [...this.#store.marks.list()])
      if (id.startsWith('drop/') && mark.value.tasks) this.#createAll(id, mark)
  }

  /** Called with the ids of tasks that became ready. */
  onFreed(listener: (ids: readonly string[]) => void): () => void {
    this.#freedListeners.add(listener)
    return () => this.#freedListeners.delete(listener)
  }

  /** From now on the end of a task tells what models used for it. */
  tellUsed(usedFor: (id: string) => UsedFor): void {
    this.#usedFor = usedFor
  }

  get(id: string): Rec<Task> | undefined {
    return this.#store.tasks.get(id)
  }

  /** The task that `name` has in hand: in progress, its own, and not claimed done. */
  inHand(name: string): Rec<Task> | undefined {
    const id = this.#inHand.get(name)
    return id === undefined ? undefined : this.#store.tasks.get(id)
  }

  /**
   * Adds tasks, all or none. `blockedBy` and `dependsOn` may name tasks by id, by drop file name or by title, in this order
   * of preference, among the new ones too; a name that nobody has yet waits. Refused: a taken id, a name that fits several
   * tasks, a cycle (spelled out). The same `key` again adds nothing (`isKnown`) and answers with the same ids.
   */
  add(
    drops: readonly TaskDrop[],
    from: { by: string; file?: string; key?: string },
  ): Result<{ ids: string[]; isKnown?: boolean } & Write> {
    const markId = from.key === undefined ? undefined : `drop/${from.key}`
    const known = markId === undefined ? undefined : this.#store.marks.get(markId)
    if (known && markId !== undefined) {
      this.#createAll(markId, known)
      return ok({
        ids: known.value.ids as string[],
        isKnown: true,
        seq: this.#store.seq,
        durable: this.#store.flushed(),
      })
    }
    const planned = this.#plan(drops, from.file)
    if (!planned.ok) return planned
    const { tasks } = planned.value
    const ids = tasks.map(task => task.id)
    const why: Why = {
      event: 'task.created',
      by: from.by,
      ...(from.file === undefined ? {} : { info: { file: from.file } }),
    }
    if (tasks.length === 1 && markId === undefined)
      for (const task of tasks) this.#store.tasks.create(task.id, task, why)
    else {
      const id = markId ?? `drop/add-${ids[0]}`
      this.#store.marks.create(
        id,
        { ids, tasks, by: from.by, file: from.file ?? null },
        { event: 'drop.taken', by: from.by, info: { ids, file: from.file } },
      )
      const mark = this.#store.marks.get(id)
      if (mark) this.#createAll(id, mark, tasks)
    }
    return ok({ ids, seq: this.#store.seq, durable: this.#store.flushed() })
  }

  /** Makes one move at the task's current revision. Refused, saying from where to where, when it is not legal. */
  move(
    id: string,
    by: string,
    m: DistributiveOmit<TaskMove, 'at'>,
    info?: Record<string, unknown>,
  ): Result<Rec<Task> & Write> {
    const rec = this.#store.tasks.get(id)
    if (!rec) return fail('unknown', `there is no task ${id}`, 'team task list --all shows every task')
    const next = move(rec.value, { ...m, at: iso(this.#clock.wall()) } as TaskMove)
    if (!next) return fail('refused', `task ${id} is ${describe(rec.value)}: it cannot ${verb[m.move]}`)
    return this.#put(rec, next, { event: events[m.move], by, info: { task: id, ...this.#cost(next), ...info } })
  }

  /** Its owner's claim to be done where nothing can prove it: claimed and completed in one step, unverified. */
  finish(id: string, by: string, summary: string): Result<Rec<Task> & Write> {
    const rec = this.#store.tasks.get(id)
    if (!rec) return fail('unknown', `there is no task ${id}`, 'team task list --all shows every task')
    const at = iso(this.#clock.wall())
    const claimed = move(rec.value, { move: 'claim', head: null, summary, at })
    const next = claimed && move(claimed, { move: 'complete', result: { outcome: 'unverified', summary }, at })
    if (!next) return fail('refused', `task ${id} is ${describe(rec.value)}: it cannot ${verb.claim}`)
    return this.#put(rec, next, { event: events.complete, by, info: { task: id, ...this.#cost(next) } })
  }

  #cost(task: Task): { used?: UsedFor } {
    const used = isEnded(task) ? this.#usedFor(task.id) : null
    return used === null || used.work.calls + used.coordination.calls === 0 ? {} : { used }
  }

  /** A hand edit, already narrowed to editable fields. Edges are resolved and checked like those of a new task. */
  edit(id: string, change: TaskEdit, by: string): Result<Rec<Task> & Write> {
    let rec = this.#store.tasks.get(id)
    if (!rec) return fail('unknown', `there is no task ${id}`)
    const task = rec.value
    let dependsOn = change.dependsOn
    if (dependsOn === undefined && change.blockedBy !== undefined) {
      const old = new Set(this.graph.blockedBy(task))
      dependsOn = [...task.dependsOn.filter(dep => !old.has(dep)), ...change.blockedBy]
    }
    let edges: string[] | undefined
    if (dependsOn !== undefined) {
      const resolved = this.#resolveAll(dependsOn, new Map())
      if (!resolved.ok) return resolved
      edges = resolved.value
      const cycle = this.graph.cycle(new Map([[id, edges]]))
      if (cycle)
        return fail('refused', `task ${id} would wait for itself: ${cycle.join(' → ')}`, 'take one of these edges out')
    }
    const { title, description, priority, verify, accept } = change
    if (title !== undefined && title.trim() === '') return fail('invalid', `task ${id}: the title is empty`)
    if (accept !== undefined && task.claimed)
      return fail('refused', `task ${id} is claimed done: what it accepts stands until that is decided`)
    if (this.#mode === 'dir' && accept !== undefined && accept.length > 0) return needsGit(`task ${id}`)
    const next: Task = {
      ...task,
      ...(title === undefined ? {} : { title }),
      ...(description === undefined ? {} : { description }),
      ...(priority === undefined ? {} : { priority }),
      ...(verify === undefined ? {} : { verify }),
      ...(accept === undefined ? {} : { accept: [...accept] }),
      ...(edges === undefined ? {} : { dependsOn: edges }),
      updatedAt: iso(this.#clock.wall()),
    }
    const put = this.#put(rec, next, { event: 'task.edited', by, info: { task: id, fields: Object.keys(change) } })
    if (!put.ok || !change.cancel) return put
    rec = put.value
    return this.move(id, by, { move: 'cancel', reason: 'cancelled by an edit of its file' })
  }

  #put(rec: Rec<Task>, next: Task, why: Why): Result<Rec<Task> & Write> {
    const put = this.#store.tasks.update(next.id, rec.rev, next, why)
    if (!put.ok) return fail('conflict', `task ${next.id} changed meanwhile`, 'look at it again')
    return ok({ ...put.rec, seq: put.seq, durable: put.durable })
  }

  /** Could these be added, all of them, as things stand? */
  check(drops: readonly TaskDrop[]): Result<null> {
    const planned = this.#plan(drops, undefined)
    return planned.ok ? ok(null) : planned
  }

  #plan(drops: readonly TaskDrop[], file: string | undefined): Result<{ tasks: Task[] }> {
    const now = iso(this.#clock.wall())
    const ids: string[] = []
    const fresh = new Set<string>()
    for (const drop of drops) {
      if (this.#mode === 'dir' && (drop.accept ?? []).length > 0) return needsGit(`"${drop.title}"`)
      if (drop.id === undefined) continue
      if (this.#store.tasks.get(drop.id))
        return fail(
          'conflict',
          `id ${drop.id} is taken by "${this.#store.tasks.get(drop.id)?.value.title}"`,
          'leave the id out and one is given',
        )
      if (fresh.has(drop.id)) return fail('invalid', `id ${drop.id} stands twice in this drop`)
      fresh.add(drop.id)
    }
    let next = this.#nextId
    for (const drop of drops) {
      if (drop.id !== undefined) ids.push(drop.id)
      else {
        while (fresh.has(String(next)) || this.#store.tasks.get(String(next))) next++
        ids.push(String(next++))
      }
    }
    const local = new Map<string, Set<string>>()
    drops.forEach((drop, i) => {
      const id = ids[i] ?? ''
      for (const name of [id, drop.title]) local.set(name, (local.get(name) ?? new Set()).add(id))
    })
    const tasks: Task[] = []
    for (const [i, drop] of drops.entries()) {
      const id = ids[i] ?? ''
      const { blockedBy, dependsOn, createdAt } = drop
      const edges = this.#resolveAll([...(dependsOn ?? []), ...(blockedBy ?? [])], local)
      if (!edges.ok) return edges
      tasks.push(
        newTask(drop, {
          id,
          dependsOn: edges.value,
          createdAt: stamp(createdAt) ?? now,
          updatedAt: now,
          file: file ?? null,
        }),
      )
    }
    // Edges as they will stand once every name that waits for one of the new tasks is resolved.
    const extra = new Map<string, readonly string[]>(tasks.map(task => [task.id, task.dependsOn]))
    for (const task of tasks)
      for (const name of this.#names(task))
        for (const waiting of this.#unresolved.get(name) ?? []) {
          const other = extra.get(waiting) ?? this.#store.tasks.get(waiting)?.value.dependsOn ?? []
          extra.set(
            waiting,
            other.map(dep => (dep === name ? task.id : dep)),
          )
        }
    const cycle = this.graph.cycle(extra)
    if (cycle) {
      const title = (at: string) =>
        tasks.find(other => other.id === at)?.title ?? this.#store.tasks.get(at)?.value.title ?? at
      return fail(
        'refused',
        `these tasks would wait for each other: ${cycle.map(at => `${at} "${title(at)}"`).join(' → ')}`,
        'take one of these edges out',
      )
    }
    return ok({ tasks })
  }

  /** `parsed` are the tasks of the mark where they were just made. */
  #createAll(markId: string, mark: Rec<Readonly<Record<string, unknown>>>, parsed?: readonly Task[]): void {
    const tasks = parsed ?? (mark.value.tasks as unknown[] | undefined)?.map(task => Task.parse(task))
    if (!tasks) return
    const by = String(mark.value.by ?? 'supervisor')
    const file = mark.value.file as string | null
    for (const task of tasks)
      if (!this.#store.tasks.get(task.id))
        this.#store.tasks.create(task.id, task, {
          event: 'task.created',
          by,
          ...(file === null ? {} : { info: { file } }),
        })
    this.#store.marks.update(
      markId,
      mark.rev,
      { ids: mark.value.ids, file, done: true },
      { event: 'drop.taken', by, info: { ids: mark.value.ids, done: true } },
    )
  }

  #resolveAll(refs: readonly string[], local: ReadonlyMap<string, ReadonlySet<string>>): Result<string[]> {
    const resolved: string[] = []
    for (const ref of refs) {
      const id = this.#resolve(ref, local)
      if (!id.ok) return id
      if (!resolved.includes(id.value)) resolved.push(id.value)
    }
    return ok(resolved)
  }

  #resolve(ref: string, local: ReadonlyMap<string, ReadonlySet<string>>): Result<string> {
    const near = local.get(ref)
    if (near?.has(ref) || this.#store.tasks.get(ref)) return ok(ref)
    const byFile = this.#byFile.get(ref)
    if (byFile !== undefined && !near) return ok(byFile)
    const all = near ?? this.#byTitle.get(ref)
    if (!all || all.size === 0) return ok(ref)
    if (all.size > 1)
      return fail(
        'invalid',
        `"${ref}" is the title of several tasks: ${[...all].join(', ')}`,
        'name the one that is meant by its id',
      )
    return ok([...all][0] ?? ref)
  }

  /** Names, other than its id, by which a drop may refer to this task. */
  #names(task: Task): string[] {
    const names = [task.title]
    if (task.file !== null) names.push(task.file, task.file.replace(/\.[^.]+$/, ''))
    return names
  }

  #reserve(id: string): void {
    if (/^\d{1,15}$/.test(id)) this.#nextId = Math.max(this.#nextId, Number(id) + 1)
  }

  #follow(task: Task, old: Task | undefined): string[] {
    if (!old) {
      this.#reserve(task.id)
      if (task.file !== null) for (const name of this.#names(task).slice(1)) this.#byFile.set(name, task.id)
    }
    if (old?.title !== task.title) {
      if (old) this.#byTitle.get(old.title)?.delete(task.id)
      this.#byTitle.set(task.title, (this.#byTitle.get(task.title) ?? new Set()).add(task.id))
    }
    const held = (at: Task | undefined) => (at && at.status === 'in_progress' && !at.claimed ? at.owner : null)
    const was = held(old)
    const is = held(task)
    if (was !== null && was !== is && this.#inHand.get(was) === task.id) this.#inHand.delete(was)
    if (is !== null) this.#inHand.set(is, task.id)
    for (const dep of task.dependsOn)
      if (!this.#store.tasks.get(dep)) this.#unresolved.set(dep, (this.#unresolved.get(dep) ?? new Set()).add(task.id))
    const freed = this.graph.put(task)
    if (!old) this.#adopt(task)
    return freed
  }

  /** Tasks that waited for this one by a name now wait for its id. */
  #adopt(task: Task): void {
    this.#unresolved.delete(task.id)
    for (const name of this.#names(task)) {
      const waiting = this.#unresolved.get(name)
      if (!waiting) continue
      this.#unresolved.delete(name)
      for (const id of waiting) {
        const rec = this.#store.tasks.get(id)
        if (!rec?.value.dependsOn.includes(name)) continue
        const dependsOn = [...new Set(rec.value.dependsOn.map(dep => (dep === name ? task.id : dep)))]
        this.#store.tasks.update(
          id,
          rec.rev,
          { ...rec.value, dependsOn },
          { event: 'task.resolved', by: 'supervisor', info: { task: id, name, id: task.id } },
        )
      }
    }
  }
}

type DistributiveOmit<T, K extends string> = T extends unknown ? Omit<T, K> : never

/** Told when it is asked for, not only when the work is done. */
const needsGit = (what: string) =>
  fail(
    'refused',
    `${what}: accept needs git mode: in one shared folder there is nothing on which it could be seen to fail without the work`,
    'take accept out, or give verify',
  )

/** A hand-made stamp: ISO text, or Unix time in seconds or milliseconds; undefined when it is neither. */
const stamp = (value: string | number | undefined): string | undefined => {
  if (value === undefined) return undefined
  const ms = typeof value === 'number' ? (value < 1e11 ? value * 1000 : value) : Date.parse(value)
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? iso(ms) : undefined
}
