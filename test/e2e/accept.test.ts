import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempFolder } from '../support/cli.ts'
import { gitTeam, runbook } from '../support/git-team.ts'
import { initRepo } from '../support/repo.ts'

test('a task is accepted by what is red before it and green by it, and proven by nothing that was green before', async () => {
  const repo = initRepo(join(tempFolder(), 'project'), { 'a.txt': 'one\n', 'b.txt': 'one\n' })
  const it = gitTeam({ teammates: [{ name: 'ann' }], approvals: { merge_request: 'auto' } }, repo)
  const accept = 'grep -q two a.txt'
  await it.ok('task', 'add', 'Two', '-d', runbook.steps({ 'a.txt': 'two\n' }, 'Two'), '--accept', accept)
  it.drop('b.md', runbook('B', { 'b.txt': 'two\n' }, 'B', { head: 'accept: test -s b.txt' }))
  await it.ok('up', '-d')
  const done = await it.shown('1', 'completed')
  expect(done).toMatchObject({ accept: [accept], result: { outcome: 'merged' } })
  expect(await it.ok('task', 'show', '1')).toMatch(/accept +grep -q two a\.txt/)
  const failed = await it.shown('2', 'failed')
  expect(failed.error).toMatch(/^accept `test -s b\.txt` passes already where the branch started/)
  expect(repo.git('--git-dir', join(it.root, '.team', 'hub.git'), 'show', 'team/trunk:a.txt', 'team/trunk:b.txt')).toBe(
    'two\none',
  )
})
