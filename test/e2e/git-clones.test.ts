import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempFolder, until } from '../support/cli.ts'
import { fingerprint, type GitTeam, gitTeam, runbook, settings } from '../support/git-team.ts'
import { initRepo, repoAt } from '../support/repo.ts'

const project = (name = 'project', files: Record<string, string | Buffer> = {}) =>
  initRepo(join(tempFolder(), name), { 'a.txt': 'one\n', ...files })

const kill = async (it: GitTeam) => {
  const pid = (await it.status()).holder?.pid
  if (pid === undefined) throw new Error('no daemon')
  process.kill(pid, 'SIGKILL')
}

test('E01 after kill -9 the clone is taken up with what was uncommitted; a removed one is made anew; a foreign folder is one teammate’s trouble, until it is moved away', async () => {
  const it = gitTeam({ teammates: [{ name: 'ann' }, { name: 'ben' }] }, project())
  await it.ok('up', '-d')
  const half = `~~~sh
node -e "require('fs').writeFileSync('half.txt', 'half')"
~~~
`
  it.drop('one.md', `---\ntitle: One\nassignee: ann\n---\n${half}${runbook.gate}commit: One\n`)
  const clone = it.clone('ann')
  await until(() => existsSync(join(clone, 'half.txt')))
  const inode = repoAt(clone).git('rev-parse', '--git-dir')
  await kill(it)
  rmSync(it.clone('ben'), { recursive: true })
  mkdirSync(it.clone('ben'))
  writeFileSync(join(it.clone('ben'), 'mine.txt'), 'somebody’s')
  await it.ok('up', '-d')
  expect(repoAt(clone).git('rev-parse', '--git-dir')).toBe(inode)
  const { teammates } = await it.status()
  expect(teammates.map(mate => [mate.name, mate.state === 'failed', mate.reason])).toEqual([
    ['ann', false, null],
    ['ben', true, expect.stringContaining('is no clone that this team made')],
  ])
  // The command that was cut off is run once more by the runbook.
  writeFileSync(join(clone, '.git', 'go'), '')
  const { data } = await it.merge('1')
  expect([data.commits, data.files]).toEqual([1, ['half.txt']])
  const still = await it.team('restart', 'ben')
  expect([still.code, still.stderr]).toEqual([5, expect.stringContaining('is no clone that this team made')])
  renameSync(it.clone('ben'), `${it.clone('ben')}.aside`)
  await it.ok('restart', 'ben')
  it.drop('two.md', runbook('Two', { 'two.txt': '2\n' }, 'Two', { head: 'assignee: ben' }))
  expect((await it.merge('2')).data.files).toEqual(['two.txt'])
  expect(readFileSync(join(`${it.clone('ben')}.aside`, 'mine.txt'), 'utf8')).toBe('somebody’s')
})

test('E03 work starts at the branch checked out, not at what its remote has; the hash is shown; a later teammate gets the newer one', async () => {
  const repo = project()
  repo.git('switch', '-q', '-c', 'feature')
  repo.git('update-ref', 'refs/remotes/origin/feature', 'HEAD')
  const first = repo.commit('Ahead of the remote', { 'b.txt': 'b\n' })
  const it = gitTeam({ teammates: [{ name: 'ann' }] }, repo)
  await it.ok('up', '-d')
  const shown = await it.status()
  expect([shown.base, shown.trunk?.commit]).toEqual([{ name: 'feature', commit: first }, first])
  expect(await it.ok('status')).toContain(`feature ${first.slice(0, 10)}`)
  expect(repoAt(it.clone('ann')).git('rev-parse', 'HEAD')).toBe(first)
  await it.ok('down')
  const second = repo.commit('More', { 'c.txt': 'c\n' })
  writeFileSync(
    join(it.root, 'config.json'),
    JSON.stringify({ workspace: repo.dir, ...settings, teammates: [{ name: 'ann' }, { name: 'ben' }] }),
  )
  await it.ok('up', '-d')
  expect((await it.status()).base?.commit).toBe(second)
  expect(repoAt(it.clone('ben')).git('rev-parse', 'HEAD')).toBe(second)
})

test('E05 eight teammates at once on a remote’s branch: eight clones, and no branch in the person’s repository', async () => {
  const repo = project()
  repo.git('update-ref', 'refs/remotes/origin/main', 'HEAD')
  const before = fingerprint(repo)
  const it = gitTeam(
    { teammates: [{ name: 'ann', count: 8 }], base: 'origin/main', approvals: { merge_request: 'auto' } },
    repo,
  )
  await it.ok('up', '-d')
  const drops = Array.from({ length: 8 }, (_, i) => ({
    title: `T${i}`,
    assignee: `ann-${i + 1}`,
    description: runbook.steps({ [`${i}.txt`]: `${i}\n` }, `T${i}`),
  }))
  it.drop('all.json', JSON.stringify(drops))
  await until(async () => (await it.status()).tasks.filter(task => task.shown === 'unverified').length === 8, 60_000)
  expect(fingerprint(repo)).toEqual(before)
  const refused = await it.team('land')
  expect([refused.code, refused.stderr]).toEqual([
    5,
    expect.stringMatching(/origin\/main is a remote's branch.*local branch/s),
  ])
})

test('E07 started inside a git hook’s environment, with a hook that makes repositories elsewhere: only the right ones are touched', async () => {
  const repo = project()
  const hook = join(repo.dir, '.git', 'hooks', 'pre-commit')
  mkdirSync(join(repo.dir, '.git', 'hooks'), { recursive: true })
  writeFileSync(
    hook,
    '#!/bin/sh\nd=$(mktemp -d) && git init -q "$d" && git -C "$d" config user.name x && rm -rf "$d"\necho hooked > hooked.txt && git add hooked.txt\n',
    { mode: 0o755 },
  )
  const it = gitTeam({ teammates: [{ name: 'ann' }], approvals: { merge_request: 'auto' } }, repo)
  const before = fingerprint(repo)
  const { dir } = repo
  const env = {
    GIT_DIR: join(dir, '.git'),
    GIT_INDEX_FILE: join(dir, '.git', 'index'),
    GIT_WORK_TREE: dir,
    GIT_PREFIX: 'x/',
  }
  const { teamOk } = await import('../support/cli.ts')
  await teamOk(['up', '-d', '--root', it.root], { cwd: dir, env })
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  await it.shown('1', 'unverified')
  expect(fingerprint(repo)).toEqual(before)
  expect(repo.git('config', '--get', '--default', 'false', 'core.bare')).toBe('false')
  await teamOk(['land', '--root', it.root], { cwd: dir, env })
  expect(readFileSync(join(dir, 'hooked.txt'), 'utf8')).toBe('hooked\n')
  expect(repo.git('status', '--porcelain')).toBe('')
})
