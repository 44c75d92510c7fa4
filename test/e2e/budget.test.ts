import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'
import type { BudgetRequest } from '../../src/protocol/request.ts'
import { team, teamOk, teamRoot, until } from '../support/cli.ts'
import {
  ask,
  gate,
  heard,
  inboxOf,
  journal,
  killed,
  lastSaid,
  type Script,
  scriptedTeam,
  status,
} from '../support/scripted-team.ts'

const uses = (prompt: number, completion: number) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
})
/** Nothing that can be believed: so what is sent and said is counted by its size. */
const untold = {}
const works = (usage: object = uses(30_000, 1000)): Reply => ({ calls: [{ name: 'ls', args: {} }], usage })
/** Ends its task, and after that its turn. */
const done = ({ messages }: ScriptedRequest): Reply =>
  messages.at(-1)?.content?.includes('is claimed done')
    ? 'Done.'
    : { calls: [{ name: 'task', args: { action: 'complete', summary: 'done' } }], usage: uses(100, 10) }
/** So many calls, then it is done. */
const busy =
  (most: number, usage?: object): Script =>
  (request, n) =>
    n < most ? works(usage) : done(request)

const waits = (root: string, name = 'alice') =>
  until(async () => {
    const mate = (await status(root)).teammates.find(each => each.name === name)
    return mate?.state === 'waiting' && mate.waiting?.request !== undefined && mate.waiting
  }, 40_000)
const rests = (root: string, name: string) =>
  until(async () => {
    const mate = (await status(root)).teammates.find(each => each.name === name)
    return mate?.state === 'waiting' && mate.waiting?.request === undefined && mate.waiting
  }, 40_000)
const ended = (root: string, id = '1') =>
  until(async () => {
    const { task } = await ask(root, 'task.get', { id })
    return ['completed', 'failed', 'cancelled'].includes(task.status) && task
  }, 40_000)
const asked = async (root: string): Promise<BudgetRequest[]> =>
  (await ask(root, 'request.list', { all: true })).requests.filter(
    (request): request is BudgetRequest => request.type === 'resource_request' && request.data.kind === 'budget',
  )
const edit = (root: string, change: (config: Record<string, unknown>) => void): void => {
  const file = join(root, 'config.json')
  const config = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
  change(config)
  writeFileSync(file, JSON.stringify(config))
}

test('at the cap it parks before the call, over kill -9; the approval raises the cap and the same context goes on', async () => {
  const alice = busy(16, untold)
  const { root, up, requests } = await scriptedTeam({ alice }, { budget: { team: { tokens: 12_000 } } })
  await teamOk(['task', 'add', 'Big', '--root', root])
  const daemon = await up()
  expect(await waits(root)).toMatchObject({ whom: 'human', request: 'req_1' })
  const before = requests('alice').length
  const [request] = await asked(root)
  expect(request?.data).toMatchObject({ scope: 'team', of: 'team', unit: 'tokens', cap: 12_000, raise: 12_000 })
  // Not one call went past the cap, and there is no room left for one more.
  const spent = request?.data.spent ?? 0
  expect(spent).toBeGreaterThan(8_000)
  expect(spent).toBeLessThanOrEqual(12_000)
  const used = `${spent.toLocaleString('en-US')} of 12,000 tokens`
  const shown = await teamOk(['requests', 'req_1', '--root', root])
  expect(shown).toContain(`${used} of the budget of the team are used`)
  expect(shown).toMatch(/if approved +the team may use 12,000 tokens more, 24,000 tokens in all/)
  expect(await teamOk(['status', '--root', root])).toContain(`BUDGET\n  the team  ${used}`)
  expect(await teamOk(['inbox', 'user', '--root', root])).toContain(
    'If approved: the team may use 12,000 tokens more, 24,000 tokens in all.',
  )

  await killed(daemon)
  const second = await up()
  await waits(root)
  expect(requests('alice')).toHaveLength(before)
  // The same question is not asked twice, and there is no way to ask it back.
  const back = await team(['ask', 'req_1', '--reason', 'why so much?', '--root', root])
  expect([back.code, back.stderr]).toEqual([5, expect.stringContaining('approve or reject it')])
  await killed(second)
  // With no daemon at all.
  await teamOk(['approve', 'req_1', '--root', root])
  await up()
  // And once more, while it runs.
  await until(async () => (await asked(root)).length === 2, 40_000)
  expect((await asked(root))[0]?.effect).toMatchObject({ step: 'done', outcome: 'ok' })
  await teamOk(['approve', 'req_2', '--root', root])
  expect(await ended(root)).toMatchObject({ status: 'completed', attempts: 1 })
  // One conversation: the last request before the claim holds every call, wherever the caps fell.
  const last = requests('alice').findLast(request => !heard(request).includes('is claimed done'))
  expect(last?.messages.filter(message => message.role === 'tool')).toHaveLength(16)
  for (const id of ['req_1', 'req_2'])
    expect(heard(last).match(new RegExp(`${id} [^\\n]* was approved`, 'g'))).toHaveLength(1)
  const { budget } = await status(root)
  expect(budget).toMatchObject([{ scope: 'team', of: 'team', unit: 'tokens', cap: 36_000 }])
})

test('rejected, the task goes back and nobody calls a model past the cap; an edit of config.json wakes them', async () => {
  const script = busy(9)
  const { root, up, requests } = await scriptedTeam(
    { alice: script, bob: script },
    { budget: { team: { tokens: 70_000 } } },
  )
  await up()
  await teamOk(['task', 'add', 'One', '--root', root])
  await until(async () => (await asked(root)).length === 1, 40_000)
  await teamOk(['reject', 'req_1', '--reason', 'enough for today', '--root', root])
  const alice = await rests(root, 'alice')
  const bob = await rests(root, 'bob')
  for (const each of [alice, bob]) {
    expect(each?.whom).toBe('human')
    expect(each?.what).toContain(
      'human rejected req_1 (enough for today): budget.team.tokens in config.json gives more',
    )
  }
  const calls = requests('alice').length + requests('bob').length
  expect((await ask(root, 'task.get', { id: '1' })).task).toMatchObject({ status: 'pending', owner: null })
  const problems = (await status(root)).problems.filter(text => text.includes('calls no model: human rejected req_1'))
  expect(problems).toHaveLength(2)
  // Mail waits unread, and costs nothing.
  await teamOk(['send', 'alice', 'still there?', '--urgent', '--root', root])
  await until(async () => ((await status(root)).teammates[0]?.unread ?? 0) > 0)
  await rests(root, 'alice')
  expect(requests('alice').length + requests('bob').length).toBe(calls)
  expect(await asked(root)).toHaveLength(1)

  edit(root, config => {
    config.budget = { team: { tokens: 5_000_000 } }
  })
  expect(await ended(root)).toMatchObject({ status: 'completed' })
  await until(() => requests('alice').some(request => lastSaid(request).includes('still there?')))
})

test('a task that is too dear fails when more is refused, and its teammate goes on with the next', async () => {
  const alice: Script = request => (heard(request).includes('Cheap') ? done(request) : works())
  const { root, up } = await scriptedTeam({ alice }, { budget: { task: { tokens: 70_000 } } })
  await up()
  await teamOk(['task', 'add', 'Dear', '--root', root])
  await waits(root)
  await teamOk(['task', 'add', 'Cheap', '--root', root])
  await teamOk(['reject', 'req_1', '--root', root])
  const first = await ended(root)
  expect(first).toMatchObject({ status: 'failed' })
  expect(first.error).toContain('of the budget of task 1 are used')
  expect(await ended(root, '2')).toMatchObject({ status: 'completed' })
})

test('one approval lets all go on who wait for the same cap, and ends what the others asked', async () => {
  const both = gate()
  const begun = new Set<string>()
  const script: Script = async (request, n) => {
    if (begun.add(request.model).size === 2) both.open()
    await both.opened
    return n < 9 ? works() : done(request)
  }
  const { root, up } = await scriptedTeam({ alice: script, bob: script }, { budget: { team: { tokens: 300_000 } } })
  await up()
  await ask(root, 'task.add', { tasks: ['one', 'two'].map(title => ({ title, paths: [title] })) })
  await waits(root, 'alice')
  await waits(root, 'bob')
  expect(await asked(root)).toHaveLength(2)
  await teamOk(['approve', 'req_2', '--root', root])
  for (const id of ['1', '2']) expect(await ended(root, id)).toMatchObject({ status: 'completed' })
  expect((await asked(root)).map(({ status, outcome }) => [status, outcome])).toEqual([
    ['pending', 'withdrawn'],
    ['approved', 'decided'],
  ])
})

test('a cap on cost counts by the price, on a teammate by its own; the teammate agrees to shut down without a call', async () => {
  const script = busy(9, uses(200_000, 10_000))
  const { root, up, requests } = await scriptedTeam(
    { alice: script, bob: script },
    {
      teammates: [{ name: 'alice', budget: { cost: 1.5 } }, { name: 'bob' }],
      budget: { teammate: { cost: 100 } },
    },
  )
  edit(root, config => {
    config.model = { ...(config.model as object), price: { in: 2, out: 10 } }
  })
  await teamOk(['task', 'add', 'One', '--assignee', 'alice', '--root', root])
  await up()
  await waits(root)
  // 0.4 for what is read and 0.1 for what is said, each time.
  const [request] = await asked(root)
  expect(request?.data).toMatchObject({ scope: 'teammate', of: 'alice', unit: 'cost', cap: 1.5 })
  expect(request?.data.spent).toBeCloseTo(1.5)
  const calls = requests('alice').length
  await teamOk(['down', 'alice', '--root', root])
  expect(requests('alice')).toHaveLength(calls)
  expect((await ask(root, 'task.get', { id: '1' })).task).toMatchObject({ status: 'pending' })
})

test('an endpoint that tells nothing of what was used is counted by our own estimate', async () => {
  const alice: Script = () => ({ calls: [{ name: 'ls', args: {} }], text: 'word '.repeat(2000), usage: untold })
  const { root, up } = await scriptedTeam({ alice }, { budget: { team: { tokens: 60_000 } } })
  await teamOk(['task', 'add', 'Big', '--root', root])
  await up()
  await waits(root)
  const [request] = await asked(root)
  expect(request?.data.spent).toBeGreaterThan(40_000)
  expect(request?.data.spent).toBeLessThanOrEqual(60_000 + 2_500 - 1_024)
})

test('a cap that was raised while no daemon ran lets it go on at the next start', async () => {
  const { root, up } = await scriptedTeam({ alice: busy(4) }, { budget: { team: { tokens: 70_000 } } })
  await teamOk(['task', 'add', 'One', '--root', root])
  const daemon = await up()
  await waits(root)
  await killed(daemon)
  edit(root, config => {
    config.budget = { team: { tokens: 5_000_000 } }
  })
  await up()
  expect(await ended(root)).toMatchObject({ status: 'completed', attempts: 1 })
  expect((await asked(root)).map(({ outcome }) => outcome)).toEqual(['withdrawn'])
})

test('what a person asked is answered after all, approved or raised after a rejection, over a restart of the thread', async () => {
  const script: Script = (_request, n) => (n === 0 ? works(uses(9000, 10)) : 'It is 42.')
  const { root, up, requests } = await scriptedTeam(
    { alice: script, bob: script },
    { budget: { teammate: { tokens: 10_000 } } },
  )
  const answered = (name: string) =>
    until(async () => (await inboxOf(root, 'user')).items.some(({ stored: { message } }) => message.from === name))
  await up()
  for (const name of ['alice', 'bob']) {
    await teamOk(['send', name, 'What is it?', '--root', root])
    await waits(root, name)
  }
  await teamOk(['approve', 'req_1', '--root', root])
  await answered('alice')
  await teamOk(['reject', 'req_2', '--root', root])
  await rests(root, 'bob')
  edit(root, config => {
    config.limits = { messageBatch: 7 }
  })
  await until(
    async () => (await journal(root)).filter(({ event, by }) => event === 'teammate.ready' && by === 'bob')[1],
  )
  await rests(root, 'bob')
  expect(requests('bob')).toHaveLength(1)
  edit(root, config => {
    config.budget = { teammate: { tokens: 90_000 } }
  })
  await answered('bob')
})

test('who rests since more was refused is given no task by any edit of config.json, nor by a restart of its thread', async () => {
  const script = busy(9)
  const { root, up } = await scriptedTeam({ alice: script, bob: script }, { budget: { team: { tokens: 70_000 } } })
  await up()
  await teamOk(['task', 'add', 'One', '--root', root])
  await until(async () => (await asked(root)).length === 1, 40_000)
  await teamOk(['reject', 'req_1', '--root', root])
  for (const name of ['alice', 'bob']) await rests(root, name)
  const { attempts } = (await ask(root, 'task.get', { id: '1' })).task
  const ready = async () => (await journal(root)).filter(({ event }) => event === 'teammate.ready').length
  for (const [limits, starts] of [
    [{ returns: 7 }, 2],
    [{ returns: 7, messageBatch: 7 }, 4],
  ] as const) {
    edit(root, config => {
      config.limits = limits
    })
    await until(async () =>
      (await journal(root)).some(({ info }) => JSON.stringify(info)?.includes(Object.keys(limits).at(-1) ?? '')),
    )
    await until(async () => (await ready()) === starts)
    for (const name of ['alice', 'bob']) await rests(root, name)
    expect((await ask(root, 'task.get', { id: '1' })).task).toMatchObject({ status: 'pending', attempts })
  }
})

test('refused while it waits for an answer too: what is urgent does not call it again and again, its task goes back', async () => {
  const alice: Script = (request, n) =>
    n < 2
      ? works()
      : n === 2
        ? { calls: [{ name: 'ask_user', args: { question: 'Tabs?' } }], usage: uses(30_000, 10) }
        : done(request)
  const { root, up } = await scriptedTeam({ alice }, { budget: { team: { tokens: 93_500 } } })
  await up()
  await teamOk(['task', 'add', 'One', '--root', root])
  await waits(root)
  await teamOk(['send', 'alice', 'Hurry!', '--urgent', '--root', root])
  await until(async () => (await asked(root)).length === 1, 40_000)
  await teamOk(['reject', 'req_2', '--root', root])
  await rests(root, 'alice')
  expect((await ask(root, 'task.get', { id: '1' })).task).toMatchObject({ status: 'pending', owner: null })
  expect((await ask(root, 'request.get', { id: 'req_1' })).request).toMatchObject({ outcome: 'withdrawn' })
})

test('the first call counts with the task and the mail that it brings', async () => {
  const done = () => 'Read.'
  const { root, up, requests } = await scriptedTeam(
    { alice: done, bob: done },
    { budget: { teammate: { tokens: 8000 } } },
  )
  await teamOk(['task', 'add', 'Long', '--description', 'word '.repeat(8000), '--assignee', 'alice', '--root', root])
  await teamOk(['send', 'bob', 'word '.repeat(8000), '--root', root])
  await up()
  for (const name of ['alice', 'bob']) {
    await waits(root, name)
    expect(requests(name)).toHaveLength(0)
  }
})

test('who waits for the endpoint in the middle of a call keeps what that call was promised', async () => {
  const alice: Script = (_request, n) => (n === 0 ? { status: 429, headers: { 'retry-after': '15' } } : 'Read.')
  const { root, up, requests } = await scriptedTeam(
    { alice, bob: () => 'Read.' },
    { budget: { team: { tokens: 4000 } } },
  )
  await up()
  await teamOk(['send', 'alice', 'Hello?', '--root', root])
  await until(async () => {
    const mate = (await status(root)).teammates.find(({ name }) => name === 'alice')
    return mate?.state === 'waiting' && mate.waiting?.what.includes('rate_limit')
  })
  await ask(root, 'message.send', { to: 'bob', content: 'Hello?' })
  await waits(root, 'bob')
  expect([requests('alice').length, requests('bob').length]).toEqual([1, 0])
  await until(() => requests('alice').length >= 2)
})

test('a cap on cost holds for the runbook executor that auto comes to, and is refused at the start for an endpoint without a price', async () => {
  const root = teamRoot({ teammates: [{ name: 'alice' }], sandbox: 'off', budget: { team: { cost: 5 } } })
  const env = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', OPENAI_MODEL: 'm' }
  const refused = await team(['up', '-d', '--root', root], { env })
  expect([refused.code, refused.stderr]).toEqual([
    3,
    expect.stringContaining('alice: a budget caps its cost, so its model needs a price'),
  ])
  await teamOk(['up', '-d', '--root', root])
  expect((await status(root)).budget).toEqual([{ scope: 'team', of: 'team', unit: 'cost', spent: 0, cap: 5 }])
})

test('up --once that ends with mail waiting for a budget says so, with 1', async () => {
  const { root } = await scriptedTeam({ alice: busy(9) }, { budget: { team: { tokens: 1 } } })
  await teamOk(['send', 'alice', 'well?', '--root', root])
  const ran = await team(['up', '--once', '--root', root])
  expect([ran.code, ran.stdout]).toEqual([1, expect.stringContaining('1 request waits for a person')])
})
