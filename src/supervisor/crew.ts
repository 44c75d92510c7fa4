import type { Member } from '../protocol/config.ts'
import type { Stored } from '../protocol/message.ts'
import { isEnded, type Task } from '../protocol/task.ts'
import type { FromThread } from '../protocol/thread.ts'
import { endLeftovers, shellsOf, teamMarker } from '../sandbox/leftover.ts'
import { CompactAsks } from './compacting.ts'
import { type Core, isLive, keepRescued, keepWork } from './core.ts'
import { Deaths } from './deaths.ts'
import { Dispatch } from './dispatch.ts'
import type { Handlers } from './handlers.ts'
import { releaseInHand } from './in-hand.ts'
import { Listeners } from './listeners.ts'
import type { DaemonLog } from './log.ts'
import { isUrgent } from './mail.ts'
import { setStanding } from './members.ts'
import type { Notices } from './notices.ts'
import { settleUses } from './permissions.ts'
import { withdrawShutdowns } from './shutdown.ts'
import { Suspicion } from './suspicion.ts'
import { type Reply, type ThreadStatus, Threads } from './threads.ts'
import { isParked, withdrawOf } from './withdraw.ts'

export interface CrewOptions {
  readonly core: Core
  readonly notices: Notices
  readonly log: DaemonLog
  readonly redact: (text: string) => string
  readonly threadEntry: string
  /** A task is told to a thread, for the first time. */
  readonly onWork: () => void
  readonly threadEnv: () => Readonly<Record<string, string>>
  /** Answers what a thread asks. */
  readonly table: () => Handlers
  /** Resolves when the trunk is where new work may start from, and the clone of `name` is there. */
  readonly bringBase: (name: string) => Promise<void>
  /** Something changed that may leave nothing to be done. */
  readonly onChange: () => void
  /** A bug, or the journal cannot be written. */
  readonly onFailure: (error: unknown) => void
  /** Told of each change of state: true when there is to be no new work for this teammate for now. */
  readonly holdsBack: (name: string) => boolean
  /** The whole team is being stopped, so a stopped teammate is not put on record as such. */
  readonly isGoing: () => boolean
}

/** The teammates' threads and what is given to them: hears what they say, and cleans up behind those that end. */
export class Crew {
  readonly threads: Threads
  readonly asks: CompactAsks
  readonly listeners: Listeners
  readonly dispatch: Dispatch
  readonly suspicion: Suspicion
  readonly deaths: Deaths
  readonly #o: CrewOptions
  readonly #told = new Map<string, string>()
  /** Whose death was told, until they get on again. */
  readonly #mourned = new Set<string>()
  #hasWork = false

  constructor(o: CrewOptions) {
    this.#o = o
    this.suspicion = new Suspicion({
      core: o.core,
      onLetGo: () => this.dispatch.kick(),
      onFailure: o.onFailure,
    })
    this.deaths = new Deaths(o.core, this.suspicion)
    this.threads = new Threads({
      entry: o.threadEntry,
      get threadEnv() {
        return o.threadEnv()
      },
      limits: o.core.config.limits,
      clock: o.core.clock,
      on: {
        message: (name, message, reply) => this.#heard(name, message, reply),
        state: (name, status) => {
          const held = o.holdsBack(name)
          // Who waits for the model in the middle of a call makes it all the same, later.
          if (status.state !== 'working' && status.state !== 'waiting') o.core.budget.release(name)
          if (['idle', 'starting', 'stopped', 'failed'].includes(status.state)) o.core.modelCalls.gone(name)
          if (status.state === 'idle' && !held) this.dispatch.idle(name)
          else this.dispatch.busyNow(name)
          if (status.state === 'waiting' && status.waiting?.request !== undefined) this.suspicion.parked(name)
          if (status.reason === null) this.#mourned.delete(name)
          this.#tellState(name, status)
          o.onChange()
        },
        excused: (name, why) => this.deaths.ofThread(name, o.redact(why), task => this.dispatch.hasTold(name, task)),
        died: (name, why, next) => this.#died(name, why, next),
        failed: (name, why) => void this.#gaveUp(name, why).catch(o.onFailure),
      },
    })
    this.asks = new CompactAsks(this.threads)
    this.listeners = new Listeners((name, on) => void this.threads.send(name, { t: 'listen', on }))
    this.dispatch = new Dispatch({
      core: o.core,
      send: (name, task) => {
        if (!this.#hasWork) o.onWork()
        this.#hasWork = true
        this.threads.send(name, { t: 'assign', task })
      },
      // One whose start is still to come, after that of others, counts as alive: what was sent back to it is its own.
      alive: name => {
        const live = o.core.roster.has(name) && isLive(o.core, name)
        const state = this.threads.status(name)?.state ?? (live ? 'starting' : 'stopped')
        return state !== 'stopped' && state !== 'failed'
      },
      onFailure: o.onFailure,
      suspicion: this.suspicion,
      bringBase: o.bringBase,
      onProblem: (key, text) => o.notices.problem(key, text),
    })
  }

  /** How the daemon before this one died, before anything is given out. True: it is counted against a task. */
  judge(died: string | null): boolean {
    const isCounted = died !== null && this.deaths.ofDaemon(died)
    this.deaths.recover()
    this.suspicion.start()
    return isCounted
  }

  /** Nothing goes on with this teammate without a person (or a new task, or mail). */
  isResting(name: string): boolean {
    const status = this.threads.status(name)
    if (status?.state === 'stopped' || status?.state === 'failed') return true
    // Who waits for a decision goes on when somebody decides, and they are asked about here themselves.
    if (status?.state === 'waiting') return status.waiting?.whom === 'human' || status.waiting?.request !== undefined
    return status?.state === 'idle' && this.#o.core.mail.unread(name) === 0
  }

  /** A message stands in an inbox, durably: a hint to its reader. */
  mailFor(name: string, stored: Stored): void {
    this.threads.send(name, { t: 'mail', urgent: isUrgent(stored) })
  }

  /** It looks again whether there is something to go on with. */
  wake(name: string): void {
    this.threads.send(name, { t: 'mail', urgent: false })
  }

  /** What config.json forbids by now binds from the next command on, also in a thread that is to be started anew for it later. */
  tellRules({ name, permissions }: Member): void {
    this.threads.send(name, { t: 'rules', permissions })
  }

  /** A task that somebody else ended, or released, leaves the hands it was in. */
  taskChanged(task: Task, old: Task | undefined, by: string): void {
    if (old?.status !== 'in_progress' || old.claimed || old.owner === null || by === old.owner) return
    if (task.status === 'in_progress') return
    const how = task.status === 'pending' ? 'released' : task.status
    this.threads.send(old.owner, {
      t: 'unassign',
      id: task.id,
      reason: `task ${task.id} was ${how}${task.error === null || task.error === how ? '' : `: ${task.error}`}`,
    })
    if (!isEnded(task)) return
    void keepWork(this.#o.core, old).catch(error =>
      this.#o.log.error(`the work on task ${task.id} is in its clone`, error),
    )
  }

  /**
   * Behind a teammate that has ended: what its commands left, and what it had in hand. Who waits for a decision when the whole
   * team is stopped keeps its task and what it asked, to go on from there at the next start.
   */
  async afterStop(name: string, why: string): Promise<void> {
    const { core, isGoing } = this.#o
    this.dispatch.gone(name)
    withdrawShutdowns(core, name)
    core.leases.ended(name, why)
    const keeps = isGoing() && isParked(core, name)
    if (!keeps) withdrawOf(core, name)
    await this.sweep(name)
    if (!keeps) await releaseInHand(core, name, why)
    const stays = !isGoing() && !core.roster.isLeaving(name)
    if (stays && this.threads.status(name)?.state === 'stopped') setStanding(core, name, 'stopped', why)
    core.store.note({ event: 'teammate.stopped', by: 'supervisor', info: { name } })
  }

  /** A state that screens show stands in the journal, each once. */
  #tellState(name: string, { state, waiting }: ThreadStatus): void {
    const shown = JSON.stringify([state, waiting])
    if (this.#told.get(name) === shown) return
    this.#told.set(name, shown)
    const { core, redact, onFailure } = this.#o
    const info = JSON.parse(redact(JSON.stringify({ name, state, ...(waiting ? { waiting } : {}) })))
    try {
      core.store.note({ event: 'teammate.state', by: name, info })
    } catch (error) {
      // The journal cannot be written: threads are being ended for that very reason, which must go on.
      onFailure(error)
    }
  }

  #heard(name: string, message: FromThread, reply: Reply): void {
    const { core, redact } = this.#o
    const { store, mail } = core
    const hint = () => {
      if (mail.unread(name) > 0) this.threads.send(name, { t: 'mail', urgent: mail.hasUrgent(name) })
    }
    if (message.t === 'req') void this.#answer(name, message, reply)
    else if (message.t === 'ready') {
      settleUses(core, name)
      this.deaths.ready(name)
      // It may have been started with the rules of before an edit.
      const member = core.roster.find(name)
      if (member) this.tellRules(member)
      store.note({ event: 'teammate.ready', by: name, info: { name } })
      this.listeners.ready(name)
      hint()
    } else if (message.t === 'words') this.listeners.heard(name, message)
    else if (message.t === 'compact') this.asks.heard(message)
    else if (message.t === 'usage') core.budget.heard(name, message)
    else if (message.t === 'stall') {
      const { task } = message
      const text = message.text === null ? null : redact(message.text)
      store.note({ event: 'teammate.stalled', by: name, info: { name, task, text } })
      if (text !== null) this.#o.notices.stalled(name, task, text)
    } else if (message.t === 'state' && message.state === 'idle') hint()
    // Into the hub with it, where it is safe from what becomes of the clone; that is what the journal says then.
    else if (message.t === 'event' && message.event === 'work.rescued') keepRescued(core, name).catch(this.#o.onFailure)
    else if (message.t === 'event') {
      if (message.event === 'model.failed' || message.event === 'subagent.ended')
        core.budget.release(name, typeof message.info.sub === 'string' ? message.info.sub : undefined)
      // A thread's own words may carry what a command printed; the journal must not hold a secret.
      const info = JSON.parse(redact(JSON.stringify(message.info))) as Record<string, unknown>
      store.note({ event: message.event, by: name, info })
      if (message.event === 'outside.changed') this.#o.notices.outside(name, info)
    }
  }

  async #answer(name: string, { id, method, params }: Extract<FromThread, { t: 'req' }>, reply: Reply): Promise<void> {
    try {
      const result = await this.#o.table().call(name, method, params)
      if (result.ok) reply({ t: 'res', id, ok: true, value: result.value })
      else {
        const { code, message, hint } = result.fault
        reply({ t: 'res', id, ok: false, fault: { code, message, ...(hint === undefined ? {} : { hint }) } })
      }
    } catch (cause) {
      // A bug here is this call's trouble: it is logged with its stack, and the asker is told.
      this.#o.log.error(`${method} asked by ${name} failed`, cause)
      const message = `${method} failed in the daemon: ${cause instanceof Error ? cause.message : String(cause)}`
      reply({ t: 'res', id, ok: false, fault: { code: 'internal', message } })
    }
  }

  #died(name: string, why: string, next: { restart: number; inMs: number } | null): void {
    this.dispatch.gone(name)
    this.#o.core.leases.died(name, why)
    this.#o.core.store.note({ event: 'teammate.died', by: 'supervisor', info: { name, why, ...(next ?? {}) } })
    if (next !== null && !this.#mourned.has(name)) {
      this.#mourned.add(name)
      this.#o.notices.died(name, this.#o.redact(why))
    }
    this.sweep(name).catch(this.#o.onFailure)
  }

  async #gaveUp(name: string, why: string): Promise<void> {
    const { core, notices } = this.#o
    core.store.note({ event: 'teammate.failed', by: 'supervisor', info: { name, why } })
    setStanding(core, name, 'failed', why)
    notices.gaveUp(name, why)
    await this.afterStop(name, `${name} was given up: ${why}`)
  }

  /** Ends whatever a dead thread's commands left running, known by the mark in their environment, never by a number. */
  async sweep(name: string): Promise<void> {
    const { store, root } = this.#o.core
    // Of this thread alone: its successor may be running commands before the last of these is gone.
    const ended = await Promise.all(shellsOf(teamMarker(root, name)).map(shell => endLeftovers(shell, 2000)))
    for (const left of ended.flat()) store.note({ event: 'command.orphan', by: 'supervisor', info: { name, ...left } })
  }
}
