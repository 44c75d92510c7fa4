import { unwrap } from '../lib/result.ts'
import type { Member } from '../protocol/config.ts'
import { overlaps } from '../protocol/lease.ts'
import { isLease } from '../protocol/request.ts'
import type { Task } from '../protocol/task.ts'
import type { AssignedTask } from '../protocol/thread.ts'
import { type Core, clonePath, verifyCommands } from './core.ts'
import { reviewersDue } from './review.ts'
import { match, type Pair, ReadyList, writes } from './schedule.ts'
import type { Suspicion } from './suspicion.ts'

/**
 * Gives ready tasks to idle teammates. A claim is one compare-and-set of the task's record; the teammate hears of it only
 * when that is durable. What is given out follows from the records and from who is idle, so it may be asked at any time.
 */
export class Dispatch {
  readonly #core: Core
  readonly #send: (name: string, task: AssignedTask) => void
  readonly #alive: (name: string) => boolean
  readonly #bringBase: (name: string) => Promise<void>
  readonly #problem: (key: string, text: string | null) => void
  readonly #failed: (error: unknown) => void
  readonly #suspicion: Suspicion
  readonly #ready = new ReadyList()
  /** Idle, in the order in which they became so. */
  readonly #idle = new Set<string>()
  /** Tasks in hand that their owner's thread has been told of. */
  readonly #told = new Map<string, string>()
  #paused = false
  #due = false
  /** What is being given out right now, by whom it is for. */
  readonly #giving = new Map<string, { isOver: boolean }>()

  constructor(o: {
    core: Core
    send: (name: string, task: AssignedTask) => void
    /** Can this teammate still take up its own work? */
    alive: (name: string) => boolean
    /** Resolves when the trunk is where new work may start from, and the clone of `name` is there. */
    bringBase: (name: string) => Promise<void>
    onProblem: (key: string, text: string | null) => void
    /** What must be tried alone. */
    suspicion: Suspicion
    /** A bug, or the journal cannot be written. */
    onFailure: (error: unknown) => void
  }) {
    this.#core = o.core
    this.#send = o.send
    this.#alive = o.alive
    this.#bringBase = o.bringBase
    this.#problem = o.onProblem
    this.#failed = o.onFailure
    this.#suspicion = o.suspicion
    for (const [, { value }] of o.core.store.tasks.list()) this.#follow(value)
    o.core.store.tasks.watch((_id, { value }) => {
      this.#follow(value)
      this.kick()
    })
    o.core.store.requests.watch((_id, { value }) => {
      if (isLease(value) || value.type === 'review_request') this.kick()
    })
  }

  /** Something is being given out right now. */
  get busy(): boolean {
    return this.#giving.size > 0 || this.#due
  }

  /** Nothing is given out until `resume`. */
  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.kick()
  }

  /** The thread of `name` can take a task now. One that it has in hand already, from before a restart, is told again. */
  idle(name: string): void {
    if (!this.#idle.has(name)) this.#idle.add(name)
    this.kick()
  }

  busyNow(name: string): void {
    this.#idle.delete(name)
  }

  /** The thread of `name` is gone: what it was told is to be told to the next. */
  gone(name: string): void {
    this.#idle.delete(name)
    this.#told.delete(name)
    this.#drop(name)
  }

  /** Has the thread of `name` been told of this task? */
  hasTold(name: string, id: string): boolean {
    return this.#told.get(name) === id && !this.#giving.has(name)
  }

  /** Looks, once the current turn of the event loop has settled, for what can be given out. */
  kick(): void {
    if (this.#due) return
    this.#due = true
    queueMicrotask(() => {
      this.#due = false
      try {
        this.#run()
      } catch (error) {
        this.#failed(error)
      }
    })
  }

  /** Is there a ready task that an idle teammate could be given, were it not paused? */
  canGive(): boolean {
    return this.#pairs().length > 0
  }

  #run(): void {
    // In a hub that is gone or damaged each would fail: it is named on the status screen, and what is ready waits.
    if (this.#paused || (this.#core.hub?.damage() ?? null) !== null) return
    for (const name of [...this.#idle]) {
      const held = this.#core.tasks.inHand(name)?.value
      if (held && this.#told.get(name) !== held.id && this.#suspicion.allows(held.id))
        this.#give(name, held.id, this.#suspicion.given(held.id))
    }
    for (const { task, member } of this.#pairs()) {
      const started = this.#core.tasks.move(
        task.id,
        'supervisor',
        { move: 'start', owner: member.name, branch: this.#core.hub ? `team/task-${task.id}` : null },
        { owner: member.name },
      )
      if (started.ok) this.#give(member.name, task.id, started.value.durable)
    }
  }

  #pairs(): Pair[] {
    const { tasks, members, mode, leases } = this.#core
    if (this.#idle.size === 0 || this.#ready.size === 0 || this.#suspicion.isOpen) return []
    const order = [...this.#idle]
    const due = reviewersDue(this.#core)
    const free = members
      .filter(member => this.#idle.has(member.name) && !tasks.inHand(member.name) && !due.has(member.name))
      .sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name))
    if (free.length === 0) return []
    // Whoever waits keeps its place: what comes after and overlaps with it waits too, or it might wait for ever.
    const ahead: (readonly string[])[] = []
    const mayStart = (task: Task, member: Member): boolean => {
      if (mode !== 'dir' || !writes(task)) return true
      const free = leases.bar(task, member.name) === null && !ahead.some(paths => overlaps(paths, task.paths))
      ahead.push(task.paths)
      return free
    }
    return match(this.#readyTasks(), free, this.#alive, mayStart)
  }

  *#readyTasks(): IterableIterator<Task> {
    for (const id of this.#ready) {
      const task = this.#core.tasks.graph.get(id)
      if (task) yield task
    }
  }

  #give(name: string, id: string, durable: Promise<void>): void {
    this.#idle.delete(name)
    this.#told.set(name, id)
    this.#drop(name)
    const giving = { isOver: false }
    this.#giving.set(name, giving)
    const act = async () => {
      let task: AssignedTask | null = null
      try {
        // Once more: a git may have been killed at it.
        task = await this.#prepare(name, id, durable).catch(() => this.#prepare(name, id, durable))
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error)
        this.#problem(`give/${id}`, `task ${id} could not be given to ${name}: ${why}`)
        // A hub that was removed meanwhile is no fault of the task.
        const damage = this.#core.hub?.damage() ?? null
        if (this.#core.tasks.inHand(name)?.value.id === id)
          this.#core.tasks.move(id, 'supervisor', {
            ...(damage === null
              ? { move: 'fail', reason: `it could not be prepared: ${why}` }
              : { move: 'release', reason: `${damage}; the task is given out again after that` }),
          })
      }
      // Its thread has ended meanwhile, or has been given something else.
      if (giving.isOver) return
      this.#giving.delete(name)
      if (task && this.#core.tasks.inHand(name)?.value.id === id) this.#send(name, task)
      else {
        this.#told.delete(name)
        this.idle(name)
      }
    }
    act().catch(this.#failed)
  }

  /** What is being given to `name` is not sent any more. */
  #drop(name: string): void {
    const giving = this.#giving.get(name)
    if (giving) giving.isOver = true
    this.#giving.delete(name)
  }

  /** What the thread is told; null when the task left its hands meanwhile. */
  async #prepare(name: string, id: string, durable: Promise<void>): Promise<AssignedTask | null> {
    const { hub, tasks } = this.#core
    await durable
    let start: string | null = null
    let resume: string | null = null
    let takeIn: string | null = null
    let absent: readonly string[] = []
    if (hub) {
      await this.#bringBase(name)
      start = await hub.trunk()
      const branch = tasks.get(id)?.value.branch
      resume = branch ? unwrap(await hub.branchHead(branch)) : null
      takeIn = resume === null ? null : (tasks.get(id)?.value.takeIn ?? null)
      // Not in a hub that was made anew since.
      if (takeIn !== null && !(await hub.has(takeIn))) takeIn = null
      if (this.#core.config.setup === undefined) absent = await hub.absent(clonePath(this.#core, name))
    }
    const task = tasks.inHand(name)?.value
    if (task?.id !== id) return null
    return {
      id,
      title: task.title,
      description: task.description,
      attempt: task.attempts,
      error: task.returns > 0 ? task.error : null,
      verify: verifyCommands(this.#core, task),
      accept: task.accept,
      paths: task.paths,
      branch: task.branch,
      start,
      resume,
      mergeTrunk: takeIn,
      absent,
    }
  }

  #follow(task: Task): void {
    this.#ready.see(task.id)
    if (this.#core.tasks.graph.isReady(task.id)) this.#ready.add(task)
    else this.#ready.remove(task.id)
    for (const id of this.#core.tasks.graph.dependants(task.id)) {
      const other = this.#core.tasks.graph.get(id)
      if (!other) continue
      const ready = this.#core.tasks.graph.isReady(id)
      if (ready && !this.#ready.has(id)) this.#ready.add(other)
      if (!ready) this.#ready.remove(id)
    }
    // What is told no longer holds once the task left the hands it was in.
    for (const [name, id] of this.#told)
      if (id === task.id && this.#core.tasks.inHand(name)?.value.id !== id) this.#told.delete(name)
  }
}
