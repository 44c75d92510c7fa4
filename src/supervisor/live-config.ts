import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Fault, Result } from '../lib/result.ts'
import type { Member } from '../protocol/config.ts'
import { type ConfigChanges, configChanges, isSame } from '../protocol/config-changes.ts'
import { ConfigWatch } from '../store/files/config-watch.ts'
import type { LoadedConfig } from '../store/root.ts'
import { type Core, isLive } from './core.ts'
import type { Crew } from './crew.ts'
import type { Endpoints } from './daemon-options.ts'
import type { Folders } from './folders.ts'
import { releaseInHand } from './in-hand.ts'
import { humanInbox } from './mail.ts'
import { type MembersOptions, setStanding, startMember, threadData, told } from './members.ts'
import type { Notices } from './notices.ts'
import type { Shutdown } from './shutdown.ts'
import { leftBehind } from './withdraw.ts'

/** What comes with the members of an edit. */
export type Means = Omit<Endpoints, 'members'> & Pick<LoadedConfig, 'dataPaths'>

interface Due {
  readonly keys: readonly string[]
  readonly anew: boolean
}

export interface LiveConfigOptions {
  readonly core: Core
  readonly crew: Crew
  readonly shutdown: Shutdown
  readonly notices: Notices
  readonly folders: Folders
  readonly endpoints: (members: readonly Member[]) => Promise<Result<Endpoints>>
  /** What bringing a teammate up takes, with the means told last. */
  readonly team: () => MembersOptions
  /** Takes a base that moved into the trunk, where that needs no check. */
  readonly lookAtBase: () => Promise<unknown>
  readonly onMeans: (means: Means) => void
  /** The whole team is being stopped: edits wait. */
  readonly isGoing: () => boolean
  readonly signal: AbortSignal
  /** Something changed that may leave nothing to be done. */
  readonly onChange: () => void
  /** A bug, or the journal cannot be written. */
  readonly onFailure: (error: unknown) => void
}

/**
 * config.json while the daemon runs. An edit that does not hold is reported and changes nothing. One that does says who is
 * to be on the team and as what; each teammate is then brought there on its own, however often that changes meanwhile:
 *
 *   not there, wanted ──home, clone, thread──▶ there
 *   there, other now ──nothing in hand──▶ its thread ends and is started anew
 *   there, not wanted ──asked to shut down──▶ gone, its task released      rejected: again once it has nothing in hand
 */
export class LiveConfig {
  readonly #o: LiveConfigOptions
  readonly #watch: ConfigWatch
  /** Who is to be on the team. */
  #wanted: readonly Member[]
  /** What waits until a teammate has nothing in hand: which keys, and whether its thread is to be started anew for them. */
  readonly #due = new Map<string, Due>()
  /** Why a teammate that is to leave works on. */
  readonly #stays = new Map<string, string>()
  /** Teammates that are being brought to where they are to be. */
  readonly #moving = new Set<string>()
  /** Shutdown requests of teammates that are leaving are open. */
  readonly #asked = new Set<string>()
  #refused: string | null = null
  /** null: those of the start were told by the command. */
  #warned: readonly string[] | null = null

  constructor(o: LiveConfigOptions) {
    this.#o = o
    const { root, clock, members } = o.core
    this.#wanted = members
    // Nothing is told of a state when a task leaves hands that do nothing any more.
    o.core.store.tasks.watch((_id, _rec, old) => {
      if (old?.value.owner) this.holdsBack(old.value.owner)
    })
    this.#watch = new ConfigWatch({ root, clock, onEdit: loaded => this.#edited(loaded), onFailure: o.onFailure })
  }

  start(): Promise<void> {
    return this.#watch.start(error => this.#o.notices.problem('config/watch', `config.json: ${error.message}`))
  }

  close(): Promise<void> {
    return this.#watch.close()
  }

  /** An edit was seen and has not taken effect as far as it can now. */
  get isBusy(): boolean {
    return this.#watch.isBusy || this.#moving.size > 0
  }

  /** The team goes on after all: what was edited while it was being stopped is looked at. */
  resume(): void {
    this.#watch.again()
    for (const { name } of this.#o.core.members) this.#move(name)
  }

  /** Told of each change of a thread's state: true when there is to be no new work for this teammate for now. */
  holdsBack(name: string): boolean {
    const { roster, tasks } = this.#o.core
    const due = tasks.inHand(name) ? undefined : this.#due.get(name)
    const isLeaving = roster.isLeaving(name)
    if (due || isLeaving) queueMicrotask(() => this.#move(name))
    return isLeaving || due?.anew === true
  }

  async #edited(loaded: Result<LoadedConfig>): Promise<void> {
    const { endpoints, isGoing, onMeans, notices, core } = this.#o
    if (isGoing()) return
    if (!loaded.ok) return this.#refuse(loaded.fault)
    const { config, members, dataPaths, warnings } = loaded.value
    const reached = await endpoints(members)
    if (!reached.ok) return this.#refuse(reached.fault)
    if (this.#refused !== null) {
      this.#refused = null
      notices.problem('config', null)
      this.#note('it holds again')
    }
    for (const text of warnings)
      if (this.#warned?.includes(text) === false)
        core.store.note({ event: 'config.warning', by: 'supervisor', info: { text } })
    this.#warned = warnings
    const { env, secrets } = reached.value
    onMeans({ env, secrets, dataPaths })
    this.#take(configChanges(core.config, config), reached.value.members)
    await core.store.flushed()
  }

  #refuse(fault: Fault): void {
    const { notices, core } = this.#o
    const text = `${fault.message}; the team goes on as it was before this edit`
    if (this.#refused === text) return
    this.#refused = text
    const event = 'config.refused' as const
    core.store.note({ event, by: 'supervisor', info: { text } })
    notices.stands('config', text)
    const id = createHash('sha256').update(`${core.store.seq}\n${text}`).digest('hex').slice(0, 24)
    notices.tell(humanInbox, `msg_config_${id}`, `${text}. Mend it there; that clears this.`)
  }

  #take(changes: ConfigChanges, members: readonly Member[]): void {
    const { core, crew, notices } = this.#o
    const { later, anew, changed, config } = changes
    const text =
      later.length === 0 ? null : `config.json: ${later.join(', ')} changed, which takes effect at the next team up`
    if (notices.waits('config/later', text) && text !== null)
      core.store.note({ event: 'config.warning', by: 'supervisor', info: { text } })
    if (isSame(changes)) return
    const before = new Map(this.#wanted.map(member => [member.name, member]))
    const leaving = new Map(
      core.members.filter(({ name }) => core.roster.isLeaving(name)).map(each => [each.name, each]),
    )
    this.#wanted = members
    this.#setRoster(config)
    core.budget.look()
    core.modelCalls.look()
    this.#note(said(changes))
    for (const { name } of members) {
      const own = changed.find(each => each.name === name)
      const was = leaving.get(name)
      if (
        was &&
        !isDeepStrictEqual(
          was,
          members.find(member => member.name === name),
        )
      )
        this.#await(name, { keys: ['its entry'], anew: true })
      else if (was || before.has(name))
        this.#await(name, { keys: [...(own?.due ?? []), ...anew], anew: anew.length > 0 || own?.anew === true })
    }
    this.#tell()
    for (const name of new Set([...core.roster.names, ...before.keys()])) this.#move(name)
    crew.dispatch.kick()
  }

  #await(name: string, { keys, anew }: Due): void {
    const old = this.#due.get(name)
    if (keys.length > 0)
      this.#due.set(name, { keys: [...new Set([...(old?.keys ?? []), ...keys])], anew: anew || old?.anew === true })
  }

  /** Everybody whose thread stays is told of the team as it is now. */
  #tell(): void {
    const { core, crew, team } = this.#o
    for (const member of this.#wanted) {
      crew.tellRules(member)
      if (this.#due.get(member.name)?.anew) continue
      crew.threads.begin(threadData(team(), member))
      crew.threads.send(member.name, { t: 'team', ...told(core, member) })
    }
  }

  #setRoster(config = this.#o.core.config): void {
    const { roster } = this.#o.core
    const names = new Set(this.#wanted.map(member => member.name))
    roster.set(
      config,
      this.#wanted,
      roster.members.filter(member => !names.has(member.name)),
    )
  }

  /** Brings a teammate to where it is to be, as far as that can be now. One at a time for each; others go on beside it. */
  #move(name: string): void {
    if (this.#moving.has(name)) {
      // It was asked to leave, and may stay after all.
      if (this.#asked.has(name) && this.#find(name)) this.#takeBack(name)
      return
    }
    this.#moving.add(name)
    this.#moveOn(name)
      .catch(this.#o.onFailure)
      .finally(() => {
        this.#moving.delete(name)
        this.#showDue(name)
        this.#o.onChange()
      })
  }

  /**
   * The first start of a teammate, unless an edit began one already. What is edited of it meanwhile is done after; edits that
   * are about others do not wait for it.
   */
  async whileMoving(name: string, act: () => Promise<void>): Promise<void> {
    if (this.#moving.has(name) || this.#o.crew.threads.status(name) !== undefined) return
    this.#moving.add(name)
    try {
      await act()
    } finally {
      this.#moving.delete(name)
      this.#move(name)
    }
  }

  async #moveOn(name: string): Promise<void> {
    const { core, crew, signal, isGoing } = this.#o
    while (!signal.aborted && !isGoing()) {
      const wanted = this.#find(name)
      const isThere = crew.threads.status(name) !== undefined
      if (wanted && !isThere) await this.#join(wanted)
      else if (!wanted && core.roster.has(name)) {
        if (!(await this.#leave(name))) return
      } else if (wanted && this.#due.get(name)?.anew && this.#isAtRest(name)) await this.#renew(wanted)
      else {
        if (this.#isAtRest(name)) this.#due.delete(name)
        return
      }
    }
  }

  #find(name: string): Member | undefined {
    return this.#wanted.find(member => member.name === name)
  }

  /** Between two tasks, or two turns for mail: nothing is lost when its thread ends. */
  #isAtRest(name: string): boolean {
    const { core, crew } = this.#o
    const state = crew.threads.status(name)?.state
    return state !== 'working' && state !== 'draining' && state !== 'starting' && !core.tasks.inHand(name)
  }

  async #join(member: Member): Promise<void> {
    const { core, folders, team, lookAtBase, signal } = this.#o
    const { name } = member
    this.#due.delete(name)
    await folders.join(name)
    // A new clone starts at the trunk, as at the start of the daemon: with what was committed by now.
    await lookAtBase()
    if (signal.aborted) return
    core.store.note({ event: 'teammate.joined', by: 'human', info: { name } })
    await startMember(team(), member)
  }

  async #renew(member: Member): Promise<void> {
    const { core, crew, team, signal } = this.#o
    const { name } = member
    const keys = this.#due.get(name)?.keys
    this.#due.delete(name)
    crew.dispatch.gone(name)
    await this.#end(name, 'config.json changed')
    if (signal.aborted) return
    core.store.note({ event: 'teammate.renewed', by: 'human', info: { name, keys: keys?.join(', ') } })
    await startMember(team(), member)
  }

  /** False when it goes on for now, having rejected. */
  async #leave(name: string): Promise<boolean> {
    const { core, crew, shutdown, notices, folders, signal, onChange } = this.#o
    crew.dispatch.busyNow(name)
    if (this.#stays.has(name)) {
      if (!this.#isAtRest(name)) return false
    } else if (crew.threads.status(name) !== undefined) {
      const timeoutMs = core.config.limits.graceSeconds * 1000
      this.#asked.add(name)
      const report = await shutdown.all({
        names: [name],
        force: false,
        timeoutMs,
        by: 'human',
        why: 'You were taken off the team: config.json does not name you any more.',
      })
      this.#asked.delete(name)
      if (signal.aborted) return false
      if (this.#find(name)) {
        const state = crew.threads.status(name)?.state
        // Back before it was gone: it goes on as if nothing had been asked, or begins anew where it had agreed already.
        if (state === 'stopped') {
          await this.#end(name, 'config.json names it again')
          this.#standsLive(name)
        } else if (state === 'idle') crew.dispatch.idle(name)
        return true
      }
      const rejected = report.ok ? report.value.rejected[0] : undefined
      if (rejected) {
        this.#stays.set(name, rejected.reason)
        return !core.tasks.inHand(name)
      }
    }
    await this.#end(name, 'not on the team any more')
    if (signal.aborted) return false
    core.leases.ended(name, `${name} is not on the team any more`)
    await releaseInHand(core, name, `${name} is not on the team any more`)
    this.#standsLive(name)
    this.#stays.delete(name)
    this.#due.delete(name)
    // Wanted again meanwhile: it joins anew, and its inbox was never away.
    if (this.#find(name)) return true
    core.store.note({ event: 'teammate.left', by: 'human', info: { name } })
    for (const request of leftBehind(core, name))
      notices.tell(
        humanInbox,
        `msg_orphan_${request.id}`,
        `${request.id} "${request.title}" waits for ${name}, who is not on the team any more: you decide (team approve ${request.id}, or reject).`,
      )
    core.roster.drop(name)
    await folders.leave(name)
    crew.dispatch.kick()
    onChange()
    return true
  }

  /** That it was stopped goes with its leaving. */
  #standsLive(name: string): void {
    const { core } = this.#o
    if (!isLive(core, name)) setStanding(core, name, 'live', null)
  }

  /** Its thread ends, whatever it was doing, and is let go of. */
  async #end(name: string, reason: string): Promise<void> {
    const { core, crew } = this.#o
    const { threads } = crew
    if (threads.status(name) === undefined) return
    await threads.stop(name, reason, core.config.limits.graceSeconds * 1000)
    threads.forget(name)
    crew.dispatch.gone(name)
    await crew.sweep(name)
  }

  #takeBack(name: string): void {
    const { requests } = this.#o.core
    for (const request of requests.waiting())
      if (request.type === 'shutdown_request' && request.data.teammate === name && request.from === 'human')
        requests.end(request.id, 'withdrawn', 'human', `${name} is in config.json again`)
  }

  /** What of an edit has not taken effect for this teammate, and when it will. */
  #showDue(name: string): void {
    const { core, notices } = this.#o
    const due = this.#due.get(name)
    const stays = this.#stays.get(name)
    const text =
      stays !== undefined && core.roster.isLeaving(name)
        ? `${name} is not in config.json any more and rejected its shutdown (${stays}): it leaves at the end of its task; team down ${name} --force ends it now`
        : due
          ? `${name}: ${due.keys.join(', ')} changed in config.json, which takes effect at its next task${due.keys.includes('permissions') ? '; what permissions forbid binds from its next command on' : ''}`
          : null
    notices.waits(`config/${name}`, text)
  }

  #note(text: string): void {
    this.#o.core.store.note({ event: 'config.changed', by: 'human', info: { text } })
  }
}

/** An edit in one line. */
const said = (changes: ConfigChanges): string =>
  [
    ...changes.added.map(name => `${name} joins`),
    ...changes.removed.map(name => `${name} leaves`),
    ...changes.changed.map(({ name, keys }) => `${name}: ${keys.join(', ')}`),
    ...[...changes.now, ...changes.anew].filter(key => !changes.changed.some(({ keys }) => keys.includes(key))),
    ...changes.later.map(key => `${key} (at the next team up)`),
  ].join('; ')
