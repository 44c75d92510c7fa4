import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { teamOk, until } from '../support/cli.ts'
import {
  ask,
  gate,
  heard,
  journal,
  killed,
  lastSaid,
  type Script,
  scriptedTeam,
  status,
} from '../support/scripted-team.ts'

type Call = readonly [name: string, args: Readonly<Record<string, unknown>>]
const calls = (...each: readonly Call[]): Reply => ({ calls: each.map(([name, args]) => ({ name, args })) })
const question = (text: string): Call => ['ask_user', { question: text }]
const open = (type: string, more: Readonly<Record<string, unknown>>): Call => [
  'request',
  { action: 'open', type, ...more },
]
const done = (summary: string): Reply => calls(['task', { action: 'complete', summary }])

/** Resolves when alice waits for just these, in this order. */
const waitsFor = (root: string, ...ids: string[]) =>
  until(async () => {
    const { waiting } = (await status(root)).teammates.find(({ name }) => name === 'alice') ?? {}
    return waiting?.request && [waiting.request, ...(waiting.also ?? [])].join() === ids.join() && waiting
  }, 40_000)
const ended = (root: string, id = '1') =>
  until(async () => {
    const { task } = await ask(root, 'task.get', { id })
    return ['completed', 'failed', 'cancelled'].includes(task.status) && task
  }, 40_000)

test('of what it asked for in one reply it waits for the last, through kill -9 in each state; each answer enters its context once', async () => {
  const late = gate()
  const alice: Script = async (request, n) => {
    if (n === 0)
      return calls(question('Tabs?'), question('Semicolons?'), open('plan_request', { body: 'reformat all of it' }))
    if (lastSaid(request).includes('now!')) {
      if (n === 1) await late.opened
      return 'I wait on.'
    }
    return done('knows all')
  }
  const team = await scriptedTeam({ alice })
  await teamOk(['task', 'add', 'Format', '--root', team.root])
  const up = async () => team.up()
  let daemon = await up()
  expect(await waitsFor(team.root, 'req_1', 'req_2', 'req_3')).toMatchObject({ whom: 'human' })
  await killed(daemon)

  daemon = await up()
  await waitsFor(team.root, 'req_1', 'req_2', 'req_3')
  await teamOk(['answer', '2', 'none', '--root', team.root])
  await waitsFor(team.root, 'req_1', 'req_3')
  await killed(daemon)

  daemon = await up()
  await waitsFor(team.root, 'req_1', 'req_3')
  await teamOk(['approve', '3', '--root', team.root])
  await waitsFor(team.root, 'req_1')
  expect(team.requests('alice')).toHaveLength(1)
  // In the middle of the turn that something urgent got.
  await teamOk(['send', 'alice', 'now!', '--urgent', '--root', team.root])
  await until(() => team.requests('alice').length >= 2)
  await killed(daemon)
  late.open()

  daemon = await up()
  await waitsFor(team.root, 'req_1')
  // With the daemon down.
  await killed(daemon)
  await teamOk(['answer', '1', 'spaces', '--root', team.root])
  await up()
  expect(await ended(team.root)).toMatchObject({ status: 'completed', attempts: 1 })
  const last = heard(team.requests('alice').at(-1))
  for (const [id, how] of [
    [1, 'answered'],
    [2, 'answered'],
    [3, 'approved'],
  ])
    expect(last.match(new RegExp(`req_${id} \\([^)]*\\) was ${how} by human`, 'g')), `req_${id}`).toHaveLength(1)
  expect(last.match(/now!/g)).toHaveLength(1)
})

test('killed between two questions of one reply it waits for the one that was asked, and the other is asked after that, once', async () => {
  const alice: Script = (request, n) => {
    if (n === 0) return calls(question('Tabs?'), ['bash', { command: 'sleep 300' }], question('Semicolons?'))
    const text = heard(request)
    if (/req_2 .* was answered/.test(text)) return done('knows all')
    return /req_1 .* was answered/.test(text) ? calls(question('Semicolons?')) : 'Nothing new.'
  }
  const team = await scriptedTeam({ alice }, { permissions: { allow: ['sleep *'] } })
  await teamOk(['task', 'add', 'Format', '--root', team.root])
  const daemon = await team.up()
  await until(async () => (await journal(team.root)).some(({ event }) => event === 'command.started'))
  await killed(daemon)
  await team.up()
  await waitsFor(team.root, 'req_1')
  await teamOk(['answer', '1', 'spaces', '--root', team.root])
  await waitsFor(team.root, 'req_2')
  await teamOk(['answer', '2', 'none', '--root', team.root])
  expect(await ended(team.root)).toMatchObject({ status: 'completed' })
  expect((await ask(team.root, 'request.list', { all: true })).requests.map(({ id }) => id)).toEqual(['req_1', 'req_2'])
})

test('a lease and a question, and a permission and a plan: asked back about one it answers, and waits for all that is open', async () => {
  const free = gate()
  const lease = open('resource_request', { data: { kind: 'name', what: ['database'] } })
  const bob: Script = async (_request, n) => {
    if (n === 0) return calls(lease)
    if (n > 1) return 'Done.'
    await free.opened
    return calls(['request', { action: 'withdraw', id: 'req_1' }])
  }
  const alice: Script = (request, n) => {
    if (n === 0) return calls(lease, question('Drop it?'))
    if (n === 1) return calls(['bash', { command: 'mkdir one' }], open('plan_request', { body: 'drop it' }))
    return lastSaid(request).includes('asks about req_5')
      ? calls(['request', { action: 'answer', id: 'req_5', body: 'the old one' }])
      : done('over')
  }
  const team = await scriptedTeam({ bob, alice })
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'Hold', assignee: 'bob', paths: ['b'] }] })
  await until(() => team.requests('bob').length >= 2)
  await ask(team.root, 'task.add', { tasks: [{ title: 'Drop', assignee: 'alice', paths: ['a'] }] })
  const waiting = await waitsFor(team.root, 'req_2', 'req_3')
  expect(waiting).toMatchObject({ what: 'req_2 and 1 more: lease on name database', whom: 'bob, human' })
  await teamOk(['answer', '3', 'yes', '--root', team.root])
  await waitsFor(team.root, 'req_2')
  expect(team.requests('alice')).toHaveLength(1)
  free.open()
  await waitsFor(team.root, 'req_4', 'req_5')
  const told = heard(team.requests('alice')[1])
  expect(told).toMatch(/req_2 .* was approved by supervisor/)
  expect(told).toMatch(/req_3 .* was answered by human/)
  await teamOk(['ask', '5', '--reason', 'which?', '--root', team.root])
  await until(async () =>
    (await ask(team.root, 'request.get', { id: 'req_5' })).request.history.some(each => each.act === 'answer'),
  )
  await waitsFor(team.root, 'req_4', 'req_5')
  await teamOk(['reject', '4', '--reason', 'no', '--root', team.root])
  await waitsFor(team.root, 'req_5')
  expect(team.requests('alice')).toHaveLength(3)
  await teamOk(['approve', '5', '--root', team.root])
  await ended(team.root, '2')
  const last = heard(team.requests('alice')[3])
  expect(last).toMatch(/req_4 .* was rejected by human: no/)
  expect(last).toMatch(/req_5 .* was approved by human/)
})

test('a model that asks without end is refused past the bound, parks on what it asked for, and status stays quick', async () => {
  const text = 'x'.repeat(250_000)
  const alice: Script = (_request, n) =>
    n === 0
      ? calls(...Array.from({ length: 30 }, (_, i) => question(`${i} ${text}`)))
      : n === 1
        ? calls(...Array.from({ length: 100 }, (_, i) => question(`short ${i}`)))
        : done('over')
  // So large that none of this is put together meanwhile.
  const teammates = [{ name: 'alice', model: { contextWindow: 10_000_000 } }]
  const team = await scriptedTeam({ alice }, { teammates })
  await teamOk(['task', 'add', 'Ask', '--root', team.root])
  const daemon = await team.up()
  await waitsFor(team.root, 'req_1', 'req_2')
  const tools = () =>
    team
      .requests('alice')
      .at(-1)
      ?.messages.filter(({ role }) => role === 'tool') ?? []
  for (const id of ['1', '2']) await teamOk(['answer', id, 'no', '--root', team.root])
  const ids = Array.from({ length: 32 }, (_, i) => `req_${i + 3}`)
  await waitsFor(team.root, ...ids)
  expect(
    tools().filter(({ content }) => /^error: your open requests would hold \d+ bytes/.test(content ?? '')),
  ).toHaveLength(28)
  await killed(daemon)
  await team.up()
  await waitsFor(team.root, ...ids)
  for (const id of ids) await ask(team.root, 'request.answer', { id, text: 'no' })
  await ended(team.root)
  const refused = tools().filter(({ content }) =>
    /^error: 32 requests of yours are open, and no more may be.*withdraw/s.test(content ?? ''),
  )
  expect(refused).toHaveLength(68)
})
