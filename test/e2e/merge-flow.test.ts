import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { InboxItem } from '../../src/protocol/rpc.ts'
import { tempFolder, until } from '../support/cli.ts'
import { type GitTeam, gitTeam, runbook } from '../support/git-team.ts'
import { initRepo } from '../support/repo.ts'

const project = (files: Record<string, string> = {}) =>
  initRepo(join(tempFolder(), 'project'), { 'a.txt': 'one\n', ...files })

/** Red while a.txt says so. */
const check = {
  'check.cjs': `const text = require('node:fs').readFileSync('a.txt', 'utf8')
if (text.includes('red')) { console.log('a.txt is red'); process.exit(3) }
`,
}

const inbox = async (it: GitTeam, name: string): Promise<string[]> => {
  const read = JSON.parse(await it.ok('inbox', name, '--json', '--n', '0')) as { items: InboxItem[] }
  return read.items.map(item => item.stored.message.content)
}

test('a merge is asked about, answered, rejected with a reason, mended by its owner ahead of other work, and merged', async () => {
  const it = gitTeam({ teammates: [{ name: 'ann' }] }, project())
  await it.ok('up', '-d')
  it.drop(
    'first.md',
    runbook('First', { 'a.txt': 'first try\n' }, 'First try', {
      mend: runbook.steps({ 'a.txt': 'second try\n' }, 'Second try'),
    }),
  )
  const asked = await it.merge('1')
  // Ann is free meanwhile: another task is in her hand, and one of more weight waits behind it.
  it.drop('gated.md', `---\ntitle: Gated\n---\n${runbook.gate}${runbook.steps({ 'b.txt': 'b\n' }, 'B')}`)
  await it.shown('2', 'working')
  it.drop('heavy.md', runbook('Heavy', { 'c.txt': 'c\n' }, 'C', { head: 'priority: 900' }))
  await it.shown('3', 'ready')

  expect(await it.ok('diff', '1')).toMatch(/-one\n\+first try/)
  expect(await it.ok('ask', asked.id, '--reason', 'Why so?')).toContain('needs_info')
  expect(await inbox(it, 'ann')).toContainEqual(expect.stringContaining('Why so?'))
  expect((await it.team('ask', asked.id, '--reason', 'And?')).code).toBe(5)
  await it.ok('answer', asked.id, 'Because of the test')
  expect(await inbox(it, 'user')).toContainEqual(expect.stringContaining('Because of the test'))
  await it.ok('reject', asked.id, '--reason', 'Say it shorter')
  const late = await it.team('approve', asked.id)
  expect([late.code, late.stderr]).toEqual([5, expect.stringContaining('was already rejected by human')])
  const returned = await it.shown('1', 'ready')
  expect(returned).toMatchObject({ owner: 'ann', returns: 1, why: expect.stringContaining('Say it shorter') })

  writeFileSync(join(it.clone('ann'), '.git', 'go'), '')
  const again = await until(async () => {
    const request = await it.merge('1')
    return request.id !== asked.id && request
  })
  expect(again.data.head).not.toBe(asked.data.head)
  await it.merge('3')
  const started = it.events().flatMap(({ event, info }) => (event === 'task.started' ? [info?.task] : []))
  expect(started).toEqual(['1', '2', '1', '3'])
  await it.ok('approve', again.id)
  const done = await it.shown('1', 'completed', 'unverified')
  // Nothing verifies it here, and every screen says so.
  expect([done.shown, done.result?.outcome]).toEqual(['unverified', 'unverified'])
  const merged = await it.ok('diff', '1')
  expect(merged).toMatch(/merged as [0-9a-f]{12}/)
  expect(merged).toMatch(/-one\n\+second try/)
  expect((await it.team('diff', '99')).code).toBe(4)
})

test('red checks send it back until limits.returns, then it fails; a retry goes on from the branch as it was', async () => {
  const it = gitTeam(
    {
      teammates: [{ name: 'ann' }, { name: 'ben' }],
      verify: 'node check.cjs',
      limits: { returns: 1 },
      approvals: { merge_request: 'auto' },
    },
    project(check),
  )
  await it.ok('up', '-d')
  // Green only where the branch holds what an earlier attempt committed.
  const write = `~~~sh
node -e "const fs = require('fs'); fs.writeFileSync('a.txt', fs.existsSync('tried.txt') ? 'green\\n' : 'red\\n')"
~~~
`
  it.drop(
    'red.md',
    `---\ntitle: Red\n---\n${write}${runbook.steps({ 'tried.txt': 'yes\n' }, 'Try')}
## If sent back
${runbook.steps({ 'a.txt': 'still red\n' }, 'Try again')}`,
  )
  const failed = await it.shown('1', 'failed')
  expect(failed).toMatchObject({ returns: 1, attempts: 2 })
  expect(failed.error).toMatch(
    /sent back 1 time already \(limits.returns\).*`node check.cjs` exited 3\n.*a.txt is red/s,
  )
  const { problems, trunk } = await it.status()
  expect(problems).toContainEqual(expect.stringMatching(/task 1 "Red" failed: .*team task retry 1/))
  expect(trunk?.ahead).toBe(0)
  expect(await inbox(it, 'user')).toContainEqual(expect.stringContaining('Task 1 "Red" failed'))
  await it.ok('task', 'retry', '1')
  const done = await it.shown('1', 'completed')
  expect(done).toMatchObject({ attempts: 3, branch: 'team/task-1', result: { outcome: 'merged' } })
  await it.ok('land')
  expect(readFileSync(join(it.repo.dir, 'a.txt'), 'utf8')).toBe('green\n')
  expect(it.repo.git('log', '--format=%s', '--no-merges', '--reverse')).toBe('Start\nTry\nTry again\nTry')
})

test('cancelled while its merge waits, by command and by hand, a task takes its request along; retried, it goes on', async () => {
  const it = gitTeam({ teammates: [{ name: 'ann' }, { name: 'ben' }] }, project())
  await it.ok('up', '-d')
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  const one = await it.merge('1')
  it.drop('two.md', runbook('Two', { 'two.txt': '2\n' }, 'Two'))
  const two = await it.merge('2')
  await it.ok('task', 'cancel', '1', '--reason', 'not wanted')
  const file = join(it.root, '.tasks', 'task_2.json')
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), status: 'cancelled' }))
  await it.shown('2', 'cancelled')
  expect(await it.status()).toMatchObject({ requests: [], trunk: { ahead: 0 } })
  for (const { id } of [one, two]) {
    const late = await it.team('approve', id)
    expect([late.code, late.stderr]).toEqual([5, expect.stringMatching(/was withdrawn: task \d was cancelled/)])
  }
  await it.ok('task', 'retry', '2')
  const again = await it.merge('2')
  expect(again.data.commits).toBe(1)
  await it.ok('down')
  await it.ok('approve', again.id)
  expect((await it.team('land')).stderr).toContain(`${again.id} is approved, but not merged yet`)
  await it.ok('up', '-d')
  await it.shown('2', 'unverified')
  expect((await it.team('land')).stderr).toBe('')
  expect([existsSync(join(it.repo.dir, 'one.txt')), existsSync(join(it.repo.dir, 'two.txt'))]).toEqual([false, true])
})
