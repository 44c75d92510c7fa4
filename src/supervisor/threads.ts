import { delay, iso } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { TeammateState } from '../protocol/teammate.ts'
import type { FromThread, ThreadData, ToThread } from '../protocol/thread.ts'
import { afterDeath } from './backoff.ts'
import { Pulse } from './pulse.ts'
import { openThread, type Thread } from './thread.ts'
import type { ThreadStatus, ThreadsOptions } from './thread-status.ts'

export type { Reply, ThreadEvents, ThreadStatus, ThreadsOptions, Usage } from './thread-status.ts'

/** Threads that may be starting at the same moment; the rest queue, so that a large team does not starve its first ones. */
const startingAtOnce = 8
/** After its `bye` a thread has so long to end by itself. */
const byeGraceMs = 2_000

/** A thread that runs, and what it said of itself. */
interface Life {
  readonly thread: Thread
  /** Its reason, once it said that it ends of its own will. */
  bye: string | null
  /** Progress at its first heartbeat: what it must pass for the restarts to be forgotten. */
  base: number | null
  /** What came of it so far, as its last heartbeat counted it. */
  moves: number | null
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
  /** Signs of life of each thread, and, of those that work, of something coming of it. */
  readonly #pulse: Pulse
  readonly #moves: Pulse
  readonly #closing = new AbortController()

  constructor(options: ThreadsOptions) {
    this.#o = options
    this.#wait = options.wait ?? delay
    this.#random = options.random ?? Math.random
    this.#pulse = new Pulse(options.limits.heartbeatSeconds * 1_000)
    this.#moves = new Pulse(options.limits.stuckSeconds * 1_000)
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
    const status = {
      state,
      since: iso(this.#o.clock.wall()),
      waiting: null,
      restarts: 0,
      reason,
      usage,
      stall: null,
      commands: [],
      stuck: null,
    }
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
    const life: Life = { thread, bye: null, base: null, moves: null }
    mate.life = life
    this.#pulse.heard(name)
  }

  #heard(mate: Mate, life: Life, message: FromThread): void {
    const current = mate.life === life
    const free = current && mate.ending === null && life.bye === null
    if (current) this.#pulse.heard(mate.data.name)
    if (message.t === 'beat') {
      if (free) this.#beat(mate, life, message)
      return
    }
    if (message.t === 'ready') {
      this.#started(mate)
      mate.status = { ...mate.status, stall: null }
      if (free) this.#set(mate, { state: message.goesOn ? 'working' : 'idle', waiting: null })
    }
    if (message.t === 'state' && free) {
      if (message.state !== 'working') this.#moves.drop(mate.data.name)
      this.#set(mate, { state: message.state, waiting: message.waiting })
    }
    if (message.t === 'usage') {
      const { t: _, task: _task, call: _call, ...usage } = message
      mate.status = { ...mate.status, usage }
    }
    if (message.t === 'commands') mate.status = { ...mate.status, commands: message.running }
    if (message.t === 'stall') {
      const { task, text } = message
      mate.status = { ...mate.status, stall: text === null ? null : { task, text, since: iso(this.#o.clock.wall()) } }
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

  #beat(mate: Mate, life: Life, { progress, moves = 0, mayTake = 0 }: Extract<FromThread, { t: 'beat' }>): void {
    if (mate.status.state === 'working' && (moves !== life.moves || !this.#moves.watches(mate.data.name)))
      this.#moves.heard(mate.data.name, mayTake * 1_000)
    life.moves = moves
    life.base ??= progress
    if (progress <= life.base) return
    life.base = Number.POSITIVE_INFINITY
    if (mate.status.restarts > 0 || mate.status.reason !== null) this.#set(mate, { restarts: 0, reason: null })
  }

  #ended(mate: Mate, life: Life, why: string): void {
    const { name } = mate.data
    mate.life = null
    this.#pulse.drop(name)
    this.#moves.drop(name)
    mate.status = { ...mate.status, stuck: null, commands: [] }
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
      for (const name of this.#moves.look(now)) {
        this.#moves.drop(name)
        this.#mates.get(name)?.life?.thread.kill('stuck: nothing came of what it did, long after its time')
      }
      for (const mate of this.#mates.values()) this.#look(mate)
      for (const [mate, since] of [...this.#starting]) if (now - since > seconds * 1_000) this.#started(mate)
      this.#tick()
    })
  }

  /** Shows whether it is stuck, when that changes. */
  #look(mate: Mate): void {
    const { name } = mate.data
    const text = this.#pulse.isLate(name)
      ? 'its thread gives no sign of life'
      : this.#moves.isLate(name)
        ? 'nothing comes of what it does, long after its time'
        : null
    if (text === (mate.status.stuck?.text ?? null)) return
    this.#set(mate, { stuck: text === null ? null : { text, since: iso(this.#o.clock.wall()) } })
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
