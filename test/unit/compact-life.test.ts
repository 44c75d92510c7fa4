import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import * as z from 'zod'
import type { Compaction } from '../../src/agent/compact.ts'
import { Entry } from '../../src/agent/entry.ts'
import { localGate } from '../../src/agent/retry.ts'
import { defineTool, said, type Tool } from '../../src/agent/tool.ts'
import { verifySession } from '../../src/agent/verify.ts'
import { clock } from '../../src/lib/clock.ts'
import { openaiModel } from '../../src/model/openai.ts'
import { type Reply, type ScriptedRequest, type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import { Limits } from '../../src/protocol/config.ts'
import type { FromThread } from '../../src/protocol/thread.ts'
import { compactionOf } from '../../src/teammate/compacting.ts'
import { Life } from '../../src/teammate/life.ts'
import { askFor, type LifeOptions } from '../../src/teammate/life-options.ts'
import { defaultTools } from '../../src/tools/index.ts'
import { folder, noShell, noView, openSession } from '../support/agent.ts'
import { Holder, member, task } from '../support/holder.ts'

const isAsked = ({ messages }: ScriptedRequest): boolean =>
  messages.at(-1)?.content?.includes('Your conversation is put together now') ?? false
/** Has all its parts, and says nothing useful. */
const useless = '## Goal\nnone\n## Decisions\nnone\n## State\nnone\n## Open\nnone\n## Files\nnone'
const finish: Tool = defineTool({
  name: 'task',
  description: 'x',
  input: z.looseObject({}),
  run: async (_, context) => {
    const done = await context.call('task.complete', { summary: 'did it' })
    return said(done.ok ? 'claimed' : done.fault.message)
  },
})
const wordy = (call: { name: string; args: unknown }): Reply => ({ text: 'w'.repeat(4000), calls: [call] })

let home: ReturnType<typeof folder>
let holder: Holder
let server: ScriptedServer
let life: Life
let compaction: Compaction | null
let running: Promise<string>
let told: FromThread[]
beforeEach(() => {
  home = folder()
  holder = new Holder()
})
afterEach(async () => {
  life.hear({ t: 'stop', reason: 'the test is over' })
  await running
  await server.close()
  // Whatever came between: the record gives every request as it was sent.
  const lines = readFileSync(join(home.path, '.team', 'sessions', 'alice.jsonl'), 'utf8')
    .trim()
    .split('\n')
  const found = verifySession(lines.map(line => Entry.parse(JSON.parse(line))))
  expect(found).toMatchObject({ unknown: 0, differs: null })
  expect(found.same).toBeGreaterThan(0)
  // As a version wrote it that kept no digests: nothing is said of it, good or bad.
  const older = lines.map(line => Entry.parse({ ...JSON.parse(line), sent: undefined }))
  const asked = older.filter(({ k }) => k === 'assistant').length
  expect(verifySession(older)).toEqual({ same: 0, unknown: asked, differs: null })
  home.remove()
})
const until = async (condition: () => boolean, what: string): Promise<void> => {
  for (const deadline = clock.mono() + 20_000; !condition(); await new Promise(resolve => setTimeout(resolve, 5)))
    if (clock.mono() > deadline) throw new Error(`it never came to this: ${what}`)
}

const live = async (
  script: (request: ScriptedRequest, n: number) => Reply | Promise<Reply>,
  o: { window?: number; tools?: Tool[]; provider?: string } = {},
) => {
  server = await startScripted(script)
  told = []
  const session = openSession(join(home.path, '.team', 'sessions', 'alice.jsonl'))
  const options: LifeOptions = {
    member: {
      ...member,
      model: { name: 'm', contextWindow: o.window ?? 8000, ...(o.provider ? { provider: o.provider } : {}) },
    },
    root: home.path,
    limits: Limits.parse({ modelRetries: 0 }),
    session,
    call: holder.call,
    post: message => told.push(message),
    model: openaiModel({ config: { name: 'm', baseURL: server.baseURL }, apiKey: undefined, idleMs: 5000 }),
    tools: o.tools ?? [finish, ...defaultTools.filter(({ schema }) => schema.name === 'todo')],
    shell: noShell,
    view: noView(join(home.path, 'team', 'alice')),
    gate: localGate(clock),
    clock,
    prefix: () => 'you are alice',
    subagentPrefix: () => 'you are a subagent',
    backoff: { baseMs: 1, capMs: 2 },
    parkMs: 5,
  }
  compaction = compactionOf(options)
  life = new Life({ ...options, compaction })
  running = life.run()
  const isIdle = () => told.findLast(each => each.t === 'state')?.state === 'idle'
  await until(isIdle, 'idle')
  return { session, isIdle }
}
const events = (event: string) => told.flatMap(each => (each.t === 'event' && each.event === event ? [each.info] : []))
const users = (request: ScriptedRequest | undefined): string =>
  request?.messages.flatMap(each => (each.role === 'user' ? [each.content ?? ''] : [])).join('\n') ?? ''
const times = (text: string, part: string): number => text.split(part).length - 1

const steps = [
  { id: '1', text: 'read it', status: 'completed' },
  { id: '2', text: 'mend it', status: 'completed' },
  { id: '3', text: 'prove it', status: 'in_progress' },
]

test('H01 after a summary that says nothing, the next request names who it is, its task, what waits for it, and its steps', async () => {
  const asks = holder.shutdown()
  holder.inbox.length = 0
  const own = 'req_own'
  const base = holder.requests.get(asks)
  if (base?.type !== 'shutdown_request') throw new Error('it was just made')
  const plan = {
    ...base,
    id: own,
    from: 'alice',
    to: 'human',
    type: 'plan_request',
    title: 'rename the table',
  } as const
  holder.requests.set(own, { ...plan, data: { task: '7' } } as never)
  // It was told of in an earlier turn, and says so in the journal; the one to alice has not entered and comes as mail.
  const { session, isIdle } = await live((request, n) => {
    if (isAsked(request)) return useless
    if (n < 8) return wordy({ name: 'todo', args: { items: steps } })
    return users(request).includes('<task') && !JSON.stringify(request.messages.at(-1)).includes('claimed')
      ? { calls: [{ name: 'task', args: {} }] }
      : 'done'
  })
  life.hear({ t: 'assign', task: task('7', { description: 'make the tests of the parser pass' }) })
  await until(() => holder.asks('task.complete').length === 1 && isIdle(), 'claimed')
  const at = server.requests.findIndex(isAsked)
  expect(at).toBeGreaterThan(0)
  const next = server.requests[at + 1]
  const text = users(next)
  expect(next?.messages[0]?.content).toBe('you are alice')
  expect(text).toContain(`<summary>\n${useless}`)
  expect(times(text, '<task id="7"')).toBe(1)
  expect(text).toContain('make the tests of the parser pass')
  expect(text).toContain('req_own plan_request to human, pending: rename the table')
  expect(text).toContain('[x] 2 mend it\n[>] 3 prove it')
  expect(text).not.toContain(asks)
  expect(events('context.compacted')).toMatchObject([{ why: 'full', name: 'alice' }])
  // The end of the task is saved besides, and begins with the summary.
  const saved = readdirSync(join(home.path, '.transcripts')).sort()
  expect(saved.map(name => name.replace(/^[\d-]+/, ''))).toEqual(['_task-task-7-2.md', '_task-task-7.md'])
  const [second = '', first = ''] = saved.map(name => readFileSync(join(home.path, '.transcripts', name), 'utf8'))
  expect(first).toContain('- put together: ')
  expect(second).toContain('- how: claimed done')
  expect(second).toContain('<summary>')
  session.close()
})

test('H07 mail and decisions that come while the summary is made stand in the first request after it, once', async () => {
  let open: () => void = () => undefined
  const asked = new Promise<void>(resolve => {
    open = resolve
  })
  let goOn: () => void = () => undefined
  const held = new Promise<void>(resolve => {
    goOn = resolve
  })
  const { session, isIdle } = await live(async (request, n) => {
    if (isAsked(request)) {
      open()
      await held
      return useless
    }
    return n < 7 ? wordy({ name: 'todo', args: { items: steps } }) : 'done'
  })
  holder.mail('read before')
  life.hear({ t: 'mail', urgent: false })
  await asked
  holder.mail('first of two')
  holder.mail('second of two')
  holder.mail('req_9 is approved', { type: 'decision', from: 'supervisor' })
  life.hear({ t: 'mail', urgent: true })
  goOn()
  await until(() => holder.cursor === 4 && isIdle(), 'all read')
  const at = server.requests.findIndex(isAsked)
  for (const part of ['first of two', 'second of two', 'req_9 is approved']) {
    expect(times(users(server.requests[at]), part)).toBe(0)
    for (const request of server.requests.slice(at + 1)) expect(times(users(request), part)).toBe(1)
  }
  expect(times(users(server.requests[at + 1]), 'read before')).toBe(0)
  expect(session.mail.upTo).toBe(4)
  session.close()
})

test('a runbook is never put together, nor loses what it goes by', async () => {
  const { session, isIdle } = await live(
    (_, n) => (n < 12 ? wordy({ name: 'todo', args: { items: steps } }) : 'done'),
    { provider: 'runbook' },
  )
  holder.mail('go')
  life.hear({ t: 'mail', urgent: false })
  await until(() => holder.cursor === 1 && isIdle(), 'read')
  expect(server.requests.some(isAsked)).toBe(false)
  session.close()
})

test('a todo list that is left alone is told again after three rounds, and each three more; one that is done, or of another turn, is not', async () => {
  const look = defineTool({ name: 'look', description: 'x', input: z.looseObject({}), run: () => said('seen') })
  const todo = defaultTools.filter(({ schema }) => schema.name === 'todo')
  const looks: Reply = { calls: [{ name: 'look', args: {} }] }
  const sets = (items: unknown): Reply => ({ calls: [{ name: 'todo', args: { items } }] })
  const script: Reply[] = [
    ...[looks, looks, looks, looks, sets(steps), looks, looks, looks, looks, looks, looks],
    ...[sets(steps.map(step => ({ ...step, status: 'completed' }))), looks, looks, looks, looks, sets(steps), 'done'],
    ...[looks, looks, looks, looks, looks, 'done'],
  ]
  const { session, isIdle } = await live((_, n) => script[n] ?? 'over', { window: 100_000, tools: [look, ...todo] })
  holder.mail('go')
  life.hear({ t: 'mail', urgent: false })
  await until(() => holder.cursor === 1 && isIdle(), 'the first turn')
  const reminded = () =>
    server.requests.flatMap((request, i) =>
      (request.messages.at(-1)?.content ?? '').includes('You have not touched your todo list') ? [i] : [],
    )
  expect(reminded()).toEqual([8, 11])
  expect(server.requests[8]?.messages.at(-1)?.content).toContain('for 3 rounds. Open on it:\n[>] 3 prove it\n')
  holder.mail('once more')
  life.hear({ t: 'mail', urgent: false })
  await until(() => holder.cursor === 2 && isIdle(), 'the second turn')
  expect(reminded()).toEqual([8, 11])
  session.close()
})

test('asked for by its tool or by a person it is done before the next round, with what to keep; a short conversation is not worth it', async () => {
  const compact = defaultTools.filter(({ schema }) => schema.name === 'compact')
  const look = defineTool({
    name: 'look',
    description: 'x',
    input: z.looseObject({}),
    run: () => said('l'.repeat(6000)),
  })
  const asks: Reply = { calls: [{ name: 'compact', args: { focus: 'the parser' } }] }
  const looks: Reply = { calls: [{ name: 'look', args: {} }] }
  const script: Reply[] = [asks, looks, looks, asks, useless, 'done', 'read it', useless, 'read']
  const { session, isIdle } = await live((_, n) => script[n] ?? 'over', { window: 100_000, tools: [...compact, look] })
  holder.mail('go')
  life.hear({ t: 'mail', urgent: false })
  await until(() => holder.cursor === 1 && isIdle(), 'the first turn')
  const first = server.requests[1]?.messages.at(-1)?.content
  expect(first).toMatch(/^error: the conversation is short, about \d+ tokens: there is nothing to gain/)
  expect(server.requests.flatMap((request, i) => (isAsked(request) ? [i] : []))).toEqual([4])
  expect(server.requests[4]?.messages.at(-1)?.content).toContain('Keep above all: the parser')
  expect(users(server.requests[5])).toContain(`<summary>\n${useless}`)
  expect(askFor(compaction, null)).toMatch(/short/)
  holder.mail('n'.repeat(15_000))
  life.hear({ t: 'mail', urgent: false })
  await until(() => holder.cursor === 2 && isIdle(), 'the second turn')
  expect(users(server.requests[6])).toContain('nnnn')
  expect(askFor(compaction, 'the names')).toBe(null)
  holder.mail('and on')
  life.hear({ t: 'mail', urgent: false })
  await until(() => holder.cursor === 3 && isIdle(), 'the third turn')
  expect(isAsked(server.requests[7] as ScriptedRequest)).toBe(true)
  expect(server.requests[7]?.messages.at(-1)?.content).toContain('Keep above all: the names')
  expect(events('context.compacted').map(({ why }) => why)).toEqual(['asked', 'asked'])
  expect(askFor(null, null)).toMatch(/runbook/)
  session.close()
})
