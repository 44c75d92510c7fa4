import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { cleanEnv, tempFolder, until } from '../support/cli.ts'
import { fingerprint, gitTeam } from '../support/git-team.ts'
import { type Repo, repoAt } from '../support/repo.ts'

// process-warning (MIT, the Fastify team): a small published package whose tarball holds its own tests for node:test. It is
// pinned among the devDependencies, so that the test needs no network.
const source = dirname(fileURLToPath(import.meta.resolve('process-warning')))

/** The package as it is published, committed as a repository of somebody. */
const published = (): Repo => {
  const dir = join(tempFolder(), 'process-warning')
  cpSync(source, dir, { recursive: true })
  const repo = repoAt(dir)
  repo.git('init', '-q', '-b', 'main')
  repo.commit('process-warning, as published')
  return repo
}

/** The package's own tests, and how many of them pass. */
const ownTests = (dir: string) => {
  const ran = spawnSync(process.execPath, ['--test'], { cwd: dir, env: cleanEnv(), encoding: 'utf8' })
  const count = (what: string) => Number(new RegExp(`^(?:#|ℹ) ${what} (\\d+)$`, 'm').exec(ran.stdout)?.[1])
  return { code: ran.status, passed: count('pass'), failed: count('fail') }
}

/** Replaces one text in a file, and fails when it is not there exactly once. */
const replacing = (file: string, from: string, to: string): string => `~~~js file=.edit.cjs
const fs = require('node:fs')
const text = fs.readFileSync('${file}', 'utf8')
if (text.split(${JSON.stringify(from)}).length !== 2) throw new Error('not there once')
fs.writeFileSync('${file}', text.replace(${JSON.stringify(from)}, () => ${JSON.stringify(to)}))
~~~
~~~sh
node .edit.cjs && rm .edit.cjs
~~~
`

/** Goes on when the test, having seen everybody at work, puts a file there. */
const rendezvous = `~~~sh timeout=60
node -e "const fs = require('fs'); const t = setInterval(() => { if (fs.existsSync('.git/go')) { clearInterval(t) } }, 20)"
~~~
`

const tasks = {
  'codes.md': `---
title: Export the codes that were made
---
${rendezvous}${replacing(
  'index.js',
  `  code = code.toUpperCase()
`,
  `  code = code.toUpperCase()
  codes.add(code)
`,
)}${replacing(
  'index.js',
  `const { format } = require('node:util')
`,
  `const { format } = require('node:util')

/** The code of every warning that was made, in upper case. */
const codes = new Set()
`,
)}~~~js file=test/codes.test.js
'use strict'

const test = require('node:test')
const { createWarning } = require('..')

test('a code that was made is in upper case', t => {
  t.assert.deepStrictEqual(createWarning({ name: 'W', code: 'code_1', message: 'm' }).code, 'CODE_1')
})
~~~
~~~sh
node --test test/codes.test.js
~~~
commit: Remember the codes that were made
`,
  'is-warning.json': JSON.stringify({
    title: 'Tell a warning from other functions',
    description: `${rendezvous}${replacing(
      'index.js',
      'const out = { createWarning, createDeprecation, spyWarning }',
      `function isWarning (value) {
  return typeof value === 'function' && kWarningFn in value
}

const out = { createWarning, createDeprecation, spyWarning, isWarning }`,
    )}~~~js file=test/is-warning.test.js
'use strict'

const test = require('node:test')
const { createWarning, isWarning } = require('..')

test('isWarning tells a warning from other functions', t => {
  t.assert.strictEqual(isWarning(createWarning({ name: 'W', code: 'C', message: 'm' })), true)
  t.assert.strictEqual(isWarning(() => true), false)
})
~~~
~~~sh
node --test test/is-warning.test.js
~~~
commit: Add isWarning
`,
  }),
  'usage.yaml': `title: Say in the README how to run the tests
description: |
${`${rendezvous}${replacing('README.md', '## License', '## Tests\n\n`node --test`\n\n## License')}commit: Say how to run the tests\n`.replace(/^/gm, '  ')}
`,
}

test('three tasks dropped by hand on a published package: worked in parallel, approved, merged, landed, its own tests pass', async () => {
  const repo = published()
  const before = ownTests(repo.dir)
  expect(before).toMatchObject({ code: 0, failed: 0 })
  expect(before.passed).toBeGreaterThan(20)
  // What a person has lying about: a stash and a file that is in no commit.
  repo.write({ 'index.js': `${readFileSync(join(repo.dir, 'index.js'), 'utf8')}// an idea\n` })
  repo.git('stash', '-q')
  repo.write({ 'ideas.txt': 'not for git\n' })
  const untouched = fingerprint(repo)

  const names = ['ann', 'ben', 'cat', 'dan']
  const it = gitTeam({ teammates: names.map(name => ({ name })), verify: 'node --test' }, repo)
  await it.ok('up', '-d')
  for (const [name, text] of Object.entries(tasks)) it.drop(name, text)
  const working = await until(async () => {
    const { tasks, problems } = await it.status()
    expect(problems.filter(problem => problem.includes('.tasks'))).toEqual([])
    const at = tasks.filter(task => task.shown === 'working')
    return at.length === 3 && at
  })
  // All three at work at once, each in a clone of its own, on the task's branch.
  const owners = working.map(task => task.owner ?? '')
  expect(new Set(owners).size).toBe(3)
  for (const { id, owner } of working) {
    const clone = repoAt(it.clone(owner ?? ''))
    await until(() => clone.git('--no-optional-locks', 'branch', '--show-current') === `team/task-${id}`)
    writeFileSync(join(clone.dir, '.git', 'go'), '')
  }
  for (const { id } of working) {
    const request = await it.merge(id)
    expect(request.data.verify).toEqual(['node --test'])
    expect(await it.ok('diff', request.id)).toContain('diff --git')
  }
  expect(fingerprint(repo)).toEqual(untouched)
  const waiting = (await it.requests()).map(request => request.id)
  await it.ok('approve', ...waiting)
  for (const { id } of working) {
    const done = await it.shown(id, 'completed')
    expect(done.result?.outcome).toBe('merged')
  }
  const verified = it.events().filter(({ event, info }) => event === 'verify.ended' && info?.ok === true)
  // What waited was verified together: each task is in a green check, and on record with the tests that were executed.
  expect(new Set(verified.flatMap(({ info }) => info?.tasks ?? info?.task))).toEqual(
    new Set(working.map(({ id }) => id)),
  )
  for (const { effect } of await it.requests()) {
    expect(effect?.merge?.checks).toMatchObject([{ command: 'node --test', where: 'merged', ok: true, exitCode: 0 }])
    expect(effect?.merge?.checks[0]?.tests).toBeGreaterThanOrEqual(before.passed)
  }
  expect(fingerprint(repo)).toEqual(untouched)
  expect((await it.status()).trunk?.ahead).toBe(6)

  const landed = await it.ok('land')
  expect(landed).toMatch(/main: 6 commits landed by fast-forward/)
  const { head, stash, config, worktrees } = fingerprint(repo)
  const { head: h, stash: s, config: c, worktrees: w } = untouched
  expect({ head, stash, config, worktrees: worktrees?.split('\n')[0] }).toEqual({
    head: h,
    stash: s,
    config: c,
    worktrees: w?.split('\n')[0],
  })
  expect(repo.git('status', '--porcelain')).toBe('?? ideas.txt')
  expect(repo.git('for-each-ref', '--format=%(refname)').split('\n').sort()).toEqual(['refs/heads/main', 'refs/stash'])
  const readme = readFileSync(join(repo.dir, 'README.md'), 'utf8')
  expect(readme).toContain('## Tests\n\n`node --test`')
  expect(ownTests(repo.dir)).toEqual({ code: 0, passed: before.passed + 2, failed: 0 })
  await it.ok('down')
  expect(existsSync(join(repo.dir, '.team'))).toBe(false)
})
