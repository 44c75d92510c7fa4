import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { says, start, team, teamOk, teamRoot, until } from '../support/cli.ts'
import { ask, killed, status } from '../support/scripted-team.ts'

const tasksOf = async (root: string) => (await ask(root, 'task.list', { all: true })).tasks
const up = async (root: string) => {
  const child = start(['up', '--root', root])
  await says(child, /ready, pid/)
  return child
}
const waiting = (root: string, n: number) =>
  until(async () => {
    const { requests } = await ask(root, 'request.list', {})
    return requests.length === n && requests
  }, 40_000)

test('a goal becomes a plan of the lead, the person changes it and approves, and its tasks are created at once, over a kill -9 too', async () => {
  const root = teamRoot({
    mode: 'dir',
    sandbox: 'off',
    model: { provider: 'runbook' },
    lead: 'ann',
    teammates: [{ name: 'ann' }, { name: 'bob', autoClaim: false }],
  })
  const first = await up(root)
  // The runbook lead is told what to propose in the goal itself.
  const goal = 'Two files\n\nplan: first one, then two\n```tasks\n- title: one\n- title: two\n  dependsOn: [one]\n```\n'
  expect(await teamOk(['plan', goal, '--root', root])).toMatch(/^task 1 is for ann/)
  const [asked] = await waiting(root, 1)
  expect([asked?.type, asked?.from, asked?.to]).toEqual(['plan_request', 'ann', 'human'])
  expect(await teamOk(['requests', '1', '--root', root])).toMatch(/task 2\s+two; after one/)
  await killed(first)

  await up(root)
  await waiting(root, 1)
  const file = join(root, 'plan.yaml')
  writeFileSync(file, '- title: one\n- title: two\n  dependsOn: [three]\n- title: three\n  dependsOn: [two]\n')
  const slips = join(root, 'slips.yaml')
  writeFileSync(slips, '- title: one\n- title: two\n  blockdBy: [one]\n- title: 3\n  tags: x\n')
  const slip = await team(['plan', '--edit', '1', '--from', slips, '--root', root])
  expect([slip.code, slip.stderr]).toEqual([
    2,
    expect.stringContaining('the tasks: [1].blockdBy: unknown key (did you mean "blockedBy"?); [2].'),
  ])
  const cyclic = await team(['plan', '--edit', '1', '--from', file, '--root', root])
  expect([cyclic.code, cyclic.stderr]).toEqual([5, expect.stringContaining('would wait for each other')])
  writeFileSync(file, '- title: one\n- title: two\n  dependsOn: [one]\n- title: three\n  dependsOn: [two]\n')
  expect(await teamOk(['plan', '--edit', '1', '--from', file, '--root', root])).toContain('superseded by req_2')
  expect(await teamOk(['plan', '--edit', '2', '--from', file, '--root', root])).toContain('req_2 is unchanged')
  const late = await team(['approve', '1', '--root', root])
  expect([late.code, late.stderr]).toEqual([5, expect.stringContaining('superseded by req_2')])
  expect((await tasksOf(root)).map(({ title }) => title)).toEqual(['Plan: Two files'])
  await teamOk(['approve', '2', '--root', root])
  const made = await until(async () => {
    const all = await tasksOf(root)
    return all[0]?.status === 'completed' && all
  }, 40_000)
  expect(made.map(({ title, dependsOn }) => [title, dependsOn])).toEqual([
    ['Plan: Two files', []],
    ['one', []],
    ['two', ['2']],
    ['three', ['3']],
  ])
  const { request } = await ask(root, 'request.get', { id: 'req_2' })
  expect(request.effect).toMatchObject({ step: 'done', outcome: 'ok', detail: 'created 2, 3, 4' })
  const { entries } = await ask(root, 'events', { limit: 1000 })
  const steps = entries.flatMap(({ event, put }) =>
    put?.[1] === 'req_2' && event.startsWith('effect.') ? [event] : [],
  )
  expect(steps).toEqual(['effect.intent', 'effect.done'])
})

test('without a lead a goal is refused with what to do, and so is a plan whose tasks cannot be', async () => {
  const root = teamRoot({ mode: 'dir', sandbox: 'off', model: { provider: 'runbook' }, teammates: [{ name: 'ann' }] })
  await up(root)
  const refused = await team(['plan', 'Better', '--root', root])
  expect([refused.code, refused.stderr]).toEqual([5, expect.stringContaining('name one as "lead" in config.json')])
  await teamOk([
    'task',
    'add',
    'Propose',
    '--description',
    'plan: a circle\n```tasks\n- title: a\n  dependsOn: [b]\n- title: b\n  dependsOn: [a]\n```',
    '--root',
    root,
  ])
  await until(async () => (await tasksOf(root))[0]?.status === 'failed', 40_000)
  expect((await tasksOf(root))[0]?.error).toContain('would wait for each other')
  expect((await status(root)).requests).toEqual([])
})

test('a plan whose tasks cannot be created any more when it is approved: its asker and the person are told, and none exists', async () => {
  const root = teamRoot({ mode: 'dir', sandbox: 'off', model: { provider: 'runbook' }, teammates: [{ name: 'ann' }] })
  await up(root)
  const description = 'plan: two\n```tasks\n- id: "7"\n  title: a\n- title: b\n```'
  await teamOk(['task', 'add', 'Propose', '--description', description, '--root', root])
  await waiting(root, 1)
  await ask(root, 'task.add', { tasks: [{ id: '7', title: 'taken', status: 'pending', assignee: 'nobody-yet' }] })
  await teamOk(['approve', '1', '--root', root])
  const told = async (name: string) =>
    (await ask(root, 'inbox.read', { name, after: 0 })).items.filter(
      ({ stored }) => stored.message.id === 'msg_req_1_failed',
    )
  const [first] = await told('ann')
  expect(first?.stored.message.content).toMatch(/approved, but its tasks could not be created: .*7/)
  expect(await told('user')).toHaveLength(1)
  expect((await tasksOf(root)).map(({ title }) => title)).toEqual(['Propose', 'taken'])
})
