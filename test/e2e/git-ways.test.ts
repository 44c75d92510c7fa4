import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { InboxItem } from '../../src/protocol/rpc.ts'
import { start, tempFolder, until } from '../support/cli.ts'
import { gitTeam, runbook } from '../support/git-team.ts'
import { initRepo } from '../support/repo.ts'

const project = (name = 'project', files: Record<string, string | Buffer> = {}) =>
  initRepo(join(tempFolder(), name), { 'a.txt': 'one\n', ...files })

test('E11 E15 a path and files with spaces, quotes and unicode, beside a branch named team: from drop to land, and no residue', async () => {
  const odd = '日本 "x" ü.txt'
  const repo = project("My Projekt é's (1)", { [odd]: 'before\n' })
  repo.git('branch', 'team')
  const before = repo.git('for-each-ref')
  const it = gitTeam({ teammates: [{ name: 'alice-b-1' }, { name: 'bob' }], verify: 'node --version' }, repo)
  await it.ok('up', '-d')
  it.drop('odd 任务.md', runbook('Überarbeite "alles"', { [odd]: 'after\n', 'neu é/ä b.txt': 'n\n' }, 'It\'s "done"'))
  const { id, data } = await it.merge('1')
  expect([...data.files].sort()).toEqual([odd, 'neu é/ä b.txt'].sort())
  const diff = await it.ok('diff', id)
  expect(diff).toMatch(/-before\n\+after/)
  await it.ok('approve', id)
  await it.shown('1', 'completed')
  await it.ok('land')
  expect([readFileSync(join(repo.dir, odd), 'utf8'), repo.git('status', '--porcelain')]).toEqual(['after\n', ''])
  const after = repo.git('for-each-ref').split('\n')
  expect(after.filter(line => !line.endsWith('refs/heads/main'))).toEqual(
    before.split('\n').filter(line => !line.endsWith('refs/heads/main')),
  )
})

test('E15 a person’s own branch team/alice is neither moved nor in the way', async () => {
  const repo = project()
  const own = repo.git('commit-tree', 'HEAD^{tree}', '-m', 'mine')
  repo.git('branch', 'team/alice', own)
  repo.git('branch', 'team/task-1', own)
  repo.git('branch', 'team/trunk', own)
  const it = gitTeam({ teammates: [{ name: 'alice' }], approvals: { merge_request: 'auto' } }, repo)
  await it.ok('up', '-d')
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  await it.shown('1', 'unverified')
  await it.ok('land')
  expect(existsSync(join(repo.dir, 'one.txt'))).toBe(true)
  for (const name of ['team/alice', 'team/task-1', 'team/trunk']) expect(repo.git('rev-parse', name)).toBe(own)
})

test('E17 a lock in a clone is waited for, with its path and age on the screen, a lock in the checkout is told by land; neither is taken away', async () => {
  const it = gitTeam({ teammates: [{ name: 'ann' }], approvals: { merge_request: 'auto' } }, project())
  await it.ok('up', '-d')
  const lock = join(it.clone('ann'), '.git', 'index.lock')
  writeFileSync(lock, '')
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  const waiting = await until(async () => {
    const [ann] = (await it.status()).teammates
    return ann?.state === 'waiting' && ann.waiting !== null && ann.waiting
  })
  expect([waiting.whom, waiting.what]).toEqual([
    'human',
    expect.stringMatching(/locked by .*index\.lock \(\d+ s old\)/),
  ])
  expect(existsSync(lock)).toBe(true)
  rmSync(lock)
  // Status is asked for all the while and is in nobody's way.
  await it.shown('1', 'unverified')
  const mine = join(it.repo.dir, '.git', 'index.lock')
  writeFileSync(mine, '')
  const held = await it.team('land')
  expect([held.code === 0, held.stderr]).toEqual([false, expect.stringMatching(/index\.lock.*\d+ s/s)])
  expect(existsSync(mine)).toBe(true)
  rmSync(mine)
  await it.ok('land')
})

test('E19 hooks: a pre-commit that refuses is told in its own words, a post-checkout that fails stops nothing, a missing hooks folder is said', async () => {
  const repo = project()
  const hooks = join(repo.dir, '.git', 'hooks')
  mkdirSync(hooks, { recursive: true })
  writeFileSync(join(hooks, 'post-checkout'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
  writeFileSync(join(hooks, 'pre-commit'), '#!/bin/sh\necho "no tabs, please" >&2\nexit 1\n', { mode: 0o755 })
  const it = gitTeam({ teammates: [{ name: 'ann' }] }, repo)
  await it.ok('up', '-d')
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  const failed = await it.shown('1', 'failed')
  expect(failed.error).toContain('no tabs, please')
  expect((await it.status()).trunk?.ahead).toBe(0)
  await it.ok('down')
  repo.git('config', 'core.hooksPath', join(repo.dir, 'gone'))
  await it.ok('up', '-d')
  expect((await it.status()).problems).toContainEqual(
    expect.stringMatching(/core.hooksPath names .*gone, which does not exist/),
  )
})

test('E13 copy and setup: a clone that could not be set up is told to the person and to the teammate, and set up at the next start', async () => {
  const repo = project('project', {
    '.gitignore': '.env\nnode_modules/\n',
    'setup.cjs': `const fs = require('fs')
if (!fs.existsSync('.env')) { console.log('the registry said no'); process.exit(7) }
fs.mkdirSync('node_modules', { recursive: true })
fs.writeFileSync('node_modules/made', 'here')
`,
    'check.cjs': `require('fs').accessSync('node_modules/made')\n`,
  })
  repo.write({ 'node_modules/mine': 'the person’s\n' })
  const it = gitTeam(
    {
      teammates: [{ name: 'ann' }],
      copy: ['.env'],
      setup: 'node setup.cjs',
      verify: 'node check.cjs',
      approvals: { merge_request: 'auto' },
    },
    repo,
  )
  await it.ok('up', '-d')
  expect((await it.status()).problems).toContainEqual(
    expect.stringMatching(/ann: setup `node setup.cjs` exited 7: the registry said no/),
  )
  const told = JSON.parse(await it.ok('inbox', 'ann', '--json')) as { items: InboxItem[] }
  expect(told.items[0]?.stored.message).toMatchObject({
    from: 'supervisor',
    content: expect.stringContaining('the registry said no'),
  })
  const human = JSON.parse(await it.ok('inbox', 'user', '--json')) as { items: InboxItem[] }
  expect(human.items.map(({ stored }) => stored.message.content)).toEqual([
    expect.stringMatching(/clone of ann failed; it works on without\. Mend it.*the registry said no/s),
  ])
  // It works on without; what cannot be checked is no green.
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  const failed = await it.shown('1', 'failed')
  expect(failed.error).toMatch(/"setup" could not run, so nothing proves the work.*the registry said no/s)
  repo.write({ '.env': 'good=1\n' })
  await it.ok('down')
  await it.ok('up', '-d')
  expect((await it.status()).problems.filter(text => text.startsWith('ann:'))).toEqual([])
  expect(readFileSync(join(it.clone('ann'), 'node_modules', 'made'), 'utf8')).toBe('here')
  expect(readFileSync(join(it.clone('ann'), '.env'), 'utf8')).toBe('good=1\n')
  await it.ok('task', 'retry', '1')
  expect((await it.shown('1', 'completed')).result?.outcome).toBe('merged')
  expect(existsSync(join(repo.dir, 'node_modules', 'made'))).toBe(false)
  await until(async () => (await it.status()).teammates[0]?.state === 'idle')
})

test('a set-up that hangs holds back no other teammate, and a down does not wait for it', async () => {
  const repo = project('project', {
    '.gitignore': 'waits\ngo\n',
    'setup.cjs': `const fs = require('fs')
if (fs.readFileSync('.git/team-clone', 'utf8') === 'ann\\n') {
  fs.writeFileSync('waits', '')
  const timer = setInterval(() => fs.existsSync('go') && clearInterval(timer), 20)
}
`,
  })
  const it = gitTeam(
    { teammates: [{ name: 'ann' }, { name: 'ben' }], setup: 'node setup.cjs', approvals: { merge_request: 'auto' } },
    repo,
  )
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One', { head: 'assignee: ben' }))
  start(['up', '--root', it.root])
  await until(() => existsSync(join(it.clone('ann'), 'waits')))
  await it.shown('1', 'unverified')
  expect((await it.status()).teammates.map(({ state, waiting }) => [state, waiting?.what ?? null])).toEqual([
    ['starting', 'its clone and setup `node setup.cjs`'],
    ['idle', null],
  ])
  expect(await it.ok('logs')).toContain('runs setup in the clone of ann: node setup.cjs')
  expect(await it.team('restart', 'ann')).toMatchObject({
    code: 5,
    stderr: expect.stringContaining('being made ready'),
  })
  await it.ok('down')
  expect(it.events().filter(({ event }) => event === 'clone.ready')).toMatchObject([{ info: { name: 'ben' } }])
  // Cut off, so it is run again, and this time it ends.
  start(['up', '--root', it.root])
  await until(async () => (await it.status()).teammates[1]?.state === 'idle')
  writeFileSync(join(it.clone('ann'), 'go'), '')
  await until(async () => (await it.status()).teammates[0]?.state === 'idle')
})

test('the base rewritten, then renamed under a running team: work goes on, commands answer with and without a daemon, and the remedy that is told lands it', async () => {
  const repo = project()
  repo.commit('Second', { 'b.txt': 'b\n' })
  const it = gitTeam({ teammates: [{ name: 'ann' }], approvals: { merge_request: 'auto' } }, repo)
  await it.ok('up', '-d')
  repo.git('reset', '-q', '--hard', 'HEAD~1')
  repo.git('gc', '-q', '--prune=now')
  repo.git('branch', '-m', 'main', 'next')
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  await it.shown('1', 'unverified')
  const renamed =
    /base branch main of .* was renamed to next \(set "base": "next" in config\.json, then team down and team up/
  expect((await it.status()).problems).toEqual([expect.stringMatching(renamed)])
  await it.ok('down')
  expect((await it.task('1')).shown).toBe('unverified')
  expect((await it.team('land')).stderr).toMatch(/was renamed to next/)
  const config = JSON.parse(readFileSync(join(it.root, 'config.json'), 'utf8')) as object
  writeFileSync(join(it.root, 'config.json'), JSON.stringify({ ...config, base: 'next' }))
  await it.ok('up', '-d')
  const told = JSON.parse(await it.ok('inbox', 'user', '--json')) as { items: InboxItem[] }
  expect(told.items.map(({ stored }) => stored.message.content)).toEqual([
    expect.stringMatching(renamed),
    expect.stringMatching(/next in .* was rewritten: .* team land brings it back: \w+ Second/),
  ])
  await it.ok('land')
  expect([existsSync(join(repo.dir, 'one.txt')), existsSync(join(repo.dir, 'b.txt'))]).toEqual([true, true])
})
