import { rmSync } from 'node:fs'
import { type Hub, openHub } from '../git/hub.ts'
import { type Clock, iso } from '../lib/clock.ts'
import { makeRedactor } from '../lib/redact.ts'
import { type Fault, FaultError, ok, type Result } from '../lib/result.ts'
import type { Config, Member } from '../protocol/config.ts'
import type { JournalEntry } from '../protocol/event.ts'
import type { Stored } from '../protocol/message.ts'
import type { Call, DownReport, Hello } from '../protocol/rpc.ts'
import type { Task } from '../protocol/task.ts'
import type { FromThread } from '../protocol/thread.ts'
import { endLeftovers, teamMarker } from '../sandbox/leftover.ts'
import { makeShell } from '../sandbox/make-shell.ts'
import type { Probe, Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import { type Holder, hold } from '../store/index.ts'
import { layout } from '../store/root.ts'
import { type Core, makeCore } from './core.ts'
import { Dispatch } from './dispatch.ts'
import { Folders } from './folders.ts'
import { type Handlers, makeHandlers } from './handlers.ts'
import { hiddenPaths } from './hidden.ts'
import { importRequests } from './import.ts'
import { type DaemonLog, openLog } from './log.ts'
import { isUrgent } from './mail.ts'
import { type MembersOptions, setStanding, startMember } from './members.ts'
import { Notices } from './notices.ts'
import { Proof } from './proof.ts'
import { releaseInHand, Shutdown } from './shutdown.ts'
import { makeStatus } from './status.ts'
import { takeTaskMessage, takeTaskMessages } from './task-messages.ts'
import { type Reply, Threads } from './threads.ts'

export interface DaemonOptions {
  readonly root: string
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  readonly config: Config
  readonly members: readonly Member[]
  /** Real paths of config.json's `data`. */
  readonly dataPaths: readonly string[]
  /** Values that must never reach a log, a journal, a message or a model. */
  readonly secrets: readonly string[]
  /** The whole environment of the teammates' threads. */
  readonly threadEnv: Readonly<Record<string, string>>
  readonly threadEntry: string
  readonly probe: Probe
  readonly version: string
  readonly clock: Clock
  /** End by itself when nothing can go on without a person. */
  readonly once: boolean
  /** The person's word that a holder on another host is dead. */
  readonly takeover: boolean
  readonly onEntry: (entry: JournalEntry) => void
}

export interface Daemon {
  readonly hello: Hello
  readonly handlers: Call
  /** Resolves when the daemon has ended and let go of the root. */
  readonly done: Promise<{ exit: number; reason: string }>
  down(o: { force: boolean; timeoutMs: number }): Promise<Result<DownReport>>
}

/**
 * Takes the root, brings files and records in line, starts the teammates and works until `down` (or, with `once`, until
 * nothing can go on without a person). Refused, having touched nothing, when another holder lives.
 */
export const startDaemon = async (o: DaemonOptions): Promise<Result<Daemon>> => {
  const paths = layout(o.root)
  let failed: (fault: Fault) => void = () => undefined
  const held = await hold(o.root, 'daemon', {
    version: o.version,
    clock: o.clock,
    takeover: o.takeover,
    onFailure: fault => failed(fault),
  })
  if (!held.ok) return held
  const holder = held.value
  let hub: Hub | null = null
  if (o.mode === 'git') {
    const opened = await openHub({
      workspace: o.workspace,
      hubDir: paths.hub,
      trunk: o.config.trunk,
      env: o.threadEnv,
      ...(o.config.base === undefined ? {} : { base: o.config.base }),
    })
    if (!opened.ok) {
      await holder.release()
      return opened
    }
    hub = opened.value
  }
  const run = new Run(o, holder, hub)
  failed = fault => run.fatal(new FaultError(fault))
  await run.start()
  return ok(run)
}

/** What a running daemon is made of, in the order in which it is started; ended in reverse. */
class Run implements Daemon {
  readonly hello: Hello
  readonly handlers: Call
  readonly done: Promise<{ exit: number; reason: string }>
  readonly #o: DaemonOptions
  readonly #holder: Holder
  readonly #core: Core
  readonly #log: DaemonLog
  readonly #redact: (text: string) => string
  readonly #folders: Folders
  readonly #threads: Threads
  readonly #dispatch: Dispatch
  readonly #proof: Proof
  readonly #shutdown: Shutdown
  readonly #table: Handlers
  readonly #checkShell: (view: View) => Shell
  readonly #ending = new AbortController()
  readonly #notices: Notices
  #finish: (end: { exit: number; reason: string }) => void = () => undefined
  #going: Promise<Result<DownReport>> | null = null
  #expiry: NodeJS.Timeout | undefined
  #onceTimer: NodeJS.Timeout | undefined
  #ended = false

  constructor(o: DaemonOptions, holder: Holder, hub: Hub | null) {
    this.#o = o
    this.#holder = holder
    this.hello = holder.hello
    this.done = new Promise(resolve => {
      this.#finish = resolve
    })
    this.#redact = makeRedactor(o.secrets)
    this.#log = openLog(layout(o.root).daemonLog, this.#redact)
    this.#core = makeCore(
      {
        store: holder.store,
        root: o.root,
        workspace: o.workspace,
        mode: o.mode,
        config: o.config,
        members: o.members,
        clock: o.clock,
        hub,
      },
      name => {
        const state = this.#threads.status(name)?.state
        return state === 'stopped' || state === 'failed' ? `${name} is ${state}` : null
      },
    )
    const core = this.#core
    this.#notices = new Notices(core, this.#log)
    const hidden = hiddenPaths(o)
    this.#checkShell = view =>
      makeShell({
        view,
        probe: o.probe,
        mode: o.config.sandbox,
        permissions: o.config.permissions,
        secrets: o.secrets,
        marker: teamMarker(o.root, 'verify'),
      })
    this.#folders = new Folders(core, {
      onTaskMessage: stored => takeTaskMessage(core, this.#notices, stored),
      onFailure: error => this.fatal(error),
    })
    this.#threads = new Threads({
      entry: o.threadEntry,
      threadEnv: o.threadEnv,
      limits: o.config.limits,
      clock: o.clock,
      on: {
        message: (name, message, reply) => this.#heard(name, message, reply),
        state: (name, status) => {
          if (status.state === 'idle') this.#dispatch.idle(name)
          else this.#dispatch.busyNow(name)
          this.#lookOnce()
        },
        died: (name, why, next) => this.#died(name, why, next),
        failed: (name, why) => void this.#gaveUp(name, why),
      },
    })
    this.#dispatch = new Dispatch({
      core,
      send: (name, task) => void this.#threads.send(name, { t: 'assign', task }),
      alive: name => {
        const state = this.#threads.status(name)?.state
        return state !== undefined && state !== 'stopped' && state !== 'failed'
      },
      onProblem: (key, text) => this.#notices.problem(key, text),
    })
    this.#proof = new Proof({
      core,
      shell: this.#checkShell,
      hidden,
      signal: this.#ending.signal,
      onProblem: text => this.#notices.problem('proof', text),
    })
    this.#shutdown = new Shutdown({
      core,
      threads: this.#threads,
      afterStop: name => this.#afterStop(name, 'it was shut down'),
    })
    this.#table = makeHandlers(
      core,
      () => this.#status(),
      () => this.hello,
      {
        down: params => this.down(params),
        restart: async name => {
          const started = this.#threads.restart(name)
          if (!started.ok) return started
          setStanding(this.#core, name, 'live', null)
          core.store.note({ event: 'teammate.revived', by: 'human', info: { name } })
          await core.store.flushed()
          return ok({ name })
        },
        after: id => this.#afterClaim(id),
      },
    )
    this.handlers = this.#table.human
  }

  async start(): Promise<void> {
    const { store, tasks, requests, members, clock } = this.#core
    const paths = layout(this.#o.root)
    store.onEntry(entry => this.#entry(entry))
    importRequests(store, paths.requests, iso(clock.wall()))
    tasks.recover()
    requests.recover()
    takeTaskMessages(this.#core, this.#notices)
    for (const [, { value }] of [...store.tasks.list()])
      if (value.status === 'in_progress' && !value.claimed && !members.some(member => member.name === value.owner))
        tasks.move(value.id, 'supervisor', { move: 'release', reason: `${value.owner} is not on the team any more` })
    rmSync(paths.verify, { recursive: true, force: true })
    await endLeftovers(teamMarker(this.#o.root, ''), 2000)
    await this.#folders.start()
    store.requests.watch((_id, { value }) => {
      if (value.type === 'shutdown_request' && !this.#going) this.#shutdown.advance(value)
      if (value.type === 'merge_request') this.#advance(value.data.task)
      this.#armExpiry()
    })
    store.tasks.watch((id, { value }, old) => {
      this.#followTask(id, value, old?.value)
    })
    for (const [id] of [...store.tasks.list()]) this.#advance(id)
    this.#armExpiry()
    this.#holder.serve((method, params, from) =>
      this.#table.call(
        'human',
        method,
        params,
        from.stream === undefined ? undefined : { entry: from.stream, signal: from.signal },
      ),
    )
    const team: MembersOptions = {
      core: this.#core,
      threads: this.#threads,
      notices: this.#notices,
      probe: this.#o.probe,
      dataPaths: this.#o.dataPaths,
      secrets: this.#o.secrets,
      shellFor: this.#checkShell,
      signal: this.#ending.signal,
    }
    for (const member of members) await startMember(team, member)
    await store.flushed()
    this.#dispatch.kick()
    this.#lookOnce()
  }

  /** Asks everyone to stop by the protocol, then ends. A rejection is reported and the daemon goes on. A second call with `force` hurries the first. */
  down(o: { force: boolean; timeoutMs: number }): Promise<Result<DownReport>> {
    if (this.#going && o.force) void this.#forceAll()
    this.#going ??= this.#down(o)
    return this.#going
  }

  async #down(o: { force: boolean; timeoutMs: number }): Promise<Result<DownReport>> {
    this.#dispatch.pause()
    const report = await this.#shutdown.all({ ...o, by: 'human' })
    if (report.ok && report.value.rejected.length > 0) {
      this.#going = null
      this.#dispatch.resume()
      return report
    }
    await this.#end(0, 'team down')
    return report
  }

  async #forceAll(): Promise<void> {
    for (const request of this.#core.requests.waiting())
      if (request.type === 'shutdown_request')
        this.#core.requests.end(request.id, 'expired', 'supervisor', 'the human asked to stop at once')
    await Promise.all(this.#threads.names().map(name => this.#threads.stop(name, 'forced', 0)))
  }

  /** The journal cannot be written, or there is a bug where it must not be: nothing more can be promised, so it ends, loudly. */
  fatal(error: unknown): void {
    if (this.#ended) return
    const text = error instanceof Error ? error.message : String(error)
    this.#log.error(`the daemon cannot go on: ${text}`, error)
    void this.#end(1, `it cannot go on: ${text}`)
  }

  /** Ends in reverse order of starting. The first reason is kept. */
  async #end(exit: number, reason: string): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    clearTimeout(this.#expiry)
    clearTimeout(this.#onceTimer)
    this.#ending.abort(new Error(reason))
    await this.#threads.close()
    await this.#proof.settled()
    await this.#folders.close()
    await this.#core.store.flushed()
    // The answer to whoever asked goes out before the socket closes.
    setImmediate(() => {
      void this.#holder.release().then(() => {
        this.#log.close()
        this.#finish({ exit, reason })
      })
    })
  }

  /** Everything durable passes here, in order. */
  #entry(entry: JournalEntry): void {
    this.#log.entry(entry)
    this.#o.onEntry(entry)
    if (!entry.append) return
    const [log, , value] = entry.append
    if (!log.startsWith('inbox/')) return
    const name = log.slice('inbox/'.length)
    const stored = value as Stored
    if (stored.message.type === 'task') takeTaskMessage(this.#core, this.#notices, stored)
    else this.#threads.send(name, { t: 'mail', urgent: isUrgent(stored) })
  }

  #heard(name: string, message: FromThread, reply: Reply): void {
    const { store } = this.#core
    switch (message.t) {
      case 'req': {
        const { id, method, params } = message
        this.#table.call(name, method, params).then(
          result => {
            if (result.ok) reply({ t: 'res', id, ok: true, value: result.value })
            else {
              const { code, message: text, hint } = result.fault
              reply({
                t: 'res',
                id,
                ok: false,
                fault: { code, message: text, ...(hint === undefined ? {} : { hint }) },
              })
            }
          },
          error => {
            this.#log.error(`${method} asked by ${name} failed`, error)
            reply({
              t: 'res',
              id,
              ok: false,
              fault: {
                code: 'internal',
                message: `${method} failed in the daemon: ${error instanceof Error ? error.message : String(error)}`,
              },
            })
          },
        )
        return
      }
      case 'ready':
        store.note({ event: 'teammate.ready', by: name, info: { name } })
        if (this.#core.mail.unread(name) > 0)
          this.#threads.send(name, { t: 'mail', urgent: this.#core.mail.hasUrgent(name) })
        return
      case 'state':
        if (message.state === 'idle' && this.#core.mail.unread(name) > 0)
          this.#threads.send(name, { t: 'mail', urgent: this.#core.mail.hasUrgent(name) })
        return
      case 'event':
        store.note({ event: message.event, by: name, info: this.#scrub(message.info) })
        return
      default:
        return
    }
  }

  /** A thread's own words may carry what a command printed; the journal must not hold a secret. */
  #scrub(info: Record<string, unknown>): Record<string, unknown> {
    return JSON.parse(this.#redact(JSON.stringify(info))) as Record<string, unknown>
  }

  #died(name: string, why: string, next: { restart: number; inMs: number } | null): void {
    this.#dispatch.gone(name)
    this.#core.store.note({ event: 'teammate.died', by: 'supervisor', info: { name, why, ...(next ?? {}) } })
    void this.#sweep(name)
  }

  async #gaveUp(name: string, why: string): Promise<void> {
    this.#core.store.note({ event: 'teammate.failed', by: 'supervisor', info: { name, why } })
    setStanding(this.#core, name, 'failed', why)
    this.#notices.gaveUp(name, why)
    await this.#afterStop(name, `${name} was given up: ${why}`)
  }

  async #afterStop(name: string, why: string): Promise<void> {
    this.#dispatch.gone(name)
    await this.#sweep(name)
    await releaseInHand(this.#core, name, why)
    if (!this.#going && this.#threads.status(name)?.state === 'stopped') setStanding(this.#core, name, 'stopped', why)
    this.#core.store.note({ event: 'teammate.stopped', by: 'supervisor', info: { name } })
  }

  /** Ends whatever a dead thread's commands left running, known by the mark in their environment, never by a number. */
  async #sweep(name: string): Promise<void> {
    for (const left of await endLeftovers(teamMarker(this.#o.root, name), 2000))
      this.#core.store.note({ event: 'command.orphan', by: 'supervisor', info: { name, ...left } })
  }

  #advance(id: string): void {
    this.#proof.advance(id, () => {
      this.#advance(id)
      this.#lookOnce()
    })
  }

  #followTask(id: string, task: Task, old: Task | undefined): void {
    if (task.claimed) this.#advance(id)
    if (
      old &&
      old.status === 'in_progress' &&
      !old.claimed &&
      old.owner !== null &&
      (task.status === 'cancelled' || (task.status === 'failed' && task.error !== null)) &&
      this.#core.tasks.inHand(old.owner)?.value.id !== id
    )
      this.#threads.send(old.owner, { t: 'unassign', id, reason: `task ${id} was ${task.status}: ${task.error ?? ''}` })
    if (old && (task.status === 'failed' || task.status === 'cancelled') && old.status !== task.status)
      this.#notices.taskEnded(task)
    this.#lookOnce()
  }

  #afterClaim(id: string): string {
    const task = this.#core.tasks.get(id)?.value
    if (task?.status === 'completed')
      return `task ${id} is completed${task.result?.outcome === 'unverified' ? ', unverified: nothing proves it' : ''}.`
    return this.#core.hub && task?.claimed?.head
      ? `task ${id} is claimed done at ${task.claimed.head.slice(0, 12)}: a merge request is opened, and it is completed once that is approved, verified and merged. You are free for other work.`
      : `task ${id} is claimed done: verify runs now. You are free for other work.`
  }

  #armExpiry(): void {
    clearTimeout(this.#expiry)
    const ms = this.#core.requests.untilNext()
    if (ms === null || this.#ended) return
    this.#expiry = setTimeout(
      () => {
        this.#core.requests.expire()
        this.#armExpiry()
      },
      Math.min(ms, 60_000),
    )
  }

  async #status() {
    return makeStatus(this.#core, {
      hello: this.hello,
      asOf: null,
      probe: this.#o.probe,
      live: name => this.#threads.status(name),
      problems: [...this.#notices.problems(), ...this.#folders.problems()],
      archived: this.#folders.archivedCount(),
    })
  }

  /** With `once`: ends when nothing can go on without a person. Looked at after every change, once it is quiet. */
  #lookOnce(): void {
    if (!this.#o.once || this.#ended || this.#going) return
    clearTimeout(this.#onceTimer)
    this.#onceTimer = setTimeout(() => void this.#endIfQuiet(), 150)
  }

  async #endIfQuiet(): Promise<void> {
    const { store, members, mail } = this.#core
    const seq = store.seq
    await this.#folders.settled()
    await store.flushed()
    const resting = (name: string) => {
      const status = this.#threads.status(name)
      return (
        status?.state === 'stopped' ||
        status?.state === 'failed' ||
        (status?.state === 'idle' && mail.unread(name) === 0) ||
        (status?.state === 'waiting' && status.waiting?.whom === 'human')
      )
    }
    const quiet =
      !this.#dispatch.busy &&
      !this.#dispatch.canGive() &&
      !this.#proof.busy &&
      members.every(member => resting(member.name))
    if (!quiet || store.seq !== seq) return this.#lookOnce()
    const open = [...store.tasks.list()].filter(
      ([, { value }]) => value.status !== 'completed' && value.status !== 'cancelled',
    )
    this.#going = this.#shutdown.all({
      force: false,
      timeoutMs: this.#o.config.limits.graceSeconds * 1000,
      by: 'human',
    })
    await this.#going
    await this.#end(
      open.length === 0 ? 0 : 1,
      open.length === 0 ? 'everything is done' : `${open.length} tasks wait for a person`,
    )
  }
}
