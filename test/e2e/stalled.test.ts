import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { teamOk, until } from '../support/cli.ts'
import {
  ask,
  gate,
  heard,
  inboxOf,
  journal,
  killed,
  quiet,
  type Script,
  scriptedTeam,
} from '../support/scripted-team.ts'

const call = (name: string, args: Readonly<Record<string, unknown>>): Reply => ({ calls: [{ name, args }] })

test('a teammate that makes the same call over and over is noted, shown and told to the lead, once; it goes on, and it is seen when it gets on', async () => {
  const late = gate()
  const more = gate()
  const alice: Script = async (_request, n) => {
    if (n < 20) return call('read_file', { path: 'NOTES.md' })
    if (n === 20) await late.opened
    if (n === 21) await more.opened
    return n === 20
      ? call('write_file', { path: 'out/a.txt', content: 'at last' })
      : call('task', { action: 'complete', summary: 'written' })
  }
  const boss: Script = () => 'Read.'
  const team = await scriptedTeam(
    { boss, alice },
    { lead: 'boss', teammates: [{ name: 'boss', autoClaim: false }, { name: 'alice' }] },
  )
  const stall = async () =>
    (await ask(team.root, 'status', {})).teammates.find(({ name }) => name === 'alice')?.stall ?? null
  await teamOk(['task', 'add', 'Look', '--root', team.root])
  const daemon = await team.up()
  await until(() => team.requests('alice').length >= 21)
  expect(await stall()).toBe('the same call of read_file, with the same result, 8 times in a row')
  expect(await teamOk(['status', '--root', team.root])).toMatch(/alice .*looping for [^:]*: the same call of read_file/)
  const told = (await inboxOf(team.root, 'boss')).items.filter(({ stored }) =>
    stored.message.id.startsWith('msg_stalled'),
  )
  expect(told.map(({ stored }) => stored.message.content)).toEqual([
    expect.stringMatching(
      /^alice works on task 1 "Look" and gets nowhere: the same call .* It was told so, and goes on; at three times as much the task fails\./,
    ),
  ])
  // So was its model, once, right after the eighth.
  const said = team.requests('alice').map(request => heard(request).split('You get nowhere: the same call').length - 1)
  expect(said).toEqual(Array.from({ length: 21 }, (_, n) => (n < 8 ? 0 : 1)))
  const held = (await ask(team.root, 'status', {})).teammates.find(({ name }) => name === 'alice')?.heldUp
  expect(held).toMatchObject({ how: 'looping', whom: 'alice', remedy: expect.stringContaining('team task cancel 1') })
  late.open()
  await until(() => team.requests('alice').length >= 22)
  expect(await stall()).toBeNull()
  const noted = (await journal(team.root)).filter(({ event }) => event === 'teammate.stalled')
  expect(noted.map(({ info }) => info?.text)).toEqual([expect.stringMatching(/8 times/), null])
  more.open()
  await until(async () => (await ask(team.root, 'task.get', { id: '1' })).task.status === 'completed')
  await killed(daemon)
})

test('a teammate that asks another one question after the other, each answered, and does nothing with it is told to the lead, once', async () => {
  const alice: Script = (_request, n) =>
    n < 40
      ? call('ask_user', { question: `And what of ${n}?` })
      : n === 40
        ? call('task', { action: 'complete', summary: 'asked enough' })
        : 'Done.'
  const bob: Script = request => {
    const last = request.messages.at(-1)
    const id = last?.role === 'user' ? /(req_\d+)/.exec(last.content ?? '')?.[1] : undefined
    return id ? call('request', { action: 'decide', id, decision: 'approve', reason: 'As before.' }) : 'Read.'
  }
  const team = await scriptedTeam(
    { boss: () => 'Read.', alice, bob },
    {
      lead: 'boss',
      approvals: { question: 'bob' },
      teammates: [{ name: 'boss', autoClaim: false }, { name: 'alice' }, { name: 'bob', autoClaim: false }],
    },
  )
  await teamOk(['task', 'add', 'Look', '--root', team.root])
  const daemon = await team.up()
  await until(async () => (await ask(team.root, 'task.get', { id: '1' })).task.status === 'completed', 60_000)
  const told = (await inboxOf(team.root, 'boss')).items.filter(({ stored }) =>
    stored.message.id.startsWith('msg_stalled'),
  )
  expect(told.map(({ stored }) => stored.message.content)).toEqual([
    expect.stringMatching(/^alice works on task 1 "Look" and gets nowhere: 32 requests opened since/),
  ])
  await killed(daemon)
})

test('who goes on with the same call after it was told loses its task, with that reason, and gets on with the next; who claims again and again what it has claimed ends kindly', async () => {
  const alice: Script = request => {
    const text = heard(request)
    return text.includes('Task: claim me')
      ? call('task', { action: 'complete', summary: `done ${request.messages.length}` })
      : call('ls', { path: '.' })
  }
  const team = await scriptedTeam({ alice }, { limits: { sameCalls: 3 } })
  await teamOk(['task', 'add', 'Look', '--root', team.root])
  const daemon = await team.up()
  const taskOf = async (id: string) => (await ask(team.root, 'task.get', { id })).task
  await until(async () => (await taskOf('1')).status === 'failed')
  expect((await taskOf('1')).error).toBe(
    'it got nowhere and went on: the same call of ls, with the same result, 9 times in a row',
  )
  const calls = team.requests('alice').length
  expect(calls).toBe(9)
  await teamOk(['task', 'add', 'Task: claim me', '--root', team.root])
  await until(async () => (await taskOf('2')).status === 'completed')
  await quiet(team.root, 'alice')
  // The claim, one that is told so, and one at which the turn ends.
  expect(team.requests('alice').length - calls).toBe(3)
  expect(heard(team.requests('alice').at(-1))).toMatch(/you have no task in hand: .*End your turn with a sentence/)
  await killed(daemon)
})

test('mail that somebody goes round in circles over is told of as not answered, and the next is answered', async () => {
  const alice: Script = request =>
    heard(request).includes('And now?') ? 'Here.' : { calls: [{ name: 'no_such_tool', args: {} }] }
  const team = await scriptedTeam({ alice }, { limits: { sameCalls: 2 } })
  const daemon = await team.up()
  await teamOk(['send', 'alice', 'Are you there?', '--root', team.root])
  await until(async () => (await teamOk(['logs', '--root', team.root])).includes('mail could not be answered'), 45_000)
  expect(await teamOk(['logs', '--root', team.root])).toContain(
    'mail could not be answered: it got nowhere and went on: the same call of no_such_tool',
  )
  expect(await teamOk(['chat', 'alice', '--root', team.root], { input: 'And now?' })).toBe('Here.\n')
  await killed(daemon)
})
