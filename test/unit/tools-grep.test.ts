import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ToolContext } from '../../src/agent/tool.ts'
import { unwrap } from '../../src/lib/result.ts'
import { globPattern, plainSearch } from '../../src/tools/plain-search.ts'
import { makePlace, type Place } from '../support/sandbox.ts'
import { toolContext, use } from '../support/tools.ts'

let place: Place
let context: ToolContext
let repo: string
beforeEach(() => {
  place = makePlace()
  mkdirSync(join(place.root, 'team/skills/csv'))
  writeFileSync(join(place.root, 'team/skills/csv/SKILL.md'), 'needle in a skill\n')
  context = toolContext(place.view('alice', { mode: 'git' }))
  repo = context.view.cwd
  for (const folder of ['src', 'built', '.github', '.git']) mkdirSync(join(repo, folder))
  writeFileSync(join(repo, '.gitignore'), 'built/\n')
  for (const file of ['src/a.ts', 'src/b.js', 'built/c.ts', '.github/d.yml', '.git/e', 'é "x" 日本.txt'])
    writeFileSync(join(repo, file), `first\nthe needle in ${file}\r\n`)
})
afterEach(() => place.remove())
const grep = async (pattern: string, more: object = {}) =>
  (await use(context, 'grep', { pattern, ...more })).text.split('\n')

test('searches every mount of the view, .gitignore and .git left out, in the order of paths', async () => {
  writeFileSync(join(context.view.home, 'NOTES.md'), 'a needle noted\n')
  const [first, ...rows] = await grep('needle')
  expect(first).toBe('6 hits')
  expect(rows).toEqual([
    'NOTES.md:1: a needle noted',
    'skills/csv/SKILL.md:1: needle in a skill',
    'repo/.github/d.yml:2: the needle in .github/d.yml',
    'repo/src/a.ts:2: the needle in src/a.ts',
    'repo/src/b.js:2: the needle in src/b.js',
    'repo/é "x" 日本.txt:2: the needle in é "x" 日本.txt',
  ])
})

test('can be kept to a folder, a file and a glob', async () => {
  expect(await grep('needle', { path: 'repo/src' })).toHaveLength(3)
  expect(await grep('needle', { path: 'skills' })).toEqual(['1 hit', 'skills/csv/SKILL.md:1: needle in a skill'])
  expect(await grep('needle', { path: 'repo/src/a.ts' })).toEqual(['1 hit', 'repo/src/a.ts:2: the needle in src/a.ts'])
  expect(await grep('needle', { glob: '*.ts' })).toEqual(['1 hit', 'repo/src/a.ts:2: the needle in src/a.ts'])
  expect(await grep('^needle$')).toEqual(['no hits for ^needle$'])
  expect(await grep('-needle')).toEqual(['no hits for -needle'])
})

test('explains a pattern or glob that is none', async () => {
  expect((await grep('a(b'))[0]).toMatch(/^error: the pattern is no regular expression: .*put \\ before/)
  expect((await grep('a', { glob: 'a[' }))[0]).toMatch(/^error: the glob is not valid/)
})

test('says what else to do where an expression asks for what a search has not', async () => {
  for (const [pattern, advice] of [
    ['(?=a)b', /look-ahead.* search for a part of it/],
    ['(a)\\1', /backreferences are not supported; search for a part of it/],
    ['a\\nb', /matched line by line/],
    ['a{99999}{999}', /fewer repetitions/],
  ] as const) {
    const [first = ''] = await grep(pattern)
    expect(first, pattern).toMatch(/^error: the pattern is no regular expression that can be searched for: /)
    expect(first, pattern).toMatch(advice)
    expect(first, pattern).not.toMatch(/pcre2|--multiline/i)
  }
})

test('stops at 50 hits, cuts long lines, and follows no link out', async () => {
  writeFileSync(join(repo, 'many'), 'hit\n'.repeat(200))
  const many = await grep('hit', { path: 'repo/many' })
  expect(many[0]).toMatch(/first 50 hits/)
  expect(many).toHaveLength(51)
  writeFileSync(join(repo, 'long'), `${'x'.repeat(100_000)}pin\n`)
  const [, long = ''] = await grep('xpin', { path: 'repo/long' })
  expect(long.length).toBeLessThan(400)
  mkdirSync(join(place.top, 'outside'))
  writeFileSync(join(place.top, 'outside/f'), 'beyond')
  symlinkSync(join(place.top, 'outside'), join(repo, 'link'))
  expect(await grep('beyond')).toEqual(['no hits for beyond'])
})

test('never shows the run state in dir mode at the team root', async () => {
  const own = makePlace(true)
  try {
    writeFileSync(join(own.root, '.tasks/task_1.json'), 'needle')
    writeFileSync(join(own.root, 'code'), 'needle')
    const view = own.view('bob')
    own.view('eve')
    writeFileSync(join(own.root, 'team/eve/NOTES.md'), 'needle')
    writeFileSync(join(own.root, 'team/bob/out/r'), 'needle')
    const text = (await use(toolContext(view), 'grep', { pattern: 'needle|alice', glob: '**' })).text
    expect(text.split('\n').slice(1).sort()).toEqual(['out/r:1: needle', 'repo/code:1: needle'])
  } finally {
    own.remove()
  }
})

test('without ripgrep a plain search finds the same, and globs mean the same', async () => {
  const search = {
    pattern: 'need.e',
    glob: 'src/*.{ts,js}',
    at: repo,
    hidden: [join(repo, 'src/b.js')],
    most: 50,
    signal: context.signal,
  }
  expect(unwrap(await plainSearch(search))).toEqual([
    { path: join(repo, 'src/a.ts'), line: 2, text: 'the needle in src/a.ts' },
  ])
  expect(await plainSearch({ ...search, pattern: 'a(b' })).toMatchObject({ ok: false, fault: { code: 'usage' } })
  for (const [glob, path, is] of [
    ['*.ts', 'a/b.ts', true],
    ['a/*.ts', 'a/b/c.ts', false],
    ['a/**/*.ts', 'a/c.ts', true],
    ['**/c.ts', 'c.ts', true],
    ['!*.ts', 'a.ts', false],
    ['a.c', 'abc', false],
  ] as const)
    expect(globPattern(glob)(path), glob).toBe(is)
})
