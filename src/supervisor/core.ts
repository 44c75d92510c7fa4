import { join } from 'node:path'
import { cloneDamage } from '../git/damage.ts'
import type { Hub } from '../git/hub.ts'
import type { Clock } from '../lib/clock.ts'
import type { Result } from '../lib/result.ts'
import type { Config, Member } from '../protocol/config.ts'
import { type AddressedType, type RequestType, requestTypes } from '../protocol/request-types.ts'
import { isInHand, type Task } from '../protocol/task.ts'
import type { Store } from '../store/store.ts'
import { Budget } from './budget.ts'
import { Leases } from './leases.ts'
import { humanInbox, Mail } from './mail.ts'
import { ModelCalls } from './model-calls.ts'
import { Requests } from './requests.ts'
import { Roster } from './roster.ts'
import { Tasks } from './tasks.ts'
import { withdrawStale } from './withdraw.ts'

/** What a holder of either kind works on: the store, and the acts on it. Threads and folders come on top in the daemon. */
export interface Core extends CoreOptions {
  /** What `config` and `members` are read from. */
  readonly roster: Roster
  readonly tasks: Tasks
  readonly mail: Mail
  readonly requests: Requests
  readonly leases: Leases
  readonly budget: Budget
  readonly modelCalls: ModelCalls
}

export interface CoreOptions {
  readonly store: Store
  readonly root: string
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  readonly config: Config
  readonly members: readonly Member[]
  readonly clock: Clock
  readonly hub: Hub | null
  /** Commands run in a sandbox, where all runs that rules do not refuse. */
  readonly sandboxed: boolean
}

/** Puts the acts on a store. `away` says why a teammate cannot take mail now (null: it can). */
export const makeCore = (o: CoreOptions, away: (name: string) => string | null): Core => {
  const { store, clock } = o
  const roster = new Roster(o.config, o.members)
  const mail = new Mail({
    store,
    clock,
    roster,
    away: name => {
      const standing = store.teammates.get(name)?.value
      if (standing && standing.standing !== 'live')
        return `${name} is ${standing.standing}: it is read after team restart ${name}`
      return roster.has(name) ? away(name) : null
    },
  })
  const tasks = new Tasks(store, clock, o.mode)
  const requests = new Requests(store, clock, mail)
  const leases = new Leases({ store, clock, mail, requests, tasks, mode: o.mode })
  const modelCalls = new ModelCalls(() => roster.config.limits.modelCalls ?? Number.POSITIVE_INFINITY)
  const budget = new Budget({ store, roster, requests, tasks })
  tasks.tellUsed(id => budget.usedFor(id))
  const core: Core = {
    ...o,
    get config() {
      return roster.config
    },
    get members() {
      return roster.members
    },
    roster,
    mail,
    tasks,
    requests,
    leases,
    budget,
    modelCalls,
  }
  store.tasks.watch((_id, { value }, old) => {
    if (old && old.value.status !== 'completed' && (!isInHand(value) || old.value.owner !== value.owner))
      withdrawStale(core, value.id)
  })
  return core
}

/**
 * Who decides a request of this type for this asker: as `approvals` says, else as the table does, but never the asker, and
 * nobody who does not run: then the human.
 */
export const deciderOf = (core: Core, type: Exclude<RequestType, AddressedType>, asker: string): string => {
  const said = isApprovable(type) ? core.config.approvals[type] : requestTypes[type].decides
  if (said === 'auto' || said === 'supervisor') return 'supervisor'
  const name = said === 'lead' ? core.config.lead : said
  const can = name !== undefined && core.roster.has(name) && name !== asker && isLive(core, name)
  return can ? name : 'human'
}
const isApprovable = (type: RequestType): type is keyof Config['approvals'] => requestTypes[type].approvals !== 'fixed'

/** The commands that must pass before the task's work counts. */
export const verifyCommands = (core: Core, task: Task): string[] =>
  [core.config.verify, task.verify].filter(
    (command): command is string => typeof command === 'string' && command.trim() !== '',
  )

export const clonePath = (core: { root: string }, name: string): string => join(core.root, 'team', name, 'repo')

/** What became of the clone of this teammate under it (deleted, damaged), in words that follow its name; null where nothing did. */
export const cloneLoss = ({ hub, root }: Pick<Core, 'hub' | 'root'>, name: string): string | null =>
  hub === null ? null : hub.damage() === null ? cloneDamage(clonePath({ root }, name)) : 'has no hub to borrow from'

/** So often a task is given out anew after that: past it, something in the task itself is what takes the clone away. */
const mostLosses = 4

/** How a task leaves the hands of one whose clone was deleted or damaged: it is no fault of the task, unless it goes on so. */
export const afterLoss = (
  { hub }: Pick<Core, 'hub'>,
  task: Task,
  name: string,
  loss: string,
): { readonly move: 'release' | 'fail'; readonly reason: string } => {
  const damage = hub?.damage() ?? null
  if (damage !== null) return { move: 'release', reason: `${damage}; the task is given out again after that` }
  return task.attempts - task.returns < mostLosses
    ? { move: 'release', reason: `the clone of ${name} ${loss}; it is made again when the task is given out` }
    : {
        move: 'fail',
        reason: `the clone of ${name} ${loss} at attempt ${task.attempts} too: it is made again for the next task, and this one is not given out over and over`,
      }
}

/** Is this teammate one that runs: on record as neither stopped nor given up, and not one that could not be made ready? */
export const isLive = ({ store, roster }: Core, name: string): boolean =>
  roster.isReady(name) && (store.teammates.get(name)?.value.standing ?? 'live') === 'live'

/** The inbox of whoever leads: the lead while it runs, else the human. */
export const leadInbox = (core: Core): string =>
  core.config.lead !== undefined && isLive(core, core.config.lead) ? core.config.lead : humanInbox

/** A git that was killed, or met the lock of one that was, did nothing wrong: it is asked once more. */
const twice = async <T>(fetch: () => Promise<Result<T>>): Promise<Result<T>> => {
  const first = await fetch()
  return first.ok || (first.fault.code !== 'io' && first.fault.code !== 'held') ? first : fetch()
}

/** Keeps what a teammate did on its branch before the task leaves its hands: commits, and work saved aside, go to the hub. */
export const keepWork = async (core: Core, task: Task): Promise<void> => {
  const { hub, store } = core
  if (!hub || task.owner === null || task.branch === null || cloneLoss(core, task.owner) !== null) return
  const dir = clonePath(core, task.owner)
  const { branch } = task
  const kept = await twice(() => hub.fetchBranch(dir, branch))
  const warn = (text: string) => store.note({ event: 'warning', by: 'supervisor', info: { task: task.id, text } })
  if (!kept.ok) warn(`its branch could not be fetched: ${kept.fault.message}`)
  await keepRescued(core, task.owner)
}

/** Takes what was saved aside in a teammate's clone (work uncommitted when the task changed) into the hub. */
export const keepRescued = async ({ hub, store, root }: Core, name: string): Promise<void> => {
  if (!hub) return
  const rescued = await twice(() => hub.fetchRescue(clonePath({ root }, name), name))
  if (!rescued.ok)
    store.note({
      event: 'warning',
      by: 'supervisor',
      info: { name, text: `what was saved aside could not be fetched: ${rescued.fault.message}` },
    })
  else if (rescued.value.length > 0)
    store.note({ event: 'work.rescued', by: 'supervisor', info: { name, refs: rescued.value } })
}
