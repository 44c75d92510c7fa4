import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusOf, teamOk, until } from '../support/cli.ts'
import { call, gitTeamOf, model, sinceTask } from '../support/daemon.ts'
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
