import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { teamOk, until } from '../support/cli.ts'
import { ask, gate, heard, inboxOf, lastSaid, scriptedTeam, status } from '../support/scripted-team.ts'

const call = (name: string, args: Readonly<Record<string, unknown>>): Reply => ({ calls: [{ name, args }] })
const open = (type: string, more: Readonly<Record<string, unknown>>): Reply =>
  call('request', { action: 'open', type, ...more })
const complete = call('task', { action: 'complete', summary: 'done' })
const wrong = async (root: string) => (await status(root)).problems.join('\n')

test('a lead that ends its turns without deciding is asked once more, then the human is told and decides', async () => {
  const team = await scriptedTeam(
    {
      alice: (_request, n) =>
        n === 0 ? open('plan_request', { body: 'I will write a.txt' }) : n === 1 ? complete : 'Done.',
      lead: () => 'Interesting.',
    },
    { mode: 'dir', lead: 'lead' },
  )
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'one', assignee: 'alice', needs: [] }] })
  await until(
    async () => (await wrong(team.root)).includes('waits for lead, who was asked twice and has not decided'),
    60_000,
  )
  expect(team.requests('lead')).toHaveLength(2)
  expect(heard(team.requests('lead')[1])).toContain('still waits for your decision')
  expect(await teamOk(['status', '--root', team.root])).toMatch(
    /req_1 \(I will write a\.txt\) waits for lead, who was asked twice/,
  )
  const told = (await inboxOf(team.root, 'user')).items.filter(({ stored }) =>
    stored.message.content.includes('was asked twice'),
  )
  expect(told).toHaveLength(1)
  await teamOk(['approve', '1', '--root', team.root])
  await until(async () => (await ask(team.root, 'task.get', { id: '1' })).task.status === 'completed', 60_000)
  expect(await wrong(team.root)).not.toContain('asked twice')
})

test('two that wait for each other, one for an answer and one for a lease, are freed once the asked one passed its turn', async () => {
  const team = await scriptedTeam(
    {
      alice: async (request, n) => {
        if (n === 0) return open('resource_request', { data: { kind: 'name', what: ['db'], seconds: 600 } })
        if (n === 1) {
          await until(async () => (await status(team.root)).leases.queued.length === 1, 60_000)
          return open('question', { body: 'Which schema?' })
        }
        return /closes a circle/.test(heard(request)) ? complete : 'Hm.'
      },
      // Woken for the question while it waits for its lease, it thinks of nothing.
      bob: (request, n) => {
        if (n === 0) return open('resource_request', { data: { kind: 'name', what: ['db'], seconds: 600 } })
        return /db is yours until/.test(heard(request)) ? complete : 'Hm.'
      },
    },
    { mode: 'dir', approvals: { question: 'bob' } },
  )
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'one', assignee: 'alice', needs: [] }] })
  await until(async () => (await status(team.root)).leases.held.length === 1, 60_000)
  await ask(team.root, 'task.add', { tasks: [{ title: 'two', assignee: 'bob', needs: [] }] })
  const { tasks } = await until(async () => {
    const now = await status(team.root)
    return now.tasks.every(({ status }) => status === 'completed') && now
  }, 60_000)
  expect(tasks).toHaveLength(2)
  const { request } = await ask(team.root, 'request.get', { id: 'req_3' })
  expect(request).toMatchObject({ type: 'question', outcome: 'withdrawn', decidedBy: null })
  expect(request.reason).toContain('bob waits for alice (req_2), alice waits for bob (req_3)')
  expect(heard(team.requests('alice')[2])).toMatch(/req_3 \(Which schema\?\) was withdrawn.*: it closes a circle/)
})

test('a lead that asks back for ever is stopped: so many rounds, then the human is told and decides', async () => {
  const team = await scriptedTeam(
    {
      alice: (request, n) => {
        if (n === 0) return open('plan_request', { body: 'I will write a.txt' })
        if (request.messages.at(-1)?.role === 'tool') return 'Waiting.'
        if (heard(request).includes('approved')) return complete
        return call('request', { action: 'answer', id: 'req_1', body: `because ${n}` })
      },
      lead: (request, n) =>
        request.messages.at(-1)?.role === 'tool'
          ? 'Asked.'
          : call('request', { action: 'decide', id: 'req_1', decision: 'ask', reason: `why ${n}` }),
    },
    { mode: 'dir', lead: 'lead' },
  )
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'one', assignee: 'alice', needs: [] }] })
  await until(async () => (await wrong(team.root)).includes('who was asked twice and has not decided'), 60_000)
  expect(heard(team.requests('lead').at(-1))).toContain('lead asked about req_1 8 times')
  const told = (await inboxOf(team.root, 'user')).items.filter(({ stored }) =>
    stored.message.content.includes('was asked twice'),
  )
  expect(told).toHaveLength(1)
  // Two calls a round, the refused round, and the one more that it is asked for.
  expect(team.requests('lead').length).toBeLessThanOrEqual(2 * 10)
  await teamOk(['approve', '1', '--root', team.root])
  await until(async () => (await ask(team.root, 'task.get', { id: '1' })).task.status === 'completed', 60_000)
})

test('a circle of three over a lease, a plan and two questions is named while one of them may still end it, and broken after that', async () => {
  const late = gate()
  const lease = open('resource_request', { data: { kind: 'name', what: ['db'], seconds: 600 } })
  const queued = (n: number) => until(async () => (await status(team.root)).leases.queued.length === n, 60_000)
  const team = await scriptedTeam(
    {
      carol: async (request, n) => {
        if (n === 0) return lease
        if (n === 1) await queued(1)
        if (n === 1) return open('plan_request', { body: 'I will drop a table' })
        return /approved/.test(lastSaid(request)) ? complete : 'Hm.'
      },
      bob: (request, n) => (n === 0 ? lease : /db is yours until/.test(heard(request)) ? complete : 'Hm.'),
      alice: async request => {
        // The plan may reach it before its task does.
        if (!heard(request).includes('<task')) return 'Hm.'
        if (!JSON.stringify(request.messages).includes('ask_user'))
          return {
            calls: ['Which schema?', 'Which user?'].map(question => ({ name: 'ask_user', args: { question } })),
          }
        // Asked about the plan while it waits for two answers itself, it thinks of nothing, but not at once.
        await late.opened
        return /closes a circle/.test(heard(request)) ? complete : 'Hm.'
      },
    },
    { mode: 'dir', approvals: { question: 'bob', plan_request: 'alice' } },
  )
  const give = (assignee: string) => ask(team.root, 'task.add', { tasks: [{ title: assignee, assignee, needs: [] }] })
  await team.up()
  await give('carol')
  await until(async () => (await status(team.root)).leases.held.length === 1, 60_000)
  await give('bob')
  await until(async () => (await status(team.root)).requests.some(({ type }) => type === 'plan_request'), 60_000)
  await give('alice')
  const named = /a circle: .*bob waits for carol \(req_2\).*any decision in it ends it \(team reject req_\d\)/
  await until(async () => named.test(await wrong(team.root)), 60_000)
  expect(await wrong(team.root)).toMatch(
    /carol waits for alice \(req_3\).*alice waits for bob|alice waits for bob.*carol waits for alice/,
  )
  late.open()
  await until(async () => (await ask(team.root, 'task.get', { id: '3' })).task.status === 'completed', 60_000)
  for (const id of ['req_4', 'req_5'])
    expect((await ask(team.root, 'request.get', { id })).request).toMatchObject({
      type: 'question',
      outcome: 'withdrawn',
      reason: expect.stringContaining('it closes a circle'),
    })
  await teamOk(['approve', '3', '--root', team.root])
  await until(async () => (await status(team.root)).tasks.every(({ status }) => status === 'completed'), 60_000)
  expect(await wrong(team.root)).not.toContain('a circle')
})
