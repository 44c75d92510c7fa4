import { ok, type Result } from '../lib/result.ts'
import {
  amount,
  costOf,
  isCoordination,
  keyOf,
  minus,
  none,
  plus,
  raised,
  type Scope,
  since,
  type Unit,
  units,
  usedOf,
  whose,
} from '../protocol/amount.ts'
import type { BudgetData, Spending, Used, UsedFor } from '../protocol/budget.ts'
import { mostCost, priceOf } from '../protocol/fallbacks.ts'
import { type BudgetRequest, isBudget, type Request } from '../protocol/request.ts'
import { requestTypes } from '../protocol/request-types.ts'
import type { BudgetShown, OverBudget } from '../protocol/rpc.ts'
import { isEnded } from '../protocol/task.ts'
import type { Store } from '../store/store.ts'
import type { Requests } from './requests.ts'
import type { Roster } from './roster.ts'
import type { Tasks } from './tasks.ts'

/** What a thread tells of what its session used in all, and by which call. */
export interface Told extends Used {
  readonly task: string | null
  readonly call: { readonly stop: string; readonly calls: readonly string[]; readonly sub?: string | undefined } | null
  /** Who answered, by label. */
  readonly model?: string | undefined
}

type Amounts = Readonly<Record<Unit, number>>
/** What is kept free for a call that is made now. */
interface Reserved {
  readonly name: string
  readonly task: string | null
  readonly need: Amounts
}
/** One cap, as it holds for a call of one teammate. */
interface Cap {
  readonly scope: Scope
  readonly of: string
  readonly unit: Unit
  /** As config.json says it. */
  readonly said: number
  readonly cap: number
  readonly spent: number
  /** What calls that others are making now were promised. */
  readonly reserved: number
}

const nothing: Amounts = { tokens: 0, cost: 0 }
const teamName = 'team'

/**
 * What the models used, and what they may: caps on the team, on each teammate and on each task, in tokens and in cost.
 *
 *   reserve ──▶ the call ──▶ heard: what it used takes the place of what was reserved
 *     └─ past a cap ──▶ a request to the human; the teammate parks ──approved──▶ the cap is higher, it goes on
 *                                                                  └─rejected──▶ nothing calls a model past that cap any more
 *
 * A thread tells what its session used in all, which stands in the session's journal: so a call counts once, whichever of
 * the two a crash cuts off. What an approval gives is in the record of its request.
 */
export class Budget {
  readonly #store: Store
  readonly #roster: Roster
  readonly #requests: Requests
  readonly #tasks: Tasks
  /** By whose: `team`, `teammate/<name>`, `task/<id>`. */
  readonly #spent = new Map<string, Amounts>()
  /** By `team` and `task/<id>`: the same as it was used, for work and for coordination. */
  readonly #usedFor = new Map<string, UsedFor>()
  /** What each teammate's session had used when it was counted last, and at which count. */
  readonly #seen = new Map<string, { readonly n: number; readonly seen: Used }>()
  /** The call that each teammate, and each subagent of one, is making, at most one each. */
  readonly #reserved = new Map<string, Reserved>()
  /** What was approved, by cap. */
  readonly #raises = new Map<string, number>()
  /** Who rests, since the human said no to more than this cap. */
  readonly #resting = new Map<string, { readonly over: Cap; readonly why: string }>()
  #wake: ((name: string) => void) | null = null

  constructor(o: { store: Store; roster: Roster; requests: Requests; tasks: Tasks }) {
    this.#store = o.store
    this.#roster = o.roster
    this.#requests = o.requests
    this.#tasks = o.tasks
    for (const [, { value }] of o.store.spending.list()) this.#count(value, undefined)
    for (const [, { value }] of o.store.requests.list()) this.#see(value)
    o.store.requests.watch((_id, { value }, old) => {
      if (!old?.value.decidedAt) this.#see(value)
    })
  }

  /** Looks at what changed while no daemon ran. From now on whoever waits for a cap is woken by `wake` when that is another. */
  start(wake: (name: string) => void): void {
    this.#wake = wake
    this.look()
  }

  /** What the session of `name` used by now. Told again, it changes nothing. */
  heard(name: string, { task, call, model, ...told }: Told): void {
    if (call !== null) this.#reserved.delete(caller(name, call.sub))
    const used: Used = {
      input: told.input,
      cachedInput: told.cachedInput,
      output: told.output,
      calls: told.calls,
    }
    const { n, seen } = this.#seen.get(name) ?? { n: 0, seen: none }
    const fresh = since(seen, used)
    const isAnew = used.calls < seen.calls
    if (!isAnew && fresh.calls === 0 && fresh.input === 0 && fresh.output === 0) return
    const id = `${name}/${task ?? ''}`
    const rec = this.#store.spending.get(id)
    const old = rec?.value ?? { ...none, cost: 0 }
    const member = this.#roster.find(name)
    const cost = member === undefined ? 0 : costOf(fresh, priceOf(member, model))
    const value: Spending = {
      name,
      task,
      input: old.input + fresh.input,
      cachedInput: old.cachedInput + fresh.cachedInput,
      output: old.output + fresh.output,
      calls: old.calls + fresh.calls,
      ...(task !== null && {
        coordination: plus(rec?.value.coordination ?? none, call && isCoordination(call.calls) ? fresh : none),
      }),
      cost: old.cost + cost,
      n: n + 1,
      seen: used,
    }
    const info = {
      name,
      ...(model === undefined ? {} : { model }),
      ...(task === null ? {} : { task }),
      ...call,
      ...fresh,
      calls: call?.calls ?? [],
    }
    const why = { event: 'model.call' as const, by: name, info }
    if (rec) this.#store.spending.update(id, rec.rev, value, why)
    else this.#store.spending.create(id, value, why)
    this.#count(value, rec?.value)
  }

  /** The call that this subagent of `name` was making has ended, or will tell nothing any more; without `sub` all of `name`. */
  release(name: string, sub?: string): void {
    for (const [key, reserved] of this.#reserved)
      if (sub === undefined ? reserved.name === name : key === caller(name, sub)) this.#reserved.delete(key)
  }

  /**
   * May `name` call its model, which takes about so many tokens? null: it may, and they are kept free until the call was heard
   * of. Else why not, with the request that it waits for; null for that where the human said no already.
   */
  reserve(
    name: string,
    { input, output, sub }: { readonly input: number; readonly output: number; readonly sub?: string | undefined },
  ): Result<OverBudget | { readonly cheaper: true } | null> {
    const task = this.#tasks.inHand(name)?.value.id ?? null
    const used = { input, cachedInput: 0, output }
    const member = this.#roster.find(name)
    const most = mostCost(member, used)
    const who = caller(name, sub)
    this.#reserved.delete(who)
    const caps = this.#caps(name, task)
    const { cheaperAt } = this.#roster.config.budget
    const isNear = caps.some(
      ({ cap, spent, reserved, unit }) => unit === 'cost' && spent + reserved + most > cheaperAt * cap,
    )
    const cheaper = isNear ? member?.fallbacks.find(({ isCheaper }) => isCheaper) : undefined
    const need = { tokens: input + output, cost: cheaper ? costOf(used, cheaper.price) : most }
    const over = caps.find(({ cap, spent, reserved, unit }) => spent + reserved + need[unit] > cap)
    this.#resting.delete(name)
    if (over) return this.#ask(name, task, over, need)
    this.#reserved.set(who, { name, task, need })
    return ok(cheaper ? { cheaper: true } : null)
  }

  /**
   * Ends what is asked about caps that are higher by now, or that the human said no to, and wakes who asked. Of those who rest,
   * only who has another cap by now: the others would be given what they cannot work on.
   */
  look(): void {
    const woken = new Set<string>()
    for (const request of this.#requests.waiting()) {
      if (!isBudget(request)) continue
      const why = this.#moot(request)
      if (why === null) continue
      this.#requests.end(request.id, 'withdrawn', 'supervisor', why)
      woken.add(request.from)
    }
    for (const name of this.#resting.keys()) if (this.rests(name) === null) woken.add(name)
    for (const name of woken) this.#wake?.(name)
  }

  /** Why `name` rests, over restarts of its thread, until its cap is another one; null where it does not. */
  rests(name: string): string | null {
    const { over, why } = this.#resting.get(name) ?? {}
    if (over === undefined || why === undefined) return null
    const now = this.#on(over.scope, over.of).find(({ unit }) => unit === over.unit)
    return now && this.#refusal(now, now.cap) !== null ? why : null
  }

  /** A request that was decided: what was given stands in it, and counts from then on. */
  follow(request: Request): void {
    if (!isBudget(request) || request.outcome !== 'decided' || request.effect !== null) return
    if (request.status === 'approved') this.#requests.effect(request.id, 'done', 'ok', raised(request.data))
    this.look()
  }

  /** What the whole team used, or what was used for one task, over all who worked on it. */
  usedFor(task?: string): UsedFor {
    return this.#usedFor.get(task === undefined ? key('team', teamName) : key('task', task)) ?? nothingUsed
  }

  /** Every cap that counts now. */
  shown(): BudgetShown[] {
    const { members } = this.#roster
    const open = [...this.#store.tasks.list()].filter(
      ([id, { value }]) => !isEnded(value) && this.#spent.has(key('task', id)),
    )
    return [
      ...this.#on('team', teamName),
      ...members.flatMap(({ name }) => this.#on('teammate', name)),
      ...open.flatMap(([id]) => this.#on('task', id)),
    ].map(({ scope, of, unit, spent, cap }) => ({ scope, of, unit, spent, cap }))
  }

  #caps(name: string, task: string | null): Cap[] {
    const others = [...this.#reserved.values()]
    const beside = (counts: (each: Reserved) => boolean) => (cap: Cap) => ({
      ...cap,
      reserved: others.filter(counts).reduce((sum, { need }) => sum + need[cap.unit], 0),
    })
    return [
      ...this.#on('team', teamName).map(beside(() => true)),
      ...this.#on('teammate', name).map(beside(each => each.name === name)),
      ...(task === null ? [] : this.#on('task', task).map(beside(each => each.task === task))),
    ]
  }

  #on(scope: Scope, of: string): Cap[] {
    return units.flatMap(unit => {
      const said = this.#said(scope, of)?.[unit]
      if (said === undefined) return []
      const spent = (this.#spent.get(key(scope, of)) ?? nothing)[unit]
      return [{ scope, of, unit, said, spent, reserved: 0, cap: said + this.#given({ scope, of, unit }) }]
    })
  }

  #said(scope: Scope, of: string) {
    const { budget } = this.#roster.config
    return scope === 'teammate' ? this.#roster.find(of)?.budget : budget[scope]
  }

  #given(of: Pick<BudgetData, 'scope' | 'of' | 'unit'>): number {
    return this.#raises.get(capKey(of)) ?? 0
  }

  #ask(name: string, task: string | null, over: Cap, need: Amounts): Result<OverBudget> {
    const { scope, of, unit, cap, said, spent, reserved } = over
    const used = `${usedOf(over)} of the budget of ${whose(over)} are used, and the next call takes about ${amount(unit, need[unit])}`
    const waiting = this.#requests.waiting(name).find(each => isBudget(each) && capKey(each.data) === capKey(over))
    if (waiting) return ok({ request: waiting.id, scope, why: used })
    const no = this.#refusal(over, cap)
    if (no !== null) {
      const why = `${no}; ${used}`
      if (scope !== 'task') this.#resting.set(name, { over, why })
      return ok({ request: null, scope, why })
    }
    const raise = Math.max(said, spent + reserved + need[unit] - cap)
    const data: BudgetData = {
      task,
      kind: 'budget',
      scope,
      of,
      unit,
      cap,
      spent,
      raise: unit === 'tokens' ? Math.ceil(raise) : raise,
    }
    const opened = this.#requests.open({
      type: 'resource_request',
      from: name,
      to: 'human',
      title: requestTypes.resource_request.title({ from: name, body: '', data }),
      body: [
        `${used}.`,
        `If rejected: ${scope === 'task' ? `the task fails; what was done stays on its branch` : `${scope === 'team' ? 'no teammate' : of} calls a model any more${task === null ? '' : `, and task ${task} goes back`}, until config.json gives more (${keyOf(data)})`}.`,
      ].join('\n'),
      data,
    })
    return opened.ok ? ok({ request: opened.value.request.id, scope, why: used }) : opened
  }

  /** Why nobody needs to decide this any more; null where somebody does. */
  #moot({ data }: BudgetRequest): string | null {
    const now = this.#on(data.scope, data.of).find(({ unit }) => unit === data.unit)
    if (!now) return `${keyOf(data)} has no cap any more`
    if (now.cap > data.cap) return `${whose(data)} may use ${amount(data.unit, now.cap)} by now`
    return this.#refusal(data, now.cap)
  }

  /** That the human said no to more than this, and what is left to do; null where nobody did. */
  #refusal(of: Pick<BudgetData, 'scope' | 'of' | 'unit'>, cap: number): string | null {
    const isThis = (each: Request): each is BudgetRequest =>
      isBudget(each) && each.status === 'rejected' && each.data.cap >= cap && capKey(each.data) === capKey(of)
    const no = this.#requests.all().filter(isThis).at(-1)
    return no ? refused(no) : null
  }

  #see(request: Request): void {
    if (!isBudget(request) || request.status !== 'approved') return
    const of = capKey(request.data)
    this.#raises.set(of, (this.#raises.get(of) ?? 0) + request.data.raise)
  }

  #count(value: Spending, old: Spending | undefined): void {
    const fresh: Amounts = {
      tokens: value.input + value.output - (old ? old.input + old.output : 0),
      cost: value.cost - (old?.cost ?? 0),
    }
    const [now, before] = [split(value), old ? split(old) : nothingUsed]
    for (const each of [key('team', teamName), ...(value.task === null ? [] : [key('task', value.task)])]) {
      const sum = this.#usedFor.get(each) ?? nothingUsed
      this.#usedFor.set(each, {
        work: plus(sum.work, minus(now.work, before.work)),
        coordination: plus(sum.coordination, minus(now.coordination, before.coordination)),
        cost: sum.cost + now.cost - before.cost,
      })
    }
    const whom = [key('team', teamName), key('teammate', value.name)]
    if (value.task !== null) whom.push(key('task', value.task))
    for (const each of whom) {
      const { tokens, cost } = this.#spent.get(each) ?? nothing
      this.#spent.set(each, { tokens: tokens + fresh.tokens, cost: cost + fresh.cost })
    }
    if (value.n > (this.#seen.get(value.name)?.n ?? 0)) this.#seen.set(value.name, { n: value.n, seen: value.seen })
  }
}

const nothingUsed: UsedFor = { work: none, coordination: none, cost: 0 }
const split = (value: Spending): UsedFor => {
  const { task, cost, input, cachedInput, output, calls } = value
  const all = { input, cachedInput, output, calls }
  const coordination = task === null ? all : (value.coordination ?? none)
  return { work: minus(all, coordination), coordination, cost }
}

/** A teammate's name has no `/`. */
const caller = (name: string, sub: string | undefined): string => (sub === undefined ? name : `${name}/${sub}`)
const key = (scope: Scope, of: string): string => `${scope}/${of}`
const capKey = ({ scope, of, unit }: Pick<BudgetData, 'scope' | 'of' | 'unit'>): string => `${key(scope, of)}/${unit}`

const refused = ({ id, data, decidedBy, reason }: BudgetRequest): string =>
  `${decidedBy} rejected ${id}${reason === null ? '' : ` (${reason})`}: ${keyOf(data)} in config.json gives more`
