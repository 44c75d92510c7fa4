import type { Hub } from '../../src/git/hub.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { Result } from '../../src/lib/result.ts'
import { Config, type Member, members } from '../../src/protocol/config.ts'
import type { JournalEntry } from '../../src/protocol/event.ts'
import type { Stored } from '../../src/protocol/message.ts'
import type { Status } from '../../src/protocol/rpc.ts'
import { Dump, State, StateStore } from '../../src/store/state.ts'
import { makeCore } from '../../src/supervisor/core.ts'
import { Crew } from '../../src/supervisor/crew.ts'
import { approveByRule, createPlanned, type Effects, followRecords } from '../../src/supervisor/effects.ts'
import { Expiry } from '../../src/supervisor/expiry.ts'
import { type Handlers, makeHandlers } from '../../src/supervisor/handlers.ts'
import { setStanding } from '../../src/supervisor/members.ts'
import { Notices } from '../../src/supervisor/notices.ts'
import { PingPong } from '../../src/supervisor/ping-pong.ts'
import { afterClaim, Proof } from '../../src/supervisor/proof.ts'
import { settle } from '../../src/supervisor/settle.ts'
import { Shutdown } from '../../src/supervisor/shutdown.ts'
import { takeTaskMessage } from '../../src/supervisor/task-messages.ts'
import { Waits } from '../../src/supervisor/waits.ts'
import { type Disk, SimJournal } from './disk.ts'

const unused = (): never => {
  throw new Error('nothing asks this of a simulated holder')
}

export interface Team {
  readonly config: Config
  readonly members: readonly Member[]
}
export const team = (config: Readonly<Record<string, unknown>>): Team => {
  const parsed = Config.parse(config)
  return { config: parsed, members: members(parsed) }
}

/** The state that the disk's journal makes, by way of a snapshot after its first `snapshot` entries. */
export const replay = (disk: Disk, clock: Clock, snapshot: number): State => {
  let state = new State(clock)
  for (const [at, entry] of disk.entries.entries()) {
    if (at === snapshot && at > 0) {
      const dump = Dump.parse(JSON.parse(JSON.stringify(state.dump())))
      state = new State(clock)
      state.load(dump)
    }
    state.apply(entry)
  }
  return state
}

/** A holder made of the parts of the daemon, started in the daemon's order: all but files, sockets, git and threads. */
export const startHolder = (o: {
  readonly disk: Disk
  readonly team: Team
  readonly hub: Hub | null
  readonly clock: Clock
  readonly snapshot: number
  /** How the holder before died, where that is to be counted. */
  readonly died: string | null
  readonly onFailure: (error: unknown) => void
}) => {
  const { disk, clock, hub, onFailure } = o
  const { config } = o.team
  const journal = new SimJournal(disk, fault => onFailure(new Error(fault.message)))
  const state = replay(disk, clock, o.snapshot)
  const store = new StateStore(state, journal)
  const base = { store, root: '/nowhere', workspace: '/nowhere', mode: hub ? ('git' as const) : ('dir' as const) }
  const core = makeCore({ ...base, ...o.team, clock, hub, sandboxed: false }, name => {
    const now = crew.threads.status(name)?.state
    return now === 'stopped' || now === 'failed' ? `${name} is ${now}` : null
  })
  const log = {
    entry: () => undefined,
    error: (_text: string, cause?: unknown) => onFailure(cause),
    close: () => undefined,
  }
  const ending = new AbortController()
  const expiry = new Expiry(core.requests)
  const notices = new Notices(core, log)
  const pingPong = new PingPong(core, notices)
  const crew: Crew = new Crew({
    core,
    notices,
    log,
    redact: text => text,
    threadEntry: '',
    threadEnv: () => ({}),
    holdsBack: () => false,
    table: () => table,
    bringBase: async () => undefined,
    onChange: () => waits.look(),
    onWork: () => undefined,
    isGoing: () => false,
    onFailure,
  })
  const { threads } = crew
  const proof = new Proof({
    core,
    shell: unused,
    signal: ending.signal,
    hidden: [],
    notices,
  })
  const shutdown = new Shutdown({
    core,
    threads,
    notices,
    afterStop: name => crew.afterStop(name, 'it was shut down'),
    onFailure,
  })
  const waits: Waits = new Waits({ core, notices, hasEnded: name => threads.hasEndedTurn(name), onFailure })
  const advance = (id: string): void =>
    proof.advance(id, moved => {
      if (moved) advance(id)
    })
  const effects: Effects = {
    shutdown_request: request => shutdown.advance(request),
    merge_request: request => advance(request.data.task),
    review_request: request => advance(request.data.task),
    resource_request: request => core.budget.follow(request),
    plan_request: request => {
      approveByRule(core, request, onFailure)
      createPlanned(core, request)
    },
  }
  const data = (member: Member) => ({
    name: member.name,
    root: '/nowhere',
    workspace: '/nowhere',
    mode: base.mode,
    member,
    limits: config.limits,
    sandbox: { mode: 'off' as const, kind: 'none' as const, detail: '', remedy: null },
    dataPaths: [],
    told: { role: '', systemPrompt: '', teammates: [], lead: 'user' },
    secrets: [],
  })
  const restart = async (name: string): Promise<Result<{ name: string }>> => {
    const started = threads.restart(name)
    if (!started.ok) return started
    setStanding(core, name, 'live', null)
    await store.flushed()
    return { ok: true, value: { name } }
  }
  const table: Handlers = makeHandlers(core, unused as () => Promise<Status>, unused, {
    down: params => shutdown.all({ ...params, by: 'human' }),
    restart,
    compact: unused,
    listen: unused,
    send: out => pingPong.send(out),
    after: id => afterClaim(core, id),
  })
  const entry = (each: JournalEntry): void => {
    pingPong.entry(each)
    if (!each.append?.[0].startsWith('inbox/')) return
    const stored = each.append[2] as Stored
    if (stored.message.type === 'task') takeTaskMessage(core, notices, stored)
    else crew.mailFor(each.append[0].slice('inbox/'.length), stored)
  }
  const start = async (): Promise<void> => {
    store.onEntry(entry)
    await settle(core, notices, pingPong)
    const followWhatIsThere = followRecords({ core, effects, expiry, crew, notices, advance, changed: () => undefined })
    crew.judge(o.died)
    followWhatIsThere()
    core.budget.start(name => crew.wake(name))
    core.leases.start({
      runs: name => core.roster.has(name) && (store.teammates.get(name)?.value.standing ?? 'live') === 'live',
      onFailure,
    })
    for (const member of o.team.members) {
      const standing = store.teammates.get(member.name)?.value
      if (standing && standing.standing !== 'live') threads.park(data(member), standing.standing, standing.reason)
      else threads.start(data(member))
    }
    await store.flushed()
    crew.dispatch.kick()
  }
  const close = (): void => {
    expiry.close()
    waits.close()
    core.leases.close()
    ending.abort(new Error('the holder is dead'))
  }
  return { core, store, state, journal, crew, table, start, close }
}
export type SimHolder = ReturnType<typeof startHolder>
