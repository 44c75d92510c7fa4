import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { ended as endOf, team as run, start, teamOk, until } from '../support/cli.ts'
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

const call = (name: string, args: Readonly<Record<string, unknown>>): Reply => ({ calls: [{ name, args }] })
const waitingOf = async (root: string, name: string) =>
  until(async () => {
    const mate = (await status(root)).teammates.find(each => each.name === name)
    return mate?.state === 'waiting' && mate.waiting
  }, 40_000)
const upAgain = async (team: { root: string; up(): Promise<unknown> }) => {
  await team.up()
  return team.root
}
const ended = (root: string, id = '1') =>
  until(async () => {
    const { task } = await ask(root, 'task.get', { id })
    return ['completed', 'failed', 'cancelled'].includes(task.status) && task
  }, 40_000)

/** Asks once, then ends the task with what it was answered. */
const asking: Script = (request, n) => {
  if (n === 0) return call('ask_user', { question: 'Tabs or spaces?' })
  const answer = /was answered by human: (\w+)/.exec(heard(request))?.[1]
  return answer ? call('task', { action: 'complete', summary: answer }) : 'Nothing new.'
}

test('D03 a question parks its asker across kill -9: no model call meanwhile, the same id is answered, the same context goes on', async () => {
  const team = await scriptedTeam({ alice: asking })
  await teamOk(['task', 'add', 'Indent', '--root', team.root])
  const first = await team.up()
  expect(await waitingOf(team.root, 'alice')).toMatchObject({ whom: 'human', request: 'req_1' })
  expect(team.requests('alice')).toHaveLength(1)
  await killed(first)

  await team.up()
  expect(await waitingOf(team.root, 'alice')).toMatchObject({ whom: 'human', request: 'req_1' })
  expect(team.requests('alice')).toHaveLength(1)
  await teamOk(['answer', '1', 'spaces', '--root', team.root])
  expect(await ended(team.root)).toMatchObject({ status: 'completed', result: { summary: 'spaces' }, attempts: 1 })
  // The first call and its result stand before the answer: the context is the one that asked.
  const resumed = team.requests('alice')[1]
  expect(heard(resumed)).toContain('opened req_1, human decides')
  expect(heard(resumed).match(/Tabs or spaces|was answered by human/g)).toEqual([
    'Tabs or spaces',
    'was answered by human',
  ])
})

test('mail to a parked teammate waits, urgent mail gets a turn, and after it the wait goes on', async () => {
  const team = await scriptedTeam({ alice: asking })
  await teamOk(['task', 'add', 'Indent', '--root', team.root])
  await team.up()
  await waitingOf(team.root, 'alice')
  await teamOk(['send', 'alice', 'no hurry', '--root', team.root])
  await teamOk(['send', 'alice', 'now!', '--urgent', '--root', team.root])
  await until(() => team.requests('alice').length >= 2)
  expect(lastSaid(team.requests('alice')[1] as never)).toContain('now!')
  await waitingOf(team.root, 'alice')
  expect(team.requests('alice')).toHaveLength(2)
  await teamOk(['answer', 'req_1', 'tabs', '--root', team.root])
  expect(await ended(team.root)).toMatchObject({ status: 'completed', result: { summary: 'tabs' } })
  expect(heard(team.requests('alice').at(-1)).match(/no hurry/g)).toHaveLength(1)
})

test('a plan gate refuses write tools until the plan is approved, and again when the plan changes', async () => {
  const results: string[] = []
  const steps: Reply[] = [
    call('write_file', { path: 'repo/a.txt', content: 'early\n' }),
    call('request', { action: 'open', type: 'plan_request', title: 'first', body: 'write a.txt' }),
    call('write_file', { path: 'repo/a.txt', content: 'approved\n' }),
    call('request', { action: 'open', type: 'plan_request', title: 'second', body: 'write b.txt too' }),
    call('write_file', { path: 'repo/a.txt', content: 'after a rejection\n' }),
    call('write_file', { path: 'NOTES.md', content: 'notes are no risk' }),
    call('task', { action: 'fail', summary: 'seen enough' }),
  ]
  const alice: Script = (request, n) => {
    const last = request.messages.findLast(({ role }) => role === 'tool')
    if (last) results.push(String(last.content).split('\n')[0] ?? '')
    return steps[n] ?? 'Done.'
  }
  const team = await scriptedTeam({ alice }, { mode: 'dir' })
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'Risky', needsPlan: true }] })
  await until(async () => (await ask(team.root, 'request.list', {})).requests.length >= 1)
  await teamOk(['approve', '1', '--root', team.root])
  await until(async () => (await ask(team.root, 'request.list', {})).requests.some(({ id }) => id === 'req_2'))
  await teamOk(['reject', '2', '--reason', 'one file is enough', '--root', team.root])
  await ended(team.root)
  expect(results.slice(0, 6)).toEqual([
    expect.stringMatching(/^error: task 1 needs an approved plan/),
    'opened req_1, human decides. Your turn ends here; the decision comes as a message.',
    'wrote repo/a.txt, 9 bytes',
    'opened req_2, human decides. Your turn ends here; the decision comes as a message.',
    expect.stringMatching(/^error: the plan req_2 was rejected: one file is enough/),
    expect.stringMatching(/^added/),
  ])
})

test('asked back, the parked asker gets a turn to answer and is parked again; withdrawn by a person it goes on knowing so', async () => {
  const alice: Script = (request, n) => {
    if (n === 0) return call('request', { action: 'open', type: 'plan_request', body: 'delete the old code' })
    const said = lastSaid(request)
    if (said.includes('asks about req_1')) return call('request', { action: 'answer', id: 'req_1', body: 'src/old' })
    if (said.includes('was withdrawn')) return call('task', { action: 'fail', summary: 'nobody wants it' })
    return 'Nothing new.'
  }
  const team = await scriptedTeam({ alice })
  await teamOk(['task', 'add', 'Clean up', '--root', team.root])
  await team.up()
  await waitingOf(team.root, 'alice')
  await teamOk(['ask', '1', '--reason', 'which folder?', '--root', team.root])
  const answered = await until(async () => {
    const { request } = await ask(team.root, 'request.get', { id: 'req_1' })
    return request.status === 'pending' && request.history.some(({ act }) => act === 'answer') && request
  })
  expect(answered.history.map(({ by, act }) => [by, act])).toEqual([
    ['alice', 'open'],
    ['human', 'ask'],
    ['alice', 'answer'],
  ])
  await waitingOf(team.root, 'alice')
  await ask(team.root, 'request.withdraw', { id: 'req_1', reason: 'not now' })
  expect(await ended(team.root)).toMatchObject({ status: 'failed', error: 'nobody wants it' })
})

test('a task taken out of the hands of a parked owner takes its question along, and the owner is free', async () => {
  const team = await scriptedTeam({ alice: asking })
  await teamOk(['task', 'add', 'Indent', '--root', team.root])
  await team.up()
  await waitingOf(team.root, 'alice')
  await teamOk(['task', 'cancel', '1', '--root', team.root])
  await until(async () => (await status(team.root)).teammates.every(({ state }) => state === 'idle'), 40_000)
  const { request } = await ask(team.root, 'request.get', { id: 'req_1' })
  expect([request.outcome, request.reason]).toEqual(['withdrawn', 'task 1 is not in the hands of alice any more'])
  const events = (await journal(team.root)).map(({ event }) => event)
  expect(events.filter(event => event === 'model.call')).toHaveLength(1)
})

test('who waits for a decision agrees to team down without its model, and question, task and context are there at the next start', async () => {
  const down = gate()
  let bobEnds = false
  let bobIsOver = 0
  const bob: Script = async request => {
    if (bobEnds) return bobIsOver++ > 0 ? 'Over.' : call('task', { action: 'fail', summary: 'over' })
    const id = /<request id="(req_\d+)"/.exec(heard(request))?.[1]
    if (id) return call('request', { action: 'decide', id, decision: 'reject', reason: 'half written' })
    await down.opened
    return 'Still at it.'
  }
  const team = await scriptedTeam({ alice: asking, bob })
  const first = await team.up()
  const tasks = [
    { title: 'Indent', assignee: 'alice', paths: ['a'] },
    { title: 'Write', assignee: 'bob', paths: ['b'] },
  ]
  await ask(team.root, 'task.add', { tasks })
  await waitingOf(team.root, 'alice')
  await until(() => team.requests('bob').length >= 1)
  // Rejected by another, the one that agreed comes back to its wait.
  const rejected = run(['down', '--root', team.root])
  await until(async () => (await status(team.root)).teammates.some(({ state }) => state === 'stopped'))
  down.open()
  expect((await rejected).code).toBe(5)
  expect(await waitingOf(team.root, 'alice')).toMatchObject({ request: 'req_1' })
  bobEnds = true
  await ended(team.root, '2')
  await teamOk(['down', '--root', team.root])
  await endOf(first)
  expect(team.requests('alice')).toHaveLength(1)
  await teamOk(['answer', '1', 'spaces', '--root', team.root])
  await team.up()
  expect(await ended(team.root)).toMatchObject({ result: { summary: 'spaces' }, attempts: 1 })
  expect(heard(team.requests('alice')[1])).toContain('opened req_1, human decides')
})

test('up --once ends while a question waits, which can be answered then: the next one goes on with it', async () => {
  const team = await scriptedTeam({ alice: asking })
  await teamOk(['task', 'add', 'Indent', '--root', team.root])
  expect(await endOf(start(['up', '--once', '--root', team.root]))).toBe(1)
  expect(team.requests('alice')).toHaveLength(1)
  await teamOk(['answer', '1', 'tabs', '--root', team.root])
  expect(await endOf(start(['up', '--once', '--root', team.root]))).toBe(0)
  const { task } = await ask(await upAgain(team), 'task.get', { id: '1' })
  expect(task).toMatchObject({ status: 'completed', attempts: 1, result: { summary: 'tabs' } })
})

test('a question that somebody else answered for the asker, or a plan that was changed meanwhile, is waited for again', async () => {
  const late = gate()
  const alice: Script = async (request, n) => {
    if (n === 0)
      return call('request', { action: 'open', type: 'plan_request', body: 'cut', data: { tasks: [{ title: 'A' }] } })
    if (n === 1) {
      await late.opened
      return call('request', { action: 'answer', id: 'req_1', body: 'src/old' })
    }
    return lastSaid(request).includes('was approved') ? call('task', { action: 'fail', summary: 'on' }) : 'I wait.'
  }
  const team = await scriptedTeam({ alice })
  await teamOk(['task', 'add', 'Plan', '--root', team.root])
  await team.up()
  await waitingOf(team.root, 'alice')
  await teamOk(['ask', '1', '--reason', 'which?', '--root', team.root])
  await until(() => team.requests('alice').length >= 2)
  const { request } = await ask(team.root, 'plan.revise', { id: 'req_1', tasks: [{ title: 'B' }] })
  late.open()
  expect(await waitingOf(team.root, 'alice')).toMatchObject({ request: request.id })
  expect(heard(team.requests('alice')[2])).toContain(`it is superseded by ${request.id}`)
  expect(team.requests('alice')).toHaveLength(3)
  await teamOk(['approve', request.id, '--root', team.root])
  expect(await ended(team.root)).toMatchObject({ error: 'on' })
})

test('who needs a plan writes nothing in repo/ with no task in hand either', async () => {
  const results: string[] = []
  const steps = [
    call('write_file', { path: 'repo/a.txt', content: 'unasked' }),
    call('bash', { command: 'echo unasked > b.txt' }),
    call('write_file', { path: 'out/a.txt', content: 'harms nobody' }),
  ]
  const alice: Script = (request, n) => {
    const last = request.messages.findLast(({ role }) => role === 'tool')
    if (last) results.push(String(last.content).split('\n')[0] ?? '')
    return steps[n] ?? 'Done.'
  }
  const team = await scriptedTeam({ alice }, { mode: 'dir', teammates: [{ name: 'alice', needsPlan: true }] })
  await team.up()
  await teamOk(['send', 'alice', 'write something', '--root', team.root])
  await until(() => results.length >= 3)
  expect(results).toEqual([
    expect.stringMatching(/^error: you have no task in hand, and need an approved plan/),
    expect.stringMatching(/^error: you have no task in hand, and need an approved plan/),
    'wrote out/a.txt, 12 bytes',
  ])
})

test('what was asked by one who left the team while no daemon ran is withdrawn', async () => {
  const alice: Script = () => call('ask_user', { question: 'Who am I?' })
  const team = await scriptedTeam({ alice, bob: () => 'Read.' })
  const first = await team.up()
  await teamOk(['send', 'alice', 'think', '--root', team.root])
  await waitingOf(team.root, 'alice')
  await killed(first)
  const file = join(team.root, 'config.json')
  const config = JSON.parse(readFileSync(file, 'utf8')) as { teammates: { name: string }[] }
  writeFileSync(file, JSON.stringify({ ...config, teammates: config.teammates.filter(({ name }) => name !== 'alice') }))
  await team.up()
  const { request } = await ask(team.root, 'request.get', { id: 'req_1' })
  expect([request.outcome, request.reason]).toEqual(['withdrawn', 'alice is not on the team any more'])
})
