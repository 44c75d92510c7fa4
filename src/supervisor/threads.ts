import { type Clock, delay, iso } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { Limits } from '../protocol/config.ts'
import type { TeammateState, Waiting } from '../protocol/teammate.ts'
import type { FromThread, ThreadData, ToThread } from '../protocol/thread.ts'
import { afterDeath } from './backoff.ts'
import { Pulse } from './pulse.ts'
import { openThread, type Thread } from './thread.ts'

/** Threads that may be starting at the same moment; the rest queue, so that a large team does not starve its first ones. */
const startingAtOnce = 8
/** After its `bye` a thread has so long to end by itself. */
const byeGraceMs = 2_000

export interface ThreadStatus {
  readonly state: TeammateState
  /** Wall time at which `state` was entered. */
  readonly since: string
  /** What it is parked on. While a restart is due: the restart, and `supervisor`. */
  readonly waiting: Waiting | null
  /** Restarts since the last progress. */
  readonly restarts: number
  /** Why it died last, was stopped or was given up; null once it makes progress. */
  readonly reason: string | null
  /** As the thread told it last. */
  readonly usage: Usage
  /** The task that it works on and gets nowhere with, and how that shows. */
  readonly stall: { readonly task: string; readonly text: string } | null
}

export type Usage = Omit<Extract<FromThread, { t: 'usage' }>, 't' | 'task' | 'call'>

/** Sends to the very thread that asked: false, and nothing sent, when that one has ended, even if a new one has begun. */
export type Reply = (message: ToThread) => boolean

export interface ThreadEvents {
  /** Everything a thread says but its heartbeats, and its warnings (see `ThreadOptions.onMessage`). */
  message(name: string, message: FromThread, reply: Reply): void
  state(name: string, status: ThreadStatus): void
  /**
   * It ended without being asked to: before `died`. True when that was no fault of its own, and what it died of is out of the
   * way, so that its restarts are counted from the start.
   */
  excused(name: string, why: string): boolean
  /** It ended without being asked to and is gone (its child processes may not be). `next` is null when it is given up. */
  died(name: string, why: string, next: { readonly restart: number; readonly inMs: number } | null): void
  /** Given up, after `died`. Only `restart` starts it again. */
  failed(name: string, why: string): void
}

export interface ThreadsOptions {
  readonly entry: string
  /** The whole environment of every thread. */
  readonly threadEnv: Readonly<Record<string, string>>
  readonly limits: Pick<Limits, 'heapMb' | 'heartbeatSeconds' | 'restarts'>
  readonly clock: Clock
  readonly on: ThreadEvents
  /** For tests with a time and a chance of their own. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
  readonly random?: () => number
}

/** A thread that runs, and what it said of itself. */
interface Life {
  readonly thread: Thread
  /** Its reason, once it said that it ends of its own will. */
  bye: string | null
  /** Progress at its first heartbeat: what it must pass for the restarts to be forgotten. */
  base: number | null
}

interface Mate {
  data: ThreadData
  status: ThreadStatus
  life: Life | null
  /** Aborts the wait for a restart. */
  due: AbortController | null
  /** Why it is to end, once it was asked to. */
  ending: string | null
}

/**
 * The teammates' threads: spawns them, hears their heartbeats, ends the ones that hang, restarts the ones that died and
 * gives up on those that die again and again without progress. One that throws, exits, hangs or blows its heap harms no
 * other.
 *
 *   start ──▶ starting ──ready──▶ idle ⇄ working ⇄ waiting … (as the thread says)
 *              ▲    │ died              │ died, hung            │ bye, or stop()
 *              │    ▼                   ▼                       ▼
 *              └─ starting, waiting for a restart ──too many──▶ failed      draining ──exit──▶ stopped
 *   restart() leads from stopped and failed to starting, and cuts the wait for a restart short.
 */
export class Threads {
  readonly #o: ThreadsOptions
  readonly #wait: (ms: number, signal: AbortSignal) => Promise<void>
  readonly #random: () => number
  readonly #mates = new Map<string, Mate>()
  readonly #queue: Mate[] = []
  readonly #starting = new Map<Mate, number>()
  readonly #pulse: Pulse
  readonly #closing = new AbortController()

  constructor(options: ThreadsOptions) {
    this.#o = options
    this.#wait = options.wait ?? delay
    this.#random = options.random ?? Math.random
    this.#pulse = new Pulse(options.limits.heartbeatSeconds * 1_000)
    this.#tick()
  }

  /** Starts the thread of `data.name`, at once or when fewer are starting. A name is started once; then `restart`. */
  start(data: ThreadData): void {
    this.#enqueue(this.#add(data, 'starting', null))
  }

  /** Makes a teammate known that is not to run, as it was stopped or given up before: only `restart` starts it. */
  park(data: ThreadData, state: 'stopped' | 'failed', reason: string | null): void {
    this.#add(data, state, reason)
  }

  /** Posts to the thread. False when it has none at the moment (the store is the truth: nothing is lost by that). */
  send(name: string, message: ToThread): boolean {
    const life = this.#mates.get(name)?.life
    life?.thread.post(message)
    return life !== null && life !== undefined
  }

  /**
   * Ends a thread: asks it to, and after `graceMs` ends it by force. `bye`: it said that all is saved, or there was none to
   * end. A second call with a shorter grace hurries it. A failed one stays failed. Resolves when the thread is gone.
   */
  async stop(name: string, reason: string, graceMs: number): Promise<'bye' | 'forced'> {
    const mate = this.#mates.get(name)
    if (!mate) throw new Error(`${name} was never started`)
    const life = this.#leave(mate, reason)
    if (!life) return 'bye'
    life.thread.post({ t: 'stop', reason })
    this.#killAfter(graceMs, life, 'it did not stop in time')
    await life.thread.ended
    return life.bye === null ? 'forced' : 'bye'
  }

  /**
   * Waits for a thread that said it is ending (it approved its shutdown): it finishes what it is doing and says goodbye; after
   * `graceMs` it is ended by force. Resolves when the thread is gone.
   */
  async leave(name: string, reason: string, graceMs: number): Promise<'bye' | 'forced'> {
    const mate = this.#mates.get(name)
    if (!mate) throw new Error(`${name} was never started`)
    const life = this.#leave(mate, reason)
    if (!life) return 'bye'
    this.#killAfter(graceMs, life, 'it did not end in time')
    await life.thread.ended
    return life.bye === null ? 'forced' : 'bye'
  }

  /** Lets a stopped or failed teammate start again with a clean count, and one whose restart is due start now. */
  restart(name: string): Result<void> {
    const mate = this.#mates.get(name)
    if (!mate) return fail('unknown', `no teammate named ${name}`)
    if (this.#closing.signal.aborted) return fail('closed', 'the daemon is stopping')
    if (mate.life) return fail('refused', `${name} is running (${mate.status.state})`)
    this.#unqueue(mate)
    mate.ending = null
    this.#set(mate, { state: 'starting', waiting: null, restarts: 0, reason: null })
    this.#enqueue(mate)
    return ok(undefined)
  }

  /** What the next start of this thread is to begin with; a thread that runs is not touched. */
  begin(data: ThreadData): void {
    const mate = this.#mates.get(data.name)
    if (mate) mate.data = data
  }

  /** Lets go of a teammate whose thread has ended, so that the name may be started anew. */
  forget(name: string): void {
    const mate = this.#mates.get(name)
    if (!mate) return
    if (mate.life) throw new Error(`${name} is running (${mate.status.state})`)
    this.#unqueue(mate)
    this.#mates.delete(name)
  }

  status(name: string): ThreadStatus | undefined {
    return this.#mates.get(name)?.status
  }

  /** Has it ended its turn: with nothing to do, or to wait for a decision? */
  hasEndedTurn(name: string): boolean {
    const status = this.status(name)
    return status?.state === 'idle' || (status?.state === 'waiting' && status.waiting?.request !== undefined)
  }

  /** In the order in which they were started. */
  names(): string[] {
    return [...this.#mates.keys()]
  }

  /** Ends whatever still runs, without asking, and every wait. Resolves when all threads are gone. */
  async close(): Promise<void> {
    this.#closing.abort()
    const reason = 'the daemon stopped'
    const lives = [...this.#mates.values()].flatMap(mate => this.#leave(mate, reason) ?? [])
    for (const life of lives) life.thread.kill(reason)
    await Promise.all(lives.map(life => life.thread.ended))
  }

  #add(data: ThreadData, state: TeammateState, reason: string | null): Mate {
    if (this.#closing.signal.aborted) throw new Error('the threads are closed')
    if (this.#mates.has(data.name)) throw new Error(`${data.name} was started before`)
    const usage = { input: 0, cachedInput: 0, output: 0, calls: 0, context: null }
    const status = { state, since: iso(this.#o.clock.wall()), waiting: null, restarts: 0, reason, usage, stall: null }
    const mate: Mate = { data, status, life: null, due: null, ending: null }
    this.#mates.set(data.name, mate)
    this.#o.on.state(data.name, status)
    return mate
  }

  /** The one place where a status changes. */
  #set(mate: Mate, change: Partial<Omit<ThreadStatus, 'since'>>): void {
    const moved = change.state !== undefined && change.state !== mate.status.state
    const since = moved ? iso(this.#o.clock.wall()) : mate.status.since
    mate.status = { ...mate.status, ...change, since }
    this.#o.on.state(mate.data.name, mate.status)
  }

  /** From now on its end is wanted. What still runs of it is returned. */
  #leave(mate: Mate, reason: string): Life | null {
    mate.ending ??= reason
    this.#unqueue(mate)
    const { state } = mate.status
    if (mate.life) this.#set(mate, { state: 'draining', waiting: null, reason: mate.ending })
    else if (state !== 'failed' && state !== 'stopped') this.#set(mate, { state: 'stopped', waiting: null, reason })
    return mate.life
  }

  #enqueue(mate: Mate): void {
    this.#queue.push(mate)
    this.#fill()
  }

  #unqueue(mate: Mate): void {
    mate.due?.abort()
    mate.due = null
    const at = this.#queue.indexOf(mate)
    if (at !== -1) this.#queue.splice(at, 1)
  }

  #fill(): void {
    while (this.#starting.size < startingAtOnce) {
      const mate = this.#queue.shift()
      if (!mate) return
      this.#starting.set(mate, this.#o.clock.mono())
      this.#spawn(mate)
    }
  }

  /** No longer among those that are starting: the next one may. */
  #started(mate: Mate): void {
    if (this.#starting.delete(mate)) this.#fill()
  }

  #spawn(mate: Mate): void {
    const { name } = mate.data
    const thread = openThread({
      entry: this.#o.entry,
      data: mate.data,
      env: this.#o.threadEnv,
      heapMb: this.#o.limits.heapMb,
      clock: this.#o.clock,
      onOnline: () => this.#pulse.heard(name),
      onMessage: message => this.#heard(mate, life, message),
      onEnd: why => this.#ended(mate, life, why),
    })
    const life: Life = { thread, bye: null, base: null }
    mate.life = life
    this.#pulse.heard(name)
  }

  #heard(mate: Mate, life: Life, message: FromThread): void {
    const current = mate.life === life
    const free = current && mate.ending === null && life.bye === null
    if (current) this.#pulse.heard(mate.data.name)
    if (message.t === 'beat') {
      if (free) this.#beat(mate, life, message.progress)
      return
    }
    if (message.t === 'ready') {
      this.#started(mate)
      mate.status = { ...mate.status, stall: null }
      if (free) this.#set(mate, { state: message.goesOn ? 'working' : 'idle', waiting: null })
    }
    if (message.t === 'state' && free) this.#set(mate, { state: message.state, waiting: message.waiting })
    if (message.t === 'usage') {
      const { t: _, task: _task, call: _call, ...usage } = message
      mate.status = { ...mate.status, usage }
    }
    if (message.t === 'stall') {
      const { task, text } = message
      mate.status = { ...mate.status, stall: text === null ? null : { task, text } }
    }
    if (message.t === 'bye' && life.bye === null) {
      life.bye = message.reason
      this.#set(mate, { state: 'draining', waiting: null, reason: mate.ending ?? life.bye })
      this.#killAfter(byeGraceMs, life, 'it did not end after its goodbye')
    }
    this.#o.on.message(mate.data.name, message, reply => {
      if (mate.life !== life) return false
      life.thread.post(reply)
      return true
    })
  }

  #beat(mate: Mate, life: Life, progress: number): void {
    life.base ??= progress
    if (progress <= life.base) return
    life.base = Number.POSITIVE_INFINITY
    if (mate.status.restarts > 0 || mate.status.reason !== null) this.#set(mate, { restarts: 0, reason: null })
  }

  #ended(mate: Mate, life: Life, why: string): void {
    const { name } = mate.data
    mate.life = null
    this.#pulse.drop(name)
    this.#started(mate)
    const wanted = mate.ending ?? life.bye
    if (wanted !== null) {
      this.#set(mate, { state: 'stopped', waiting: null, reason: wanted })
      return
    }
    const before = this.#o.on.excused(name, why) ? 0 : mate.status.restarts
    const then = afterDeath(before, this.#o.limits.restarts, this.#random())
    if (then.next === 'fail') {
      this.#set(mate, { state: 'failed', waiting: null, reason: why })
      this.#o.on.died(name, why, null)
      this.#o.on.failed(name, why)
      return
    }
    const { restart, inMs } = then
    const what = `restart ${restart} of ${this.#o.limits.restarts}, in ${(inMs / 1_000).toFixed(1)} s`
    this.#set(mate, { state: 'starting', waiting: { what, whom: 'supervisor' }, restarts: restart, reason: why })
    const due = new AbortController()
    mate.due = due
    this.#after(inMs, due.signal, () => {
      mate.due = null
      this.#set(mate, { waiting: null })
      this.#enqueue(mate)
    })
    this.#o.on.died(name, why, { restart, inMs })
  }

  /** Looks for threads that give no sign of life, and frees the place of one that has been starting for as long as that. */
  #tick(): void {
    this.#after(this.#pulse.tickMs, this.#closing.signal, () => {
      const seconds = this.#o.limits.heartbeatSeconds
      const now = this.#o.clock.mono()
      for (const name of this.#pulse.look(now)) {
        this.#pulse.drop(name)
        this.#mates.get(name)?.life?.thread.kill(`no sign of life for ${seconds} s`)
      }
      for (const [mate, since] of [...this.#starting]) if (now - since > seconds * 1_000) this.#started(mate)
      this.#tick()
    })
  }

  #killAfter(ms: number, life: Life, why: string): void {
    const gone = new AbortController()
    void life.thread.ended.then(() => gone.abort())
    this.#after(ms, gone.signal, () => life.thread.kill(why))
  }

  /** `act` after `ms`, unless the signal is aborted first. */
  #after(ms: number, signal: AbortSignal, act: () => void): void {
    void this.#wait(ms, signal).then(act, (cause: unknown) => {
      if (!signal.aborted) throw cause
    })
  }
}
