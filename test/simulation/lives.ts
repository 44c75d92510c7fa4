import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { localGate } from '../../src/agent/retry.ts'
import { Session } from '../../src/agent/session.ts'
import { fail, unwrap } from '../../src/lib/result.ts'
import type { Model, ModelFault, ToolCall, Turn } from '../../src/model/model.ts'
import { Limits, type Member } from '../../src/protocol/config.ts'
import type { FromThread, ToThread } from '../../src/protocol/thread.ts'
import type { Shell } from '../../src/sandbox/shell.ts'
import { Life } from '../../src/teammate/life.ts'
import { portCall } from '../../src/teammate/port.ts'
import { askUser } from '../../src/tools/ask.ts'
import { message } from '../../src/tools/message.ts'
import { request } from '../../src/tools/request.ts'
import { task } from '../../src/tools/task.ts'
import type { Simulation } from './run.ts'
import { teams } from './teams.ts'
import { type Actor, World } from './world.ts'

const shell: Shell = {
  probe: { kind: 'none', detail: 'played', remedy: null },
  mode: 'off',
  permissions: { allow: [], ask: [], deny: [] },
  run: async () => ({ refused: 'no sandbox', reason: 'played' }),
  tighten: () => undefined,
  stop: async () => undefined,
}

const usage = { input: 10, cachedInput: 0, output: 5 }
const says = (text: string): Turn => ({ text, calls: [], stop: 'end', usage })
const calls = (...made: ToolCall[]): Turn => ({ text: '', calls: made, stop: 'calls', usage })
const fault = (kind: ModelFault['kind']): Turn => ({
  text: '',
  calls: [],
  stop: 'error',
  fault: { kind, message: kind },
  usage: null,
})
const call = (name: string, args: object, id = 'call_1'): ToolCall => ({ id, name, arguments: JSON.stringify(args) })

const complete = call('task', { action: 'complete', summary: 'did it' })
/** What a model may answer: what is sensible, what is not, and what is no answer. */
const answers = (names: readonly string[], b: number): readonly Turn[] => [
  calls(complete),
  says('done'),
  calls(call('message', { to: names[b % names.length], content: `word ${b}`, ...(b & 8 ? { urgent: true } : {}) })),
  calls(call('ask_user', { question: `what about ${b % 3}?` })),
  calls(call('request', { action: 'open', type: 'plan_request', body: `plan ${b % 3}` })),
  calls(
    call('request', {
      action: 'open',
      type: 'resource_request',
      data: { kind: 'name', what: ['x'], seconds: 1 + (b % 50) },
    }),
  ),
  calls(call('request', { action: 'decide', id: `req_${1 + (b % 6)}`, decision: 'approve' })),
  calls(call('request', { action: 'answer', id: `req_${1 + (b % 6)}`, body: 'so' })),
  calls(call('request', { action: 'withdraw', id: `req_${1 + (b % 6)}` })),
  calls(call('task', { action: 'release', summary: 'no' })),
  calls(call('task', { action: 'fail', summary: 'no' })),
  calls(call('message', { to: 'user', content: 'twice' }, 'same'), call('task', { action: 'list' }, 'same')),
  calls({ id: 'call_2', name: 'task', arguments: null, fault: 'no JSON' }),
  calls(call('nonsense', {})),
  fault('rate_limit'),
  fault('overloaded'),
  fault('timeout'),
  fault('malformed'),
  { text: '', calls: [], stop: 'empty', usage },
  { text: 'cut o', calls: [], stop: 'length', usage },
]

/** A model whose answers come when the schedule says so. */
class SimModel implements Model {
  readonly label = 'played'
  #waiting: ((turn: Turn) => void) | null = null
  turn({ signal }: Parameters<Model['turn']>[0]): Promise<Turn> {
    return new Promise(resolve => {
      const answer = (turn: Turn) => {
        this.#waiting = null
        signal.removeEventListener('abort', stop)
        resolve(turn)
      }
      const stop = () => answer(fault('aborted'))
      if (signal.aborted) return resolve(fault('aborted'))
      signal.addEventListener('abort', stop, { once: true })
      this.#waiting = answer
    })
  }
  get isAsked(): boolean {
    return this.#waiting !== null
  }
  answer(turn: Turn): void {
    this.#waiting?.(turn)
  }
}

/** A teammate's own life, with a played model and a real session file. */
class LifeBody implements Actor {
  readonly #life: Life
  readonly #port: ReturnType<typeof portCall>
  readonly #model = new SimModel()
  readonly #names: readonly string[]
  readonly #trace: (text: string) => void
  readonly #name: string
  readonly isBusy = false
  readonly #begin: () => void
  #n = 0
  #isOpen = true
  readonly #world: World
  /** Its thread is gone: what it had open is closed. */
  readonly close: () => void

  constructor(
    world: World,
    root: string,
    member: Member,
    names: readonly string[],
    post: (message: FromThread) => void,
    end: () => void,
  ) {
    this.#world = world
    this.#names = names
    this.#name = member.name
    this.#trace = text => world.trace(text)
    this.#port = portCall(post)
    const session = unwrap(Session.open(join(root, 'sessions', `${member.name}.jsonl`), world.time.clock))
    this.close = () => {
      if (this.#isOpen) session.close()
      this.#isOpen = false
    }
    const home = join(root, 'team', member.name)
    const take = session.take.bind(session)
    // Some enters as a note that says the same; by the mark it is in the context all the same.
    session.take = (items, mail) => {
      const old = session.mail
      take(items, mail)
      if (!mail) return
      const isNew = (index: number) => index > old.upTo && !old.early.includes(index)
      for (let index = old.upTo + 1; index <= mail.upTo; index++) if (isNew(index)) world.entered(member.name, index)
      for (const index of mail.early) if (isNew(index)) world.entered(member.name, index)
      for (const item of items)
        if (item.k === 'message' || item.k === 'request')
          if (!isNew(item.index)) world.fail(new Error(`${item.id} entered the context of ${member.name} twice`))
    }
    this.#life = new Life({
      member: { ...member, model: { name: 'm' } },
      root,
      limits: Limits.parse({ modelRetries: 1, messageBatch: 3, rounds: 12 }),
      session,
      call: this.#port.call,
      post,
      model: this.#model,
      tools: [askUser, message, request, task],
      shell,
      view: {
        name: member.name,
        home,
        mounts: [],
        cwd: home,
        readable: [],
        resolve: () => fail('invalid', 'no mounts'),
      },
      gate: localGate(world.time.clock),
      clock: world.time.clock,
      prefix: () => 'you are played',
      subagentPrefix: () => 'you are a subagent',
      backoff: { baseMs: 10, capMs: 100 },
      parkMs: 1000,
    })
    this.#begin = () => {
      this.#life.run().then(
        reason => {
          this.#port.close()
          this.close()
          post({ t: 'bye', reason })
          end()
        },
        error => world.fail(error),
      )
    }
  }

  start(): void {
    this.#begin()
  }

  hear(message: ToThread): void {
    if (message.t === 'res') this.#port.answer(message)
    else if (message.t !== 'team' && message.t !== 'rules' && message.t !== 'compact') this.#life.hear(message)
  }

  act(a: number, b: number): void {
    if (!this.#model.isAsked) return
    const all = answers(this.#names, b)
    const answer = all[a % all.length] ?? says('done')
    this.#trace(
      `the model of ${this.#name} answers ${answer.fault?.kind ?? (answer.calls.map(({ name, arguments: args }) => `${name} ${args}`).join(', ') || answer.stop)}`,
    )
    this.#model.answer(answer)
  }

  rest(): boolean {
    if (!this.#model.isAsked) return false
    // A good one does what it is asked, then its task.
    const asked = this.#world.askedOf(this.#name)
    this.#n++
    if (asked !== null && this.#n % 2 === 1) this.#model.answer(calls(call('request', asked, `rest_${this.#n}`)))
    else if (this.#world.holder.core.tasks.inHand(this.#name) && this.#n % 3 !== 0)
      this.#model.answer(calls({ ...complete, id: `rest_${this.#n}` }))
    else this.#model.answer(says('done'))
    return true
  }
}

/** Everything: the supervisor and the teammates as they are; only git, threads, models, timers and the holder's disk are played. */
export const ofLives = (kind: keyof typeof teams, length = 60): Simulation => ({
  name: `with teammates as they are: ${kind}`,
  length,
  run: async (schedule, trace) => {
    const { team } = teams[kind]
    const names = team.members.map(({ name }) => name)
    const root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'team-lives-'))
    const bodies: LifeBody[] = []
    const world = new World({
      team,
      isGit: false,
      used: null,
      ...(trace ? { trace } : {}),
      makeBody: (world, name, post, end) => {
        const member = team.members.find(each => each.name === name)
        if (!member) throw new Error(`nobody is called ${name}`)
        const body = new LifeBody(world, root, member, names, post, end)
        bodies.push(body)
        return body
      },
    })
    try {
      await world.begin()
      for (const step of schedule) await world.step(step)
      await world.rest((schedule[0] ?? 0) % 4)
    } finally {
      world.end()
      for (const body of bodies) body.close()
      rmSync(root, { recursive: true, force: true })
    }
  },
})
