import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ended, teamOk, until } from '../support/cli.ts'
import { ask, gate, heard, inboxOf, scriptedTeam, status } from '../support/scripted-team.ts'

test('with .team, .tasks and .messages removed the daemon ends with 1, and the next one has everything: task, mail, request, context', async () => {
  const crew = await scriptedTeam({
    alice: (request, n) => {
      if (n === 0) return { calls: [{ name: 'ask_user', args: { question: 'Tabs or spaces?' } }] }
      const answer = /was answered by human: (\w+)/.exec(heard(request))?.[1]
      return answer ? { calls: [{ name: 'task', args: { action: 'complete', summary: answer } }] } : 'Nothing new.'
    },
  })
  const { root } = crew
  const first = await crew.up()
  const end = ended(first)
  await teamOk(['task', 'add', 'Indent', '--root', root])
  await teamOk(['task', 'add', 'Later', '--after', '1', '--root', root])
  await until(async () => (await status(root)).requests.length >= 1)
  await until(async () => (await status(root)).teammates.some(mate => mate.state === 'waiting'))
  await teamOk(['send', 'alice', 'no hurry', '--root', root])
  // As a person does it: what is made again meanwhile may be left standing.
  spawnSync('rm', ['-rf', '.team', '.tasks', '.messages'], { cwd: root })
  expect(await end).toBe(1)

  await crew.up()
  const now = await status(root)
  expect(now.requests.map(each => each.id)).toEqual(['req_1'])
  expect(now.tasks.map(task => `${task.id} ${task.title} ${task.status}`)).toEqual([
    '1 Indent in_progress',
    '2 Later pending',
  ])
  await teamOk(['answer', '1', 'spaces', '--root', root])
  const { task } = await until(async () => {
    const told = await ask(root, 'task.get', { id: '1' })
    return told.task.status === 'completed' && told
  })
  expect(task).toMatchObject({ result: { summary: 'spaces' }, attempts: 1 })
  // The same context went on, and the mail came into it once.
  const context = heard(crew.requests('alice').find(request => heard(request).includes('was answered')))
  expect(context.match(/Tabs or spaces/g)).toHaveLength(1)
  await until(() => heard(crew.requests('alice').at(-1)).includes('no hurry'))
  expect(heard(crew.requests('alice').at(-1)).match(/no hurry/g)).toHaveLength(1)
})

test('where another journal stands by then it counts, and nothing of the first is put beside it', async () => {
  const crew = await scriptedTeam({ alice: () => 'Nothing.' })
  const { root } = crew
  const end = ended(await crew.up())
  await teamOk(['task', 'add', 'Old', '--root', root])
  const journal = join(root, '.team', 'journal')
  rmSync(join(root, '.tasks'), { recursive: true })
  rmSync(journal, { recursive: true })
  mkdirSync(journal)
  writeFileSync(join(journal, '00000009.jsonl'), 'of another\n')
  expect(await end).toBe(1)
  await expect(teamOk(['status', '--root', root])).rejects.toThrow(/00000009\.jsonl/)
})

test.each([
  ['the daemon', (root: string) => teamOk(['up', '-d', '--root', root])],
  ['a command', (root: string) => teamOk(['task', 'add', 'Third', '--root', root])],
])('with .team removed while none runs, %s that comes first tells the person once what is gone', async (_who, come) => {
  const { root } = await scriptedTeam({ alice: () => 'Nothing.' })
  await teamOk(['task', 'add', 'First', '--assignee', 'nobody-yet', '--root', root])
  await teamOk(['task', 'add', 'Second', '--after', '1', '--root', root])
  rmSync(join(root, '.team'), { recursive: true })
  await come(root)
  await teamOk(['down', '--force', '--root', root]).catch(() => null)
  await teamOk(['up', '-d', '--root', root])
  const told = (await inboxOf(root, 'user')).items.filter(({ stored }) => stored.message.id.startsWith('msg_lost_'))
  expect(told.map(({ stored }) => stored.message.content)).toEqual([
    expect.stringMatching(/^the run state was lost: .* 2 tasks were taken in from \.tasks/),
  ])
})

test('a root that is moved under a working team is not brought back in its old place; moved back, everything goes on', async () => {
  const { opened, open } = gate()
  const crew = await scriptedTeam({
    alice: async (_request, n) => {
      if (n === 0) return { calls: [{ name: 'write_file', args: { path: 'out/a.txt', content: 'a' } }] }
      await opened
      return { calls: [{ name: 'task', args: { action: 'complete', summary: 'done' } }] }
    },
  })
  const { root } = crew
  const end = ended(await crew.up())
  await teamOk(['task', 'add', 'Write', '--root', root])
  await until(() => crew.requests('alice').length >= 2)
  renameSync(root, `${root}-moved`)
  open()
  expect(await end).toBe(1)
  expect(existsSync(root)).toBe(false)
  renameSync(`${root}-moved`, root)
  await crew.up()
  await until(async () => (await ask(root, 'task.get', { id: '1' })).task.status === 'completed')
  expect((await status(root)).tasks).toMatchObject([{ id: '1', attempts: 1 }])
})
