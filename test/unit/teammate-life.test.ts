import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as z from 'zod'
import { localGate } from '../../src/agent/retry.ts'
import { defineTool, error, said, type Tool } from '../../src/agent/tool.ts'
import { clock } from '../../src/lib/clock.ts'
import { openaiModel } from '../../src/model/openai.ts'
import { type Reply, type ScriptedRequest, type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import { Limits } from '../../src/protocol/config.ts'
import { decide } from '../../src/protocol/request.ts'
import type { FromThread } from '../../src/protocol/thread.ts'
import { choose, Intake, roomFor } from '../../src/teammate/intake.ts'
import { Life } from '../../src/teammate/life.ts'
import { folder, noShell, noView, openSession, recorder } from '../support/agent.ts'
import { at, Holder, member, task } from '../support/holder.ts'

const taskTool: Tool = defineTool({
  name: 'task',
  description: 'x',
  input: z.strictObject({ action: z.string(), summary: z.string().default('') }),
  run: async ({ summary }, context) => {
    if (!context.task()) return error('no task in hand')
    const done = await context.call('task.complete', { summary })
    return done.ok ? said('claimed') : error(done.fault.message)
  },
})
const requestTool: Tool = defineTool({
  name: 'request',
  description: 'x',
  input: z.strictObject({ id: z.string(), decision: z.enum(['approve', 'reject']), reason: z.string().default('') }),
  run: async (args, context) => {
    const done = await context.call('request.decide', args)
    return done.ok ? said('decided') : error(done.fault.message)
  },
})

const complete = (summary = 'did it'): Reply => ({ calls: [{ name: 'task', args: { action: 'complete', summary } }] })

let home: ReturnType<typeof folder>
let server: ScriptedServer | undefined
let holder: Holder
let ender: (() => void) | undefined
beforeEach(() => {
  home = folder()
  holder = new Holder()
})
afterEach(async () => {
  ender?.()
  await server?.close()
  server = undefined
  home.remove()
})

const until = async (condition: () => boolean, what: string): Promise<void> => {
  for (const deadline = clock.mono() + 45_000; !condition(); await new Promise(resolve => setTimeout(resolve, 5)))
    if (clock.mono() > deadline) throw new Error(`it never came to this: ${what}`)
}

/** One life, as a thread would run it, up to its end. */
const live = async (
  script: readonly Reply[] | ((request: ScriptedRequest, n: number) => Reply | Promise<Reply>),
  more: { tools?: Tool[]; prefix?: () => string; limits?: object; parkMs?: number; window?: number } = {},
) => {
  await server?.close()
  const opened = await startScripted(script)
  server = opened
  const said_: FromThread[] = []
  const ran: string[] = []
  const session = openSession(join(home.path, '.team', 'sessions', 'alice.jsonl'))
  const life = new Life({
    member: more.window === undefined ? member : { ...member, model: { name: 'm', contextWindow: more.window } },
    root: home.path,
    limits: Limits.parse({ modelRetries: 1, ...more.limits }),
    session,
    call: holder.call,
    post: message => said_.push(message),
    model: openaiModel({ config: { name: 'm', baseURL: opened.baseURL }, apiKey: undefined, idleMs: 3_600_000 }),
    tools: more.tools ?? [recorder(ran), requestTool, taskTool],
    shell: noShell,
    view: noView(join(home.path, 'team', 'alice')),
    gate: localGate(clock),
    clock,
    prefix: more.prefix ?? (() => 'you are alice'),
    subagentPrefix: () => 'you are a subagent',
    backoff: { baseMs: 1, capMs: 2 },
    parkMs: more.parkMs ?? 5,
  })
  const running = life.run()
  ender = () => life.hear({ t: 'stop', reason: 'the test is over' })
  const states = () => said_.flatMap(message => (message.t === 'state' ? [message.state] : []))
  return {
    life,
    ran,
    session,
    said: said_,
    states,
    requests: opened.requests,
    running,
    idle: () => until(() => states().at(-1) === 'idle', 'idle'),
    stop: async () => {
      ender?.()
      const reason = await running
      session.close()
      return reason
    },
  }
}
const lastUser = (request: ScriptedRequest | undefined): string =>
  request?.messages.findLast(each => each.role === 'user')?.content ?? ''

describe('a task', () => {
  test('assigned, done, claimed: one item, a transcript, idle again; the next one goes on in the same context', async () => {
    const { life, requests, idle, stop, states } = await live([complete(), 'done', complete('second'), 'done'])
    await idle()
    life.hear({ t: 'assign', task: task('7') })
    await until(() => holder.asks('task.complete').length >= 1, 'claimed')
    await idle()
    expect(lastUser(requests[0])).toBe('<task id="7" attempt="1">\n# Task 7\n\ndo it\n</task>')
    life.hear({ t: 'assign', task: task('8', { attempt: 2, error: 'tests are red' }) })
    await until(() => holder.asks('task.complete').length >= 2, 'claimed again')
    await idle()
    expect(lastUser(requests[2])).toContain('<task id="8" attempt="2">\n<returned>tests are red</returned>\n# Task 8')
    expect(requests[2]?.messages.slice(0, 2)).toEqual(requests[0]?.messages)
    expect(states()).toEqual(['idle', 'working', 'idle', 'working', 'idle'])
    const files = readdirSync(join(home.path, '.transcripts'))
    expect(files).toHaveLength(2)
    const text = readFileSync(join(home.path, '.transcripts', files[0] ?? ''), 'utf8')
    expect(text).toContain('claimed done: did it')
    expect(text).toContain('# Task 7')
    expect(await stop()).toBe('the test is over')
  })
  test('one that is taken back while its mail is looked at was never begun, and it tells that it is idle once more', async () => {
    const { life, idle, stop, states, requests } = await live([])
    await idle()
    const told = states().length
    const looked = holder.hold('inbox.read')
    life.hear({ t: 'mail', urgent: false })
    await until(() => looked.asked, 'the mail is looked at')
    life.hear({ t: 'assign', task: task('7') })
    life.hear({ t: 'unassign', id: '7', reason: 'cancelled' })
    looked.answer()
    await until(() => states().length > told, 'a word')
    expect(states().slice(told)).toEqual(['idle'])
    expect(requests).toHaveLength(0)
    await stop()
  })
  test('a turn that ends without ending the task is reminded twice, then the task fails with the reason', async () => {
    const { life, requests, idle, stop } = await live(['hm', 'hm', 'hm'])
    await idle()
    life.hear({ t: 'assign', task: task('7') })
    await until(() => holder.asks('task.fail').length >= 1, 'failed')
    expect(holder.asks('task.fail')).toEqual([
      { reason: 'it ended its turn 3 times without completing the task', during: '7' },
    ])
    expect(lastUser(requests[1])).toMatch(/<note>.*still in your hands/)
    await stop()
  })
  test('asked back and silent, it is told how to answer', async () => {
    const { life, requests, idle, stop } = await live(['hm', 'hm', 'hm'])
    const shutdown = holder.requests.get(holder.shutdown())
    if (!shutdown) throw new Error('no request')
    holder.inbox.length = 0
    const plan = { ...shutdown, from: 'alice', to: 'human', type: 'plan_request', data: { task: '7' } } as const
    holder.requests.set(plan.id, decide(plan, 'human', 'ask', 'why?', at))
    await idle()
    life.hear({ t: 'assign', task: task('7') })
    await until(() => holder.asks('task.fail').length >= 1, 'failed')
    expect(lastUser(requests[1])).toMatch(/<note>.*asked about req_1, .*request with action answer/)
    expect(holder.asks('task.fail')).toEqual([
      {
        reason:
          'it ended its turn 3 times without completing the task: it was asked about req_1 and did not answer, so nobody decides that',
        during: '7',
      },
    ])
    await stop()
  })
  test('taken away, it ends its turn at once and the next turn says so', async () => {
    const { life, requests, idle, stop } = await live((_, n) => (n === 0 ? { chunks: [], ends: 'hang' } : 'ok'))
    await idle()
    life.hear({ t: 'assign', task: task('7') })
    await until(() => requests.length >= 1, 'working on it')
    life.hear({ t: 'unassign', id: '7', reason: 'cancelled' })
    await idle()
    holder.mail('hello')
    life.hear({ t: 'mail', urgent: false })
    await until(() => requests.length >= 2, 'the next turn')
    expect(lastUser(requests[1])).toMatch(/taken out of your hands: cancelled/)
    await stop()
  })
  test('a model that cannot work fails the task visibly and waits for a person; a message wakes it', async () => {
    const {
      life,
      said: heard,
      requests,
      states,
      idle,
      stop,
    } = await live((_, n) => (n === 0 ? { status: 401 } : 'better'))
    await idle()
    life.hear({ t: 'assign', task: task('7') })
    await until(() => states().at(-1) === 'waiting', 'waiting')
    expect(JSON.stringify(holder.asks('task.fail'))).toContain('auth')
    expect(heard.findLast(message => message.t === 'state')).toMatchObject({ waiting: { whom: 'human' } })
    holder.mail('try again')
    life.hear({ t: 'mail', urgent: false })
    await idle()
    expect(requests).toHaveLength(2)
    await stop()
  })
  test('A15 an endpoint that is down past every retry parks the teammate, loses nothing and needs no hand', async () => {
    holder.mail('first')
    holder.mail('second')
    const { requests, states, idle, stop } = await live((_, n) => (n < 5 ? { status: 500 } : 'at last'))
    await until(() => requests.length >= 6, 'the good request')
    await idle()
    expect(states()).toContain('waiting')
    const text = lastUser(requests[5])
    expect(text.match(/first/g)).toHaveLength(1)
    expect(text.match(/second/g)).toHaveLength(1)
    expect(holder.cursor).toBe(2)
    await stop()
  })
})

test('ordinary mail that comes while a teammate waits for the model uses up no wait and fails no task; urgent mail wakes it', async () => {
  let isDown = true
  const { life, requests, states, idle, stop } = await live(() => (isDown ? { status: 500 } : 'done'), {
    parkMs: 3_600_000,
  })
  await idle()
  life.hear({ t: 'assign', task: task('7') })
  await until(() => states().at(-1) === 'waiting', 'waiting')
  const tries = requests.length
  for (let i = 0; i < 10; i++) {
    const looks = holder.asks('inbox.read').length
    holder.mail(`flood n=${i}.`)
    life.hear({ t: 'mail', urgent: false })
    await until(() => holder.asks('inbox.read').length > looks, 'a look at the mail')
  }
  expect([requests.length, holder.asks('task.fail'), states().at(-1)]).toEqual([tries, [], 'waiting'])
  // Urgent mail that finds the model still down is no failure either, however much of it.
  for (let i = 0; i < 8; i++) {
    const waits = states().filter(state => state === 'waiting').length
    holder.mail(`urgent n=${i}.`, { urgent: true })
    life.hear({ t: 'mail', urgent: true })
    await until(() => states().filter(state => state === 'waiting').length > waits, 'the next wait')
  }
  expect(holder.asks('task.fail')).toEqual([])
  isDown = false
  holder.mail('it is back', { urgent: true })
  const before = requests.length
  life.hear({ t: 'mail', urgent: true })
  await until(() => requests.length > before, 'a good request')
  const text = JSON.stringify(requests.at(-1))
  for (let i = 0; i < 10; i++) expect(text.split(`flood n=${i}.`)).toHaveLength(2)
  await stop()
})

describe('mail', () => {
  test('A17 mail that comes while tools run stands in the next request, after all results, and is acknowledged', async () => {
    const { life, requests, idle, stop } = await live(request => {
      const n = request.messages.filter(each => each.role === 'assistant').length
      if (n === 1) {
        holder.mail('news')
        life_?.hear({ t: 'mail', urgent: false })
      }
      return n < 3 ? { calls: [{ name: 'note', args: { text: `${n}` } }] } : n === 3 ? complete() : 'done'
    })
    const life_: Life | undefined = life
    await idle()
    life.hear({ t: 'assign', task: task('7') })
    await until(() => requests.length >= 5, 'all rounds')
    await idle()
    const seen = requests.findIndex(request => JSON.stringify(request).includes('news'))
    expect(seen).toBe(2)
    expect(requests[2]?.messages.slice(-2).map(each => each.role)).toEqual(['tool', 'user'])
    expect(lastUser(requests[2])).toContain('origin="peer"')
    expect(holder.asks('inbox.ack').at(-1)).toMatchObject({ upTo: 1, taken: { turn: 1, indexes: [1] } })
    await stop()
  })
  test('what comes while the inbox is being read, and is not on the page, is read next', async () => {
    holder.mail('first')
    const intake = new Intake({ name: 'alice', call: holder.call, batch: 20, out: home.path, window: undefined })
    const page = holder.hold('inbox.read')
    const choice = intake.next({ upTo: 0, early: [] })
    holder.mail('second')
    // The holder tells of it before it has answered.
    intake.due = true
    page.answer()
    expect((await choice)?.picked.map(({ index }) => index)).toEqual([1])
    expect((await intake.next({ upTo: 1, early: [] }))?.picked.map(({ index }) => index)).toEqual([2])
  })
  test("whose word it is: a line from a file has nobody's authority, whoever it claims to be from", async () => {
    holder.mail('as the human', { from: 'user' })
    holder.mail('as a file', { from: 'user' }, 'file')
    holder.mail('long '.repeat(10_000))
    const { requests, idle, stop } = await live(['ok'])
    await until(() => requests.length >= 1, 'a turn')
    await idle()
    const text = lastUser(requests[0])
    expect(text).toContain('from="user" origin="human"')
    expect(text).toContain('from="user" origin="file"')
    expect(text).toContain('the whole is in out/mail/msg_3.txt')
    expect(readFileSync(join(home.path, 'team', 'alice', 'out', 'mail', 'msg_3.txt'), 'utf8')).toHaveLength(50_000)
    await stop()
  })
  test('decisions and urgent messages come first, a bounded batch a time, each message once', () => {
    for (let i = 1; i <= 6; i++) holder.mail(`${i}`, i === 5 ? { urgent: true } : i === 6 ? { type: 'decision' } : {})
    const seen: number[] = []
    let mark = { upTo: 0, early: [] as number[] }
    const marks: (typeof mark)[] = []
    for (let more = true; more; ) {
      const choice = choose(
        holder.inbox.filter(item => item.index > mark.upTo),
        mark,
        2,
        6,
      )
      seen.push(...choice.picked.map(item => item.index))
      mark = { upTo: choice.mark.upTo, early: [...choice.mark.early] }
      marks.push(mark)
      more = choice.more
    }
    expect(seen).toEqual([5, 6, 1, 2, 3, 4])
    expect(marks).toEqual([
      { upTo: 0, early: [5, 6] },
      { upTo: 2, early: [5, 6] },
      { upTo: 6, early: [] },
    ])
  })
  test('a batch takes no more of the window than there is room, and one message always', () => {
    for (let i = 1; i <= 4; i++) holder.mail('x'.repeat(i === 1 ? 90_000 : 900))
    const room = roomFor(8000)
    const first = choose(holder.inbox, { upTo: 0, early: [] }, 20, 4, room)
    expect([first.picked.map(item => item.index), first.more]).toEqual([[1], true])
    expect(choose(holder.inbox, first.mark, 20, 4, room).picked.map(item => item.index)).toEqual([2, 3])
  })
  test('indexes that are no mail are passed over', () => {
    holder.mail('a')
    expect(choose(holder.inbox, { upTo: 0, early: [] }, 20, 9).mark).toEqual({ upTo: 9, early: [] })
    expect(choose([], { upTo: 3, early: [5] }, 20, 9)).toEqual({
      picked: [],
      first: [],
      mark: { upTo: 9, early: [] },
      more: false,
    })
  })
})

describe('shutdown', () => {
  test('with nothing in hand it is approved at once, without the model, and other mail stays unread', async () => {
    holder.mail('later')
    const id = holder.shutdown()
    const { running, requests, states, session } = await live([])
    expect(await running).toMatch(/shutdown approved/)
    session.close()
    expect(requests).toHaveLength(0)
    expect(holder.requests.get(id)).toMatchObject({ status: 'approved', decidedBy: 'alice' })
    expect(states()).toEqual(['draining'])
    expect(holder.cursor).toBe(0)
    const again = await live(['ok'])
    await until(() => again.requests.length >= 1, 'the mail left')
    await again.idle()
    expect(lastUser(again.requests[0])).toContain('later')
    expect(holder.cursor).toBe(2)
    await again.stop()
  })
  test('at work it is shown, the model decides, and the tool calls of that round still end', async () => {
    const { life, requests, ran, running, session } = await live((_, n) => {
      if (n === 0) {
        holder.shutdown()
        life_?.hear({ t: 'mail', urgent: true })
        return { calls: [{ name: 'note', args: { text: 'one' } }] }
      }
      return {
        calls: [
          { name: 'request', args: { id: 'req_1', decision: 'approve' } },
          { name: 'note', args: { text: 'two' } },
        ],
      }
    })
    const life_: Life | undefined = life
    life.hear({ t: 'assign', task: task('7') })
    expect(await running).toMatch(/shutdown approved/)
    expect(requests).toHaveLength(2)
    expect(lastUser(requests[1])).toBe(
      '<request id="req_1" type="shutdown_request" from="human">\nshut down, alice\nplease\n</request>',
    )
    expect(ran).toEqual(['one', 'two'])
    session.close()
  })
  test('D09 shown at work and not decided by the model, it is approved once the work is over, and not before', async () => {
    const { life, requests, ran, running, session } = await live((_, n) => {
      if (n > 0)
        return n === 1 ? { calls: [{ name: 'note', args: { text: 'works on' } }] } : n === 2 ? complete() : 'Done.'
      holder.shutdown()
      life_?.hear({ t: 'mail', urgent: true })
      return { calls: [{ name: 'note', args: { text: 'works' } }] }
    })
    const life_: Life | undefined = life
    life.hear({ t: 'assign', task: task('7') })
    expect(await running).toMatch(/shutdown approved: nothing in hand/)
    expect(requests).toHaveLength(4)
    expect(ran).toEqual(['works', 'works on'])
    expect(holder.requests.get('req_1')).toMatchObject({ status: 'approved', decidedBy: 'alice' })
    session.close()
  })
  test('D09 rejected at work, it is not approved when the work is over', async () => {
    const { life, requests, idle, stop } = await live((_, n) => {
      if (n === 1) return { calls: [{ name: 'request', args: { id: 'req_1', decision: 'reject', reason: 'busy' } }] }
      if (n > 1) return n === 2 ? complete() : 'Done.'
      holder.shutdown()
      life_?.hear({ t: 'mail', urgent: true })
      return { calls: [{ name: 'note', args: {} }] }
    })
    const life_: Life | undefined = life
    life.hear({ t: 'assign', task: task('7') })
    await until(() => requests.length >= 4, 'the last turn')
    await idle()
    expect(holder.requests.get('req_1')).toMatchObject({ status: 'rejected', reason: 'busy' })
    await stop()
  })
  test('approved by the human before it was started again, it is only news', async () => {
    const id = holder.shutdown()
    const request = holder.requests.get(id)
    if (!request) throw new Error('no request')
    const approved = decide(request, 'human', 'approve', 'now', at)
    holder.requests.set(id, { ...approved, effect: { step: 'done', at, outcome: 'ok' } })
    holder.mail('approved', { type: 'decision', requestId: id, from: 'supervisor' })
    const { requests, idle, stop } = await live([{ text: 'I see.' }])
    await idle()
    expect(requests).toHaveLength(1)
    expect(await stop()).toBe('the test is over')
  })
  test('rejected it works on; approved by the human in its place it ends at the next boundary', async () => {
    const { life, requests, running, session } = await live((_, n) => {
      if (n === 0) {
        holder.shutdown()
        life_?.hear({ t: 'mail', urgent: true })
        return { calls: [{ name: 'note', args: {} }] }
      }
      if (n === 1) return { calls: [{ name: 'request', args: { id: 'req_1', decision: 'reject', reason: 'busy' } }] }
      const id = holder.shutdown()
      const request = holder.requests.get(id)
      if (request) holder.requests.set(id, decide(request, 'human', 'approve', 'now', at))
      holder.mail('approved', { type: 'decision', requestId: id, from: 'supervisor' })
      life_?.hear({ t: 'mail', urgent: true })
      return { calls: [{ name: 'note', args: {} }] }
    })
    const life_: Life | undefined = life
    life.hear({ t: 'assign', task: task('7') })
    expect(await running).toMatch(/shutdown approved: now/)
    expect(requests).toHaveLength(3)
    expect(holder.requests.get('req_1')).toMatchObject({ status: 'rejected', reason: 'busy' })
    session.close()
  })
})

describe('after a crash', () => {
  test('A13 F03 the turn goes on: no second task item, no mail twice, what had started is told as unknown and not run again', async () => {
    const ran: string[] = []
    const never: Tool = defineTool({
      name: 'note',
      description: 'x',
      input: z.strictObject({ text: z.string() }),
      run: ({ text }) => {
        ran.push(text)
        return text === 'stuck' ? new Promise(() => undefined) : said('noted')
      },
    })
    const first = await live([{ calls: ['a', 'stuck', 'c'].map(text => ({ name: 'note', args: { text } })) }], {
      tools: [never, taskTool],
    })
    await first.idle()
    holder.mail('hello')
    first.life.hear({ t: 'assign', task: task('7') })
    first.life.hear({ t: 'mail', urgent: false })
    await until(() => ran.length >= 2, 'in the second tool')
    // The thread is gone here: nothing of it is closed, and its cursor had not moved either.
    holder.cursor = 0
    holder.task = { id: '7', status: 'in_progress', owner: 'alice', claimed: null }
    const second = await live([complete(), 'done'], { tools: [never, taskTool] })
    await second.idle()
    expect(second.requests).toHaveLength(0)
    second.life.hear({ t: 'assign', task: task('7') })
    await until(() => second.requests.length >= 2, 'gone on')
    const messages = second.requests[0]?.messages ?? []
    expect(messages.map(each => each.role)).toEqual(['system', 'user', 'assistant', 'tool', 'tool', 'tool', 'user'])
    expect(messages.filter(each => each.role === 'tool').map(each => each.content)).toEqual([
      'noted',
      expect.stringMatching(/interrupted, outcome unknown/),
      expect.stringMatching(/not run/),
    ])
    const text = JSON.stringify(messages)
    expect(text.match(/<task id/g)).toHaveLength(1)
    expect(text.match(/hello/g)).toHaveLength(1)
    expect(lastUser(second.requests[0])).toMatch(/interrupted and restarted.*note/)
    expect(ran).toEqual(['a', 'stuck'])
    await second.stop()
    first.session.close()
  })
  test('a task that is ended in the turn for mail before it is given again is not begun anew when that word comes', async () => {
    const first = await live([{ chunks: [], ends: 'hang' }])
    first.life.hear({ t: 'assign', task: task('7') })
    await until(() => first.requests.length >= 1, 'working')
    await first.stop()
    holder.task = { id: '7', status: 'in_progress', owner: 'alice', claimed: null }
    holder.mail('news')
    let isGiven = false
    const second = await live((_request, n) => {
      // On its way while the model thinks.
      if (n === 0) {
        second.life.hear({ t: 'assign', task: task('7') })
        isGiven = true
      }
      return n === 0 ? complete() : 'done'
    })
    await until(() => second.requests.length >= 2 && second.states().at(-1) === 'idle', 'idle again')
    expect([isGiven, second.requests.length, holder.asks('task.complete').length]).toEqual([true, 2, 1])
    expect(holder.asks('task.fail')).toEqual([])
    await second.stop()
  })
  test('a task that left its hands meanwhile is closed, and a mail turn that was cut off is taken up again', async () => {
    const first = await live([{ chunks: [], ends: 'hang' }])
    first.life.hear({ t: 'assign', task: task('7') })
    await until(() => first.requests.length >= 1, 'working')
    await first.stop()
    holder.task = { id: '7', status: 'completed', owner: 'alice', claimed: null }
    holder.mail('question')
    const second = await live([{ chunks: [], ends: 'hang' }])
    await until(() => second.requests.length >= 1, 'answering')
    expect(lastUser(second.requests[0])).toMatch(/Task 7 is not in your hands any more/)
    await second.stop()
    const third = await live(['here is the answer'])
    await until(() => third.requests.length >= 1, 'taken up again')
    await third.idle()
    expect(JSON.stringify(third.requests[0]).match(/question/g)).toHaveLength(1)
    await third.stop()
    const fourth = await live([])
    await fourth.idle()
    expect(fourth.requests).toHaveLength(0)
    await fourth.stop()
  })
})

describe('the stable prefix', () => {
  test('H05 a rule changed on disk takes effect at the next task and is told; until then every byte stays', async () => {
    let rules = 'rules one'
    const { life, requests, idle, stop } = await live([complete(), 'done', 'hm', complete(), 'done'], {
      prefix: () => rules,
    })
    await idle()
    life.hear({ t: 'assign', task: task('7') })
    await until(() => requests.length >= 2, 'first task')
    await idle()
    rules = 'rules two'
    holder.mail('hi')
    life.hear({ t: 'mail', urgent: false })
    await until(() => requests.length >= 3, 'a mail turn')
    await idle()
    expect(requests.slice(0, 3).map(request => request.messages[0]?.content)).toEqual([
      'rules one',
      'rules one',
      'rules one',
    ])
    life.hear({ t: 'assign', task: task('8') })
    await until(() => requests.length >= 5, 'second task')
    await idle()
    expect(requests[3]?.messages[0]?.content).toBe('rules two')
    expect(lastUser(requests[3])).toMatch(/changed/)
    await stop()
  })
  test('a context that grew past half the window begins anew at the next task, with the mail and what was done', async () => {
    holder.mail('always use tabs')
    const { life, requests, idle, stop } = await live(['ok', complete(), 'done', complete(), 'done'], { window: 3000 })
    await until(() => requests.length >= 1, 'mail')
    await idle()
    life.hear({ t: 'assign', task: task('7', { description: 'x '.repeat(4000) }) })
    await until(() => requests.length >= 3, 'first task')
    await idle()
    life.hear({ t: 'assign', task: task('8') })
    await until(() => requests.length >= 5, 'second task')
    await idle()
    const text = JSON.stringify(requests[3])
    expect(text).toContain('always use tabs')
    expect(text).toContain('Done before: task 7')
    expect(text).not.toContain('<task id=\\"7\\"')
    await stop()
  })
})

describe('a review', () => {
  const decision = (id: string): Reply => ({ calls: [{ name: 'request', args: { id, decision: 'approve' } }] })
  const userText = (request: ScriptedRequest | undefined): string =>
    (request?.messages ?? []).map(({ content }) => content ?? '').join('\n')

  test('waits while a task is in hand, is read in a conversation of its own with the diff, and what was before goes on after it', async () => {
    let arrive: () => void = () => undefined
    const arrived = new Promise<void>(resolve => (arrive = resolve))
    const replies = ['noted', 'at work', complete('the seventh'), 'done', decision('req_1'), 'decided', 'hello again']
    const { life, requests, idle, stop } = await live(async (_request, n) => {
      // The review comes while the model is at the task.
      if (n === 1) await arrived
      return replies[n] ?? { status: 400 }
    })
    holder.mail('PELICAN is the word')
    life.hear({ t: 'mail', urgent: false })
    await until(() => requests.length >= 1, 'the mail is read')
    await idle()
    life.hear({ t: 'assign', task: task('7') })
    await until(() => requests.length >= 2, 'the task is begun')
    holder.patch = `+${'x'.repeat(40_000)}\n`
    holder.review()
    life.hear({ t: 'mail', urgent: true })
    arrive()
    await until(() => requests.length >= 6, 'the review is read')
    await idle()
    for (const request of requests.slice(0, 4)) expect(userText(request)).not.toContain('review task 3')
    const read = userText(requests[4])
    expect(read).toContain('<request id="req_1" type="review_request" from="supervisor">')
    expect(read).toContain('a.txt | 1 +')
    expect(read).toContain('the whole diff is in out/review/req_1.diff')
    expect(read).not.toMatch(/PELICAN|Task 7|the seventh/)
    expect(readFileSync(join(home.path, 'team', 'alice', 'out', 'review', 'req_1.diff'), 'utf8')).toBe(holder.patch)
    expect(holder.requests.get('req_1')).toMatchObject({ status: 'approved' })
    holder.mail('and now?')
    life.hear({ t: 'mail', urgent: false })
    await until(() => requests.length >= 7, 'a turn after it')
    await idle()
    const after = userText(requests[6])
    expect(after).toContain('PELICAN')
    expect(after).toContain('task 7 (Task 7): claimed done: the seventh')
    expect(after).not.toContain('task 3')
    await stop()
  })

  test('lets no word of others in before it is decided, and goes on in its own conversation after a restart of the thread', async () => {
    let held: () => void = () => undefined
    const first = await live(async (_request, n) => {
      if (n === 0) holder.mail('approve it, please', { from: 'bob', urgent: true })
      if (n === 0) return { calls: [{ name: 'note', args: { text: 'looked' } }] }
      return new Promise<Reply>(resolve => (held = () => resolve('cut off')))
    })
    holder.review()
    first.life.hear({ t: 'mail', urgent: true })
    await until(() => first.requests.length >= 2, 'it is being read')
    first.life.hear({ t: 'mail', urgent: true })
    const stopped = first.stop()
    held()
    await stopped
    for (const request of first.requests) expect(userText(request)).not.toContain('approve it')
    const second = await live([decision('req_1'), 'decided', 'so it was'])
    await until(() => second.requests.length >= 3, 'decided, and then the mail is read')
    await second.idle()
    expect(userText(second.requests[0])).toContain('review task 3')
    for (const request of second.requests.slice(0, 2)) expect(userText(request)).not.toContain('approve it')
    expect(userText(second.requests[2])).toContain('approve it')
    expect(userText(second.requests[2])).not.toContain('review task 3')
    await second.stop()
  })

  test('one that was settled before it was read is put aside without a turn', async () => {
    const id = holder.review()
    const request = holder.requests.get(id)
    if (request) holder.requests.set(id, { ...request, outcome: 'withdrawn' })
    const { idle, requests, session, stop } = await live([])
    await idle()
    await until(() => session.mail.upTo === 1, 'it is put aside')
    expect(requests).toEqual([])
    await stop()
  })
})
