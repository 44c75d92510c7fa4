import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Entry } from '../../src/agent/entry.ts'
import { localGate } from '../../src/agent/retry.ts'
import type { Tool } from '../../src/agent/tool.ts'
import { verifySession } from '../../src/agent/verify.ts'
import { clock } from '../../src/lib/clock.ts'
import { ok } from '../../src/lib/result.ts'
import { openaiModel } from '../../src/model/openai.ts'
import { type Reply, type ScriptedRequest, type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import { Limits } from '../../src/protocol/config.ts'
import type { Call } from '../../src/protocol/rpc.ts'
import type { FromThread } from '../../src/protocol/thread.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import { Life } from '../../src/teammate/life.ts'
import { defaultTools } from '../../src/tools/index.ts'
import { openSession } from '../support/agent.ts'
import { Holder, member, task } from '../support/holder.ts'
import { makePlace, type Place } from '../support/sandbox.ts'

const isSub = (request: ScriptedRequest): boolean => request.messages[0]?.content === 'you are a subagent'
const gives = (...prompts: string[]): Reply => ({
  calls: prompts.map(prompt => ({ name: 'subagent', args: { prompt } })),
})
const calls = (name: string, args: object): Reply => ({ calls: [{ name, args }] })
const ends: Reply = calls('task', { action: 'complete', summary: 'did it' })
const results = (request: ScriptedRequest | undefined): string[] =>
  request?.messages.flatMap(each => (each.role === 'tool' ? [each.content ?? ''] : [])) ?? []
const asked = (request: ScriptedRequest): string => request.messages.find(({ role }) => role === 'user')?.content ?? ''

let place: Place
let holder: Holder
let server: ScriptedServer
let life: Life
let running: Promise<string>
let told: FromThread[]
beforeEach(() => {
  place = makePlace()
  holder = new Holder()
})
afterEach(async () => {
  life.hear({ t: 'stop', reason: 'the test is over' })
  await running
  await server.close()
  place.remove()
})
const until = async (condition: () => boolean, what: string): Promise<void> => {
  for (const deadline = clock.mono() + 45_000; !condition(); await new Promise(resolve => setTimeout(resolve, 5)))
    if (clock.mono() > deadline) throw new Error(`it never came to this: ${what}`)
}
const sessions = () => join(place.root, '.team', 'sessions')
const journal = (): Entry[] =>
  readFileSync(join(sessions(), 'alice.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map(line => Entry.parse(JSON.parse(line)))
const transcripts = (): string[] => {
  const folder = join(place.root, '.transcripts')
  return existsSync(folder)
    ? readdirSync(folder).flatMap(name => (name.includes('subagent') ? [readFileSync(join(folder, name), 'utf8')] : []))
    : []
}
const events = (event: string) => told.flatMap(each => (each.t === 'event' && each.event === event ? [each.info] : []))
const isIdle = () => told.findLast(each => each.t === 'state')?.state === 'idle'

/** A life with its task in hand. The first list answers the teammate, one reply a request; `sub` answers its subagents. */
const live = async (
  own: readonly Reply[],
  sub: (request: ScriptedRequest, n: number) => Reply | Promise<Reply>,
  o: {
    tools?: readonly string[]
    limits?: object
    window?: number
    call?: (call: Call) => Call
    idle?: boolean
    allow?: string[]
  } = {},
) => {
  let [mine, theirs] = [0, 0]
  server = await startScripted(request =>
    isSub(request) ? sub(request, theirs++) : (own[mine++] ?? (mine === own.length + 1 ? ends : 'done')),
  )
  told = []
  const view = place.view('alice', { mode: 'git' })
  const session = openSession(join(sessions(), 'alice.jsonl'))
  const tools: Tool[] = defaultTools.filter(({ schema }) => o.tools?.includes(schema.name) ?? true)
  life = new Life({
    member: { ...member, model: { name: 'm', ...(o.window && { contextWindow: o.window }) } },
    root: place.root,
    limits: Limits.parse({ modelRetries: 1, ...o.limits }),
    session,
    call: o.call?.(holder.call) ?? holder.call,
    post: message => told.push(message),
    model: openaiModel({ config: { name: 'm', baseURL: server.baseURL }, apiKey: undefined, idleMs: 3_600_000 }),
    tools,
    shell: makeShell({
      view,
      probe: { kind: 'none', detail: 'not probed', remedy: null },
      mode: 'off',
      permissions: { allow: o.allow ?? ['*', '* *'], ask: [], deny: [] },
      marker: `${view.home}#subagents`,
    }),
    view,
    gate: localGate(clock),
    clock,
    prefix: () => 'you are alice',
    subagentPrefix: () => 'you are a subagent',
    backoff: { baseMs: 1, capMs: 2 },
    parkMs: 5,
  })
  running = life.run()
  await until(isIdle, 'idle')
  if (!o.idle) life.hear({ t: 'assign', task: task('7', { description: 'find the secret word SWORDFISH' }) })
  const own_ = () => server.requests.filter(request => !isSub(request))
  return {
    session,
    repo: view.cwd,
    out: join(view.home, 'out'),
    own: own_,
    subs: () => server.requests.filter(isSub),
    ended: () => until(() => holder.asks('task.complete').length >= 1 && isIdle(), 'the task is claimed done'),
  }
}

describe('a subagent', () => {
  test('sees nothing of the conversation it comes from, has file tools, grep and bash alone, and its last text returns', async () => {
    const { own, subs, repo, session, ended } = await live([gives('count the lines of a.txt')], (_request, n) =>
      n === 0 ? calls('bash', { command: 'wc -l < a.txt' }) : 'It has 2 lines.',
    )
    writeFileSync(join(repo, 'a.txt'), 'one\ntwo\n')
    await ended()
    const [first, second] = subs()
    expect(first?.messages.map(({ role, content }) => [role, content])).toEqual([
      ['system', 'you are a subagent'],
      ['user', 'count the lines of a.txt'],
    ])
    expect(JSON.stringify(subs())).not.toMatch(/SWORDFISH|<task|you are alice/)
    expect(first?.tools?.map(({ function: { name } }) => name)).toEqual([
      'bash',
      'edit_file',
      'grep',
      'ls',
      'read_file',
      'write_file',
    ])
    expect(results(second)[0]).toMatch(/^exit 0 .*\n2$/s)
    expect(results(own()[1])).toEqual(['It has 2 lines.'])
    // People can read all of it, and no session is left of it.
    expect(transcripts()).toEqual([
      expect.stringMatching(/Task 7: subagent: count the lines[\s\S]*wc -l[\s\S]*2 lines/),
    ])
    expect(readdirSync(sessions())).toEqual(['alice.jsonl'])
    const [begun] = events('subagent.started')
    expect(events('subagent.ended')).toMatchObject([{ sub: begun?.sub, how: 'ended' }])
    // Counted to its teammate, each call once, and told with it.
    expect(session.usage.calls).toBe(server.requests.length)
    const usages = told.filter(each => each.t === 'usage')
    expect(usages.filter(({ call }) => call?.sub !== undefined).map(({ call, task }) => [call?.calls, task])).toEqual([
      [['bash'], '7'],
      [[], '7'],
    ])
    expect(usages.at(-1)).toMatchObject({ calls: session.usage.calls, input: session.usage.input })
    expect(holder.asks('budget.reserve')).toContainEqual(expect.objectContaining({ sub: begun?.sub }))
    expect(verifySession(journal())).toMatchObject({ unknown: 0, differs: null })
    expect(journal().filter(({ k }) => k === 'spent')).toHaveLength(2)
  })

  test('several in one answer run side by side, all of them in the journal before; results come in the order of the calls', async () => {
    const open: (() => void)[] = []
    const { own, ended } = await live([gives('one', 'two', 'three')], async request => {
      await new Promise<void>(resolve => open.push(resolve))
      return `answer to ${asked(request)}`
    })
    await until(() => open.length === 3, 'three at once')
    const starts = journal().filter(({ k }) => k === 'tool.start')
    expect(starts).toHaveLength(3)
    // The last one is answered first.
    for (const answer of open.reverse()) {
      answer()
      await new Promise(resolve => setImmediate(resolve))
    }
    await ended()
    expect(results(own()[1])).toEqual(['answer to one', 'answer to two', 'answer to three'])
    expect(new Set(holder.asks('budget.reserve').map(each => (each as { sub?: string }).sub)).size).toBe(4)
  })

  test('four at once, and the next when one of them has ended', async () => {
    const open: (() => void)[] = []
    const names = ['1', '2', '3', '4', '5', '6']
    const { own, subs, ended } = await live([gives(...names)], async request => {
      await new Promise<void>(resolve => open.push(resolve))
      return asked(request)
    })
    await until(() => open.length === 4, 'four')
    expect(events('subagent.started')).toHaveLength(4)
    open[2]?.()
    await until(() => open.length === 5, 'the fifth')
    expect(subs()).toHaveLength(5)
    open[0]?.()
    await until(() => open.length === 6, 'the last')
    for (const answer of open) answer()
    await ended()
    expect(results(own()[1])).toEqual(names)
  })

  test('has no tool that its teammate has not: who may not write does not write by it', async () => {
    const { own, subs, repo, ended } = await live(
      [gives('write it')],
      (_request, n) =>
        n === 0
          ? {
              calls: [
                { name: 'write_file', args: { path: 'repo/x.txt', content: 'x' } },
                { name: 'bash', args: { command: 'touch y.txt' } },
                { name: 'subagent', args: { prompt: 'again' } },
                { name: 'message', args: { to: 'user', content: 'x' } },
              ],
            }
          : 'I cannot.',
      { tools: ['ls', 'read_file', 'subagent', 'task', 'message'] },
    )
    await ended()
    expect(subs()[0]?.tools?.map(({ function: { name } }) => name)).toEqual(['ls', 'read_file'])
    const said = results(subs()[1])
    expect(said).toHaveLength(4)
    for (const text of said) expect(text).toMatch(/^error: there is no tool "(write_file|bash|subagent|message)"/)
    expect(existsSync(join(repo, 'x.txt')) || existsSync(join(repo, 'y.txt'))).toBe(false)
    expect(results(own()[1])).toEqual(['I cannot.'])
  })

  test('the gate of its teammate binds it, and what must be asked for is refused with whose it is to ask', async () => {
    const { subs, ended, repo } = await live(
      [gives('do it')],
      (_request, n) =>
        n === 0
          ? {
              calls: [
                { name: 'write_file', args: { path: 'repo/x.txt', content: 'x' } },
                { name: 'bash', args: { command: 'curl http://example.invalid' } },
              ],
            }
          : 'No.',
      {
        allow: [],
        call: call =>
          (async (method: string, params: { paths?: string[] }) =>
            method === 'task.gate' && params.paths?.includes('x.txt')
              ? { ok: false, fault: { code: 'refused', message: 'a plan comes first', hint: 'open a plan_request' } }
              : method === 'permission.use'
                ? ok({ how: 'ask', why: 'it reaches the network' })
                : call(method as never, params as never)) as Call,
      },
    )
    await ended()
    expect(results(subs()[1])).toEqual([
      'error: a plan comes first; only who asked you can have that changed: end, and say that it is needed',
      'error: not allowed in a subagent: it reaches the network. Only the teammate itself can ask for it: end, and say that it is to run this command',
    ])
    expect(existsSync(join(repo, 'x.txt'))).toBe(false)
    expect(holder.asks('request.open')).toEqual([])
  })

  test('reads and edits count for itself: its teammate reads a file again that it changed', async () => {
    const { own, ended, repo } = await live(
      [
        calls('read_file', { path: 'repo/a.txt' }),
        gives('change it'),
        calls('edit_file', { path: 'repo/a.txt', edits: [{ old_text: 'b', new_text: 'c' }] }),
      ],
      (_request, n) =>
        n === 0 ? calls('edit_file', { path: 'repo/a.txt', edits: [{ old_text: 'a', new_text: 'b' }] }) : 'Changed.',
    )
    writeFileSync(join(repo, 'a.txt'), 'a\n')
    await ended()
    expect(results(own()[3]).at(-1)).toMatch(/^error: repo\/a\.txt changed since you read it/)
    expect(readFileSync(join(repo, 'a.txt'), 'utf8')).toBe('b\n')
  })

  test('a text of more than 20 lines goes to out/, and its first lines and the path return', async () => {
    const long = Array.from({ length: 50 }, (_, i) => `line ${i + 1}`).join('\n')
    const { own, ended, out } = await live([gives('tell me all')], () => long)
    await ended()
    const [text = ''] = results(own()[1])
    expect(text.split('\n')).toHaveLength(21)
    const path = /all 50 lines are in out\/(subagent-\w+\.md)\]$/.exec(text)?.[1] ?? ''
    expect(readFileSync(join(out, path), 'utf8')).toBe(`${long}\n`)
  })

  test('at its last round it is asked once for what it has, and no tool runs any more', async () => {
    const limits = { subagentRounds: 3 }
    const { own, subs, ended } = await live(
      [gives('never stop'), gives('nor you')],
      (request, n) => {
        const isLast = request.messages.at(-1)?.content?.includes('rounds are used up') ?? false
        return isLast && asked(request) === 'never stop' ? 'This far.' : calls('bash', { command: `echo ${n} >> ran` })
      },
      { limits },
    )
    await ended()
    expect(subs()).toHaveLength(8)
    expect(subs()[3]?.tools).toEqual(subs()[0]?.tools)
    const [first, second] = results(own()[2])
    expect(first).toBe('cut after 3 rounds (limits.subagentRounds)\nIt had said last:\nThis far.')
    expect(second).toBe('cut after 3 rounds (limits.subagentRounds)')
    expect(
      readFileSync(join(place.root, 'team', 'alice', 'repo', 'ran'), 'utf8')
        .trim()
        .split('\n'),
    ).toHaveLength(6)
  })

  test('an endpoint that has no place for it ends it, and its teammate is told to give it again; what it is asked is well-formed', async () => {
    const { own, ended } = await live([gives('look \ud800')], request =>
      asked(request) === 'look \ufffd'
        ? { status: 503, body: { error: { message: 'no places' } } }
        : { status: 400, body: { error: { message: 'ill-formed' } } },
    )
    await ended()
    expect(results(own()[1])[0]).toMatch(/could not be worked with: overloaded: .*: give it the same again$/)
  })

  test('a model that fails for good, a refused budget and a conversation too large are errors, and the teammate goes on', async () => {
    const { own, ended } = await live(
      [gives('fail'), gives('overflow'), gives('too dear')],
      request =>
        asked(request) === 'fail'
          ? { status: 401, body: { error: { message: 'no such key' } } }
          : { status: 400, body: { error: { code: 'context_length_exceeded', message: 'maximum context length' } } },
      {
        call: call => {
          let subs = 0
          return (async (method: string, params: { sub?: string }) =>
            method === 'budget.reserve' && params.sub !== undefined && ++subs >= 3
              ? ok({ request: null, scope: 'task', why: 'all is used' })
              : call(method as never, params as never)) as Call
        },
      },
    )
    await ended()
    const said = results(own()[3])
    expect(said[0]).toMatch(/^error: the subagent's model could not be worked with: auth/)
    expect(said[1]).toMatch(/^error: the subagent's model could not be worked with: overflow: .*smaller piece of work/)
    expect(said[2]).toBe('error: the subagent was ended: all is used')
    expect(readdirSync(sessions())).toEqual(['alice.jsonl'])
  })

  test('its task taken away, it ends at once, its command too', async () => {
    const { repo } = await live([gives('sleep')], () => calls('bash', { command: 'echo $$ > pid; sleep 600' }))
    await until(() => existsSync(join(repo, 'pid')) && readFileSync(join(repo, 'pid'), 'utf8').endsWith('\n'), 'asleep')
    const pid = readFileSync(join(repo, 'pid'), 'utf8').trim()
    life.hear({ t: 'unassign', id: '7', reason: 'cancelled' })
    await until(isIdle, 'idle')
    expect(journal().findLast(({ k }) => k === 'tool.result')).toMatchObject({
      name: 'subagent',
      text: expect.stringMatching(/^error: the subagent was ended: /),
    })
    const alive = (): boolean => {
      try {
        return !execFileSync('ps', ['-o', 'stat=', '-p', pid], { encoding: 'utf8' }).trim().startsWith('Z')
      } catch {
        return false
      }
    }
    await until(() => !alive(), 'its command is gone')
    expect(transcripts()).toHaveLength(1)
  })

  test('is not taken for stuck: the time that one of several may take counts, and it is shown as waiting where all of them wait', async () => {
    const open: (() => void)[] = []
    const { ended, repo } = await live([gives('wait', 'work')], async (request, n) => {
      if (asked(request) === 'work' && results(request).length === 0)
        return calls('bash', { command: 'until [ -e go ]; do sleep 0.01; done', timeout_s: 3000 })
      if (asked(request) === 'wait' && n < 2) return { status: 429, headers: { 'retry-after': '6' } }
      await new Promise<void>(resolve => open.push(resolve))
      return 'done'
    })
    await until(() => life.pulse.mayTake === 3000, 'the command runs')
    const { moves } = life.pulse
    const state = () => told.findLast(each => each.t === 'state')
    // One works, so the teammate does.
    expect(state()).toMatchObject({ state: 'working' })
    writeFileSync(join(repo, 'go'), '')
    // The endpoint asked all who use it to wait, so it is the other's turn to as well.
    await until(() => state()?.state === 'waiting', 'both wait')
    expect(state()).toMatchObject({ waiting: { what: expect.stringMatching(/^the model/) } })
    await until(() => open.length >= 2, 'both come back from it')
    expect(state()).toMatchObject({ state: 'working' })
    expect(life.pulse.moves).toBeGreaterThan(moves)
    expect(life.pulse.mayTake).toBeLessThan(3000)
    for (const answer of open) answer()
    await ended()
  })

  test('its teammate told to shut down and agreeing, a call of its model is not waited for', async () => {
    let silent = false
    await live([gives('think')], () => {
      silent = true
      return new Promise(() => undefined)
    })
    await until(() => silent, 'it thinks')
    // As the tool call of another in the same turn would do, or a person who decides.
    const id = holder.shutdown()
    const request = holder.requests.get(id)
    if (!request) throw new Error('it was just made')
    holder.requests.set(id, { ...request, status: 'approved', outcome: 'decided', decidedBy: 'human' } as never)
    holder.mail(`${id} was approved`, { id: 'msg_d', type: 'decision', from: 'supervisor', requestId: id })
    life.hear({ t: 'mail', urgent: true })
    expect(await running).toMatch(/^shutdown approved/)
    expect(transcripts()).toHaveLength(1)
  })

  test('what a thread left of one that died is a transcript at the next start, and the call is told as interrupted', async () => {
    const file = join(sessions(), 'alice.sub-00c0ffee.jsonl')
    const parent = openSession(join(sessions(), 'alice.jsonl'))
    parent.begin('you are alice', false)
    parent.append({ k: 'turn', turn: 1, step: 'start' })
    parent.take([{ k: 'note', text: 'go' }])
    const call = { id: 'call_1', name: 'subagent', arguments: '{"prompt":"dig"}' }
    parent.append(
      { k: 'assistant', text: '', calls: [call], usage: null },
      { k: 'tool.start', id: 'call_1', name: 'subagent' },
    )
    parent.append({ k: 'spent', v: 2, sub: '00c0ffee', usage: { input: 70, cachedInput: 0, output: 7 } })
    parent.close()
    const sub = openSession(file)
    sub.begin('you are a subagent', false)
    sub.take([{ k: 'prompt', text: 'dig for gold' }])
    sub.close()
    writeFileSync(file, '{"k":"assist', { flag: 'a' })
    const { own, subs, session } = await live(['I see.'], () => 'never', { idle: true })
    await until(() => own().length >= 1, 'it goes on')
    expect(results(own()[0])[0]).toMatch(/^error: interrupted, outcome unknown/)
    expect(subs()).toHaveLength(0)
    expect(readdirSync(sessions())).toEqual(['alice.jsonl'])
    expect(transcripts()).toEqual([expect.stringMatching(/cut off, with the thread[\s\S]*dig for gold/)])
    expect(session.usage.input).toBeGreaterThanOrEqual(70)
  })
})
