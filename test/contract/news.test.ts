import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import type { Stored } from '../../src/protocol/message.ts'
import type { Request } from '../../src/protocol/request.ts'
import { circleIn } from '../../src/protocol/wait-graph.ts'
import { hold } from '../../src/store/index.ts'
import type { Store } from '../../src/store/store.ts'
import type { DaemonLog } from '../../src/supervisor/log.ts'
import { setStanding } from '../../src/supervisor/members.ts'
import { newsOf } from '../../src/supervisor/news.ts'
import { Notices } from '../../src/supervisor/notices.ts'
import { Waits } from '../../src/supervisor/waits.ts'
import { coreOf } from '../support/core.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'team-news-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const config = { teammates: [{ name: 'alice' }, { name: 'bob' }, { name: 'boss' }], lead: 'boss' }
const log: DaemonLog = { entry: () => {}, close: () => {}, error: text => expect.unreachable(text) }
const journalOf = (at: string) => join(at, '.team', 'journal', '00000001.jsonl')

/** A holder of real files, and what it begins with. */
const begin = async (at: string) => {
  const holder = unwrap(await hold(at, 'daemon', { version: 'test', clock }))
  const made = coreOf(config, clock, { store: holder.store })
  const { core } = made
  const notices = new Notices(core, log)
  core.tasks.recover()
  core.requests.recover()
  notices.recover()
  const onFailure = (error: unknown) => {
    throw error
  }
  const waits = new Waits({ core, notices, hasEnded: () => false, onFailure })
  core.leases.start({ runs: () => true, onFailure })
  core.store.tasks.watch((_id, { value }, old) => {
    if ((value.status === 'failed' || value.status === 'cancelled') && old && old.value.status !== value.status)
      notices.taskEnded(value)
  })
  const ask = async (actor: string, method: string, params: Record<string, unknown>) => {
    const done = unwrap(await made.handlers.call(actor, method, params)) as { request: Request }
    // A moment passes: each act is a flush of its own.
    await core.store.flushed()
    return done.request?.id ?? ''
  }
  const end = async () => {
    waits.close()
    await holder.release()
  }
  return { ...made, notices, ask, end }
}

/** How often each message was ever stored, trimmed or not. */
const storedMail = async (store: Store): Promise<Map<string, number>> => {
  const times = new Map<string, number>()
  for await (const { append } of store.entries(0)) {
    if (!append?.[0].startsWith('inbox/')) continue
    const key = `${append[0]} ${(append[2] as Stored).message.id}`
    times.set(key, (times.get(key) ?? 0) + 1)
  }
  return times
}

test('a journal that a power cut ended behind any of its lines: what every record tells is in the inbox it is for, exactly once', async () => {
  const first = await begin(root)
  const { ask, core, notices } = first
  const open = (by: string, type: string, more: Record<string, unknown> = {}) =>
    ask(by, 'request.open', { type, body: type, ...more })
  await ask('human', 'task.add', {
    tasks: [{ title: 'one' }, { title: 'two', dependsOn: ['one'] }, { title: 'x' }, { title: 'y' }],
  })
  core.tasks.move('1', 'supervisor', { move: 'start', owner: 'alice', branch: null })
  const question = await open('alice', 'question')
  await ask('human', 'request.decide', { id: question, decision: 'ask', reason: 'which?' })
  await ask('alice', 'request.answer', { id: question, text: 'this one' })
  await ask('human', 'request.answer', { id: question, text: 'yes' })
  const lease = { data: { kind: 'path', what: ['src/**'] } }
  const held = await open('alice', 'resource_request', lease)
  // What was read is trimmed away; what happens to these records later is no reason to tell it again.
  const inbox = core.store.inbox('alice')
  const why = { event: 'inbox.rotated', by: 'supervisor' } as const
  inbox.ack('alice', inbox.last, { ...why, event: 'message.taken' })
  await inbox.trim(inbox.last, why).durable
  await ask('human', 'request.withdraw', { id: held, reason: 'mine' })
  const plan = await open('alice', 'plan_request')
  await ask('boss', 'request.decide', { id: plan, decision: 'reject', reason: 'no' })
  const proposed = await open('boss', 'plan_request', { data: { tasks: [{ title: 'A' }] } })
  await ask('human', 'plan.revise', { id: proposed, tasks: [{ title: 'B' }] })
  await ask('human', 'request.withdraw', { id: await open('bob', 'question'), reason: 'never mind' })
  const shutdown = await open('boss', 'shutdown_request', { data: { teammate: 'bob', graceMs: 60_000 } })
  // Each holds what the other asks for then.
  const name = (what: string) => ({ data: { kind: 'name', what: [what] } })
  for (const what of ['a', 'b']) {
    await open('alice', 'resource_request', name(what))
    await open('bob', 'resource_request', name(what === 'a' ? 'b' : 'a'))
    // The circle is looked for when what happens now is over.
    await new Promise(resolve => setImmediate(resolve))
    await core.store.flushed()
  }
  // As the end of a teammate that did not answer in time, with a task in hand.
  core.tasks.move('4', 'supervisor', { move: 'start', owner: 'bob', branch: null })
  unwrap(core.requests.end(shutdown, 'expired', 'supervisor', 'nobody decided in time'))
  unwrap(core.requests.effect(shutdown, 'intent'))
  core.tasks.move('4', 'supervisor', { move: 'release', reason: 'bob was stopped' })
  unwrap(core.requests.effect(shutdown, 'done', 'forced', 'ended by force', { task: '4' }))
  await core.store.flushed()
  const forced = core.requests.get(shutdown)?.value
  if (forced) notices.stoppedByForce('bob', forced)
  await core.store.flushed()
  await ask('alice', 'task.fail', { reason: 'too hard' })
  await ask('human', 'task.cancel', { id: '3', reason: 'not needed' })
  setStanding(core, 'bob', 'failed', 'it died')
  notices.gaveUp('bob', 'it died')
  await core.store.flushed()
  // As it is before the holder says goodbye.
  const lines = readFileSync(journalOf(root), 'utf8').trimEnd().split('\n')
  await first.end()

  let circles = 0
  let mended = 0
  for (let end = 2; end <= lines.length; end++) {
    const at = mkdtempSync(join(root, 'cut-'))
    const text = `${lines.slice(0, end).join('\n')}\n`
    mkdirSync(dirname(journalOf(at)), { recursive: true })
    writeFileSync(journalOf(at), text)
    // The second start finds what the first one told.
    for (let start = 0; start < 2; start++) {
      const again = await begin(at)
      await again.core.store.flushed()
      const times = await storedMail(again.core.store)
      const where = `cut behind line ${end}: ${lines[end - 1]?.slice(0, 200)}`
      expect(
        [...times].filter(([, count]) => count > 1),
        where,
      ).toEqual([])
      for (const request of again.core.requests.all())
        for (const { message } of newsOf(request))
          expect(times.get(`inbox/${message.to} ${message.id}`), `${message.id}, ${where}`).toBe(1)
      const heard = new Map(
        again.core.store
          .inbox('boss')
          .read(0)
          .map(({ value }) => [value.message.id, value.message.content]),
      )
      for (const { id, effect, reason } of again.core.requests.all()) {
        if (effect?.outcome === 'forced')
          expect(heard.get(`msg_forced_${id}`), where).toMatch(/bob was stopped by force .* It had task 4 "y" in hand/)
        if (circleIn(reason) === null) continue
        circles++
        expect(heard.get(`msg_circle_${id}`), where).toMatch(
          /^Teammates waited for one another: .*alice waits for bob \(req_\d+\).* was rejected to end that\.$/,
        )
      }
      // A plan that was changed is not there twice, to be decided both ways.
      const plans = again.core.requests.waiting('boss').filter(({ type }) => type === 'plan_request')
      expect(plans.length, where).toBeLessThan(2)
      for (const [id, { value }] of again.core.store.tasks.list())
        if (value.status === 'failed')
          expect(times.get(`inbox/boss msg_ended_${id}_1_failed`), `task ${id}, ${where}`).toBe(1)
      for (const [, { value, rev }] of again.core.store.teammates.list())
        expect(times.get(`inbox/boss msg_gaveup_${value.name}_${rev}`), where).toBe(1)
      if (start === 0 && times.size > text.split('"append":["inbox/').length - 1) mended++
      await again.end()
    }
  }
  // Each of the eleven that were told in a line of their own was cut off once, and the lease given back with its daemon.
  expect(mended).toBeGreaterThan(10)
  expect(circles).toBeGreaterThan(0)
}, 60_000)
