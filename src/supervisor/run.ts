import type { Hub } from '../git/hub.ts'
import { iso } from '../lib/clock.ts'
import { makeRedactor } from '../lib/redact.ts'
import { asFault, type Result } from '../lib/result.ts'
import type { JournalEntry } from '../protocol/event.ts'
import type { Stored } from '../protocol/message.ts'
import type { Call, DownReport, Hello } from '../protocol/rpc.ts'
import { endLeftovers, teamMarker } from '../sandbox/leftover.ts'
import { makeShell } from '../sandbox/make-shell.ts'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import type { Holder } from '../store/index.ts'
import { layout } from '../store/root.ts'
import { Base } from './base.ts'
import { type Core, isLive, makeCore } from './core.ts'
import { Crew } from './crew.ts'
import type { Daemon, DaemonOptions, Ended } from './daemon-options.ts'
import { approveByRule, createPlanned, type Effects, followRecords, followReviews, stepped } from './effects.ts'
import { Expiry } from './expiry.ts'
import { Folders } from './folders.ts'
import { type Handlers, makeHandlers } from './handlers.ts'
import { hiddenPaths } from './hidden.ts'
import { importRequests } from './import.ts'
import { LiveConfig, type Means } from './live-config.ts'
import { type DaemonLog, openLog } from './log.ts'
import { type MembersOptions, restartMember, restoreClone, startMembers } from './members.ts'
import { tellDamaged } from './model-handlers.ts'
import { Notices } from './notices.ts'
import { PingPong } from './ping-pong.ts'
import { afterClaim, Proof } from './proof.ts'
import { Quiet } from './quiet.ts'
import { readyGit } from './ready-git.ts'
import { settle } from './settle.ts'
import { type DownOptions, Shutdown, type Stopping } from './shutdown.ts'
import { makeStatus } from './status.ts'
import { takeTaskMessage } from './task-messages.ts'
import { Waits } from './waits.ts'

/** What a running daemon is made of, in the order in which it is started; ended in reverse. */
export class Run implements Daemon {
  readonly hello: Hello
  readonly handlers: Call
  readonly done: Promise<Ended>
  ready: Promise<void> = Promise.resolve()
  #starting: Promise<void> = Promise.resolve()
  readonly #o: DaemonOptions
  readonly #holder: Holder
  readonly #core: Core
  readonly #log: DaemonLog
  readonly #notices: Notices
  readonly #pingPong: PingPong
  readonly #folders: Folders
  readonly #crew: Crew
  readonly #proof: Proof
  readonly #base: Base
  readonly #shutdown: Shutdown
  readonly #table: Handlers
  readonly #quiet: Quiet
  readonly #effects: Effects
  readonly #waits: Waits
  readonly #shellFor: (view: View) => Shell
  readonly #live: LiveConfig
  #means: Means
  readonly #expiry: Expiry
  readonly #ending = new AbortController()
  #finish: (end: Ended) => void = () => undefined
  #going: Promise<Result<DownReport>> | null = null
  #ended = false

  constructor(o: DaemonOptions, holder: Holder, hub: Hub | null) {
    this.#o = o
    this.#holder = holder
    this.hello = holder.hello
    this.done = new Promise(resolve => {
      this.#finish = resolve
    })
    const { root, workspace, mode, config, members, clock, probe } = o
    this.#means = { env: o.threadEnv, secrets: o.secrets, dataPaths: o.dataPaths }
    let redactor = makeRedactor(o.secrets)
    const redact = (text: string) => redactor(text)
    this.#log = openLog(root, layout(root).daemonLog, redact, clock)
    const sandboxed = config.sandbox !== 'off' && probe.kind === 'bwrap'
    const core = makeCore(
      { store: holder.store, root, workspace, mode, config, members, clock, hub, sandboxed },
      name => {
        const state = this.#crew.threads.status(name)?.state
        return state === 'stopped' || state === 'failed' ? `${name} is ${state}` : null
      },
    )
    this.#core = core
    this.#expiry = new Expiry(core.requests)
    this.#notices = new Notices(core, this.#log)
    this.#pingPong = new PingPong(core, this.#notices)
    this.#shellFor = view =>
      makeShell({
        view,
        probe,
        mode: core.config.sandbox,
        permissions: core.config.permissions,
        env: this.#means.env,
        secrets: this.#means.secrets,
        marker: teamMarker(root, 'verify'),
      })
    this.#folders = new Folders(core, {
      onTaskMessage: stored => takeTaskMessage(core, this.#notices, stored),
      onFailure: error => this.fatal(error),
      scribeEntry: o.scribeEntry,
    })
    this.#crew = new Crew({
      core,
      notices: this.#notices,
      log: this.#log,
      redact,
      threadEntry: o.threadEntry,
      onWork: o.onWork,
      threadEnv: () => this.#means.env,
      holdsBack: name => this.#live.holdsBack(name),
      table: () => this.#table,
      bringBase: name => this.#base.bring().then(() => restoreClone(this.#team, name)),
      onChange: () => {
        this.#waits.look()
        followReviews(core, id => this.#advance(id))
        this.#changed()
      },
      isGoing: () => this.#going !== null,
      onFailure: error => this.fatal(error),
    })
    const gate = { core, shell: this.#shellFor, signal: this.#ending.signal }
    this.#proof = new Proof({
      ...gate,
      hidden: hiddenPaths(o),
      notices: this.#notices,
    })
    this.#base = new Base({ ...gate, notices: this.#notices, inLane: act => this.#proof.inLane(act) })
    const { threads } = this.#crew
    this.#shutdown = new Shutdown({
      core,
      threads,
      notices: this.#notices,
      afterStop: name => this.#crew.afterStop(name, 'it was shut down'),
      onFailure: error => this.fatal(error),
    })
    this.#waits = new Waits({
      core,
      notices: this.#notices,
      hasEnded: name => threads.hasEndedTurn(name),
      onFailure: error => this.fatal(error),
    })
    this.#effects = {
      shutdown_request: request => this.#shutdown.advance(request),
      merge_request: request => this.#advance(request.data.task),
      review_request: request => this.#advance(request.data.task),
      resource_request: request => core.budget.follow(request),
      plan_request: request => {
        approveByRule(core, request, error => this.fatal(error))
        createPlanned(core, request)
      },
    }
    this.#live = new LiveConfig({
      core,
      crew: this.#crew,
      shutdown: this.#shutdown,
      notices: this.#notices,
      folders: this.#folders,
      endpoints: o.endpoints,
      team: () => this.#team,
      lookAtBase: () => this.#base.look(),
      onMeans: means => {
        // What was a secret before stays one.
        const secrets = [...new Set([...this.#means.secrets, ...means.secrets])]
        this.#means = { ...means, secrets }
        redactor = makeRedactor(secrets)
      },
      isGoing: () => this.#going !== null,
      signal: this.#ending.signal,
      onChange: () => this.#changed(),
      onFailure: error => this.fatal(error),
    })
    this.#table = makeHandlers(
      core,
      () => this.#status(),
      () => this.hello,
      {
        down: params => this.down(params),
        restart: name => restartMember(this.#team, name),
        compact: (name, focus) => this.#crew.asks.ask(name, focus),
        listen: (name, words) => this.#crew.listeners.listen(name, words),
        send: out => this.#pingPong.send(out),
        after: id => afterClaim(core, id),
      },
    )
    this.#quiet = new Quiet({
      core,
      crew: this.#crew,
      proof: this.#proof,
      folders: this.#folders,
      changes: this.#live,
      onQuiet: open => this.#endQuietly(open),
      onFailure: error => this.fatal(error),
    })
    this.handlers = this.#table.human
  }

  get isEnding(): boolean {
    return this.#ended
  }

  /** Starts everything. What goes wrong in it ends the daemon. */
  begin(): void {
    this.#starting = this.#start().catch(error => {
      // Ending waits for this, so it is not waited for here.
      this.fatal(error)
    })
    this.ready = Promise.race([this.#starting, this.done]).then(() => undefined)
  }

  /** Looks up between its steps whether the daemon is ending already: then it starts nothing more. */
  async #start(): Promise<void> {
    const { store, clock } = this.#core
    const paths = layout(this.#o.root)
    store.onEntry(entry => this.#entry(entry))
    importRequests(store, paths.requests, iso(clock.wall()))
    tellDamaged(this.#core)
    await settle(this.#core, this.#notices, this.#pingPong)
    await readyGit(this.#core, this.#notices)
    await endLeftovers(teamMarker(this.#o.root, ''), 2000)
    if (this.#ended) return
    await this.#folders.start()
    if (this.#ended) return
    const followWhatIsThere = followRecords({
      core: this.#core,
      effects: this.#effects,
      expiry: this.#expiry,
      crew: this.#crew,
      notices: this.#notices,
      advance: id => this.#advance(id),
      changed: () => this.#changed(),
    })
    if (this.#crew.judge(this.#o.died)) this.#o.onDeathCounted()
    followWhatIsThere()
    this.#holder.serve((method, params, { stream, words, signal }) =>
      this.#table.call('human', method, params, stream === undefined ? undefined : { entry: stream, words, signal }),
    )
    // A merge that has to be verified keeps nobody from starting: it is made when the first task is given out.
    await this.#base.look()
    if (this.#ended) return
    this.#core.budget.start(name => this.#crew.wake(name))
    this.#core.leases.start({
      runs: name => this.#core.roster.has(name) && isLive(this.#core, name),
      onFailure: error => this.fatal(error),
    })
    // Before the first set-up, which may hang: an edit waits for nobody but whom it is about.
    await this.#live.start()
    if (this.#ended) return
    await startMembers(this.#team, (name, act) => this.#live.whileMoving(name, act))
    await store.flushed()
    this.#crew.dispatch.kick()
    this.#changed()
  }

  /** What bringing a teammate up takes. */
  get #team(): MembersOptions {
    const { probe } = this.#o
    const { dataPaths, secrets } = this.#means
    const { threads } = this.#crew
    const signal = this.#ending.signal
    return {
      core: this.#core,
      probe,
      dataPaths,
      secrets,
      threads,
      notices: this.#notices,
      shellFor: this.#shellFor,
      signal,
      onFailure: error => this.fatal(error),
    }
  }

  /** Asks everyone to stop by the protocol, then ends. A rejection is reported and the daemon goes on. A second call with `force` hurries the first. */
  down(o: DownOptions): Promise<Result<DownReport>> {
    if (o.names) return this.#shutdown.all({ ...o, by: 'human' })
    if (this.#going && o.force) void this.#shutdown.hurry()
    this.#going ??= this.#down({ ...o, by: 'human' }, { exit: 0, reason: 'team down', isDisk: false })
    return this.#going
  }

  /** The journal cannot be written, or there is a bug where it must not be: nothing more can be promised, so it ends, loudly. */
  fatal(error: unknown): void {
    if (this.#ended) return
    const text = error instanceof Error ? error.message : String(error)
    this.#log.error(`the daemon cannot go on: ${text}`, error)
    void this.#end({ exit: 1, reason: `it cannot go on: ${text}`, isDisk: asFault(error).code === 'io' })
  }

  async #down(o: Stopping, end: Ended): Promise<Result<DownReport>> {
    this.#crew.dispatch.pause()
    const report = await this.#shutdown.all(o)
    if (report.ok && report.value.rejected.length > 0) {
      this.#going = null
      this.#crew.dispatch.resume()
      this.#live.resume()
      return report
    }
    await this.#end(end)
    return report
  }

  /** With `once`: what waits for a person decides the exit code. False when somebody rejects the shutdown. */
  async #endQuietly(open: string | null): Promise<boolean> {
    if (this.#going) return true
    const timeoutMs = this.#core.config.limits.graceSeconds * 1000
    const reason = open ?? 'everything is done'
    const stopping: Stopping = {
      force: false,
      timeoutMs,
      by: 'supervisor',
      why: `The team is being stopped (${reason}).`,
    }
    this.#going = this.#down(stopping, { exit: open === null ? 0 : 1, reason, isDisk: false })
    await this.#going
    return this.#ended
  }

  /** Ends in reverse order of starting. The first reason is kept. */
  async #end(end: Ended): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    this.#expiry.close()
    this.#waits.close()
    this.#crew.suspicion.close()
    this.#core.leases.close()
    this.#quiet.close()
    this.#ending.abort(new Error(end.reason))
    await this.#crew.threads.close()
    await this.#starting
    await this.#proof.settled()
    await this.#live.close()
    await this.#folders.close()
    // A journal that cannot be written has told so already, and that is the reason kept.
    await this.#core.store.flushed().catch(() => undefined)
    // The answer to whoever asked goes out before the socket closes.
    setImmediate(() => {
      void this.#holder.release().then(() => {
        this.#log.close()
        this.#finish(end)
      })
    })
  }

  /** Everything durable passes here, in order. */
  #entry(entry: JournalEntry): void {
    this.#log.entry(entry)
    stepped(entry)
    this.#o.onEntry(entry)
    this.#pingPong.entry(entry)
    if (!entry.append) return
    const [log, , value] = entry.append
    if (!log.startsWith('inbox/')) return
    const stored = value as Stored
    if (stored.message.type === 'task') takeTaskMessage(this.#core, this.#notices, stored)
    else this.#crew.mailFor(log.slice('inbox/'.length), stored)
  }

  #advance(id: string): void {
    this.#proof.advance(id, moved => {
      if (moved) this.#advance(id)
      this.#changed()
    })
  }

  #status() {
    return makeStatus(this.#core, {
      hello: this.hello,
      asOf: null,
      probe: this.#o.probe,
      live: name => this.#crew.threads.status(name),
      problems: [this.#crew.suspicion, this.#notices, this.#folders, this.#waits].flatMap(each => each.problems()),
      pendingChanges: this.#notices.pending(),
      archived: this.#folders.archivedCount(),
    })
  }

  #changed(): void {
    if (this.#o.once) this.#quiet.look()
  }
}
