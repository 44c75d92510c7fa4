import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Entry } from '../../src/agent/entry.ts'
import { localGate } from '../../src/agent/retry.ts'
import { verifySession } from '../../src/agent/verify.ts'
import { clock } from '../../src/lib/clock.ts'
import { openaiModel } from '../../src/model/openai.ts'
import { type Reply, type ScriptedRequest, type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import { Limits } from '../../src/protocol/config.ts'
import type { FromThread } from '../../src/protocol/thread.ts'
import { isStill, kinOf } from '../../src/sandbox/leftover.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import type { View } from '../../src/sandbox/view.ts'
import { Life } from '../../src/teammate/life.ts'
import { defaultTools } from '../../src/tools/index.ts'
import { folder, noView, openSession } from '../support/agent.ts'
import { Holder, member, task } from '../support/holder.ts'

let home: ReturnType<typeof folder>
let server: ScriptedServer | undefined
let holder: Holder
const enders: (() => Promise<unknown>)[] = []
beforeEach(() => {
  home = folder()
  holder = new Holder()
  holder.task = { id: '7', status: 'in_progress', owner: 'alice', claimed: null }
})
afterEach(async () => {
  for (const end of enders.splice(0)) await end()
  await server?.close()
  server = undefined
  home.remove()
})

const until = async (condition: () => boolean, what: string): Promise<void> => {
  for (const deadline = clock.mono() + 45_000; !condition(); await new Promise(resolve => setTimeout(resolve, 5)))
    if (clock.mono() > deadline) throw new Error(`it never came to this: ${what}`)
}

const start = (command: string): Reply => ({ calls: [{ name: 'background', args: { action: 'start', command } }] })
const act = (action: string, id?: string): Reply => ({
  calls: [{ name: 'background', args: { action, ...(id ? { id } : {}) } }],
})
const complete: Reply = { calls: [{ name: 'task', args: { action: 'complete', summary: 'did it' } }] }

/** One life with the real tools and a real shell, as a thread would run it. */
const live = async (
  script: (request: ScriptedRequest, n: number) => Reply | Promise<Reply>,
  limits: Partial<Limits> = {},
) => {
  await server?.close()
  const opened = await startScripted(script)
  server = opened
  const at = join(home.path, 'team', 'alice')
  const bare = noView(at)
  const view: View = { ...bare, mounts: [{ at: 'out', real: join(at, 'out'), access: 'write', hidden: [] }] }
  const heard: FromThread[] = []
  const session = openSession(join(home.path, '.team', 'sessions', 'alice.jsonl'))
  const shell = makeShell({
    view,
    probe: { kind: 'none', detail: 'test', remedy: null },
    mode: 'off',
    permissions: { allow: ['*', '* *'], ask: [], deny: [] },
    marker: `${home.path}#alice`,
    env: { PATH: process.env.PATH ?? '' },
  })
  const life = new Life({
    member,
    root: home.path,
    limits: Limits.parse({ modelRetries: 1, ...limits }),
    session,
    call: holder.call,
    post: message => heard.push(message),
    model: openaiModel({ config: { name: 'm', baseURL: opened.baseURL }, apiKey: undefined, idleMs: 3_600_000 }),
    tools: defaultTools,
    shell,
    view,
    gate: localGate(clock),
    clock,
    prefix: () => 'you are alice',
    subagentPrefix: () => 'you are a part of alice',
    backoff: { baseMs: 1, capMs: 2 },
    parkMs: 5,
  })
  const running = life.run()
  let isOver = false
  const stop = async () => {
    if (isOver) return
    isOver = true
    life.hear({ t: 'stop', reason: 'the test is over' })
    await running
    session.close()
  }
  /** The thread ends where it stands: nothing is written any more. */
  const die = async () => {
    isOver = true
    session.append = () => undefined
    life.hear({ t: 'stop', reason: 'died' })
    await running
    session.close()
  }
  enders.push(stop, () => shell.stop(100))
  const states = () => heard.flatMap(message => (message.t === 'state' ? [message] : []))
  return {
    life,
    session,
    heard,
    states,
    stop,
    die,
    requests: opened.requests,
    idle: () => until(() => states().at(-1)?.state === 'idle', 'idle'),
    waits: () =>
      until(() => states().at(-1)?.waiting?.what.startsWith('background bg-') === true, 'waiting for a command'),
    out: (name: string) => join(at, 'out', name),
    events: (event: string) => heard.filter(message => message.t === 'event' && message.event === event),
  }
}

/** All that users and tools said in a request. */
const told = (request: ScriptedRequest | undefined): string =>
  (request?.messages ?? [])
    .filter(({ role }) => role === 'user' || role === 'tool')
    .map(({ content }) => content ?? '')
    .join('\n')
const times = (text: string, what: RegExp): number => text.match(new RegExp(what, 'g'))?.length ?? 0
const ofEnd = /background command bg-1 \([^)]*\) ended: exit \d+/

test('G15 a teammate with nothing else to do waits for a command at no cost, is told of its end once, and goes on', async () => {
  const one = await live((_request, n) => {
    if (n === 0) return start(`until test -e ${home.path}/go; do sleep 0.05; done; echo 41 passed; exit 3`)
    if (n === 1) return 'I wait for the tests.'
    return n === 2 ? complete : 'done'
  })
  await one.idle()
  one.life.hear({ t: 'assign', task: task('7') })
  await one.waits()
  expect(one.states().at(-1)?.waiting).toMatchObject({
    what: expect.stringMatching(/^background bg-1: until/),
    whom: 'alice',
  })
  expect(one.requests).toHaveLength(2)
  expect(told(one.requests[1])).toContain('started bg-1.')
  writeFileSync(join(home.path, 'go'), '')
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await one.idle()
  const last = told(one.requests.at(-1))
  expect(told(one.requests[2])).toMatch(
    /<note>background command bg-1 \(until [^)]*\) ended: exit 3 after \d+\.\d s\n\| 41 passed\n\(all of its output: out\/bg-1.log\)<\/note>/,
  )
  expect(times(last, ofEnd)).toBe(1)
  expect(readFileSync(one.out('bg-1.log'), 'utf8')).toBe('41 passed\n')
  expect(one.heard.flatMap(message => (message.t === 'commands' ? [message.running.map(({ id }) => id)] : []))).toEqual(
    [['bg-1'], []],
  )
  expect([one.events('background.started'), one.events('background.ended')].map(({ length }) => length)).toEqual([1, 1])
})

test('while a command runs mail is answered, and the wait goes on after that without a reminder', async () => {
  const one = await live((request, n) => {
    if (n === 0) return start(`until test -e ${home.path}/go; do sleep 0.05; done`)
    if (told(request).includes('ended: exit 0')) return holder.asks('task.complete').length > 0 ? 'done' : complete
    return 'I wait.'
  })
  await one.idle()
  one.life.hear({ t: 'assign', task: task('7') })
  await one.waits()
  for (const n of [1, 2, 3, 4]) {
    holder.mail(`how far? ${n}`)
    one.life.hear({ t: 'mail', urgent: false })
    await until(() => one.requests.length >= 2 + n, 'asked')
    await one.waits()
  }
  expect(told(one.requests.at(-1))).toContain('how far? 4')
  writeFileSync(join(home.path, 'go'), '')
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await one.idle()
  expect(told(one.requests.at(-1))).not.toContain('Your turn ended')
  expect(holder.asks('task.fail')).toEqual([])
})

test('G15 an end that was read is not told again, and output is told as it comes, each line once', async () => {
  const one = await live(async (_request, n) => {
    if (n === 0) return start(`echo one; until test -e ${home.path}/go; do sleep 0.05; done; echo two`)
    if (n === 1) await until(() => readFileSync(one.out('bg-1.log'), 'utf8') === 'one\n', 'the first line')
    if (n === 1 || n === 2) return act('check', 'bg-1')
    if (n === 3) {
      writeFileSync(join(home.path, 'go'), '')
      await until(() => one.session.commands.ended.length === 1, 'its end')
      // The boundary before this round is past: the look is the first to tell.
      return act('check')
    }
    return n === 4 ? act('list') : n === 5 ? act('check', 'bg-1') : n === 6 ? complete : 'done'
  })
  await one.idle()
  one.life.hear({ t: 'assign', task: task('7') })
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await one.idle()
  const results =
    one.requests.at(-1)?.messages.flatMap(each => (each.role === 'tool' ? [each.content ?? ''] : [])) ?? []
  expect(results[1]).toMatch(/^bg-1 runs for \d+ s: echo one; .*, new:\none$/)
  expect(results[2]).toMatch(/, nothing new\. To wait for it, end your turn$/)
  expect(results[3]).toMatch(
    /^background command bg-1 .* ended: exit 0 after .* s\n\| one\n\| two\n\(all of its output: out\/bg-1\.log\)$/,
  )
  expect(results[4]).toBe('no background command runs')
  expect(results[5]).toMatch(/^error: no background command bg-1 runs/)
  expect(times(told(one.requests.at(-1)), ofEnd)).toBe(1)
})

test('stop ends a command that ignores TERM with all that it started; ids go on; at most so many run', async () => {
  const stubborn = `trap '' TERM; sleep 300 & echo $! > ${home.path}/pid; while :; do sleep 0.05; done`
  const one = await live(
    (_request, n) => {
      if (n === 0) return start(stubborn)
      if (n === 1) return start('sleep 301')
      if (n === 2) return start('sleep 302')
      if (n === 3) return act('stop', 'bg-1')
      if (n === 4) return start('sleep 303')
      return n === 5 ? act('list') : n === 6 ? complete : 'done'
    },
    { backgroundCommands: 2 },
  )
  await one.idle()
  one.life.hear({ t: 'assign', task: task('7') })
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await one.idle()
  const results =
    one.requests.at(-1)?.messages.flatMap(each => (each.role === 'tool' ? [each.content ?? ''] : [])) ?? []
  expect(results[2]).toMatch(/^error: 2 background commands run, and no more may \(limits\.backgroundCommands\)/)
  expect(results[3]).toMatch(/^background command bg-1 .* was stopped as asked after \d+\.\d s/)
  expect(results[4]).toMatch(/^started bg-3/)
  expect(results[5]).toMatch(/^bg-2 runs for \d+ s: sleep 301\nbg-3 runs for \d+ s: sleep 303$/)
  // What ran when the task was over was ended with it, and that is told with its end.
  expect(results[6]).toMatch(
    /^task 7 is claimed done.*\nbackground command bg-2 \(sleep 301\) was stopped with task 7 after .* s\n.*\nbackground command bg-3/s,
  )
  const pid = Number(readFileSync(join(home.path, 'pid'), 'utf8'))
  expect(kinOf(pid, true).filter(isStill)).toEqual([])
  expect(one.session.commands.running).toEqual([])
})

test('what a command leaves behind is ended with it, a flood is ended at its bound, and a long one at its time', async () => {
  const one = await live(
    (request, n) => {
      if (n === 0) return start(`setsid sleep 300 & echo $! > ${home.path}/pid; echo up`)
      if (n === 1 || n === 3 || n === 5) return 'I wait.'
      if (n === 2) return start('yes flood')
      if (n === 4) return start('sleep 300')
      return told(request).includes('its time limit') && n === 6 ? complete : 'done'
    },
    { outputMaxBytes: 200_000, outputBytes: 1000, backgroundSeconds: 2 },
  )
  await one.idle()
  one.life.hear({ t: 'assign', task: task('7') })
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await one.idle()
  const all = told(one.requests.at(-1))
  expect(all).toMatch(/bg-1 .* ended: exit 0 after .* s; what it left running was ended with it: sleep 300\n\| up\n/)
  expect(all).toMatch(/bg-2 \(yes flood\) was ended for its output after .* s, more than 200000 bytes/)
  expect(all).toMatch(/bg-3 \(sleep 300\) was ended after 2 s, its time limit/)
  expect(readFileSync(one.out('bg-2.log')).length).toBeLessThanOrEqual(200_000)
  const pid = Number(readFileSync(join(home.path, 'pid'), 'utf8'))
  expect(kinOf(pid, true).filter(isStill)).toEqual([])
})

test('G15 after a death of its thread a teammate is told once what was running, and its ids and logs are not used again', async () => {
  const script = (request: ScriptedRequest, n: number): Reply => {
    if (told(request).includes('was interrupted')) return 'odd'
    return n === 0 ? start('echo half; sleep 300') : 'I wait.'
  }
  const first = await live(script)
  await first.idle()
  first.life.hear({ t: 'assign', task: task('7') })
  await first.waits()
  await first.die()
  const second = await live((_request, n) =>
    n === 0 ? start('echo whole') : n === 1 ? 'I wait.' : n === 2 ? complete : 'done',
  )
  second.life.hear({ t: 'assign', task: task('7') })
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await second.idle()
  const all = told(second.requests.at(-1))
  expect(told(second.requests[0])).toMatch(
    /background command bg-1 \(echo half; sleep 300\) was running when you were interrupted, and was ended by that: how far it came is not known\n\(all of its output: out\/bg-1\.log\)/,
  )
  expect(times(all, /bg-1 \(/)).toBe(1)
  expect(all).toContain('started bg-2.')
  expect(readFileSync(second.out('bg-2.log'), 'utf8')).toBe('whole\n')
  await second.stop()
  const entries = readFileSync(second.session.file, 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => Entry.parse(JSON.parse(line)))
  expect(verifySession(entries)).toMatchObject({ differs: null })

  // The session gone, its logs are not: none is written over.
  const lost = openSession(join(home.path, '.team', 'sessions', 'bob.jsonl'))
  expect(lost.commands.count).toBe(0)
  lost.close()
})

test('G15 with nothing in hand the end of a command wakes, once; a task that is given ends what runs', async () => {
  const one = await live((request, n) => {
    if (n === 0) return start('sleep 0.3; echo done')
    if (n === 3) return start('sleep 300')
    if (told(request).includes('# Task 8')) return n === 5 ? complete : 'done'
    return 'said'
  })
  await one.idle()
  holder.mail('run it')
  one.life.hear({ t: 'mail', urgent: false })
  await until(() => one.requests.length >= 3, 'woken')
  await one.idle()
  expect(told(one.requests[2])).toMatch(ofEnd)
  expect(one.requests).toHaveLength(3)
  holder.mail('and this')
  one.life.hear({ t: 'mail', urgent: false })
  await one.waits()
  one.life.hear({ t: 'assign', task: task('8') })
  await until(() => holder.asks('task.complete').length >= 1, 'claimed')
  await one.idle()
  const all = told(one.requests.at(-1))
  expect(times(all, /bg-2 \(sleep 300\) was stopped for task 8, which is in hand now, after/)).toBe(1)
  expect(times(all, ofEnd)).toBe(1)
  expect(existsSync(one.out('bg-2.log'))).toBe(true)
})

test('the list of what runs and of ends untold goes with a context that begins anew, and into a new file', async () => {
  mkdirSync(join(home.path, 'out'), { recursive: true })
  const file = join(home.path, '.team', 'sessions', 'carl.jsonl')
  const session = openSession(file)
  session.begin('carl', false)
  session.append({ k: 'command.start', v: 2, id: 'bg-4', command: 'make', task: '7', log: 'out/bg-4.log' })
  session.append({ k: 'command.start', v: 2, id: 'bg-5', command: 'test', task: null, log: null })
  session.append({ k: 'command.end', v: 2, id: 'bg-5', how: 'ended: exit 0 after 1.0 s', tail: 'ok' })
  session.begin('carl again', false)
  session.close()
  const again = openSession(file)
  expect(again.commands.count).toBe(5)
  expect(again.commands.ended.map(({ id, end }) => [id, end?.how.slice(0, 11)])).toEqual([
    ['bg-4', 'was running'],
    ['bg-5', 'ended: exit'],
  ])
  again.take([{ k: 'note', text: 'both' }], undefined, ['bg-4', 'bg-5'])
  again.close()
  const third = openSession(file)
  expect([third.commands.ended, third.commands.count]).toEqual([[], 5])
  third.close()
})
