import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { tempFolder, until, willRun } from '../support/cli.ts'
import { drive, type GitTeam, runbook, settings } from '../support/git-team.ts'
import { initRepo, repoAt } from '../support/repo.ts'

const top = fileURLToPath(new URL('../..', import.meta.url))

/** What a fresh clone of this repository has of the sample team at its top, and a little of the rest. */
const sampleTeam = () => {
  const dir = join(tempFolder(), 'sample')
  const wanted = [
    '.gitignore',
    '.tasks',
    '.messages',
    'config.json',
    'team',
    'docs/config.schema.json',
    'src/lib',
    'LICENSE',
  ]
  const listed = execFileSync('git', ['ls-files', '-z', '--', ...wanted], { cwd: top, encoding: 'utf8' })
  for (const path of listed.split('\0').filter(Boolean)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    cpSync(join(top, path), join(dir, path))
  }
  const repo = repoAt(dir)
  repo.git('init', '-q', '-b', 'main')
  repo.commit('Sample')
  return drive(willRun(dir), repo)
}

test('the sample team: up --once carries out what was dropped, and git status shows the work alone', async () => {
  const it = sampleTeam()
  expect(it.repo.git('ls-files', 'config.json', '.tasks', '.messages')).toMatch(/config.json/)
  it.drop(
    'look.md',
    '---\ntitle: Look around\n---\n~~~sh\nls src/lib\n~~~\n~~~expect\n…result.ts…\n~~~\nnote: seen\n@user: there are files\n',
  )
  it.drop(
    'count.json',
    JSON.stringify({ title: 'Count', blockedBy: ['Look around'], description: '~~~sh\nwc -l LICENSE\n~~~\n' }),
  )
  const ran = await it.team('up', '--once')
  expect({ code: ran.code, said: ran.code === 0 ? '' : ran.stderr }).toEqual({ code: 0, said: '' })
  const status = await it.status()
  expect(status).toMatchObject({ mode: 'dir', trunk: null, base: null })
  expect(status.tasks.map(task => task.shown)).toEqual(['unverified', 'unverified'])
  expect(it.repo.git('status', '--porcelain')).toBe('')
  // A second run with work that leaves a file: that file, and nothing of the team's own.
  it.drop('write.md', '---\ntitle: Write\nassignee: builder\n---\n~~~text file=report/lines.txt\n21\n~~~\n')
  it.drop('fail.md', '---\ntitle: Fail\n---\n~~~sh\nls not-there\n~~~\n')
  const again = await it.team('up', '--once')
  expect([again.code, again.stdout]).toEqual([1, expect.stringContaining('1 task waits for a person')])
  expect(it.repo.git('status', '--porcelain', '-uall')).toBe('?? report/lines.txt')
  const refused = await it.team('land')
  expect([refused.code, refused.stderr]).toEqual([5, expect.stringContaining('in dir mode')])
  expect((await it.team('diff', '1')).code).toBe(5)
})

const dirTeam = (config: object, files: Record<string, string>): GitTeam => {
  const repo = initRepo(join(tempFolder(), 'shared'), files)
  writeFileSync(join(repo.dir, 'config.json'), JSON.stringify({ ...settings, mode: 'dir', ...config }))
  mkdirSync(join(repo.dir, '.tasks'))
  return drive(willRun(repo.dir), repo)
}

test('verify decides in dir mode: red sends it back with the output, green completes it as verified', async () => {
  const check = `const fs = require('fs')
if (fs.readFileSync('a.txt', 'utf8').includes('red')) { console.log('a.txt is red'); process.exit(3) }
`
  const it = dirTeam(
    { teammates: [{ name: 'ann' }], verify: 'node check.cjs' },
    { 'check.cjs': check, 'a.txt': 'one\n' },
  )
  await it.ok('up', '-d')
  const write = (text: string) => `~~~text file=a.txt\n${text}\n~~~\n`
  it.drop('mended.md', `---\ntitle: Mended\n---\n${write('red')}\n## If sent back\n${write('green')}`)
  const done = await it.shown('1', 'completed')
  expect(done).toMatchObject({ returns: 1, attempts: 2, branch: null, result: { outcome: 'verified' } })
  const returned = it.events().find(({ event }) => event === 'task.returned')
  expect(returned?.info?.task).toBe('1')
  expect(await it.requests()).toEqual([])
  it.drop('red.md', `---\ntitle: Red\nverify: node -e "process.exit(4)"\n---\n${write('green again')}`)
  const failed = await it.shown('2', 'failed')
  expect(failed.returns).toBe(1)
  // A check of the task's own runs after the team's.
  const checks = it
    .events()
    .flatMap(({ event, info }) => (event === 'verify.ended' ? [[info?.task, info?.ok, info?.exitCode]] : []))
  expect(checks).toEqual([
    ['1', false, 3],
    ['1', true, 0],
    ['2', false, 4],
  ])
})

test('path leases: writers that may touch the same files are never at work at once, others are, and nobody is passed by for ever', async () => {
  const names = ['a', 'b', 'c', 'd', 'e']
  const it = dirTeam({ teammates: names.map(name => ({ name })), approvals: {} }, { 'src/a.txt': 'a\n' })
  await it.ok('up', '-d')
  const gate = (name: string) => `~~~sh timeout=100
node -e "const fs = require('fs'); const t = setInterval(() => { if (fs.existsSync('go-${name}')) clearInterval(t) }, 20)"
~~~
`
  const drop = (title: string, paths: string[]) =>
    it.drop(`${title}.json`, JSON.stringify({ title, paths, description: gate(title) }))
  const shown = async () => Object.fromEntries((await it.status()).tasks.map(task => [task.title, task.shown]))
  const expected = async (want: Record<string, string>) =>
    until(async () => {
      const now = await shown()
      return Object.entries(want).every(([title, word]) => now[title] === word) && now
    })
  drop('sources', ['src/**'])
  await expected({ sources: 'working' })
  drop('one file', ['./src/a.txt'])
  drop('docs', ['docs/'])
  await expected({ sources: 'working', 'one file': 'ready', docs: 'working' })
  drop('everything', [])
  await expected({ everything: 'ready' })
  drop('more docs', ['docs/more.md'])
  drop('tests', ['test'])
  // Disjoint from all at work, but behind one that waits for everything.
  await expected({ 'more docs': 'ready', tests: 'ready', everything: 'ready' })
  const open = (name: string) => writeFileSync(join(it.root, `go-${name}`), '')
  open('sources')
  await expected({ sources: 'unverified', 'one file': 'working', everything: 'ready', tests: 'ready' })
  open('docs')
  open('one file')
  await expected({ everything: 'working', 'more docs': 'ready', tests: 'ready' })
  open('everything')
  await expected({ 'more docs': 'working', tests: 'working' })
  open('more docs')
  open('tests')
  await expected({ 'more docs': 'unverified', tests: 'unverified' })
  expect(existsSync(join(it.root, '.team', 'hub.git'))).toBe(false)
  expect(readFileSync(join(it.root, 'team', 'a', 'TASK.md'), 'utf8')).toContain('Ended')
})

test('a task without a runbook asks, saying what is missing, and the shared directory is as it was', async () => {
  const it = dirTeam({ teammates: [{ name: 'ann' }] }, { 'a.txt': 'a\n' })
  it.drop('words.md', runbook('Words', {}, 'nothing').replace(/commit:.*/, 'Make it better.'))
  const ran = await it.team('up', '--once')
  expect(ran.code).toBe(1)
  const [asked] = await it.requests()
  expect([asked?.type, asked?.body]).toEqual([
    'question',
    expect.stringMatching(/a model is needed.*OPENAI_API_KEY.*team task retry 1/s),
  ])
  expect(it.repo.git('status', '--porcelain')).toBe('?? config.json')
})
