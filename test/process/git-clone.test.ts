import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { copyFiles } from '../../src/git/copy.ts'
import { type Hub, openHub } from '../../src/git/hub.ts'
import { unwrap } from '../../src/lib/result.ts'
import { initRepo, plainEnv, type Repo, repoAt, sh, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
let repo: Repo
beforeEach(() => {
  folder = tempFolder()
  repo = initRepo(join(folder.dir, 'ws'), { 'a.txt': 'one\n', '.gitignore': '.env\nnode_modules/\n' })
})
afterEach(() => folder.remove())

const open = async (): Promise<Hub> =>
  unwrap(
    await openHub({
      workspace: repo.dir,
      hubDir: join(folder.dir, 'root/.team/hub.git'),
      trunk: 'team/trunk',
      env: { PATH: process.env.PATH, HOME: folder.dir },
    }),
  )
const home = (name = 'alice') => join(folder.dir, 'root/team', name, 'repo')

describe('a clone', () => {
  test('stands at the trunk, borrows the hub’s objects and cannot push', async () => {
    const hub = await open()
    expect(unwrap(await hub.ensureClone('alice', home()))).toEqual({
      made: true,
      mended: [],
      aside: null,
      warnings: [],
    })
    const clone = repoAt(home())
    expect(clone.git('rev-parse', 'HEAD')).toBe(await hub.trunk())
    expect(clone.git('rev-parse', 'hub/trunk')).toBe(await hub.trunk())
    expect(clone.git('status', '--porcelain')).toBe('')
    expect(clone.git('count-objects')).toMatch(/^0 objects/)
    expect(clone.git('branch', '--list')).toContain('detached')
    const before = hub.dir && repoAt(hub.dir).git('for-each-ref')
    clone.git('switch', '-q', '-c', 'mine')
    clone.commit('Mine', { 'b.txt': 'b\n' })
    expect(() => clone.git('push', 'hub', 'mine')).toThrow(/supervisor-fetches/)
    expect(repoAt(hub.dir).git('for-each-ref')).toBe(before)
  })

  test('E03 a teammate that comes later gets the newer trunk', async () => {
    const hub = await open()
    unwrap(await hub.ensureClone('alice', home()))
    const newer = repo.commit('More', { 'b.txt': 'two\n' })
    unwrap(await hub.refreshBase())
    unwrap(await hub.ensureClone('bob', home('bob')))
    expect(repoAt(home('bob')).git('rev-parse', 'HEAD')).toBe(newer)
  })

  test('E01 one that stands there is adopted with commits, index and uncommitted work as they were', async () => {
    unwrap(await (await open()).ensureClone('alice', home()))
    const clone = repoAt(home())
    clone.git('switch', '-q', '-c', 'team/task-1')
    const head = clone.commit('Work', { 'b.txt': 'b\n' })
    clone.write({ 'a.txt': 'changed\n', 'new.txt': 'new\n', 'staged.txt': 's\n' })
    clone.git('add', 'staged.txt')
    const status = clone.git('status', '--porcelain')
    const again = unwrap(await (await open()).ensureClone('alice', home()))
    expect(again).toEqual({ made: false, mended: [], aside: null, warnings: [] })
    expect(clone.git('rev-parse', 'HEAD')).toBe(head)
    expect(clone.git('status', '--porcelain')).toBe(status)
  })

  test('E01 a folder removed by hand is made again, and what a crash half made is cleared away', async () => {
    const hub = await open()
    unwrap(await hub.ensureClone('alice', home()))
    rmSync(home(), { recursive: true })
    mkdirSync(join(home(), '..', '.repo.ab12.new', '.git'), { recursive: true })
    expect(unwrap(await hub.ensureClone('alice', home())).made).toBe(true)
    expect(readdirSync(join(home(), '..'))).toEqual(['repo'])
    expect(repoAt(home()).git('status', '--porcelain')).toBe('')
  })

  test('E01 a folder of somebody else, or a link, is a fault of this teammate alone and stays as it is', async () => {
    const hub = await open()
    mkdirSync(home(), { recursive: true })
    writeFileSync(join(home(), 'precious.txt'), 'mine')
    expect(await hub.ensureClone('alice', home())).toMatchObject({ ok: false, fault: { code: 'refused' } })
    expect(readFileSync(join(home(), 'precious.txt'), 'utf8')).toBe('mine')
    mkdirSync(join(folder.dir, 'elsewhere'))
    mkdirSync(join(home('eve'), '..'), { recursive: true })
    symlinkSync(join(folder.dir, 'elsewhere'), home('eve'))
    expect(await hub.ensureClone('eve', home('eve'))).toMatchObject({ ok: false, fault: { code: 'refused' } })
    expect(readdirSync(join(folder.dir, 'elsewhere'))).toEqual([])
    expect(unwrap(await hub.ensureClone('bob', home('bob'))).made).toBe(true)
  })

  test('the link that dir mode left gives way, and the workspace behind it is not touched', async () => {
    const hub = await open()
    mkdirSync(join(home(), '..'), { recursive: true })
    symlinkSync(repo.dir, home())
    expect(unwrap(await hub.ensureClone('alice', home())).made).toBe(true)
    expect(lstatSync(home()).isSymbolicLink()).toBe(false)
    expect(repo.git('status', '--porcelain')).toBe('')
  })

  test('after the team root was moved the clone finds its objects again', async () => {
    unwrap(await (await open()).ensureClone('alice', home()))
    renameSync(join(folder.dir, 'root'), join(folder.dir, 'moved'))
    const hub = unwrap(
      await openHub({ workspace: repo.dir, hubDir: join(folder.dir, 'moved/.team/hub.git'), trunk: 'team/trunk' }),
    )
    const dest = join(folder.dir, 'moved/team/alice/repo')
    expect(unwrap(await hub.ensureClone('alice', dest)).mended).toHaveLength(1)
    expect(repoAt(dest).git('log', '--format=%s')).toBe('Start')
  })

  test('E05 eight at once, in each of three rounds: eight of eight, none with a stray branch', async () => {
    const hub = await open()
    for (let round = 0; round < 3; round++) {
      const names = Array.from({ length: 8 }, (_, i) => `t${round}-${i}`)
      const made = await Promise.all(names.map(name => hub.ensureClone(name, home(name))))
      expect(made.map(one => one.ok && one.value.made)).toEqual(Array(8).fill(true))
      for (const name of names)
        expect(repoAt(home(name)).git('for-each-ref', '--format=%(refname)')).toBe('refs/remotes/hub/trunk')
    }
  })

  test('what the person ignores outside .gitignore is ignored in it too', async () => {
    mkdirSync(join(folder.dir, '.config/git'), { recursive: true })
    writeFileSync(join(folder.dir, '.config/git/ignore'), '*.swp\n')
    writeFileSync(join(repo.dir, '.git/info/exclude'), 'local-notes\n')
    unwrap(await (await open()).ensureClone('alice', home()))
    writeFileSync(join(home(), 'x.swp'), '')
    writeFileSync(join(home(), 'local-notes'), '')
    expect(repoAt(home()).git('status', '--porcelain')).toBe('')
  })
})

describe('hooks', () => {
  const hook = (path: string, body: string) => {
    mkdirSync(join(path, '..'), { recursive: true })
    writeFileSync(path, `#!/bin/sh\n${body}\n`)
    chmodSync(path, 0o755)
  }

  test('E19 the workspace’s pre-commit runs on the teammate’s commits and its output is what the commit says', async () => {
    hook(join(repo.dir, '.git/hooks/pre-commit'), 'echo "no tabs please" >&2; exit 1')
    hook(join(repo.dir, '.git/hooks/post-checkout'), 'exit 1')
    expect(unwrap(await (await open()).ensureClone('alice', home())).made).toBe(true)
    writeFileSync(join(home(), 'b.txt'), 'b')
    expect(sh('git add -A; git commit -q -m x; echo "exit $?"', home())).toContain('no tabs please\nexit 1')
  })

  test('E19 hooks that were taken out of a clone, or changed, are put back when it is adopted', async () => {
    hook(join(repo.dir, '.git/hooks/pre-commit'), 'exit 0')
    const hub = await open()
    unwrap(await hub.ensureClone('alice', home()))
    writeFileSync(join(home(), '.git/hooks/pre-commit'), '#!/bin/sh\necho other\n')
    expect(unwrap(await hub.ensureClone('alice', home())).mended).toEqual(['1 hook files'])
    expect(readFileSync(join(home(), '.git/hooks/pre-commit'), 'utf8')).toContain('exit 0')
  })

  test('E19 core.hooksPath in the work tree keeps its place: tracked and generated hooks find each other', async () => {
    hook(join(repo.dir, '.husky/pre-commit'), 'echo "checked by the project" >&2; exit 1')
    writeFileSync(join(repo.dir, '.gitignore'), '.husky/_\n')
    repo.commit('Hooks')
    hook(join(repo.dir, '.husky/_/pre-commit'), '. "$(dirname "$0")/h"')
    writeFileSync(join(repo.dir, '.husky/_/h'), 'exec sh "$(dirname "$(dirname "$0")")/$(basename "$0")"\n')
    repo.git('config', 'core.hooksPath', '.husky/_')
    unwrap(await (await open()).ensureClone('alice', home()))
    expect(repoAt(home()).git('status', '--porcelain')).toBe('')
    expect(sh('git commit -q --allow-empty -m x; echo "exit $?"', home())).toContain('checked by the project\nexit 1')
    expect(unwrap(await (await open()).ensureClone('alice', home())).mended).toEqual([])
  })

  test('E19 core.hooksPath outside the repository is honoured; a missing folder is told, not passed over', async () => {
    hook(join(folder.dir, 'shared/pre-commit'), 'echo shared; exit 1')
    repo.git('config', 'core.hooksPath', join(folder.dir, 'shared'))
    unwrap(await (await open()).ensureClone('alice', home()))
    expect(sh('git commit --allow-empty -m x', home())).toContain('shared')
    repo.git('config', 'core.hooksPath', 'no/such')
    const told = unwrap(await (await open()).ensureClone('bob', home('bob')))
    expect(told.warnings.join()).toMatch(/no\/such, which does not exist/)
  })

  test('E07 a hook that makes a repository elsewhere leaves the workspace as it was', async () => {
    hook(
      join(repo.dir, '.git/hooks/pre-commit'),
      'd=$(mktemp -d) && unset GIT_DIR GIT_INDEX_FILE && cd "$d" && git init -q . && rm -rf "$d"',
    )
    unwrap(await (await open()).ensureClone('alice', home()))
    expect(sh('git commit -q --allow-empty -m x; echo "exit $?"', home())).toContain('exit 0')
    expect(repo.git('config', 'core.bare')).toBe('false')
    expect(repo.git('status', '--porcelain')).toBe('')
  })

  test('a link that a teammate put into its clone is never written through', async () => {
    hook(join(repo.dir, '.git/hooks/pre-commit'), 'exit 0')
    const hub = await open()
    unwrap(await hub.ensureClone('alice', home()))
    const outside = join(folder.dir, 'outside')
    writeFileSync(outside, 'untouched')
    rmSync(join(home(), '.git/hooks/pre-commit'))
    symlinkSync(outside, join(home(), '.git/hooks/pre-commit'))
    unwrap(await hub.ensureClone('alice', home()))
    expect(readFileSync(outside, 'utf8')).toBe('untouched')
    mkdirSync(join(folder.dir, 'victim'))
    rmSync(join(home(), '.git/hooks'), { recursive: true })
    symlinkSync(join(folder.dir, 'victim'), join(home(), '.git/hooks'))
    expect(await hub.ensureClone('alice', home())).toMatchObject({ ok: false, fault: { code: 'refused' } })
    expect(readdirSync(join(folder.dir, 'victim'))).toEqual([])
  })
})

describe('copy', () => {
  test('E13 files, folders and globs become real copies that stay out of git status; changing one leaves the workspace alone', async () => {
    repo.write({
      '.env': 'KEY=1\n',
      'node_modules/dep/index.js': 'x\n',
      'node_modules/dep/bin.js': 'y\n',
      'conf/a.local.json': '{}\n',
      'conf/b.json': '{}\n',
    })
    mkdirSync(join(repo.dir, 'node_modules/.bin'))
    symlinkSync('../dep/bin.js', join(repo.dir, 'node_modules/.bin/dep'))
    unwrap(await (await open()).ensureClone('alice', home()))
    const done = unwrap(
      copyFiles(repo.dir, home(), ['.env', './node_modules/', '**/*.local.json', 'nothing*', 'a.txt']),
    )
    expect([...done.copied].sort()).toEqual(
      [
        '.env',
        'conf/a.local.json',
        'node_modules/.bin/dep',
        'node_modules/dep/bin.js',
        'node_modules/dep/index.js',
      ].sort(),
    )
    expect(done.missing).toEqual(['nothing*'])
    expect(lstatSync(join(home(), 'node_modules/dep/index.js')).nlink).toBe(1)
    writeFileSync(join(home(), 'node_modules/.bin/dep'), 'changed')
    expect(readFileSync(join(repo.dir, 'node_modules/dep/bin.js'), 'utf8')).toBe('y\n')
    expect(repoAt(home()).git('status', '--porcelain')).toBe('')
    writeFileSync(join(home(), '.env'), 'KEY=own\n')
    expect(unwrap(copyFiles(repo.dir, home(), ['.env'])).copied).toEqual([])
    expect(readFileSync(join(home(), '.env'), 'utf8')).toBe('KEY=own\n')
  })

  test('E13 patterns of a workspace below the repository’s top land at the same place', async () => {
    repo.commit('Sub', { 'sub/b.txt': 'b\n' })
    repo.write({ 'sub/.env': 'K=1\n' })
    const hub = unwrap(
      await openHub({ workspace: join(repo.dir, 'sub'), hubDir: join(folder.dir, 's/hub.git'), trunk: 'team/trunk' }),
    )
    unwrap(await hub.ensureClone('alice', home()))
    expect(unwrap(hub.copy(home(), ['.env'])).copied).toEqual(['sub/.env'])
    const plain = join(folder.dir, 'plain')
    mkdirSync(plain)
    expect(unwrap(hub.copy(plain, ['.env'])).copied).toEqual(['sub/.env'])
    expect(readdirSync(plain)).toEqual(['sub'])
    expect(hub.copy(home(), ['/etc/passwd'])).toMatchObject({ ok: false, fault: { code: 'config' } })
  })

  test('a pattern that leaves the workspace or names the git folder is refused', () => {
    for (const pattern of ['../x', '/etc/passwd', 'a/../../x', '.git/config', ''])
      expect(copyFiles(repo.dir, home(), [pattern])).toMatchObject({ ok: false, fault: { code: 'config' } })
  })
})

test('a workspace with SHA-256 objects works as any other', async () => {
  const dir = join(folder.dir, 'sha256')
  mkdirSync(dir)
  execFileSync('git', ['init', '-q', '-b', 'main', '--object-format=sha256'], { cwd: dir, env: plainEnv(dir) })
  repoAt(dir).commit('Start', { 'a.txt': 'a\n' })
  const hub = unwrap(await openHub({ workspace: dir, hubDir: join(folder.dir, 'h/hub.git'), trunk: 'team/trunk' }))
  unwrap(await hub.ensureClone('alice', home()))
  expect(existsSync(join(home(), 'a.txt'))).toBe(true)
  expect(repoAt(home()).git('rev-parse', 'HEAD')).toHaveLength(64)
})
