import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import { effectOf } from '../protocol/request.ts'
import {
  type Call,
  type InboxItem,
  isRpcMethod,
  type RpcMethod,
  type RpcParsed,
  type RpcResults,
  rpcMethods,
  type Status,
  type TaskShown,
} from '../protocol/rpc.ts'
import type { Task } from '../protocol/task.ts'
import { completeTask } from './complete.ts'
import { afterLoss, type Core, cloneLoss, keepWork } from './core.ts'
import { readEvents, type Stream } from './events.ts'
import { gateHandlers } from './gate-handlers.ts'
import { granting } from './lease-gate.ts'
import { humanInbox, isUrgent, type Mail, type Outgoing } from './mail.ts'
import { memoryHandlers } from './memory.ts'
import { modelHandlers } from './model-handlers.ts'
import { opening } from './opening.ts'
import { cannotGive, giveRule } from './permissions.ts'
import { planHandlers } from './plan-handlers.ts'
import { retryTask } from './retry.ts'
import { shownOf } from './shown.ts'
import { requestsOf } from './why.ts'
import { savedOf, workHandlers } from './work-handlers.ts'

/** What only a running daemon can do; without one these are refused or left for the next. */
export interface Live {
  /** Ends everyone by the protocol, then the daemon. */
  down(o: RpcParsed<'down'>): Promise<Result<RpcResults['down']>>
  restart(name: string): Promise<Result<RpcResults['teammate.restart']>>
  compact(name: string, focus: string | null): Promise<Result<RpcResults['teammate.compact']>>
  /** Passes on the pieces of what that teammate writes to a person, until the answer to this is called. */
  listen(name: string, words: Stream['words']): () => void
  /** Sends what a teammate writes, or holds it. */
  send(out: Outgoing & { readonly id: string }): ReturnType<Mail['send']>
  /** What a claim set in motion, in words for the model. */
  after(task: string): string
}

export interface Handlers {
  /** Parses, checks who may, acts, and answers when it is durable. `actor`: `human`, or a teammate's name. */
  call(actor: string, method: string, params: unknown, stream?: Stream): Promise<Result<unknown>>
  /** The same, typed, as the human. */
  readonly human: Call
}

interface Asked {
  readonly actor: string
  readonly stream: Stream | undefined
}
type Giving =
  | { readonly move: 'release'; readonly reason: string | null }
  | { readonly move: 'fail'; readonly reason: string }
type Handler<M extends RpcMethod> = (
  params: RpcParsed<M>,
  asked: Asked,
) => Promise<Result<RpcResults[M]>> | Result<RpcResults[M]>
export type Table = { readonly [M in RpcMethod]: Handler<M> }

/** Answers that say nothing but what is durable, or nothing of records: the end of the daemon is told also where none can be written. */
const tellsNothing: ReadonlySet<RpcMethod> = new Set(['hello', 'down', 'events', 'model.enter', 'model.leave'])

/** The methods of protocol/rpc.ts over one core. `live` is null in a holder that is no daemon. */
export const makeHandlers = (
  core: Core,
  status: () => Promise<Status>,
  hello: () => RpcResults['hello'],
  live: Live | null,
): Handlers => {
  const { store, tasks, mail, requests, leases, roster } = core
  const show = (id: string): TaskShown => shownOf(core, id)
  const known = (id: string): Result<Task> => {
    const task = tasks.get(id)?.value
    return task ? ok(task) : fail('unknown', `there is no task ${id}`, 'team task list --all shows every task')
  }
  const humanOnly = (actor: string, what: string): Result<null> =>
    actor === 'human' ? ok(null) : fail('refused', `only the human may ${what}`)
  const leads = (actor: string, what: string): Result<null> =>
    actor === 'human' || actor === core.config.lead
      ? ok(null)
      : fail('refused', `only the human or the lead may ${what}`)
  const member = (name: string): Result<null> => {
    if (roster.has(name)) return ok(null)
    const { names } = roster
    const near = nearest(name, names)
    return fail(
      'unknown',
      `there is no teammate ${name}`,
      `${near === undefined ? '' : `did you mean ${near}? `}teammates: ${names.join(', ')}`,
    )
  }
  const stillInHand = (actor: string, id: string): Result<null> =>
    tasks.inHand(actor)?.value.id === id ? ok(null) : fail('refused', `task ${id} is not in your hands any more`)
  const inHand = (actor: string, during: string | undefined): Result<Task> => {
    const still = during === undefined ? ok(null) : stillInHand(actor, during)
    if (!still.ok) return still
    const task = tasks.inHand(actor)?.value
    return task ? ok(task) : fail('refused', `${actor} has no task in hand`)
  }
  /** Gives the task in hand back, its work kept first. */
  const give = async (actor: string, move: Giving, during?: string): Promise<Result<{ task: TaskShown }>> => {
    const task = inHand(actor, during)
    if (!task.ok) return task
    const { id } = task.value
    await keepWork(core, task.value)
    const still = stillInHand(actor, id)
    if (!still.ok) return still
    const loss = move.move === 'fail' ? cloneLoss(core, actor) : null
    const moved = tasks.move(id, actor, loss === null ? move : afterLoss(core, task.value, actor, loss))
    if (!moved.ok) return moved
    await moved.value.durable
    return ok({ task: show(id) })
  }
  const sender = (actor: string) => (actor === 'human' ? humanInbox : actor)

  const table: Table = {
    hello: () => ok(hello()),
    status: async () => ok(await status()),

    'task.add': ({ tasks: drops }, { actor }) => {
      const added = tasks.add(drops, { by: actor })
      if (!added.ok) return added
      return ok({ tasks: added.value.ids.map(show) })
    },
    'task.list': ({ status: only, all }) => {
      const out: TaskShown[] = []
      for (const [id, { value }] of store.tasks.list())
        if (only ? value.status === only : all || value.status !== 'cancelled') out.push(show(id))
      return ok({ tasks: out })
    },
    'task.get': async ({ id }) => {
      const task = known(id)
      if (!task.ok) return task
      const saved = await savedOf(core, task.value)
      if (!saved.ok) return saved
      return ok({
        task: show(id),
        requests: requestsOf(core, task.value),
        saved: saved.value,
        used: core.budget.usedFor(id),
      })
    },
    'task.cancel': async ({ id, reason }, { actor }) => {
      const allowed = leads(actor, 'cancel a task')
      if (!allowed.ok) return allowed
      const task = known(id)
      if (!task.ok) return task
      const moved = tasks.move(id, actor, { move: 'cancel', reason })
      if (!moved.ok) return moved
      await store.flushed()
      // A daemon does that for each task that is taken out of somebody's hands.
      if (live === null && task.value.status === 'in_progress' && !task.value.claimed) await keepWork(core, task.value)
      return ok({ task: show(id) })
    },
    'task.retry': ({ id }, { actor }) => {
      const allowed = leads(actor, 'retry a task')
      if (!allowed.ok) return allowed
      const task = known(id)
      if (!task.ok) return task
      const moved = retryTask(core, task.value, actor)
      if (!moved.ok) return moved
      return ok({ task: show(id) })
    },
    'task.claim': async ({ id }, { actor }) => {
      if (actor === 'human') return fail('refused', 'a teammate claims; assign the task to one instead')
      const held = tasks.inHand(actor)
      if (held) return fail('refused', `${actor} has task ${held.value.id} in hand: complete, release or fail it first`)
      if (id !== undefined) {
        const task = known(id)
        if (!task.ok) return task
        if (task.value.status === 'in_progress')
          return fail('conflict', `task ${id} is owned by ${task.value.owner}`, 'start no work on it')
      }
      return fail('refused', 'tasks are given out by the supervisor when you are idle: end your turn')
    },
    'task.complete': async ({ summary, during }, { actor }) => {
      const task = inHand(actor, during)
      if (!task.ok) return task
      return completeTask(core, {
        actor,
        task: task.value,
        summary,
        still: () => stillInHand(actor, task.value.id),
        after: id => live?.after(id) ?? '',
      })
    },
    'task.release': ({ reason, during }, { actor }) => give(actor, { move: 'release', reason: reason ?? null }, during),
    'task.fail': ({ reason, during }, { actor }) => give(actor, { move: 'fail', reason }, during),

    'message.send': (params, { actor }) => {
      const type = params.type ?? 'info'
      if (type === 'request' || type === 'decision' || type === 'system')
        return fail('refused', `messages of type ${type} come from the supervisor alone`)
      if (type === 'task' && actor !== 'human' && actor !== core.config.lead)
        return fail('refused', 'only the human or the lead give tasks by message', 'use the task tool')
      const out = {
        from: sender(actor),
        to: params.to,
        content: params.content,
        type,
        ...(params.urgent === undefined ? {} : { urgent: params.urgent }),
        ...(params.replyTo === undefined ? {} : { replyTo: params.replyTo }),
        id: params.id ?? mail.freshId(),
      }
      const sent = live && actor !== 'human' ? live.send(out) : mail.send(out)
      if (!sent.ok) return sent
      return ok({ sent: sent.value.sent })
    },
    'inbox.read': async ({ name, after, limit, unread }, { actor }) => {
      if (actor !== 'human' && actor !== name) return fail('refused', `${actor} reads its own inbox only`)
      const box = inbox(name)
      if (!box.ok) return box
      const log = store.inbox(box.value)
      const from = after ?? (unread ? log.cursor(box.value) : 0)
      const want = limit ?? 1000
      const page = mail.read(box.value, from, want)
      if (actor === 'human') return ok(page)
      // A teammate takes urgent mail and decisions first, and no `task` messages: these became tasks. As many as were asked
      // for are given where there are as many, since fewer say that there are no more.
      const fresh: InboxItem[] = []
      let { items } = page
      while (items.length > 0 && fresh.length < want) {
        fresh.push(...items.filter(item => item.stored.message.type !== 'task'))
        items = mail.read(box.value, items.at(-1)?.index ?? page.last, want - fresh.length).items
      }
      // What it writes down as read must be there after a crash: an index that is given again would hide its message.
      await store.flushed()
      return ok({
        ...page,
        items: [...fresh.filter(item => isUrgent(item.stored)), ...fresh.filter(item => !isUrgent(item.stored))],
      })
    },
    'inbox.ack': async ({ name, upTo, taken }, { actor }) => {
      const box = inbox(name)
      if (!box.ok) return box
      if (actor === 'human' ? box.value !== humanInbox : actor !== box.value)
        return fail('refused', `the cursor of ${box.value} is moved by ${box.value} alone`)
      const log = store.inbox(box.value)
      const index = Math.min(upTo, log.last)
      const info = { inbox: box.value, upTo: index, ...(taken ? { turn: taken.turn, taken: taken.indexes } : {}) }
      await log.ack(box.value, index, { event: 'message.taken', by: actor, info }, taken).durable
      return ok({ cursor: log.cursor(box.value) })
    },
    'inbox.sent': ({ name, limit }, { actor }) => {
      if (actor !== 'human' && actor !== name) return fail('refused', `${actor} sees what it sent itself only`)
      const box = inbox(name)
      return box.ok ? ok({ items: mail.sent(box.value, limit ?? 100) }) : box
    },
    'inbox.dead': ({ limit }) => {
      const { last } = store.deadLetters
      const cursor = store.deadLetters.cursor(humanInbox)
      const all = store.deadLetters.read(Math.max(0, last - (limit ?? 100)))
      return ok({ letters: all.map(({ index, value }) => ({ ...value, seen: index <= cursor })), cursor, last })
    },
    'inbox.deadSeen': async ({ upTo }, { actor }) => {
      const allowed = humanOnly(actor, 'mark dead letters as seen')
      if (!allowed.ok) return allowed
      const log = store.deadLetters
      const index = Math.min(upTo, log.last)
      if (index > log.cursor(humanInbox))
        await log.ack(humanInbox, index, {
          event: 'message.taken',
          by: actor,
          info: { deadLetters: true, upTo: index },
        }).durable
      return ok({ cursor: log.cursor(humanInbox) })
    },

    'request.list': ({ all, from }) => ok({ requests: all ? requests.all(from) : requests.waiting(from) }),
    'request.get': ({ id }) => {
      const rec = requests.find(id)
      return rec
        ? ok({ request: rec.value, ifApproved: effectOf(rec.value) })
        : fail('unknown', `there is no request ${id}`, 'team requests --all lists them')
    },
    'request.open': async (params, { actor }) => {
      const asked = opening(core, actor, params)
      if (!asked.ok) return asked
      const { data } = asked.value
      const there = 'teammate' in data ? member(data.teammate) : ok(null)
      if (!there.ok) return there
      const opened = requests.open(asked.value)
      if (!opened.ok) return opened
      await opened.value.durable
      const { request } = opened.value
      // What a person decides is always heard of as a decision, however quick; a lease that is free was granted at once.
      if (request.type !== 'resource_request') return ok({ request })
      await store.flushed()
      return ok({ request: requests.get(request.id)?.value ?? request })
    },
    'request.decide': async ({ id, decision, reason, shown: bodyHash, always }, { actor }) => {
      const asked = requests.find(id)?.value
      const cannot = always && asked ? cannotGive(asked, actor, decision) : null
      if (cannot) return cannot
      const early = decision === 'approve' ? granting(core, id, actor) : null
      if (early) return early
      const decided = requests.decide(id, actor, decision, reason ?? null, bodyHash)
      if (!decided.ok) return decided
      const { request } = decided.value
      const given = always && request.type === 'permission_request' ? `; ${giveRule(core, request)}` : ''
      await store.flushed()
      const later =
        live === null && request.status === 'approved' && given === '' ? '; the next team up carries it out' : ''
      return ok({ request, note: `${request.id} ${request.status}${given}${later}` })
    },
    'request.answer': ({ id, text }, { actor }) => {
      const answered = requests.answer(id, actor, text)
      if (!answered.ok) return answered
      return ok({ request: answered.value.request })
    },
    'request.withdraw': ({ id, reason }, { actor }) => {
      const why = reason ?? `withdrawn by ${actor}`
      const lease = requests.find(id)?.value.id ?? id
      const ended = leases.isHeld(lease)
        ? leases.free(lease, { by: actor, why, isLost: actor === 'human' })
        : requests.end(id, 'withdrawn', actor, why)
      if (!ended.ok) return ended
      return ok({ request: ended.value.request })
    },

    ...gateHandlers(core),
    ...modelHandlers(core),
    ...memoryHandlers(core),
    ...planHandlers(core),

    ...workHandlers(core),
    down: (params, { actor }) => {
      const allowed = humanOnly(actor, 'stop the daemon')
      if (!allowed.ok) return allowed
      for (const name of params.names ?? []) {
        const known = member(name)
        if (!known.ok) return known
      }
      return live ? live.down(params) : fail('offline', 'no daemon runs here')
    },
    'teammate.restart': ({ name }, { actor }) => {
      const allowed = leads(actor, 'restart a teammate')
      if (!allowed.ok) return allowed
      const there = member(name)
      if (!there.ok) return there
      return live ? live.restart(name) : fail('offline', 'no daemon runs here', 'team up starts everyone')
    },
    'teammate.compact': ({ name, focus }, { actor }) => {
      const allowed = leads(actor, "have a teammate's conversation put together")
      if (!allowed.ok) return allowed
      const there = member(name)
      if (!there.ok) return there
      return live
        ? live.compact(name, focus ?? null)
        : fail('offline', 'no daemon runs here', 'team up starts everyone')
    },
    events: ({ after, limit, follow, name, words }, { actor, stream }) =>
      actor === 'human'
        ? readEvents(store, {
            after,
            limit,
            name,
            stream: follow ? stream : undefined,
            listen: words && live && stream && name !== undefined ? () => live.listen(name, stream.words) : undefined,
          })
        : fail('refused', 'only the human reads the journal'),
  }

  const inbox = (name: string): Result<string> => (name === 'supervisor' ? ok(name) : mail.readable(name))

  const call: Handlers['call'] = async (actor, method, params, stream) => {
    if (!isRpcMethod(method)) return fail('usage', `there is no method "${method}"`)
    const parsed = rpcMethods[method].safeParse(params ?? {})
    if (!parsed.success)
      return fail(
        'usage',
        parsed.error.issues.map(issue => `${issue.path.join('.') || method}: ${issue.message}`).join('; '),
      )
    const handler = table[method] as Handler<RpcMethod>
    const result = await handler(parsed.data as RpcParsed<RpcMethod>, { actor, stream })
    // What is only read, or refused for, may have been decided a moment ago.
    if (!tellsNothing.has(method)) await store.flushed()
    return result
  }
  return { call, human: ((method: RpcMethod, params: unknown) => call('human', method, params)) as Call }
}
