import { FaultError, type Result } from '../../src/lib/result.ts'
import { isLease, isWaiting, type Request } from '../../src/protocol/request.ts'
import type { TaskShown } from '../../src/protocol/rpc.ts'
import { isEnded } from '../../src/protocol/task.ts'
import type { FromThread, ToThread } from '../../src/protocol/thread.ts'
import { Disk } from './disk.ts'
import { type SimHolder, startHolder, type Team } from './holder.ts'
import { SimHub } from './hub.ts'
import { look, must, requestMoved, taskMoved, Violation } from './rules.ts'
import { type Body, openThreadsWith, SimThread } from './threads.ts'
import { SimTime } from './time.ts'

export interface Actor extends Body {
  readonly isBusy: boolean
  act(a: number, b: number): void
  rest(): boolean
}

/** Of one step of a schedule: three picks out of 256 each, and the kind of step by the lowest bits. */
export const parts = (step: number): { kind: number; a: number; b: number; c: number } => ({
  kind: step & 63,
  a: (step >>> 6) & 255,
  b: (step >>> 14) & 255,
  c: (step >>> 22) & 255,
})

export interface WorldOptions {
  readonly team: Team
  readonly isGit: boolean
  readonly makeBody: (world: World, name: string, post: (message: FromThread) => void, end: () => void) => Actor
  /** Tokens that the models used in all, by what the sessions say; null where nobody counts. */
  readonly used: (() => number) | null
  readonly trace?: (text: string) => void
}

/** A whole team in one process: the holder, the teammates, the human, their disk; and a schedule that decides what happens next. */
export class World {
  readonly time = new SimTime()
  readonly disk = new Disk()
  readonly hub: SimHub
  readonly #o: WorldOptions
  threads: SimThread[] = []
  holder: SimHolder
  /** Why the holder is to end: the journal cannot be written, or a bug. */
  #failure: unknown = null
  #isDiskBad = false
  #violation: unknown = null
  #fence = 0
  /** Calls of the human on their way. */
  #calls = 0
  #n = 0
  restarts = 0
  /** Of each inbox, what entered its reader's context: index to id. */
  readonly contexts = new Map<string, Map<number, string>>()

  constructor(o: WorldOptions) {
    this.#o = o
    this.hub = new SimHub(head => this.#mayMerge(head))
    this.time.install()
    openThreadsWith(thread => {
      const asked = new Map<number, string>()
      const made: SimThread = new SimThread(thread, message => this.#told(made.name, message, asked))
      const { say } = made
      Object.assign(made, {
        say: (message: FromThread) => {
          if (message.t === 'req') asked.set(message.id, message.method)
          say(message)
        },
      })
      this.threads.push(made)
      return made
    })
    this.holder = this.#open(0, null)
  }

  /** Something is as it must not be, found where nobody can be told by a throw. */
  fail(error: unknown): void {
    this.#violation ??= error
  }

  trace(text: string): void {
    this.#o.trace?.(text)
  }

  async begin(): Promise<void> {
    await this.#start()
  }

  end(): void {
    this.holder.close()
    this.time.restore()
    openThreadsWith(null)
  }

  #open(snapshot: number, died: string | null): SimHolder {
    this.#failure = null
    this.#isDiskBad = false
    const { team, isGit } = this.#o
    const holder = startHolder({
      disk: this.disk,
      team,
      hub: isGit ? this.hub.hub : null,
      clock: this.time.clock,
      snapshot,
      died,
      onFailure: error => {
        this.#failure ??= error ?? new Error('no reason given')
      },
    })
    const { store } = holder
    store.tasks.watch((_id, { value }, old) => taskMoved(value, old?.value))
    store.requests.watch((_id, { value }, old) => {
      requestMoved(value, old?.value)
      this.#fenced(value, old?.value)
    })
    return holder
  }

  async #start(): Promise<void> {
    this.time.owner = ''
    void this.holder.start().catch(error => {
      this.#failure ??= error
    })
    await this.#settle()
  }

  async #settle(isShort = false): Promise<void> {
    await this.time.settle(isShort)
    if (this.#violation !== null) throw this.#violation
    if (this.#failure !== null && !this.#isDiskBad) throw this.#failure
    look(this.holder)
  }

  /** The process is dead, at once; another takes over from what the disk has. */
  async crash(part: number, snapshot: number): Promise<void> {
    await this.#settle()
    this.trace(`the daemon dies (${part}/255 of what was under way is on the disk)`)
    this.restarts++
    this.holder.journal.die(part)
    this.holder.close()
    this.time.end()
    this.hub.end()
    this.threads = []
    this.#calls = 0
    const { durable, entries } = this.disk
    this.holder = this.#open(Math.round((entries.length * snapshot) / 255), part % 3 === 0 ? null : 'it was killed')
    // What nobody can have been told of is given again.
    this.#fence = 0
    for (const { value } of durable.requests.values()) this.#fence = Math.max(this.#fence, value.effect?.fence ?? 0)
    const { store } = this.holder
    for (const [id, { rev }] of durable.tasks)
      must(store.tasks.get(id)?.rev === rev, () => `task ${id} was at revision ${rev} before the crash`)
    for (const [id, { rev }] of durable.requests)
      must(store.requests.get(id)?.rev === rev, () => `${id} was at revision ${rev} before the crash`)
    await this.#start()
  }

  /** One step. Steps for which there is nothing to do do nothing. */
  async step(step: number): Promise<void> {
    const { kind, a, b, c } = parts(step)
    if (kind === 58 && this.restarts < 4) return this.crash(a, b)
    try {
      this.#do(step)
    } catch (error) {
      // What the journal does not take in is thrown to whoever tried.
      if (!(this.#isDiskBad && error instanceof FaultError)) throw error
    }
    await this.#settle(true)
    // It has told everybody who waited that it cannot go on; a person makes room and starts it again.
    if (this.#isDiskBad && kind % 2 === 0) await this.crash(b, c)
  }

  #do(step: number): void {
    const { kind, a, b, c } = parts(step)
    const { journal } = this.holder
    const alive = this.threads.filter(each => !each.isGone)
    if (kind < 24) this.#deliver(a, b)
    else if (kind < 32) journal.flush()
    else if (kind === 32) journal.begin()
    else if (kind < 36) {
      this.trace('time goes by')
      this.time.fire(600_000)
    } else if (kind < 50) (alive[a % Math.max(1, alive.length)]?.body as Actor | null)?.act(b, c)
    else if (kind < 58) this.#human(a, b, c)
    else if (kind === 59) this.#fail((['ENOSPC', 'EIO', 'EMFILE'] as const)[a % 3] ?? 'EIO')
    else if (kind === 60) {
      const thread = alive[a % Math.max(1, alive.length)]
      this.trace(`${thread?.name} dies`)
      thread?.kill('it was killed')
      if (thread) this.time.end(thread.name)
    } else if (kind === 61) this.time.skew += (a - 128) * 60_000
    else if (kind === 62)
      for (const each of alive) if (!each.isDead && each.isStarted) each.to.push({ t: 'mail', urgent: a > 128 })
    if (kind === 63) this.#trim(a)
  }

  #fail(code: string): void {
    this.trace(`the disk fails: ${code}`)
    this.#isDiskBad = true
    this.holder.journal.fail(code)
  }

  #deliver(a: number, b: number): void {
    const ready: (() => void)[] = []
    for (const thread of this.threads) {
      if (thread.isGone) continue
      if (!thread.isStarted && !thread.isDead) ready.push(() => this.#begin(thread))
      if (thread.body && thread.to.length > 0)
        ready.push(() => {
          const message = thread.to.shift()
          if (message) this.time.as(thread.name, () => thread.body?.hear(message))
        })
      if (thread.from.length > 0 || thread.isDead) ready.push(() => thread.hand())
    }
    if (this.hub.ops.length > 0) ready.push(() => this.hub.step(b, (b & 1) === 0))
    ready[a % Math.max(1, ready.length)]?.()
  }

  /** Everything that is on its way now arrives. */
  #handAll(isFlushed: boolean): void {
    for (const thread of this.threads) {
      if (thread.isGone) continue
      if (!thread.isStarted && !thread.isDead) this.#begin(thread)
      for (let left = thread.to.length; left > 0 && thread.body; left--) {
        const message = thread.to.shift()
        if (message) this.time.as(thread.name, () => thread.body?.hear(message))
      }
      for (let left = thread.from.length; left > 0; left--) thread.hand()
      if (thread.isDead && thread.from.length === 0) thread.hand()
    }
    for (let left = this.hub.ops.length; left > 0; left--) this.hub.step(0, true)
    if (isFlushed) this.holder.journal.flush()
  }

  #begin(thread: SimThread): void {
    const { name } = thread
    const end = () => thread.kill('it ended')
    this.time.as(name, () => thread.begin(this.#o.makeBody(this, name, message => thread.say(message), end)))
  }

  /** Is anything on its way? */
  get #isMoving(): boolean {
    return (
      this.hub.ops.length > 0 ||
      this.threads.some(
        each =>
          !each.isGone &&
          ((!each.isStarted && !each.isDead) ||
            each.from.length > 0 ||
            each.isDead ||
            (each.body !== null && each.to.length > 0)),
      )
    )
  }

  /** A caller of the socket, at the same time as others. */
  #ask(method: string, params: unknown): void {
    const { holder } = this
    this.trace(`the human: ${method} ${JSON.stringify(params)}`)
    this.#calls++
    this.time.owner = ''
    void holder.table.call('human', method, params).then(
      result => {
        if (holder === this.holder) this.#answered('human', method, result)
      },
      error => {
        // What cannot be written is thrown, and told as a fault by the socket.
        if (!this.#isDiskBad && holder === this.holder) this.#failure ??= error
      },
    )
  }

  #human(a: number, b: number, c: number): void {
    const { store } = this.holder
    const tasks = [...store.tasks.list()].map(([id]) => id)
    const requests = [...store.requests.list()].map(([id]) => id)
    const task = tasks[b % Math.max(1, tasks.length)] ?? '1'
    const request = requests[requests.length - 1 - (b % Math.max(1, requests.length))] ?? 'req_1'
    const names = this.#o.team.members.map(({ name }) => name)
    const name = names[b % names.length] ?? ''
    const id = ++this.#n
    const drop = {
      title: `task ${id}`,
      ...(c & 1 ? { dependsOn: [task] } : {}),
      ...(c & 2 ? { priority: c % 5 } : {}),
      ...(c & 4 ? { assignee: name } : {}),
      ...((c & 24) === 24 ? { needsPlan: true } : {}),
      paths: ['src/a', 'src/b', 'src/*', 'docs'].slice(c % 3, (c % 3) + 1),
    }
    const acts: [string, unknown][] = [
      ['task.add', { tasks: [drop] }],
      ['request.decide', { id: request, decision: (['approve', 'reject', 'ask'] as const)[c % 3], reason: 'so' }],
      ['request.decide', { id: request, decision: 'approve', reason: 'so' }],
      ['task.add', { tasks: [drop, { title: `task ${id} b`, dependsOn: [drop.title] }] }],
      ['message.send', { to: name, content: `from the human ${id}`, ...(c & 1 ? { type: 'task' } : {}) }],
      ['task.cancel', { id: task, reason: 'not wanted' }],
      ['task.retry', { id: task }],
      ['request.answer', { id: request, text: 'so' }],
      ['request.withdraw', { id: request, reason: 'not wanted' }],
      ['teammate.restart', { name }],
      ['down', { names: [name], force: c % 3 === 0, timeoutMs: 1000 * (1 + (c % 5)) }],
    ]
    const [method, params] = acts[a % acts.length] ?? ['task.list', {}]
    // More than a team of three can do in a schedule says nothing new.
    if (method === 'task.add' && tasks.length > 8) return
    if (c === 255) this.hub.conflicts.add(`h${a}`)
    this.#ask(method, params)
  }

  #trim(a: number): void {
    const { store } = this.holder
    const names = store.inboxNames
    const name = names[a % Math.max(1, names.length)]
    if (name === undefined || this.#isDiskBad) return
    const log = store.inbox(name)
    log.trim(log.cursor(name), { event: 'inbox.rotated', by: 'supervisor' })
  }

  #told(name: string, message: ToThread, asked: Map<number, string>): void {
    const { durable } = this.disk
    if (message.t === 'res' && message.ok)
      this.#answered(name, asked.get(message.id) ?? '', { ok: true, value: message.value })
    if (message.t !== 'assign') return
    const { id, attempt } = message.task
    const there = durable.tasks.get(id)?.value
    must(
      there !== undefined && there.attempts >= attempt,
      () => `${name} was told of task ${id} before that was durable`,
    )
    this.trace(`task ${id} is given to ${name}`)
  }

  /** Somebody is told something: it must be on the disk by now. */
  #answered(who: string, method: string, result: Result<unknown>): void {
    if (who === 'human') this.#calls--
    if (!result.ok) return
    try {
      this.#isDurable(who, method, result)
    } catch (error) {
      this.fail(error)
    }
  }

  #isDurable(who: string, method: string, result: { readonly value: unknown }): void {
    const { durable } = this.disk
    const value = result.value as {
      task?: TaskShown
      tasks?: TaskShown[]
      request?: Request | null
      requests?: Request[]
      sent?: { to: string; id: string; how: string }[]
    } | null
    const task = ({ id, rev }: TaskShown) =>
      must(
        (durable.tasks.get(id)?.rev ?? 0) >= rev,
        () => `${method} told ${who} of task ${id} at revision ${rev} before that was durable`,
      )
    const request = (shown: Request) => {
      const there = durable.requests.get(shown.id)?.value
      must(
        there !== undefined &&
          there.history.length >= shown.history.length &&
          (shown.effect === null || there.effect !== null),
        () => `${method} told ${who} of ${shown.id} (${shown.status}) before that was durable`,
      )
    }
    if (value?.task) task(value.task)
    for (const each of value?.tasks ?? []) task(each)
    if (typeof value?.request === 'object' && value.request !== null) request(value.request)
    for (const each of value?.requests ?? []) request(each)
    for (const { to, id, how } of value?.sent ?? [])
      if (how !== 'held')
        must(
          [...durable.messages].some(([key, known]) => known === id && key.startsWith(`inbox/${to} `)),
          () => `${method} told ${who} of ${id} to ${to} before that was durable`,
        )
    if (method === 'task.complete') {
      const { id } = result.value as { id: string }
      must(
        durable.tasks.get(id)?.value.claimed !== null || durable.tasks.get(id)?.value.status !== 'in_progress',
        () => `task ${id} was told as claimed before that was durable`,
      )
    }
  }

  #mayMerge(head: string): void {
    must(!this.hub.merged.has(head), () => `${head} was merged twice`)
    const found = [...this.disk.durable.requests.values()].find(
      ({ value }) => value.type === 'merge_request' && value.data.head === head && value.status === 'approved',
    )
    must(found !== undefined, () => `${head} was merged, and nobody approved it on the disk`)
    must(found?.value.effect?.step === 'intent', () => `${head} was merged before the intent was on the disk`)
  }

  #fenced(request: Request, old: Request | undefined): void {
    if (!isLease(request) || old?.effect || request.effect?.fence === undefined) return
    const { fence } = request.effect
    must(fence > this.#fence, () => `the fence went from ${this.#fence} to ${fence}`)
    this.#fence = fence
  }

  /** What stands at this place of an inbox is in the context now, by its reader's mark; or it became a task. */
  entered(name: string, index: number): void {
    const id = this.disk.durable.messages.get(`inbox/${name} ${index}`)
    try {
      must(id !== undefined, () => `entry ${index} of the inbox of ${name} was taken in before it was durable`)
      this.mail(name, index, id ?? '')
    } catch (error) {
      this.fail(error)
    }
  }

  /** A message enters a context. */
  mail(name: string, index: number, id: string): void {
    const context = this.contexts.get(name) ?? new Map<number, string>()
    this.contexts.set(name, context)
    must(!context.has(index) && ![...context.values()].includes(id), () => `${id} entered the context of ${name} twice`)
    context.set(index, id)
    must(
      this.disk.durable.messages.get(`inbox/${name} ${index}`) === id,
      () => `${id} entered the context of ${name} before it was durable`,
    )
  }

  /**
   * No more faults, a person who decides everything, and teammates that do what they are to do: all tasks must end within
   * `most` steps, and every message be where it belongs. While one flush goes by, `lag` more rounds of messages do.
   */
  async rest(lag: number, most = 2000): Promise<void> {
    this.trace(`-- no more faults; the disk is slower by ${lag}`)
    if (this.#isDiskBad) await this.crash(255, 0)
    this.hub.conflicts.clear()
    let n = 0
    for (; n < most; n++) {
      const { journal, store } = this.holder
      if (this.#isMoving || journal.isDirty) this.#handAll(n % (lag + 1) === lag)
      else if (!this.threads.some(each => each.body !== null && (each.body as Actor).rest()) && !this.#helps()) {
        const isOver =
          this.#o.team.members.every(({ name }) =>
            ['idle', 'working', 'waiting'].includes(this.holder.crew.threads.status(name)?.state ?? ''),
          ) &&
          [...store.tasks.list()].every(([, { value }]) => isEnded(value)) &&
          [...store.requests.list()].every(([, { value }]) => value.effect?.step !== 'intent' || isLease(value))
        if (this.#calls > 0 || !isOver) this.time.fire()
        else break
      }
      await this.#settle(this.#isMoving || this.holder.journal.isDirty)
    }
    const { store } = this.holder
    const open = [...store.tasks.list()].filter(([, { value }]) => !isEnded(value))
    must(n < most, () => {
      const waiting = [...store.requests.list()].filter(([, { value }]) => isWaiting(value))
      return [
        `after ${most} steps without faults: ${this.#calls} calls of the human not answered`,
        ...open.map(
          ([id, { value }]) =>
            `task ${id} ${value.status} (${value.error}) of ${value.owner} ${value.claimed ? 'claimed ' : ''}${value.dependsOn}`,
        ),
        ...waiting.map(([id, { value }]) => `${id} ${value.type} from ${value.from} to ${value.to}: ${value.status}`),
        ...this.threads.flatMap(({ name, isGone }) =>
          isGone ? [] : [`${name}: ${this.holder.crew.threads.status(name)?.state}`],
        ),
      ].join('\n')
    })
    for (const { name } of this.#o.team.members) {
      const context = this.contexts.get(name)
      // Whoever waits for a lease reads no review, and somebody else may decide it meanwhile: it is put aside unread after that.
      const isWaiting = this.holder.crew.threads.status(name)?.state === 'waiting'
      const isMoot = (id: string | undefined) => {
        const request = id === undefined ? undefined : store.requests.get(id)?.value
        return request?.type === 'review_request' && request.outcome !== null
      }
      for (const { index, value } of store.inbox(name).read(0))
        if (value.message.type !== 'task' && !(isWaiting && isMoot(value.message.requestId)))
          must(
            context?.get(index) === value.message.id,
            () => `${value.message.id} never entered the context of ${name}`,
          )
    }
    let spent = 0
    for (const [, { value }] of store.spending.list()) spent += value.input + value.output
    const used = this.#o.used?.() ?? spent
    must(spent === used, () => `${spent} tokens are counted, and ${used} were used`)
    for (const [id, { value }] of store.requests.list())
      must(value.effect?.step !== 'intent' || isLease(value), () => `${id}: its effect was begun and never ended`)
    for (const [id, { value }] of store.tasks.list())
      if (value.result?.outcome === 'merged' || value.result?.commit !== undefined)
        must(
          [...this.hub.merged.values()].includes(value.result.commit ?? ''),
          () => `task ${id} counts as merged and is not`,
        )
  }

  /** What somebody is asked for and should do now, as the arguments of the request tool; null where nothing is. */
  askedOf(name: string): { action: string; id: string; body?: string; decision?: string } | null {
    for (const [id, { value }] of this.holder.store.requests.list()) {
      if (value.outcome !== null) continue
      if (value.status === 'needs_info' && value.from === name) return { action: 'answer', id, body: 'so' }
      if (value.status === 'pending' && value.to === name) return { action: 'decide', id, decision: 'approve' }
    }
    return null
  }

  /** What a person does who wants it to go on; false where nobody waits for one. */
  #helps(): boolean {
    if (this.#calls > 0) return false
    const { store, crew } = this.holder
    for (const { name } of this.#o.team.members) {
      const state = crew.threads.status(name)?.state
      if (state === 'stopped' || state === 'failed') {
        this.#ask('teammate.restart', { name })
        return true
      }
    }
    for (const [id, { value }] of store.requests.list()) {
      if (!isWaiting(value) || isLease(value)) continue
      if (value.status === 'needs_info') this.#ask('request.answer', { id, text: 'so' })
      else this.#ask('request.decide', { id, decision: 'approve', reason: 'so' })
      return true
    }
    for (const [id, { value }] of store.tasks.list()) {
      const isInTheWay = [...store.tasks.list()].some(
        ([, other]) => !isEnded(other.value) && other.value.dependsOn.includes(id),
      )
      if ((value.status === 'failed' || value.status === 'cancelled') && isInTheWay) {
        this.#ask('task.retry', { id })
        return true
      }
    }
    return false
  }
}

export { Violation }
