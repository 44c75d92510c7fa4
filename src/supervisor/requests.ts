import { createHash } from 'node:crypto'
import type { Clock } from '../lib/clock.ts'
import { iso, timerMs } from '../lib/clock.ts'
import { reach } from '../lib/points.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import {
  answer,
  type Decision,
  decide,
  type Effect,
  end,
  isOfClaim,
  isWaiting,
  Request,
  type RequestOf,
  refusal,
} from '../protocol/request.ts'
import { type RequestType, requestTypes } from '../protocol/request-types.ts'
import type { Rec, Store, Write } from '../store/store.ts'
import { ByTask } from './by-task.ts'
import type { Mail } from './mail.ts'
import { isCutOff, newsOf } from './news.ts'

export interface Opening<T extends RequestType> {
  readonly type: T
  readonly from: string
  readonly to: string
  readonly title: string
  readonly body: string
  readonly data: RequestOf<T>['data']
  readonly deadlineMs?: number
  /** A waiting request in whose place this one is opened; its asker ends that one next. */
  readonly replaces?: string
}

/**
 * The request ledger. A record is made before the message that announces it, whose id derives from the request's; decided
 * once; ended once. What a decision sets off is not here but in the effects, which follow the records.
 */
export class Requests {
  readonly #store: Store
  readonly #clock: Clock
  readonly #mail: Mail
  readonly #waiting = new Set<string>()
  /** Those of them that are about a task, by its id. */
  readonly #about = new Map<string, Set<string>>()
  /** Monotonic deadlines of this run, by request. */
  readonly #deadlines = new Map<string, number>()
  readonly about = new ByTask(id => this.get(id)?.value)
  /** The highest number given so far; imported ones may leave holes below it. */
  #last = 0

  constructor(store: Store, clock: Clock, mail: Mail) {
    this.#store = store
    this.#clock = clock
    this.#mail = mail
    const follow = (request: Request) => {
      if (!isWaiting(request)) {
        this.#waiting.delete(request.id)
        this.#deadlines.delete(request.id)
        const ids = this.#about.get(taskOf(request) ?? '')
        if (ids?.delete(request.id) && ids.size === 0) this.#about.delete(taskOf(request) ?? '')
        return
      }
      this.#waiting.add(request.id)
      const task = taskOf(request)
      if (task !== null) this.#about.set(task, (this.#about.get(task) ?? new Set()).add(request.id))
      if (request.deadline !== null && !this.#deadlines.has(request.id))
        // One that cannot be read (a file by hand) is due: no timer waits for it over and over.
        this.#deadlines.set(request.id, clock.mono() + timerMs(Date.parse(request.deadline) - clock.wall()))
    }
    const see = (request: Request) => {
      this.about.add(request)
      if (isOwn(request.id)) this.#last = Math.max(this.#last, order(request.id))
      follow(request)
    }
    for (const [, rec] of store.requests.list()) see(rec.value)
    store.requests.watch((_id, rec, old) => (old ? follow(rec.value) : see(rec.value)))
  }

  get(id: string): Rec<Request> | undefined {
    return this.#store.requests.get(id)
  }

  /** By its id, or by what a person types for short: the number alone. */
  find(id: string): Rec<Request> | undefined {
    return this.get(id) ?? this.get(`req_${id}`)
  }

  /** The merge request of the claim that this attempt at the task led to. */
  mergeOf(task: string, attempt: number, head: string): RequestOf<'merge_request'> | undefined {
    const found = this.about.latest('merge_request', task)
    return found?.data.attempt === attempt && found.data.head === head ? found : undefined
  }

  /** Every review of work on this task, in order. */
  reviewsOf(task: string): RequestOf<'review_request'>[] {
    return this.about.all('review_request', task)
  }

  /** Every plan ever opened for this task, in order. */
  plansFor(task: string): RequestOf<'plan_request'>[] {
    return this.about.all('plan_request', task)
  }

  /** Waiting ones, oldest first; those of one asker, where it is named. */
  waiting(from?: string): Request[] {
    return this.#listed(this.#waiting, from)
  }

  /** Those of them that are about this task. */
  waitingAbout(task: string): Request[] {
    return this.#listed(this.#about.get(task) ?? [])
  }

  #listed(ids: Iterable<string>, from?: string): Request[] {
    return [...ids]
      .flatMap(id => {
        const request = this.get(id)?.value
        return request && (from === undefined || request.from === from) ? [request] : []
      })
      .sort(inOrder)
  }

  all(from?: string): Request[] {
    return [...this.#store.requests.list()].flatMap(([, { value }]) =>
      from === undefined || value.from === from ? [value] : [],
    )
  }

  /** The one that waits already and is the same. */
  same<T extends RequestType>(o: Opening<T>): Request | undefined {
    const bodyHash = hash(o.type, o.title, o.body, o.data)
    for (const id of this.#waiting) {
      const there = this.get(id)?.value
      if (there && there.type === o.type && there.from === o.from && there.to === o.to && there.bodyHash === bodyHash)
        return there
    }
    return undefined
  }

  /**
   * Opens a request and announces it to its decider. The same (type, from, to, content) while it waits is the same request,
   * and is answered with the one that is there.
   */
  open<T extends RequestType>(o: Opening<T>): Result<{ request: Request } & Write> {
    const there = this.same(o)
    if (there) return ok({ request: there, seq: this.#store.seq, durable: this.#store.flushed() })
    // It must reach who decides, and be shown whole with what else waits.
    const long =
      o.from === 'supervisor' ? null : (this.#mail.tooLong(o.body) ?? this.#mail.tooLong(JSON.stringify(o.data)))
    if (long) return long
    const wall = this.#clock.wall()
    const id = `req_${this.#last + 1}`
    const { deadline } = requestTypes[o.type]
    const given = deadline === null || o.to === 'human' ? undefined : o.data[deadline as keyof typeof o.data]
    const said = o.deadlineMs ?? (given as number | undefined)
    const deadlineMs = said === undefined ? null : timerMs(said)
    const made = Request.safeParse({
      id,
      type: o.type,
      from: o.from,
      to: o.to,
      status: 'pending',
      outcome: null,
      title: o.title,
      body: o.body,
      bodyHash: hash(o.type, o.title, o.body, o.data),
      data: o.data,
      createdAt: iso(wall),
      deadline: deadlineMs === null ? null : iso(wall + deadlineMs),
      history: [{ at: iso(wall), by: o.from, act: 'open' }],
      decidedBy: null,
      decidedAt: null,
      reason: null,
      effect: null,
      successor: null,
      ...(o.replaces === undefined ? {} : { replaces: o.replaces }),
    })
    if (!made.success)
      return fail(
        'invalid',
        `${o.type}: ${made.error.issues.map(issue => `${issue.path.join('.')}: ${issue.message}`).join('; ')}`,
      )
    if (deadlineMs !== null) this.#deadlines.set(id, this.#clock.mono() + deadlineMs)
    const put = this.#store.requests.create(id, made.data, {
      event: 'request.opened',
      by: o.from,
      info: { request: id, type: o.type, to: o.to },
    })
    if (!put.ok) return fail('conflict', `request ${id} exists`)
    this.#tell(made.data)
    return ok({ request: made.data, seq: put.seq, durable: this.#store.flushed() })
  }

  /**
   * Tells what a crash cut off from the record that it is the news of: the last thing that happened to each request. What
   * stands in an inbox, or stood there before that was trimmed, is told no second time.
   */
  recover(): void {
    // What took the place of another was opened first, and the other ended after that.
    for (const { id, replaces } of this.waiting())
      if (replaces !== undefined && this.#waiting.has(replaces))
        this.end(replaces, 'withdrawn', 'human', changedTasks, id)
    for (const request of this.all())
      for (const { event, message } of newsOf(request))
        if (isCutOff(this.#store, ['requests', request.id, event], message.to)) this.#mail.send(message)
  }

  /** Decides, once. Each way in which that can be refused has its own text. */
  decide(
    id: string,
    by: string,
    decision: Decision,
    reason: string | null,
    shown?: string,
    /** Where the effect is only a word of the record (a lease): no crash comes between it and the decision. */
    effect?: Effect,
  ): Result<{ request: Request } & Write> {
    const rec = this.find(id)
    if (!rec) return fail('unknown', `there is no request ${id}`, 'team requests --all lists them')
    const no = refusal(rec.value, by, decision, shown)
    if (no) return fail('refused', no.text, no.why === 'changed' ? 'team requests shows it' : undefined)
    const isSilent = reason === null || reason.trim() === ''
    if (decision === 'ask' && isSilent)
      return fail('usage', `say what you want to know about ${rec.value.id}`, 'give the question as --reason')
    if (decision === 'approve' && rec.value.type === 'question' && isSilent)
      return fail('usage', `${rec.value.id} is a question: it wants words`, `team answer ${rec.value.id} "…"`)
    const long = by === 'supervisor' ? null : this.#mail.tooLong(reason ?? '')
    if (long) return long
    const at = iso(this.#clock.wall())
    const next = { ...decide(rec.value, by, decision, reason, at), ...(effect === undefined ? {} : { effect }) }
    const put = this.#put(rec, next, decision === 'ask' ? 'request.asked' : 'request.decided', by, {
      status: next.status,
      ...(effect?.fence === undefined ? {} : { fence: effect.fence }),
    })
    if (!put.ok) return put
    this.#tell(next)
    return ok({ request: next, seq: put.value.seq, durable: this.#store.flushed() })
  }

  /**
   * The requester's (or, for what the supervisor opened, the owner's or the human's) answer to `ask`. A question is answered
   * by whoever decides it: that is its approval, the text its reason.
   */
  answer(id: string, by: string, text: string): Result<{ request: Request } & Write> {
    const rec = this.find(id)
    if (!rec) return fail('unknown', `there is no request ${id}`, 'team requests --all lists them')
    const request = rec.value
    if (request.type === 'question' && !(request.status === 'needs_info' && by === request.from))
      return this.decide(request.id, by, 'approve', text)
    const mayAnswer = by === 'human' || by === request.from || (isOfClaim(request) && by === request.data.owner)
    if (!mayAnswer) return fail('refused', `${request.id} was asked of ${request.from}, not of ${by}`)
    const long = this.#mail.tooLong(text)
    if (long) return long
    const next = answer(request, by, text, iso(this.#clock.wall()))
    if (!next) {
      const { id, status, outcome, successor, decidedBy } = request
      const how =
        outcome === 'decided'
          ? `${status} by ${decidedBy}`
          : successor
            ? `superseded by ${successor}`
            : (outcome ?? status)
      return fail('refused', `nothing was asked about ${id}: it is ${how}`)
    }
    const put = this.#put(rec, next, 'request.answered', by, {})
    if (!put.ok) return put
    this.#tell(next)
    return ok({ request: next, seq: put.value.seq, durable: this.#store.flushed() })
  }

  /** Ends a waiting request undecided. */
  end(
    id: string,
    outcome: 'expired' | 'withdrawn',
    by: string,
    reason: string,
    successor: string | null = null,
  ): Result<{ request: Request } & Write> {
    const rec = this.find(id)
    if (!rec) return fail('unknown', `there is no request ${id}`, 'team requests --all lists them')
    if (by !== 'human' && by !== 'supervisor' && by !== rec.value.from)
      return fail('refused', `${rec.value.id} was opened by ${rec.value.from}: ${by} cannot withdraw it`)
    const next = end(rec.value, outcome, by, reason, iso(this.#clock.wall()), successor)
    if (!next)
      return fail(
        'refused',
        `${rec.value.id} does not wait any more: it is ${rec.value.outcome === 'decided' ? rec.value.status : rec.value.outcome}`,
      )
    const put = this.#put(rec, next, outcome === 'expired' ? 'request.expired' : 'request.withdrawn', by, { reason })
    if (!put.ok) return put
    this.#tell(next)
    return ok({ request: next, seq: put.value.seq, durable: this.#store.flushed() })
  }

  /** Records a step of the effect: intent before it starts, done after it ended, each once. */
  effect(
    id: string,
    step: 'intent' | 'done',
    outcome?: NonNullable<Effect['outcome']>,
    detail?: string,
    more: Partial<Effect> = {},
  ): Result<Write> {
    reach(step === 'intent' ? 'effect.intent' : 'effect.done')
    const rec = this.get(id)
    if (!rec) return fail('unknown', `there is no request ${id}`)
    const before = rec.value.effect?.step
    if (before === 'done' || before === step)
      return fail('refused', `${id}: its effect is on record as ${before} already`)
    const { fence, until, what } = rec.value.effect ?? {}
    const effect = {
      ...(fence === undefined ? {} : { fence, until, what }),
      ...more,
      step,
      at: iso(this.#clock.wall()),
      ...(outcome === undefined ? {} : { outcome }),
      ...(detail === undefined ? {} : { detail }),
    }
    return this.#put(rec, { ...rec.value, effect }, step === 'intent' ? 'effect.intent' : 'effect.done', 'supervisor', {
      ...(outcome === undefined ? {} : { outcome }),
      ...(detail === undefined ? {} : { detail }),
    })
  }

  /** Expires what is past its deadline by the monotonic clock. Returns those ended now. */
  expire(): Request[] {
    const now = this.#clock.mono()
    const ended: Request[] = []
    for (const [id, deadline] of this.#deadlines)
      if (now >= deadline) {
        const done = this.end(id, 'expired', 'supervisor', 'nobody decided in time')
        this.#deadlines.delete(id)
        if (done.ok) ended.push(done.value.request)
      }
    return ended
  }

  /** Milliseconds until the next deadline; null when none waits. */
  untilNext(): number | null {
    let least: number | null = null
    for (const deadline of this.#deadlines.values()) least = least === null ? deadline : Math.min(least, deadline)
    return least === null ? null : Math.max(0, least - this.#clock.mono())
  }

  #put(
    rec: Rec<Request>,
    next: Request,
    event:
      | 'request.asked'
      | 'request.decided'
      | 'request.answered'
      | 'request.expired'
      | 'request.withdrawn'
      | 'effect.intent'
      | 'effect.done',
    by: string,
    info: Record<string, unknown>,
  ): Result<Write> {
    const put = this.#store.requests.update(next.id, rec.rev, next, {
      event,
      by,
      info: { request: next.id, type: next.type, ...info },
    })
    if (!put.ok) return fail('conflict', `request ${next.id} changed meanwhile`, 'look at it again')
    return ok({ seq: put.seq, durable: put.durable })
  }

  /** Sends the news of what happened last to this request. Its ids derive from the record, so the same again is not sent twice. */
  #tell(request: Request): void {
    for (const { message } of newsOf(request)) this.#mail.send(message)
  }
}

/** Why a request that somebody changed ended. */
export const changedTasks = 'its tasks were changed'

/** Oldest first: by their numbers, since a clock may be set back; times tell only of those that came with names of their own. */
const inOrder = (a: Request, b: Request): number => {
  const isTimed = !isOwn(a.id) || !isOwn(b.id)
  if (isTimed && a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? -1 : 1
  return order(a.id) - order(b.id)
}
const isOwn = (id: string): boolean => /^req_\d{1,15}$/.test(id)

const order = (id: string): number => Number(id.replace(/\D/g, ''))

/** The task that a request is about, where it is about one. */
const taskOf = (request: Request): string | null => ('task' in request.data ? request.data.task : null)

/** What a decision is bound to. */
const hash = (...shown: unknown[]): string => createHash('sha256').update(JSON.stringify(shown)).digest('hex')
