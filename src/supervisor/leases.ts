import { type Clock, iso } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { anyPort, type Claim, clash, covers, overlaps } from '../protocol/lease.ts'
import { type Effect, isLease, isWaiting, type LeaseRequest, type Request } from '../protocol/request.ts'
import type { Blocker, HeldLease, QueuedLease } from '../protocol/rpc.ts'
import { isInHand, type Task } from '../protocol/task.ts'
import type { Store, Write } from '../store/store.ts'
import { freePort } from './free-port.ts'
import type { Mail } from './mail.ts'
import { newsOf } from './news.ts'
import type { Requests } from './requests.ts'
import { writes } from './schedule.ts'
import type { Tasks } from './tasks.ts'

/** Why a lease ended. Lost: not by its holder's doing, who is told, and may not write there before it has a new one. */
export interface Freed {
  readonly by: string
  readonly why: string
  readonly isLost: boolean
}

export interface LeasesOptions {
  readonly store: Store
  readonly clock: Clock
  readonly mail: Mail
  readonly requests: Requests
  readonly tasks: Tasks
  readonly mode: 'git' | 'dir'
}

/**
 * Who holds what, and who waits for it. Nothing is kept beside the records of the requests:
 *
 *   pending ──granted (decision and effect `intent` in one)──▶ held ──given back, time over, holder gone──▶ effect `done`
 *
 * First come, first served among those that overlap; whoever is disjoint from all before it is granted at once. In dir mode
 * a task that writes, once begun, holds its paths like a lease. Work in hand goes before work not begun, so a lease waits for
 * the tasks begun, and a task is not begun while a lease that is held or waited for is in its way.
 */
export class Leases {
  readonly #o: LeasesOptions
  /** In the order in which they were opened. */
  readonly #queue = new Map<string, LeaseRequest>()
  readonly #held = new Map<string, LeaseRequest>()
  /** Those that ended while their holder works on what it had them for, by holder, in the order of their ends. */
  readonly #past = new Map<string, LeaseRequest[]>()
  /** In dir mode, the tasks begun that write. */
  readonly #writers = new Map<string, Task>()
  /** When a held lease is over, by the monotonic clock of this run. */
  readonly #over = new Map<string, number>()
  /** A free port is being looked for. */
  readonly #seeking = new Set<string>()
  #fence = 0
  #onFailure: ((error: unknown) => void) | null = null
  #isDue = false
  #timer: NodeJS.Timeout | undefined

  constructor(o: LeasesOptions) {
    this.#o = o
    const { store } = o
    for (const [, { value }] of store.requests.list()) this.#see(value)
    for (const [, { value }] of store.tasks.list()) this.#follow(value, undefined)
    store.requests.watch((_id, { value }) => this.#see(value))
    store.tasks.watch((_id, { value }, old) => this.#follow(value, old?.value))
  }

  /** From now on leases are granted, and end. Whatever an earlier daemon gave went down with it. */
  start(o: { runs: (name: string) => boolean; onFailure: (error: unknown) => void }): void {
    for (const id of [...this.#held.keys()])
      this.free(id, { by: 'supervisor', why: 'the daemon that gave it went down', isLost: true })
    for (const { from } of [...this.#queue.values()]) if (!o.runs(from)) this.ended(from, `${from} does not run`)
    this.#onFailure = o.onFailure
    this.#kick()
  }

  close(): void {
    this.#onFailure = null
    clearTimeout(this.#timer)
  }

  isHeld(id: string): boolean {
    return this.#held.has(id)
  }

  /** Gives a held lease back, or takes it from its holder. */
  free(id: string, { by, why, isLost }: Freed): Result<{ request: Request } & Write> {
    const request = this.#held.get(id)
    if (!request) return fail('unknown', `${id} is no lease that is held`)
    if (by !== 'human' && by !== 'supervisor' && by !== request.from)
      return fail('refused', `${id} is held by ${request.from}: ${by} cannot give it back`)
    const ended = this.#o.requests.effect(id, 'done', 'released', why, { by, ...(isLost ? { lost: true } : {}) })
    if (!ended.ok) return ended
    const now = this.#o.requests.get(id)?.value ?? request
    for (const { message } of newsOf(now)) this.#o.mail.send(message)
    return ok({ request: now, ...ended.value })
  }

  /** Its thread died: what it held is lost. What it waits for keeps its place, as it may come back. */
  died(name: string, why: string): void {
    for (const request of this.#of(this.#held, name))
      this.free(request.id, { by: 'supervisor', why: `the thread of ${name} ended: ${why}`, isLost: true })
  }

  /** It does not run any more: nothing is held, and nothing waited for. */
  ended(name: string, why: string): void {
    for (const request of this.#of(this.#held, name)) this.free(request.id, { by: 'supervisor', why, isLost: false })
    for (const request of this.#of(this.#queue, name)) this.#o.requests.end(request.id, 'withdrawn', 'supervisor', why)
  }

  /** Ends what is past its time by the monotonic clock. */
  expire(): void {
    const now = this.#o.clock.mono()
    for (const [id, over] of this.#over)
      if (now >= over) this.free(id, { by: 'supervisor', why: 'its time is over', isLost: true })
    this.#arm()
  }

  /** What keeps this one waiting: everybody who holds it, and of those who were there before the `most` nearest. */
  behind(request: LeaseRequest, most = Number.POSITIVE_INFINITY, queue = [...this.#queue.values()]): Blocker[] {
    const holders = [...this.#held.values()].filter(held => inTheWay(held, request))
    const tasks = [...this.#writers.values()].filter(task => this.#isTaskInTheWay(task, request))
    const before: LeaseRequest[] = []
    for (let i = queue.indexOf(request) - 1; i >= 0 && before.length < most; i--) {
      const other = queue[i]
      if (other?.status === 'pending' && clash(claim(other), claim(request))) before.push(other)
    }
    return [
      ...holders.map(({ from, id }): Blocker => ({ who: from, id, what: 'holds it' })),
      ...tasks.map(({ owner, id }): Blocker => ({ who: owner ?? '', id: `task ${id}`, what: 'holds it' })),
      ...before.map(({ from, id }): Blocker => ({ who: from, id, what: 'was there before' })),
    ]
  }

  /** What keeps this teammate from starting the task, in words; null when nothing does. Only in dir mode is there anything. */
  bar(task: Task, member: string | null): string | null {
    if (this.#o.mode !== 'dir' || !writes(task)) return null
    for (const other of this.#writers.values())
      if (other.id !== task.id && overlaps(other.paths, task.paths)) return `task ${other.id} of ${other.owner}`
    const paths: Claim = { kind: 'path', what: task.paths }
    for (const held of this.#held.values())
      if (held.from !== member && clash(claim(held), paths)) return `the lease ${held.id} of ${held.from}`
    for (const other of this.#queue.values())
      if (other.from !== member && other.status === 'pending' && clash(claim(other), paths))
        return `the lease ${other.id}, which ${other.from} waits for`
    return null
  }

  /** The number of the last lease that was granted. */
  get fence(): number {
    return this.#fence
  }

  held(): readonly LeaseRequest[] {
    return [...this.#held.values()]
  }

  /** Those that wait, in the order in which they were opened. */
  queued(): readonly LeaseRequest[] {
    return [...this.#queue.values()]
  }

  /** Tasks begun that write, in dir mode: each holds its paths. */
  writers(): readonly Task[] {
    return [...this.#writers.values()]
  }

  /** The lease on this path that this teammate had last, for what it works on now. */
  lastOf(name: string, path: string): LeaseRequest | undefined {
    return this.#past.get(name)?.findLast(({ data }) => data.kind === 'path' && covers(data.what, path))
  }

  /** What only time must pass for: somebody waits for a lease that will end. */
  get willMove(): boolean {
    if (this.#seeking.size > 0) return true
    if (this.#held.size === 0) return false
    return this.#queue.size > 0 || (this.#o.mode === 'dir' && [...this.#o.tasks.graph.ready()].some(writes))
  }

  /** For screens. */
  shown(): { held: HeldLease[]; queued: QueuedLease[] } {
    const held = [...this.#held.values()].map(
      ({ id, from, data, effect }): HeldLease => ({
        id,
        holder: from,
        task: data.task,
        kind: data.kind,
        what: effect?.what ?? data.what,
        fence: effect?.fence ?? null,
        until: effect?.until ?? null,
      }),
    )
    const begun = [...this.#writers.values()].map(
      ({ id, owner, paths }): HeldLease => ({
        id: null,
        holder: owner ?? '',
        task: id,
        kind: 'path',
        what: paths.length === 0 ? ['**'] : paths,
        fence: null,
        until: null,
      }),
    )
    const queue = [...this.#queue.values()]
    const queued = queue.map(
      (request): QueuedLease => ({
        id: request.id,
        from: request.from,
        task: request.data.task,
        kind: request.data.kind,
        what: request.data.what,
        since: request.createdAt,
        behind: this.behind(request, nearest, queue),
      }),
    )
    return { held: [...held, ...begun], queued }
  }

  #of(all: ReadonlyMap<string, LeaseRequest>, name: string): LeaseRequest[] {
    return [...all.values()].filter(({ from }) => from === name)
  }

  #see(request: Request): void {
    if (!isLease(request)) return
    const { id, effect } = request
    this.#fence = Math.max(this.#fence, effect?.fence ?? 0)
    if (isWaiting(request)) this.#queue.set(id, request)
    else this.#queue.delete(id)
    if (effect?.step === 'intent') this.#held.set(id, request)
    else {
      this.#held.delete(id)
      this.#over.delete(id)
    }
    if (effect?.step === 'done') this.#keepPast(request)
    this.#kick()
  }

  #follow(task: Task, old: Task | undefined): void {
    const had = old && isInHand(old) ? old.owner : null
    if (had !== null && !(isInHand(task) && task.owner === had)) {
      for (const request of this.#of(this.#held, had))
        if (request.data.task === task.id)
          this.free(request.id, {
            by: 'supervisor',
            why: `task ${task.id} is not in the hands of ${had} any more`,
            isLost: false,
          })
      this.#past.delete(had)
    }
    // What it had with nothing in hand was for nothing of this task.
    if (old && !isInHand(old) && isInHand(task) && task.owner !== null) this.#past.delete(task.owner)
    if (this.#o.mode !== 'dir') return
    if (task.status === 'in_progress' && writes(task)) this.#writers.set(task.id, task)
    else if (!this.#writers.delete(task.id)) return
    this.#kick()
  }

  /** For as long as its holder has the task in hand that it was for; of equal ones the last. */
  #keepPast(request: LeaseRequest): void {
    const { from, data } = request
    if (data.task !== (this.#o.tasks.inHand(from)?.value.id ?? null)) return
    const isSame = (past: LeaseRequest) =>
      past.data.kind === data.kind && past.data.what.join('\n') === data.what.join('\n')
    const others = (this.#past.get(from) ?? []).filter(past => !isSame(past))
    this.#past.set(from, [...others, request])
  }

  /** Looks, once what is being changed now has settled, for what can be granted. */
  #kick(): void {
    if (this.#isDue || this.#onFailure === null) return
    this.#isDue = true
    queueMicrotask(() => {
      this.#isDue = false
      try {
        this.#grantAll()
        this.#arm()
      } catch (error) {
        this.#onFailure?.(error)
      }
    })
  }

  #grantAll(): void {
    if (this.#onFailure === null) return
    const before: LeaseRequest[] = []
    for (const request of [...this.#queue.values()]) {
      if (request.status !== 'pending') continue
      const waits = this.#isTaken(request) || before.some(other => clash(claim(other), claim(request)))
      if (!waits && !request.data.what.includes(anyPort)) this.#grant(request, request.data.what)
      else {
        before.push(request)
        if (!waits) this.#seek(request)
      }
    }
  }

  #isTaken(request: LeaseRequest): boolean {
    for (const held of this.#held.values()) if (inTheWay(held, request)) return true
    for (const task of this.#writers.values()) if (this.#isTaskInTheWay(task, request)) return true
    return false
  }

  /** A task that a teammate has begun is in the way of everybody else, and of itself once it is being proven. */
  #isTaskInTheWay(task: Task, { from, data }: LeaseRequest): boolean {
    return data.kind === 'path' && !(task.owner === from && isInHand(task)) && overlaps(task.paths, data.what)
  }

  #grant(request: LeaseRequest, what: readonly string[]): void {
    const { requests, clock } = this.#o
    const { kind, seconds } = request.data
    const wall = clock.wall()
    const fence = this.#fence + 1
    const until = iso(wall + seconds * 1000)
    const text = `${kind} ${what.join(', ')} is yours until ${until} (fence ${fence}); withdraw ${request.id} when you need it no longer`
    const effect: Effect = { step: 'intent', at: iso(wall), detail: text, fence, until, what: [...what] }
    this.#over.set(request.id, clock.mono() + seconds * 1000)
    const granted = requests.decide(request.id, 'supervisor', 'approve', text, undefined, effect)
    if (!granted.ok) throw new Error(`${request.id} could not be granted: ${granted.fault.message}`)
  }

  /** A port that is free now, and that nobody holds or waits for, in place of each `any`. */
  #seek(request: LeaseRequest): void {
    if (this.#seeking.has(request.id)) return
    this.#seeking.add(request.id)
    const isTaken = (port: string) =>
      [...this.#held.values(), ...this.#queue.values()].some(other =>
        clash(claim(other), { kind: 'port', what: [port] }),
      )
    const act = async () => {
      const what: string[] = []
      for (const one of request.data.what)
        what.push(one === anyPort ? await freePort(port => isTaken(port) || what.includes(port)) : one)
      this.#seeking.delete(request.id)
      // Another may have been granted one of them while this was looked for, or this one may be gone.
      const isFree = !what.some((one, i) => request.data.what[i] === anyPort && isTaken(one))
      if (this.#onFailure && isFree && this.#queue.get(request.id)?.status === 'pending') this.#grant(request, what)
      this.#kick()
    }
    act().catch(error => this.#onFailure?.(error))
  }

  #arm(): void {
    clearTimeout(this.#timer)
    if (this.#onFailure === null || this.#over.size === 0) return
    const ms = Math.min(...this.#over.values()) - this.#o.clock.mono()
    this.#timer = setTimeout(() => this.expire(), Math.max(0, Math.min(ms, 60_000)))
  }
}

/** A screen names so many of those who were there before. */
const nearest = 3

/** What is claimed, or held: a free port once it is known which. */
export const claim = ({ data, effect }: LeaseRequest): Claim => ({ kind: data.kind, what: effect?.what ?? data.what })

/** Nobody is in its own way. */
const inTheWay = (held: LeaseRequest, request: LeaseRequest): boolean =>
  held.from !== request.from && clash(claim(held), claim(request))
