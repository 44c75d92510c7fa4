import type { MailMark } from '../../src/agent/entry.ts'
import { isParking, type Request } from '../../src/protocol/request.ts'
import type { Call } from '../../src/protocol/rpc.ts'
import type { AssignedTask, FromThread, ToThread } from '../../src/protocol/thread.ts'
import { Intake } from '../../src/teammate/intake.ts'
import { portCall } from '../../src/teammate/port.ts'
import type { Body } from './threads.ts'

/** What of a teammate outlives its thread: how far its mail stands in its context, and what its models used. */
export interface PuppetSession {
  mark: MailMark
  readonly used: { input: number; output: number; calls: number }
}

export interface PuppetOptions {
  readonly name: string
  readonly names: readonly string[]
  readonly session: PuppetSession
  readonly post: (message: FromThread) => void
  readonly batch: number
  /** A message enters its context. */
  readonly onMail: (index: number, id: string) => void
  /** It commits on the branch of its task. */
  readonly commit: (branch: string) => void
  readonly trace: (text: string) => void
  /** Its thread ends. */
  readonly end: () => void
  /** What it finds is as it must not be. */
  readonly fail: (error: unknown) => void
}

/**
 * A teammate that keeps to the protocol of a thread and does, within that, whatever the schedule picks: its mail is taken in
 * and acknowledged by the product's own rule, all else is played.
 */
export class Puppet implements Body {
  readonly #o: PuppetOptions
  readonly #port: ReturnType<typeof portCall>
  readonly #call: Call
  readonly #intake: Intake
  #task: AssignedTask | null = null
  /** A plan of it was approved. */
  #parked = new Set<string>()
  #asked = new Set<string>()
  readonly #opened = new Set<string>()
  #busy = false
  #isWoken = false
  #isDraining = false
  #shown = ''

  constructor(o: PuppetOptions) {
    this.#o = o
    this.#port = portCall(o.post)
    this.#call = this.#port.call
    const { name, batch } = o
    this.#intake = new Intake({ name, call: this.#call, batch, out: '/nowhere/out', window: undefined })
  }

  start(): void {
    const { input, output, calls } = this.#o.session.used
    this.#o.post({ t: 'usage', input, cachedInput: 0, output, calls, context: null, task: null, call: null })
    this.#o.post({ t: 'ready', goesOn: false })
    this.#show()
  }

  hear(message: ToThread): void {
    if (message.t === 'res') this.#port.answer(message)
    else this.#isWoken = true
    if (message.t === 'mail') this.#intake.due = true
    if (message.t === 'assign') {
      this.#task = message.task
      this.#parked.clear()
      void this.#alone(() => this.#resume())
    }
    if (message.t === 'unassign' && this.#task?.id === message.id) {
      this.#leave()
      this.#shown = ''
      if (!this.#busy) this.#show()
    }
    if (message.t === 'stop') this.#bye(message.reason)
  }

  get isBusy(): boolean {
    return this.#busy
  }

  /** Does something that could be done now; `a` and `b` pick. */
  act(a: number, b: number): void {
    if (this.#busy || this.#isDraining) return
    const { name, names, trace } = this.#o
    const other = names[b % names.length] ?? name
    const during = this.#task === null ? {} : { during: this.#task.id }
    const request = [...this.#opened][b % Math.max(1, this.#opened.size)] ?? 'req_1'
    const acts: [string, () => Promise<unknown>][] = [
      ['reads its mail', () => this.#mail(true)],
      ['looks what it waits for', () => this.#look()],
      ['completes', () => this.#complete(b)],
      [
        'decides',
        () => this.#decide(`req_${1 + (b % 12)}`, (['approve', 'reject', 'ask'] as const)[b % 3] ?? 'approve'),
      ],
      [
        'writes',
        () => this.#call('message.send', { to: other, content: `${name} ${b}`, ...(b & 64 ? { urgent: true } : {}) }),
      ],
      ['writes the same', () => this.#call('message.send', { to: other, content: 'once', id: `msg_${name}_${b % 3}` })],
      ['asks the human', () => this.#open({ type: 'question', body: `what about ${b % 4}?`, ...during })],
      ['plans', () => this.#open({ type: 'plan_request', body: `plan ${b % 4}`, ...during })],
      [
        'proposes tasks',
        () => this.#open({ type: 'plan_request', body: '', data: { tasks: [{ title: `planned ${b}` }] }, ...during }),
      ],
      [
        'wants a lease',
        () =>
          this.#open({
            type: 'resource_request',
            body: '',
            data: {
              kind: b & 1 ? 'name' : 'path',
              what: [`src/${b % 3 === 0 ? '**' : 'abc'[b % 3]}`],
              seconds: 1 + (b % 60),
            },
            ...during,
          }),
      ],
      ['gives back', () => this.#call('request.withdraw', { id: request }).then(() => this.#look())],
      ['answers', () => this.#call('request.answer', { id: request, text: 'so' })],
      ['calls its model', () => this.#model(b)],
      ['releases', () => this.#end('task.release')],
      ['fails', () => this.#end('task.fail')],
      ['adds a task', () => this.#call('task.add', { tasks: [{ title: `of ${name} ${b}` }] })],
      ['may it write', () => this.#call('task.gate', { paths: ['src/a'] })],
      [
        'asks to end',
        () => this.#open({ type: 'shutdown_request', body: 'done here', data: { teammate: name, graceMs: 1000 } }),
      ],
      ['ends its turn', async () => this.#show()],
    ]
    const [what, act] = acts[a % acts.length] ?? ['', async () => undefined]
    trace(`${name} ${what}`)
    void this.#alone(act)
  }

  /** Does what a good teammate would do next; false where it only waits. */
  rest(): boolean {
    if (this.#busy || this.#isDraining) return false
    if (this.#intake.due) void this.#alone(() => this.#mail(false))
    else if (this.#parked.size > 0) {
      // Every word of the holder is a reason to look again, and so is what it asked for just now.
      if (!this.#isWoken) return false
      this.#isWoken = false
      void this.#alone(() => this.#look())
    } else if (this.#asked.size > 0) void this.#alone(() => this.#answerAll())
    else if (this.#task !== null) void this.#alone(() => this.#good())
    else return false
    return true
  }

  async #alone(act: () => Promise<unknown>): Promise<void> {
    this.#busy = true
    try {
      await act()
    } catch (error) {
      this.#o.fail(error)
    }
    this.#busy = false
    if (!this.#isDraining) this.#show()
  }

  #show(): void {
    const [request] = this.#parked
    const state = request !== undefined ? 'waiting' : this.#task !== null ? 'working' : 'idle'
    const shown = `${state} ${request}`
    if (shown === this.#shown) return
    this.#shown = shown
    const waiting = request === undefined ? null : { what: request, whom: 'somebody', request }
    this.#o.post({ t: 'state', state, waiting })
  }

  #leave(): void {
    this.#task = null
    this.#parked.clear()
    this.#asked.clear()
  }

  #bye(reason: string): void {
    this.#isDraining = true
    this.#port.close()
    this.#o.post({ t: 'bye', reason })
    this.#o.end()
  }

  async #mail(isAll: boolean): Promise<void> {
    const { session, onMail } = this.#o
    const isFree = () => this.#task === null && this.#parked.size === 0
    const choice =
      (await this.#intake.next(session.mark)) ?? (isFree() ? await this.#intake.review(session.mark) : null)
    if (!choice) return
    for (const { index, stored } of choice.picked) onMail(index, stored.message.id)
    session.mark = choice.mark
    const indexes = choice.picked.map(({ index }) => index)
    await this.#intake.acknowledge(choice.mark.upTo, { turn: 1, indexes })
    for (const { stored } of choice.picked) {
      const { type, requestId } = stored.message
      if (requestId === undefined || stored.origin !== 'daemon') continue
      if (type === 'decision' || type === 'info') await this.#look()
      if (type === 'decision' && (await this.#isToEnd(requestId))) return this.#bye('shutdown approved')
      if (type !== 'request' || isAll) continue
      const found = await this.#call('request.get', { id: requestId })
      if (found.ok && found.value.request.to === this.#o.name && found.value.request.status === 'pending')
        await this.#decide(requestId, 'approve')
    }
  }

  /** A person agreed to its end in its place. */
  async #isToEnd(id: string): Promise<boolean> {
    const found = await this.#call('request.get', { id })
    const request = found.ok ? found.value.request : null
    return (
      request?.type === 'shutdown_request' &&
      request.data.teammate === this.#o.name &&
      request.status === 'approved' &&
      request.effect?.step !== 'done'
    )
  }

  async #decide(id: string, decision: 'approve' | 'reject' | 'ask'): Promise<void> {
    const decided = await this.#call('request.decide', { id, decision, reason: 'so' })
    if (!decided.ok) return
    const { request } = decided.value
    if (request.type === 'shutdown_request' && request.data.teammate === this.#o.name && request.status === 'approved')
      this.#bye('shutdown approved')
  }

  async #open(asked: Parameters<Call>[1] & { type: Request['type']; body: string }): Promise<void> {
    const task = this.#task
    const opened = await this.#call('request.open', asked)
    if (!opened.ok) return
    const { request } = opened.value
    this.#opened.add(request.id)
    this.#isWoken = true
    // It waits for nothing about a task that was taken out of its hands meanwhile.
    if (isParking(request) && this.#task === task) this.#parked.add(request.id)
  }

  /** What of that it waits for is decided, by the ledger's word. */
  async #look(): Promise<void> {
    for (const id of this.#parked) {
      const found = await this.#call('request.get', { id })
      const request = found.ok ? found.value.request : null
      if (request && isParking(request) && request.status === 'pending') continue
      this.#parked.delete(id)
      if (request?.successor) this.#parked.add(request.successor)
      else if (request && isParking(request)) this.#asked.add(id)
    }
  }

  async #resume(): Promise<void> {
    const listed = await this.#call('request.list', { from: this.#o.name })
    if (!listed.ok) return
    for (const request of listed.value.requests)
      if (isParking(request) && 'task' in request.data && request.data.task === this.#task?.id) {
        this.#opened.add(request.id)
        if (request.status === 'pending') this.#parked.add(request.id)
        else this.#asked.add(request.id)
      }
  }

  async #answerAll(): Promise<void> {
    for (const id of this.#asked) {
      this.#asked.delete(id)
      const answered = await this.#call('request.answer', { id, text: 'so' })
      if (answered.ok && isParking(answered.value.request)) this.#parked.add(id)
    }
  }

  async #complete(b: number): Promise<void> {
    const task = this.#task
    if (task === null) return
    if (task.branch !== null && b % 4 !== 0) this.#o.commit(task.branch)
    const done = await this.#call('task.complete', { summary: 'did it', during: task.id })
    if (done.ok && this.#task === task) this.#leave()
  }

  async #end(how: 'task.release' | 'task.fail'): Promise<void> {
    const task = this.#task
    if (task === null) return
    const ended = await this.#call(how, { reason: 'no', during: task.id })
    if (ended.ok && this.#task === task) this.#leave()
  }

  async #good(): Promise<void> {
    const may = await this.#call('task.gate', { paths: [] })
    if (!may.ok && /plan/.test(may.fault.message)) return this.#open({ type: 'plan_request', body: 'as asked' })
    await this.#complete(1)
  }

  async #model(b: number): Promise<void> {
    const { session, post } = this.#o
    const need = { input: 10 + (b % 40), output: 10 }
    const may = await this.#call('budget.reserve', need)
    if (!may.ok) return
    if (may.value !== null && !('cheaper' in may.value)) {
      if (may.value.request !== null) {
        this.#opened.add(may.value.request)
        this.#parked.add(may.value.request)
      }
      return
    }
    const { used } = session
    used.input += need.input
    used.output += b % 11
    used.calls++
    const { input, output, calls } = used
    const call = { stop: 'end', calls: [] }
    post({ t: 'usage', input, cachedInput: 0, output, calls, context: null, task: this.#task?.id ?? null, call })
  }
}
