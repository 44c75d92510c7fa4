import { fail, ok } from '../../src/lib/result.ts'
import type { Member } from '../../src/protocol/config.ts'
import type { Message, Stored } from '../../src/protocol/message.ts'
import { decide, isWaiting, type Request } from '../../src/protocol/request.ts'
import type { Call, InboxItem } from '../../src/protocol/rpc.ts'
import type { AssignedTask } from '../../src/protocol/thread.ts'

export const at = '2026-01-01T00:00:00.000Z'

/** The holder's side of what a life asks, in a few lines. */
export class Holder {
  readonly asked: [string, unknown][] = []
  readonly inbox: InboxItem[] = []
  readonly requests = new Map<string, Request>()
  cursor = 0
  /** What a claim changes. */
  patch = '+one line\n'
  /** Status and owner of the task that is asked about; null: unknown. */
  task: { id: string; status: string; owner: string | null; claimed: unknown } | null = null

  mail(content: string, more: Partial<Message> = {}, origin: Stored['origin'] = 'daemon'): void {
    const index = this.inbox.length + 1
    const message: Message = {
      id: `msg_${index}`,
      from: 'bob',
      to: 'alice',
      timestamp: at,
      type: 'info',
      content,
      ...more,
    }
    this.inbox.push({ index, stored: { message, origin }, receipt: 'stored', turn: null })
  }
  shutdown(): string {
    const id = `req_${this.requests.size + 1}`
    this.requests.set(id, {
      id,
      from: 'human',
      to: 'alice',
      status: 'pending',
      outcome: null,
      title: 'shut down, alice',
      body: 'please',
      bodyHash: 'h',
      createdAt: at,
      deadline: null,
      history: [],
      decidedBy: null,
      decidedAt: null,
      reason: null,
      effect: null,
      successor: null,
      type: 'shutdown_request',
      data: { teammate: 'alice', graceMs: 1000 },
    })
    this.mail('shut down, alice\nplease', { id: `msg_${id}`, type: 'request', from: 'supervisor', requestId: id })
    return id
  }
  /** A claim of bob's, for alice to read. */
  review(): string {
    const id = `req_${this.requests.size + 1}`
    const stop = this.shutdown()
    const base = this.requests.get(stop)
    if (!base) throw new Error('it was just made')
    const data = { task: '3', attempt: 1, owner: 'bob', head: 'a'.repeat(40), commits: 1, files: ['a.txt'], verify: [] }
    const body = 'bob says that task 3 is done.'
    this.requests.set(id, { ...base, from: 'supervisor', title: 'review task 3', body, type: 'review_request', data })
    this.inbox.pop()
    const more = { type: 'request', from: 'supervisor', requestId: id, data: { type: 'review_request' } } as const
    this.mail('review task 3', { id: `msg_${id}`, ...more })
    return id
  }
  /** The next call of `method` is decided when it comes, and answered when that is told. */
  hold(method: string): { readonly asked: boolean; answer(): void } {
    let open: () => void = () => undefined
    const held = { method, asked: false, answered: new Promise<void>(resolve => (open = resolve)) }
    this.#held = held
    return {
      get asked() {
        return held.asked
      },
      answer: () => open(),
    }
  }
  #held: { readonly method: string; asked: boolean; readonly answered: Promise<void> } | null = null
  readonly call: Call = (async (method: string, params: Record<string, unknown>) => {
    const answer = this.#answer(method, params)
    const held = this.#held
    if (held?.method !== method) return answer
    this.#held = null
    held.asked = true
    await held.answered
    return answer
  }) as Call
  #answer(method: string, params: Record<string, unknown>): unknown {
    this.asked.push([method, params])
    switch (method) {
      case 'inbox.read':
        return ok({
          items: this.inbox.filter(item => item.index > Number(params.after)),
          cursor: this.cursor,
          last: this.inbox.length,
        })
      case 'inbox.ack':
        this.cursor = Math.max(this.cursor, Number(params.upTo))
        return ok({ cursor: this.cursor })
      case 'request.get': {
        const request = this.requests.get(String(params.id))
        return request ? ok({ request }) : fail('unknown', 'no such request')
      }
      case 'request.decide': {
        const request = this.requests.get(String(params.id))
        if (!request || request.outcome !== null) return fail('refused', 'already decided')
        const decided = decide(request, 'alice', params.decision as 'approve', String(params.reason ?? ''), at)
        this.requests.set(request.id, decided)
        return ok({ request: decided, note: '' })
      }
      case 'task.get':
        return this.task ? ok({ task: this.task, requests: [] }) : fail('unknown', 'no such task')
      case 'task.complete':
        return ok({ id: this.task?.id ?? '1', note: 'ok' })
      case 'task.fail':
        return ok({ task: { error: params.reason } })
      case 'budget.reserve':
      case 'model.enter':
      case 'model.leave':
      case 'task.gate':
        return ok(null)
      case 'permission.use':
        return ok({ how: 'rule' })
      case 'diff':
        return ok({ title: 'task 3', stat: ' a.txt | 1 +', patch: this.patch })
      case 'request.list':
        return ok({ requests: [...this.requests.values()].filter(isWaiting) })
      default:
        return fail('internal', `not in this test: ${method}`)
    }
  }
  asks(method: string): unknown[] {
    return this.asked.flatMap(([name, params]) => (name === method ? [params] : []))
  }
}

export const member: Member = {
  name: 'alice',
  role: 'tester',
  skills: [],
  systemPrompt: '',
  model: { name: 'm' },
  tools: null,
  permissions: { allow: [], ask: [], deny: [] },
  autoClaim: true,
  needsPlan: false,
  price: null,
  fallbacks: [],
  budget: {},
  capsCost: false,
  lead: false,
  can: ['write'],
}
export const task = (id: string, more: Partial<AssignedTask> = {}): AssignedTask => ({
  id,
  title: `Task ${id}`,
  description: 'do it',
  attempt: 1,
  error: null,
  verify: [],
  accept: [],
  paths: [],
  branch: null,
  start: null,
  resume: null,
  mergeTrunk: null,
  ...more,
})
