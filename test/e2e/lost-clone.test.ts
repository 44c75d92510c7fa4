import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusOf, teamOk, until } from '../support/cli.ts'
import { call, gitTeamOf, journalOf, model, sinceTask } from '../support/daemon.ts'
import { gate, inboxOf } from '../support/scripted-team.ts'

test('a clone deleted under a running teammate, before a task and in the middle of one, is made again; no task fails for it, and it is said', async () => {
  const late = gate()
  const begun = gate()
  let asked = 0
  const server = await model(async request => {
    const results = sinceTask(request)?.results ?? []
    if (asked++ === 0) {
      begun.open()
      await late.opened
    }
    if (results.length === 0) return call('write_file', { path: 'repo/b.txt', content: `${asked}\n` })
    if (results.length === 1) return call('bash', { command: 'git add -A && git commit -qm b' })
    return results.length === 2 ? call('task', { action: 'complete', summary: 'written' }) : 'Over.'
  })
  const more = {
    teammates: [{ name: 'alice' }],
    permissions: { allow: ['git *'] },
    approvals: { merge_request: 'auto' },
  }
  const { root } = gitTeamOf(server, more)
  const clone = join(root, 'team', 'alice', 'repo')
  const said = async () =>
    (await inboxOf(root, 'user')).items.filter(({ stored }) =>
      stored.message.content.includes('was deleted and is made again'),
    )
  await teamOk(['up', '-d', '--root', root])
  await until(async () => (await statusOf(root)).teammates[0]?.state === 'idle')
  rmSync(clone, { recursive: true })
  await teamOk(['task', 'add', 'Write b', '--root', root])
  await begun.opened
  expect(existsSync(join(clone, '.git'))).toBe(true)
  expect((await statusOf(root)).problems.join()).toMatch(/clone of alice .*was deleted and is made again: .* lost/)
  expect(await said()).toHaveLength(1)
  rmSync(clone, { recursive: true })
  late.open()
  const [task] = await until(async () => {
    const { tasks } = await statusOf(root)
    return ['completed', 'failed'].includes(tasks[0]?.status ?? '') && tasks
  }, 40_000)
  expect(task).toMatchObject({ status: 'completed', result: { outcome: 'unverified' }, attempts: 2, error: null })
  expect(await said()).toHaveLength(2)
  await teamOk(['down', '--root', root])
})

test('a clone damaged under a running teammate is set aside whole and made again, before a task, in the middle of one and at a start', async () => {
  const late = gate()
  const begun = gate()
  const server = await model(async request => {
    const since = sinceTask(request)
    const results = since?.results ?? []
    if (since?.id === '2' && results.length === 1) begun.open()
    if (since?.id === '2' && results.length === 1) await late.opened
    if (results.length === 0) return call('write_file', { path: 'repo/b.txt', content: `${since?.id}\n` })
    if (results.length === 1) return call('bash', { command: 'git add -A && git commit -qm b' })
    return results.length === 2 ? call('task', { action: 'complete', summary: 'written' }) : 'Over.'
  })
  const { root } = gitTeamOf(server, {
    teammates: [{ name: 'alice' }],
    permissions: { allow: ['git *'] },
    approvals: { merge_request: 'auto' },
  })
  const home = (...path: string[]) => join(root, 'team', 'alice', ...path)
  const done = (id: string) =>
    until(async () => (await statusOf(root)).tasks.find(task => task.id === id)?.status === 'completed', 40_000)
  const said = async () =>
    (await inboxOf(root, 'user')).items.flatMap(({ stored: { message } }) =>
      message.content.includes('is damaged') ? [message.content] : [],
    )
  await teamOk(['up', '-d', '--root', root])
  await until(async () => (await statusOf(root)).teammates[0]?.state === 'idle')
  writeFileSync(home('repo', 'mine.txt'), 'not committed')
  writeFileSync(home('repo', '.git', 'HEAD'), 'junk')
  await teamOk(['task', 'add', 'Write b', '--root', root])
  await done('1')
  expect(await said()).toEqual([
    expect.stringMatching(/HEAD names no commit .*made again: .* lies in team\/alice\/repo.damaged-1$/),
  ])
  expect(readFileSync(home('repo.damaged-1', 'mine.txt'), 'utf8')).toBe('not committed')
  await teamOk(['task', 'add', 'Write b again', '--root', root])
  await begun.opened
  rmSync(home('repo', '.git'), { recursive: true })
  writeFileSync(home('repo', '.git'), 'gitdir: /nowhere\n')
  late.open()
  await done('2')
  expect((await statusOf(root)).problems.join()).toMatch(/clone of alice .*\.git is not a folder.*repo\.damaged-2/)
  expect(readFileSync(home('repo.damaged-2', 'b.txt'), 'utf8')).toBe('2\n')
  await teamOk(['down', '--root', root])
  rmSync(home('repo', '.git', 'objects'), { recursive: true })
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['task', 'add', 'Write b once more', '--root', root])
  await done('3')
  expect(await said()).toHaveLength(3)
  await teamOk(['down', '--root', root])
})

test('a task in which the clone is deleted over and over is failed with that, and the next one is done in a new clone', async () => {
  const server = await model(request => {
    const since = sinceTask(request)
    const results = since?.results ?? []
    if (since?.id === '1' && results.length === 0)
      return call('bash', { command: "node -e \"require('fs').rmSync('.git', {recursive: true})\"" })
    return results.some(({ name }) => name === 'task')
      ? 'Over.'
      : call('task', { action: 'complete', summary: 'there' })
  })
  const { root } = gitTeamOf(server, { teammates: [{ name: 'alice' }] })
  await teamOk(['task', 'add', 'Tidy up', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  const failed = await until(async () => {
    const { tasks } = await statusOf(root)
    return tasks[0]?.status === 'failed' && tasks[0]
  }, 60_000)
  expect([failed.attempts, failed.error]).toEqual([4, expect.stringContaining('was deleted at attempt 4 too')])
  await teamOk(['task', 'add', 'Look here', '--root', root])
  await until(async () => (await statusOf(root)).tasks.find(({ id }) => id === '2')?.status === 'completed')
  await teamOk(['down', '--root', root])
})

test('a home removed in the middle of a task ends no thread: it is made again, and the task is given out anew', async () => {
  const late = gate()
  const begun = gate()
  const server = await model(async request => {
    const results = sinceTask(request)?.results ?? []
    if (results.length === 0) begun.open()
    await late.opened
    if (results.length === 0) return call('write_file', { path: 'repo/b.txt', content: 'written' })
    if (results.length === 1) return call('bash', { command: 'git add -A && git commit -qm b' })
    return results.length === 2 ? call('task', { action: 'complete', summary: 'written' }) : 'Over.'
  })
  const { root } = gitTeamOf(server, {
    teammates: [{ name: 'alice' }],
    permissions: { allow: ['git *'] },
    approvals: { merge_request: 'auto' },
  })
  await teamOk(['task', 'add', 'Write b', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  await begun.opened
  rmSync(join(root, 'team', 'alice'), { recursive: true })
  late.open()
  const task = await until(async () => {
    const found = (await statusOf(root)).tasks[0]
    return found?.status === 'completed' && found
  }, 40_000)
  expect(task.attempts).toBe(2)
  expect(journalOf(root).filter(({ event }) => event === 'teammate.died')).toEqual([])
  expect(existsSync(join(root, 'team', 'alice', 'out'))).toBe(true)
  await teamOk(['down', '--root', root])
})
