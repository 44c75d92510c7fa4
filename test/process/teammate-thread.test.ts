import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { startRunbook } from '../../src/model/runbook/server.ts'
import { type Reply, type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import { Limits } from '../../src/protocol/config.ts'
import { FromThread, type ThreadData, type ToThread } from '../../src/protocol/thread.ts'
import { prepareHome } from '../../src/sandbox/home.ts'
import { folder } from '../support/agent.ts'
import { bundle } from '../support/bundle.ts'
import { Holder, member, task } from '../support/holder.ts'

let home: ReturnType<typeof folder>
let server: ScriptedServer
let holder: Holder
const threads: Worker[] = []

beforeEach(() => {
  home = folder()
  holder = new Holder()
})
afterEach(async () => {
  for (const thread of threads.splice(0)) await thread.terminate()
  await server.close()
  home.remove()
})

const until = async (condition: () => boolean, what: string): Promise<void> => {
  for (const deadline = clock.mono() + 45_000; !condition(); await new Promise(resolve => setTimeout(resolve, 10)))
    if (clock.mono() > deadline) throw new Error(`it never came to this: ${what}`)
}

/** The real thread, on a holder of the test's own. */
const start = async (script: readonly Reply[] | (() => Reply), runbook: string | null = null) => {
  server = await startScripted(script)
  const work = join(home.path, 'work')
  mkdirSync(work, { recursive: true })
  unwrap(await prepareHome({ name: 'alice', root: home.path, workspace: work, mode: 'dir', dataPaths: [] }))
  const data: ThreadData = {
    name: 'alice',
    root: home.path,
    workspace: work,
    mode: 'dir',
    member: {
      ...member,
      model:
        runbook === null
          ? { provider: 'house', name: 'm', baseURL: server.baseURL, apiKeyEnv: 'HOUSE_KEY' }
          : { provider: 'runbook', baseURL: runbook },
      permissions: { allow: ['sleep *', 'echo *'], ask: [], deny: [] },
    },
    limits: Limits.parse({}),
    sandbox: { mode: 'off', kind: 'none', detail: 'test', remedy: null },
    dataPaths: [],
    told: {
      role: member.role,
      systemPrompt: member.systemPrompt,
      teammates: [
        { name: 'alice', role: 'tester' },
        { name: 'bob', role: '' },
      ],
      lead: 'user',
    },
    secrets: [],
  }
  const worker = new Worker(bundle(new URL('../../src/teammate/main.ts', import.meta.url)), {
    workerData: data,
    env: { HOUSE_KEY: 'sk-house', PATH: process.env.PATH ?? '' },
  })
  threads.push(worker)
  const heard: FromThread[] = []
  const errors: unknown[] = []
  let exit: number | null = null
  worker.on('error', error => errors.push(error))
  worker.on('exit', code => {
    exit = code
  })
  const send = (message: ToThread) => worker.postMessage(message)
  worker.on('message', async (raw: unknown) => {
    const message = FromThread.parse(raw)
    heard.push(message)
    if (message.t !== 'req') return
    const result = await holder.call(message.method as 'hello', message.params as Record<string, never>)
    send(
      result.ok
        ? { t: 'res', id: message.id, ok: true, value: result.value }
        : { t: 'res', id: message.id, ok: false, fault: { code: result.fault.code, message: result.fault.message } },
    )
  })
  const last = () => heard.findLast(message => message.t === 'state')?.state
  return {
    worker,
    heard,
    errors,
    send,
    last,
    exit: () => exit,
    requests: server.requests,
    idle: () => until(() => last() === 'idle', 'idle'),
  }
}

test('a thread takes a task, works with the real tools, claims it done, and says goodbye', async () => {
  const one = await start([
    {
      calls: [
        { name: 'write_file', args: { path: 'repo/a.txt', content: 'hello\n' } },
        { name: 'bash', args: { command: 'echo from the shell' } },
        { name: 'todo', args: { items: [{ id: '1', text: 'write', status: 'completed' }] } },
      ],
    },
    { calls: [{ name: 'task', args: { action: 'complete', summary: 'wrote a.txt' } }] },
    'done',
  ])
  await one.idle()
  expect(one.heard.some(message => message.t === 'ready')).toBe(true)
  one.send({ t: 'assign', task: task('7') })
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await one.idle()
  expect(readFileSync(join(home.path, 'work', 'a.txt'), 'utf8')).toBe('hello\n')
  const results = one.requests[1]?.messages.flatMap(each => (each.role === 'tool' ? [each.content] : []))
  expect(results?.[1]).toContain('from the shell')
  expect(one.requests[0]?.messages[0]?.content).toContain('You are alice, tester')
  expect(one.requests[0]?.tools?.map(tool => tool.function.name)).toEqual([
    'ask_user',
    'background',
    'bash',
    'compact',
    'edit_file',
    'grep',
    'ls',
    'memory',
    'message',
    'read_file',
    'request',
    'subagent',
    'task',
    'todo',
    'write_file',
  ])
  expect(server.headers[0]?.authorization).toBe('Bearer sk-house')
  expect(readdirSync(join(home.path, '.transcripts'))).toHaveLength(1)
  expect(one.heard.some(message => message.t === 'beat')).toBe(true)
  expect(one.heard.findLast(message => message.t === 'usage')).toMatchObject({ calls: 3, input: 300, output: 30 })
  one.send({ t: 'stop', reason: 'over' })
  await until(() => one.exit() !== null, 'ended')
  expect(one.heard.at(-1)).toEqual({ t: 'bye', reason: 'over' })
  expect([one.exit(), one.errors]).toEqual([0, []])
})

test('F03 A13 a thread killed in the middle of its tools comes back with every call answered and runs none again', async () => {
  const first = await start([
    {
      calls: [
        { name: 'write_file', args: { path: 'repo/one.txt', content: '1' } },
        { name: 'bash', args: { command: 'sleep 60' } },
        { name: 'write_file', args: { path: 'repo/three.txt', content: '3' } },
      ],
    },
  ])
  await first.idle()
  holder.mail('hello')
  first.send({ t: 'assign', task: task('7') })
  first.send({ t: 'mail', urgent: false })
  await until(
    () => first.heard.some(message => message.t === 'event' && message.event === 'command.started'),
    'the command',
  )
  await first.worker.terminate()
  await server.close()
  const pid = first.heard.flatMap(message =>
    message.t === 'event' && message.event === 'command.started' ? [Number(message.info.pid)] : [],
  )[0]
  // The supervisor ends what a dead thread left running; here there is none.
  if (pid) process.kill(-pid, 'SIGKILL')
  holder.task = { id: '7', status: 'in_progress', owner: 'alice', claimed: null }
  const second = await start([{ calls: [{ name: 'task', args: { action: 'complete', summary: 'checked' } }] }, 'done'])
  await second.idle()
  second.send({ t: 'assign', task: task('7') })
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  const messages = second.requests[0]?.messages ?? []
  expect(messages.map(each => each.role)).toEqual(['system', 'user', 'assistant', 'tool', 'tool', 'tool', 'user'])
  const [real, unknown, not] = messages.filter(each => each.role === 'tool').map(each => each.content)
  expect(real).not.toMatch(/^error/)
  expect(unknown).toMatch(/outcome unknown/)
  expect(not).toMatch(/not run/)
  expect(JSON.stringify(messages).match(/hello/g)).toHaveLength(1)
  expect(existsSync(join(home.path, 'work', 'three.txt'))).toBe(false)
  await second.idle()
})

test('G15 a thread killed while it waits for a background command comes back knowing that, once, with its output kept', async () => {
  const command = 'echo begun; sleep 60'
  const first = await start([{ calls: [{ name: 'background', args: { action: 'start', command } }] }, 'I wait.'])
  await first.idle()
  first.send({ t: 'assign', task: task('7') })
  const waiting = () => first.heard.findLast(message => message.t === 'state')?.waiting?.what
  await until(() => waiting()?.startsWith('background bg-1: echo begun') === true, 'the wait')
  expect(first.heard.findLast(message => message.t === 'commands')?.running).toMatchObject([{ id: 'bg-1' }])
  await first.worker.terminate()
  await server.close()
  const pids = first.heard.flatMap(message =>
    message.t === 'event' && message.event === 'command.started' ? [Number(message.info.pid)] : [],
  )
  // The supervisor ends what a dead thread left running; here there is none.
  for (const pid of pids) process.kill(-pid, 'SIGKILL')
  holder.task = { id: '7', status: 'in_progress', owner: 'alice', claimed: null }
  const second = await start([{ calls: [{ name: 'task', args: { action: 'complete', summary: 'checked' } }] }, 'done'])
  second.send({ t: 'assign', task: task('7') })
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await second.idle()
  const all = JSON.stringify(second.requests.at(-1)?.messages)
  expect(all.match(/background command bg-1 \([^)]*\) was running when you were interrupted/g)).toHaveLength(1)
  expect(readFileSync(join(home.path, 'team', 'alice', 'out', 'bg-1.log'), 'utf8')).toBe('begun\n')
})

test('a thread that cannot be put together dies loudly', async () => {
  mkdirSync(join(home.path, '.team', 'sessions'), { recursive: true })
  writeFileSync(join(home.path, '.team', 'sessions', 'alice.jsonl'), 'nonsense\n{}\n')
  const one = await start([])
  await until(() => one.exit() !== null, 'ended')
  expect(one.exit()).toBe(1)
  expect(String(one.errors[0])).toMatch(/alice\.jsonl:1 cannot be read/)
})

test('a task written as a runbook is carried out by a thread without any model', async () => {
  const runbook = await startRunbook()
  try {
    const one = await start([], runbook.baseURL)
    await one.idle()
    const description = '```txt file=greet.txt\nhello\n```\n\n```sh\necho it ran\n```\n\n```expect\nit ran\n```\n'
    one.send({ t: 'assign', task: task('7', { description, verify: ['true'] }) })
    await until(() => holder.asks('task.complete').length + holder.asks('task.fail').length >= 1, 'ended')
    expect(holder.asks('task.fail')).toEqual([])
    await one.idle()
    expect(readFileSync(join(home.path, 'work', 'greet.txt'), 'utf8')).toBe('hello\n')
    const id = holder.shutdown()
    one.send({ t: 'mail', urgent: true })
    await until(() => one.exit() !== null, 'ended')
    expect(holder.requests.get(id)?.status).toBe('approved')
    expect(one.heard.at(-1)).toMatchObject({ t: 'bye' })
  } finally {
    await runbook.close()
  }
})
