import { reach } from '../lib/points.ts'
import { ok, type Result } from '../lib/result.ts'
import type { RequestOf } from '../protocol/request.ts'
import type { DownReport, RpcParsed } from '../protocol/rpc.ts'
import { type Core, isLive } from './core.ts'
import { releaseInHand } from './in-hand.ts'
import { setStanding } from './members.ts'
import type { Notices } from './notices.ts'
import type { Threads } from './threads.ts'

type ShutdownRequest = RequestOf<'shutdown_request'>
type How = DownReport['stopped'][number]['how']

/** What `team down` asks for: everybody, or only `names`. */
export type DownOptions = RpcParsed<'down'>

/** Who stops the team (or some of it), and why, in a sentence, where there is more to say than that. */
export type Stopping = DownOptions & { readonly by: 'human' | 'supervisor'; readonly why?: string }

/** After its deadline a thread gets so long to flush before it is ended. */
const forceGraceMs = 2000

/**
 * The effect of shutdown requests, and `team down`, which is one for everybody. Approved: the teammate ends at its next safe
 * point. Expired: it is ended by force, recorded so. Rejected: it works on.
 */
export class Shutdown {
  readonly #core: Core
  readonly #threads: Threads
  readonly #afterStop: (name: string) => Promise<void>
  readonly #failed: (error: unknown) => void
  readonly #notices: Notices
  /** Requests whose effect runs in this process, and those whose end is still asked for. */
  readonly #running = new Map<string, Promise<How>>()
  /** How many calls of `all` ask for the end of a request. */
  readonly #asking = new Map<string, number>()

  constructor(o: {
    core: Core
    threads: Threads
    notices: Notices
    afterStop: (name: string) => Promise<void>
    /** A bug, or the journal cannot be written. */
    onFailure: (error: unknown) => void
  }) {
    this.#core = o.core
    this.#threads = o.threads
    this.#afterStop = o.afterStop
    this.#notices = o.notices
    this.#failed = o.onFailure
  }

  /** How many requests it still has to do with. */
  get underWay(): number {
    return new Set([...this.#running.keys(), ...this.#asking.keys()]).size
  }

  /** Follows one request: starts its effect when its state calls for one, once. */
  advance(request: ShutdownRequest): void {
    if (request.effect?.step === 'done' || request.outcome === null || this.#running.has(request.id)) return
    const approved = request.status === 'approved' && request.outcome === 'decided'
    if (approved || request.outcome === 'expired') this.#effect(request, approved).catch(this.#failed)
  }

  /**
   * Asks everyone. All ended (by approval, or by force at the deadline): their names and how. One rejected: the reasons; those
   * who had ended for it are started again, since the daemon goes on.
   */
  async all(o: Stopping): Promise<Result<DownReport>> {
    const stopped: DownReport['stopped'][number][] = []
    const rejected: DownReport['rejected'][number][] = []
    const one = async (name: string): Promise<void> => {
      const state = this.#threads.status(name)?.state
      if (state === undefined || state === 'stopped' || state === 'failed') return
      if (o.force || state === 'starting') {
        await this.#threads.stop(
          name,
          o.force ? 'team down --force' : 'team down',
          o.force ? forceGraceMs : o.timeoutMs,
        )
        await this.#afterStop(name)
        stopped.push({ name, how: state === 'starting' ? 'dead' : 'forced' })
        return
      }
      const opened = this.#core.requests.open({
        type: 'shutdown_request',
        from: o.by,
        to: name,
        title: `shut down, ${name}`,
        body: `${o.why ?? `${o.names ? 'You are' : 'The team is'} being stopped.`} Finish or release what you have in hand, then approve; reject with a reason if stopping now would lose work.`,
        data: { teammate: name, graceMs: o.timeoutMs, ...(o.names ? {} : { wholeTeam: true }) },
      })
      if (!opened.ok) throw new Error(opened.fault.message)
      const { id } = opened.value.request
      this.#asking.set(id, (this.#asking.get(id) ?? 0) + 1)
      try {
        await follow(name, id)
      } finally {
        const others = (this.#asking.get(id) ?? 1) - 1
        if (others > 0) this.#asking.set(id, others)
        else this.#asking.delete(id)
        this.#forget(id)
      }
    }
    const follow = async (name: string, id: string): Promise<void> => {
      const ended = await this.#ended(id)
      if (ended.status === 'rejected' && ended.outcome === 'decided') {
        rejected.push({ name, reason: ended.reason ?? 'no reason given' })
        return
      }
      const now = this.#threads.status(name)?.state
      if (ended.outcome === 'withdrawn' && (now === 'stopped' || now === 'failed')) {
        stopped.push({ name, how: 'dead' })
        return
      }
      if (ended.outcome === 'withdrawn') {
        rejected.push({ name, reason: `the request was withdrawn: ${ended.reason}` })
        return
      }
      stopped.push({ name, how: await this.#effect(ended, ended.status === 'approved') })
    }
    await Promise.all((o.names ?? this.#core.roster.names).map(one))
    // One that was stopped alone meanwhile stays so.
    if (rejected.length > 0 && !o.names)
      for (const { name } of stopped) if (isLive(this.#core, name)) this.#threads.restart(name)
    return ok({ stopped, rejected })
  }

  /** Whoever has not answered yet is ended at once, by force. */
  async hurry(): Promise<void> {
    const { requests } = this.#core
    for (const request of requests.waiting())
      if (request.type === 'shutdown_request')
        requests.end(request.id, 'expired', 'supervisor', 'the human asked to stop at once')
    await Promise.all(this.#threads.names().map(name => this.#threads.stop(name, 'forced', 0)))
  }

  /** Resolves when the request ended, by a decision or otherwise. */
  #ended(id: string): Promise<ShutdownRequest> {
    return new Promise(resolve => {
      const look = (): boolean => {
        const request = this.#core.requests.get(id)?.value
        if (request?.type !== 'shutdown_request' || request.outcome === null) return false
        stop()
        resolve(request)
        return true
      }
      const stop = this.#core.store.requests.watch(changed => {
        if (changed === id) look()
      })
      look()
    })
  }

  #effect(request: ShutdownRequest, approved: boolean): Promise<How> {
    let run = this.#running.get(request.id)
    if (!run) {
      // It is known as running before its first step, whose record is told to `advance` again.
      run = Promise.resolve().then(() => this.#run(request, approved))
      this.#running.set(request.id, run)
      // Who waits for `run` is told when it fails.
      run.then(
        () => this.#forget(request.id),
        () => {},
      )
    }
    return run
  }

  /**
   * Lets go of a request whose effect is on record as done, so that `advance` starts it no second time, and which no `all`
   * will ask about. One that failed stays: it is not tried again in this process.
   */
  #forget(id: string): void {
    if (this.#asking.has(id) || this.#core.requests.get(id)?.value.effect?.step !== 'done') return
    this.#running.delete(id)
  }

  async #run(request: ShutdownRequest, approved: boolean): Promise<How> {
    const { requests } = this.#core
    const { teammate, graceMs } = request.data
    const intent = requests.effect(request.id, 'intent')
    if (intent.ok) await intent.value.durable
    const task = this.#core.tasks.inHand(teammate)?.value
    reach('effect.act')
    // An approval is the thread's own word that it is ending: it says goodbye by itself, within the grace it was given.
    const end = approved
      ? await this.#threads.leave(teammate, 'shutdown approved', graceMs)
      : await this.#threads.stop(teammate, 'nobody answered the shutdown request in time', forceGraceMs)
    await this.#afterStop(teammate)
    reach('effect.acted')
    // Also while the whole team is being stopped: what was asked of it alone holds over the next start.
    if (request.data.wholeTeam === undefined && this.#threads.status(teammate)?.state === 'stopped')
      stayStopped(this.#core, teammate)
    const how: How = approved && end === 'bye' ? (task ? 'approved' : 'idle') : 'forced'
    if (how !== 'forced') {
      requests.effect(request.id, 'done', 'ok')
      return how
    }
    const left = this.#core.tasks.inHand(teammate) ? undefined : task
    requests.effect(request.id, 'done', 'forced', 'ended by force', left ? { task: left.id } : {})
    const ended = requests.get(request.id)?.value
    if (ended) this.#notices.stoppedByForce(teammate, ended)
    return how
  }
}

/** A teammate that does not run any more needs not be asked, and asks for nothing. */
export const withdrawShutdowns = ({ requests }: Core, name: string): void => {
  for (const request of requests.waiting())
    if (request.type === 'shutdown_request' && request.data.teammate === name)
      requests.end(request.id, 'withdrawn', 'supervisor', `${name} has ended already`)
}

/** Puts a teammate that was stopped alone on record as such, until somebody restarts it. */
const stayStopped = (core: Core, name: string): void => {
  if (isLive(core, name)) setStanding(core, name, 'stopped', 'it was shut down')
}

/**
 * Brings to an end what an earlier daemon left of a shutdown, before any thread starts. What was decided about one teammate
 * alone, by itself or by a person, holds, and so does its silence past the deadline: it is not started. Of a stop of the whole
 * team nothing holds, since this is the start that follows it. What a teammate was asked and has not answered went with the
 * daemon; one that still waits for a person goes on waiting.
 */
export const settleShutdown = (core: Core, request: ShutdownRequest): void => {
  const { requests } = core
  const { teammate } = request.data
  if (request.outcome === null) {
    if (request.to === teammate)
      requests.end(request.id, 'withdrawn', 'supervisor', 'the daemon it was about has ended')
    return
  }
  const due = request.outcome === 'expired' || (request.outcome === 'decided' && request.status === 'approved')
  if (!due || request.effect?.step === 'done') return
  if (request.data.wholeTeam === undefined && core.roster.has(teammate)) stayStopped(core, teammate)
  requests.effect(request.id, 'done', 'ok', 'the daemon ended meanwhile')
}

/** Tasks in hands that will not work on them: of one who left the team, or who was stopped or given up before a crash. */
export const releaseOrphans = async (core: Core): Promise<void> => {
  for (const [, { value }] of [...core.store.tasks.list()]) {
    const { status, claimed, owner } = value
    if (status !== 'in_progress' || claimed || owner === null) continue
    if (!core.roster.has(owner)) await releaseInHand(core, owner, `${owner} is not on the team any more`)
    else if (!isLive(core, owner)) await releaseInHand(core, owner, `${owner} does not run`)
  }
}
