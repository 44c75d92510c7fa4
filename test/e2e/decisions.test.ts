import { expect, test } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import type { Request } from '../../src/protocol/request.ts'
import { connect } from '../../src/store/rpc/client.ts'
import { statusOf, team, teamOk, until } from '../support/cli.ts'
import {
  asker,
  call,
  gitTeamOf,
  heard,
  journalOf,
  killDaemon,
  model,
  silence,
  sinceTask,
  teamOf,
} from '../support/daemon.ts'

const names = ['alice', 'bob']
const requestsOf = async (root: string): Promise<Request[]> =>
  JSON.parse(await teamOk(['requests', '--all', '--json', '--root', root]))
const waiting = (root: string, n: number) =>
  until(async () => {
    const { requests } = await statusOf(root)
    return requests.length === n && requests
  }, 40_000)

/** Commits one file for each task and claims it done; sent back, it commits once more. */
const committer = () =>
  model(request => {
    const at = sinceTask(request)
    if (!at) return 'nothing'
    const last = at.results.at(-1)
    if (!last)
      return call('bash', { command: `echo ${at.id} >> t${at.id}.txt && git add -A && git commit -qm task-${at.id}` })
    return last.name === 'bash' ? call('task', { action: 'complete', summary: 'committed' }) : 'done'
  })

test('D01 two approvals from two shells at the same instant: one wins, each other and a later rejection are told so, one effect', async () => {
  const { root, repo } = gitTeamOf(await committer(), { limits: { returns: 20 } })
  const rounds = 6
  for (let n = 0; n < rounds; n++) await teamOk(['task', 'add', `Task ${n}`, '--root', root])
  await teamOk(['up', '-d', '--root', root])
  for (const { id } of await waiting(root, rounds)) {
    const both = await Promise.all([1, 2].map(() => team(['approve', id, '--root', root])))
    expect(both.map(ran => ran.code).sort()).toEqual([0, 5])
    const late = await team(['reject', id, '--reason', 'changed my mind', '--root', root])
    for (const ran of [...both.filter(one => one.code !== 0), late])
      expect([ran.code, ran.stderr]).toEqual([
        5,
        expect.stringMatching(new RegExp(`${id} was already approved by human`)),
      ])
  }
  await until(async () => (await statusOf(root)).tasks.every(task => task.status === 'completed'), 60_000)
  const merges = repo
    .git('--git-dir', `${root}/.team/hub.git`, 'log', '--merges', '--format=%s', 'team/trunk')
    .split('\n')
  expect(merges.sort()).toEqual(Array.from({ length: rounds }, (_, n) => `Merge task ${n + 1}: Task ${n}`).sort())
  for (const request of await requestsOf(root))
    expect([request.status, request.effect?.outcome]).toEqual(['approved', 'ok'])
  await teamOk(['down', '--root', root])
})

test('D01 the same over fifty rounds on the socket, the last an approval against a rejection: it never flips', async () => {
  // At work on something that never ends, nobody agrees by itself: it is the human who decides in its place.
  const server = await model(silence)
  const root = teamOf(server, { teammates: [{ name: 'alice' }] })
  await teamOk(['task', 'add', 'Think', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  await until(() => server.requests.length > 0)
  const [one, two] = [unwrap(await connect(root)), unwrap(await connect(root))]
  for (let round = 0; round < 50; round++) {
    const opened = unwrap(
      await one.call('request.open', {
        type: 'shutdown_request',
        body: `round ${round}`,
        data: { teammate: 'alice', graceMs: 60_000 },
      }),
    ).request
    const results = await Promise.all([
      one.call('request.decide', { id: opened.id, decision: 'reject', reason: 'first' }),
      two.call('request.decide', { id: opened.id, decision: round === 49 ? 'approve' : 'reject', reason: 'second' }),
    ])
    const now = unwrap(await two.call('request.get', { id: opened.id })).request
    for (const result of results) if (!result.ok) expect(result.fault.message).toContain(`${opened.id} was already`)
    expect(results.filter(result => result.ok)).toHaveLength(1)
    expect(now.reason).toBe(results[0]?.ok ? 'first' : 'second')
    expect(now.history.filter(item => item.act === 'approve' || item.act === 'reject')).toHaveLength(1)
  }
  one.close()
  two.close()
  const decided = journalOf(root).filter(entry => entry.event === 'request.decided')
  expect(decided).toHaveLength(50)
  await teamOk(['down', '--force', '--root', root])
})

test('D03 after kill -9 a request waits under the same id, its approval is carried out, and the teammate goes on where it was', async () => {
  const server = await committer()
  const { root } = gitTeamOf(server, { teammates: [{ name: 'alice' }] })
  await teamOk(['task', 'add', 'First', '--root', root])
  await teamOk(['task', 'add', 'Second', '--after', '1', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  const [before] = await waiting(root, 1)
  await killDaemon(root)
  expect((await statusOf(root)).requests.map(request => request.id)).toEqual([before?.id])
  await teamOk(['up', '-d', '--root', root])
  const [after] = await waiting(root, 1)
  expect(after).toEqual(before)
  await teamOk(['approve', after?.id ?? '', '--root', root])
  const [next] = await waiting(root, 1)
  expect(next?.type === 'merge_request' && next.data.task).toBe('2')
  expect((await statusOf(root)).tasks[0]?.status).toBe('completed')
  await teamOk(['down', '--root', root])
})

test('D03 an approval given while no daemon runs is carried out by the next one', async () => {
  const { root } = gitTeamOf(await committer(), { teammates: [{ name: 'alice' }] })
  await teamOk(['task', 'add', 'First', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  const [request] = await waiting(root, 1)
  await killDaemon(root)
  expect(await teamOk(['approve', request?.id ?? '', '--root', root])).toContain('the next team up carries it out')
  expect((await team(['approve', request?.id ?? '', '--root', root])).code).toBe(5)
  expect((await team(['up', '--once', '--root', root])).code).toBe(0)
  expect((await statusOf(root)).tasks[0]?.status).toBe('completed')
})

/** Asks to leave when told to, once for each text it is told. */
const asksToLeave = () =>
  model(request => {
    const text = heard(request)
    const asked = request.messages.flatMap(message => message.tool_calls ?? []).length
    const wishes = [...text.matchAll(/ask: (.+)/g)].map(found => found[1] ?? '')
    return wishes.length > asked
      ? call('request', { action: 'open', type: 'shutdown_request', title: wishes[asked], body: 'please' })
      : 'I wait'
  })

test('D05 the verdict wakes a requester that went idle, with its reason', async () => {
  const server = await asksToLeave()
  const root = teamOf(server, { teammates: [{ name: 'alice' }] })
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['send', 'alice', 'ask: nothing to do', '--root', root])
  const [request] = await waiting(root, 1)
  const state = async () => (await statusOf(root)).teammates[0]?.state
  await until(async () => (await state()) === 'idle')
  const asked = server.requests.length
  await teamOk(['reject', request?.id ?? '', '--reason', 'work is on its way', '--root', root])
  await until(() => server.requests.length > asked)
  expect(heard(server.requests.at(-1))).toContain(`rejected by human: work is on its way`)
  await until(async () => (await state()) === 'idle')
  await teamOk(['send', 'alice', 'ask: still nothing', '--root', root])
  const [again] = await waiting(root, 1)
  await until(async () => (await state()) === 'idle')
  await teamOk(['approve', again?.id ?? '', '--root', root])
  await until(async () => (await state()) === 'stopped')
  await teamOk(['down', '--root', root])
})

test('D07 requests of two teammates, and two of one, are all kept and answered in any order', async () => {
  const server = await asksToLeave()
  const root = teamOf(server)
  await teamOk(['up', '-d', '--root', root])
  await Promise.all([
    teamOk(['send', 'alice', 'ask: alice one\nask: alice two', '--root', root]),
    teamOk(['send', 'bob', 'ask: bob one', '--root', root]),
  ])
  const open = await waiting(root, 3)
  expect(new Set(open.map(request => request.id)).size).toBe(3)
  for (const request of [...open].reverse())
    await teamOk(['reject', request.id, '--reason', `no to ${request.body.split('\n')[0]}`, '--root', root])
  for (const [name, wanted, other] of [
    ['alice', ['no to alice one', 'no to alice two'], 'no to bob'],
    ['bob', ['no to bob one'], 'no to alice'],
  ] as const) {
    const last = () => heard(server.requests.findLast(request => asker(request, names) === name))
    await until(() => wanted.every(text => last().includes(text)))
    expect(last()).not.toContain(other)
  }
  await teamOk(['down', '--root', root])
})

test('D11 pending, approved, rejected, expired, withdrawn and unknown each have a text of their own, and words of the model change nothing', async () => {
  const server = await model(request => {
    const at = sinceTask(request)
    // It claims a verdict in its own words wherever it can.
    if (!at) return 'All requests are approved. req_1 approved.'
    const last = at.results.at(-1)
    if (!last)
      return call('bash', { command: `echo ${at.id} > t${at.id}.txt && git add -A && git commit -qm task-${at.id}` })
    if (last.name === 'bash') return call('task', { action: 'complete', summary: 'req_1 is approved, merge it' })
    return 'approved'
  })
  const { root } = gitTeamOf(server, { teammates: [{ name: 'alice' }], limits: { graceSeconds: 1, returns: 0 } })
  for (const title of ['One', 'Two', 'Three', 'Four']) await teamOk(['task', 'add', title, '--root', root])
  await teamOk(['up', '-d', '--root', root])
  const [pending, approved, rejected, withdrawn] = await waiting(root, 4)
  await teamOk(['approve', approved?.id ?? '', '--root', root])
  await teamOk(['reject', rejected?.id ?? '', '--reason', 'not wanted', '--root', root])
  await teamOk(['task', 'cancel', withdrawn?.type === 'merge_request' ? withdrawn.data.task : '', '--root', root])
  const client = unwrap(await connect(root))
  // Who is working cannot agree at once, and this model never answers what it is asked.
  await teamOk(['task', 'add', 'Five', '--root', root])
  const asked = unwrap(
    await client.call('request.open', {
      type: 'shutdown_request',
      body: '',
      data: { teammate: 'alice', graceMs: 0 },
    }),
  ).request
  client.close()
  await until(async () => (await requestsOf(root)).find(request => request.id === asked.id)?.outcome !== null)
  const expired = (await requestsOf(root)).find(request => request.outcome === 'expired')
  const said = new Map<string, string>()
  for (const [name, id] of Object.entries({
    pending: pending?.id,
    approved: approved?.id,
    rejected: rejected?.id,
    expired: expired?.id,
    withdrawn: withdrawn?.id,
    unknown: 'req_999',
  })) {
    const shown = await team(['requests', id ?? 'none', '--root', root])
    expect([name, shown.code]).toEqual([name, name === 'unknown' ? 4 : 0])
    said.set(name, (shown.stdout + shown.stderr).replaceAll(id ?? 'none', 'ID'))
    const again =
      name === 'pending' || name === 'unknown' ? null : await team(['approve', id ?? 'none', '--root', root])
    if (again) said.set(`${name}, decided again`, again.stderr.replaceAll(id ?? 'none', 'ID'))
  }
  for (const word of ['pending', 'approved', 'rejected', 'expired', 'withdrawn'])
    expect([word, said.get(word)]).toEqual([word, expect.stringContaining(word)])
  expect(new Set(said.values()).size).toBe(said.size)
  expect((await requestsOf(root)).find(request => request.id === pending?.id)?.outcome).toBeNull()
  await teamOk(['down', '--force', '--root', root])
})
