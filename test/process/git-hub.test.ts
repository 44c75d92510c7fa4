import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openHub } from '../../src/git/hub.ts'
import { unwrap } from '../../src/lib/result.ts'
import { initRepo, plainEnv, repoAt, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
beforeEach(() => {
  folder = tempFolder()
})
afterEach(() => folder.remove())

const env = { PATH: process.env.PATH, HOME: '/nonexistent' }
const open = (workspace: string, more: { trunk?: string; base?: string; hubDir?: string } = {}) =>
  openHub({ workspace, hubDir: join(folder.dir, 'root/.team/hub.git'), trunk: 'team/trunk', env, ...more })
const fault = async (done: ReturnType<typeof open>) => {
  const result = await done
  if (result.ok) throw new Error('expected a fault')
  return result.fault
}

describe('making the hub', () => {
  test('E03 the trunk starts at the commit checked out now, and its hash is told', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    repo.git('switch', '-q', '-c', 'feature')
    const head = repo.commit('More', { 'b.txt': 'two\n' })
    const hub = unwrap(await open(repo.dir))
    expect(hub.made).toBe(true)
    expect(hub.baseName).toBe('feature')
    expect(await hub.trunk()).toBe(head)
    expect(await hub.standing()).toEqual({ trunk: head, base: head, ahead: 0 })
  })

  test('E03 a base named in the configuration is taken instead, a remote one too', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    const first = repo.git('rev-parse', 'HEAD')
    repo.git('update-ref', 'refs/remotes/origin/next', first)
    repo.commit('More', { 'b.txt': 'two\n' })
    const hub = unwrap(await open(repo.dir, { base: 'origin/next' }))
    expect(await hub.trunk()).toBe(first)
    const landed = await hub.land()
    expect(landed).toMatchObject({ ok: false, fault: { code: 'refused' } })
  })

  test('opening it again finds the same trunk and makes nothing', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    const first = unwrap(await open(repo.dir))
    repo.commit('More')
    const again = unwrap(await open(repo.dir))
    expect(again.made).toBe(false)
    expect(await again.trunk()).toBe(await first.trunk())
  })

  test('E03 the base is remembered: another branch checked out at the next start changes none, the configuration does', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    unwrap(await open(repo.dir))
    repo.git('switch', '-q', '-c', 'side')
    repo.commit('Aside', { 'side.txt': 's\n' })
    const hub = unwrap(await open(repo.dir))
    expect(hub.baseName).toBe('main')
    expect(unwrap(await hub.refreshBase())).toMatchObject({ moved: false, how: 'none' })
    repo.git('checkout', '-q', '--detach')
    expect(unwrap(await open(repo.dir)).baseName).toBe('main')
    expect(unwrap(await open(repo.dir, { base: 'side' })).baseName).toBe('side')
    expect(unwrap(await open(repo.dir)).baseName).toBe('side')
  })

  test('its objects are its own: no alternates, no hard links, and the workspace is untouched', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    repo.git('gc', '-q')
    const before = repo.git('for-each-ref')
    const hub = unwrap(await open(repo.dir))
    expect(existsSync(join(hub.dir, 'objects/info/alternates'))).toBe(false)
    for (const entry of readdirSync(join(hub.dir, 'objects'), { recursive: true, withFileTypes: true }))
      if (entry.isFile()) expect(statSync(join(entry.parentPath, entry.name)).nlink).toBe(1)
    expect(repo.git('for-each-ref')).toBe(before)
    expect(repo.git('status', '--porcelain')).toBe('')
    expect(statSync(hub.dir).mode & 0o077).toBe(0)
  })

  test('what a crash left beside it is cleared away, and a workspace below the top or in a linked work tree is taken', async () => {
    const repo = initRepo(join(folder.dir, 'ws'), { 'sub/a.txt': 'one\n' })
    mkdirSync(join(folder.dir, 'root/.team/.hub.git.0011.new'), { recursive: true })
    const hub = unwrap(await open(join(repo.dir, 'sub')))
    expect(hub.workspace).toMatchObject({ top: repo.dir, prefix: 'sub' })
    expect(readdirSync(join(folder.dir, 'root/.team'))).toEqual(['hub.git'])
    repo.git('worktree', 'add', '-q', '-b', 'side', join(folder.dir, 'linked'))
    const side = unwrap(await open(join(folder.dir, 'linked'), { hubDir: join(folder.dir, 'other/hub.git') }))
    expect(side.baseName).toBe('side')
  })

  test('a lock left in the hub for more than a minute is removed and told, a young one stays', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    const hub = unwrap(await open(repo.dir))
    const old = join(hub.dir, 'refs/heads/team/trunk.lock')
    const young = join(hub.dir, 'packed-refs.lock')
    writeFileSync(old, '')
    writeFileSync(young, '')
    const past = statSync(young).mtimeMs / 1000 - 3600
    utimesSync(old, past, past)
    const again = unwrap(await open(repo.dir))
    expect(again.mended.join()).toContain(old)
    expect(existsSync(old)).toBe(false)
    expect(existsSync(young)).toBe(true)
  })

  test('a lock of a git that was killed under this holder is gone at the next change of refs; an older one, perhaps of a living git, is not', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    unwrap(await open(repo.dir))
    const older = join(folder.dir, 'root/.team/hub.git/config.lock')
    writeFileSync(older, '')
    const hub = unwrap(await open(repo.dir))
    const lock = join(hub.dir, 'refs/team/base.lock')
    writeFileSync(lock, '')
    const head = repo.commit('More', { 'b.txt': 'two\n' })
    expect(await hub.refreshBase()).toMatchObject({ ok: false, fault: { code: 'held' } })
    unwrap(await hub.refreshBase())
    expect(repoAt(hub.dir).git('rev-parse', 'refs/team/base').trim()).toBe(head)
    expect([existsSync(lock), existsSync(older)]).toEqual([false, true])
  })
})

describe('what cannot be worked on is refused with its remedy, and nothing is made', () => {
  const nothing = () => expect(existsSync(join(folder.dir, 'root'))).toBe(false)

  test('a detached HEAD, an unborn branch, a missing base', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    expect((await fault(open(repo.dir, { base: 'mian' }))).hint).toContain('main')
    repo.git('checkout', '-q', '--detach')
    const detached = await fault(open(repo.dir))
    expect(detached).toMatchObject({ code: 'config' })
    expect(detached.hint).toContain('"base"')
    const empty = initRepo(join(folder.dir, 'empty'), {})
    expect((await fault(open(empty.dir))).hint).toContain('--allow-empty')
    nothing()
  })

  test('no repository, a bare one, a shallow one, one with submodules', async () => {
    mkdirSync(join(folder.dir, 'plain'))
    expect((await fault(open(join(folder.dir, 'plain')))).hint).toContain('"mode": "dir"')
    expect((await fault(open(join(folder.dir, 'missing')))).code).toBe('config')
    const repo = initRepo(join(folder.dir, 'ws'))
    repo.commit('More')
    repo.git('clone', '-q', '--bare', repo.dir, join(folder.dir, 'bare.git'))
    expect((await fault(open(join(folder.dir, 'bare.git')))).message).toContain('bare')
    repo.git('clone', '-q', '--depth', '1', `file://${repo.dir}`, join(folder.dir, 'shallow'))
    expect((await fault(open(join(folder.dir, 'shallow')))).hint).toContain('--unshallow')
    repo.git('update-index', '--add', '--cacheinfo', `160000,${repo.git('rev-parse', 'HEAD')},sub`)
    repo.git('commit', '-q', '-m', 'Module')
    expect((await fault(open(repo.dir))).message).toContain('submodules (sub)')
    nothing()
  })

  test('E15 a trunk name that collides with the tasks’ branches', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    for (const trunk of ['team', 'team/task-1', 'a..b', '-x'])
      expect((await fault(open(repo.dir, { trunk }))).code).toBe('config')
    nothing()
  })

  test('a folder of somebody else where the hub should be', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    mkdirSync(join(folder.dir, 'root/.team/hub.git'), { recursive: true })
    expect((await fault(open(repo.dir))).message).toContain('is not a git repository')
  })
})

test('E15 a branch "team", an unrelated "team/…" of the person and a base named team: no clash, no foreign branch touched', async () => {
  const one = initRepo(join(folder.dir, 'one'))
  one.git('switch', '-q', '-c', 'team')
  const hub = unwrap(await open(one.dir))
  expect(hub.baseName).toBe('team')
  const two = initRepo(join(folder.dir, 'two'))
  two.git('branch', 'team/alice')
  two.git('branch', 'team/trunk')
  two.git('branch', 'team/task-1')
  const before = two.git('for-each-ref')
  const other = unwrap(await open(two.dir, { hubDir: join(folder.dir, 'other/hub.git') }))
  unwrap(await other.ensureClone('alice', join(folder.dir, 'other/repo')))
  expect(two.git('for-each-ref')).toBe(before)
  expect(unwrap(await other.branchHead('team/task-1'))).toBe(null)
})

test('where trunk and base stand is asked of git once, then again after each change of refs and after a fault', async () => {
  const repo = initRepo(join(folder.dir, 'ws'))
  const log = join(folder.dir, 'log')
  const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim()
  mkdirSync(join(folder.dir, 'bin'))
  writeFileSync(join(folder.dir, 'bin/git'), `#!/bin/sh\necho run >> '${log}'\nexec '${real}' "$@"\n`, { mode: 0o755 })
  const hubDir = join(folder.dir, 'root/.team/hub.git')
  const told = { ...env, PATH: `${join(folder.dir, 'bin')}:${process.env.PATH}` }
  const hub = unwrap(await openHub({ workspace: repo.dir, hubDir, trunk: 'team/trunk', env: told }))
  const runs = () => readFileSync(log, 'utf8').length
  const start = repo.git('rev-parse', 'HEAD')
  expect(await hub.standing()).toEqual({ trunk: start, base: start, ahead: 0 })
  const after = runs()
  const all = await Promise.all([hub.standing(), hub.standing()])
  expect([all[0], runs()]).toEqual([all[1], after])
  // The person commits: seen once the base is looked at, as before.
  const next = repo.commit('More', { 'b.txt': 'two\n' })
  expect((await hub.standing()).base).toBe(start)
  unwrap(await hub.refreshBase())
  expect(await hub.standing()).toEqual({ trunk: next, base: next, ahead: 0 })
  const clone = repoAt(join(folder.dir, 'root/repo'))
  unwrap(await hub.ensureClone('alice', clone.dir))
  clone.git('switch', '-q', '-c', 'team/task-1')
  const head = clone.commit('Work', { 'c.txt': 'c\n' })
  unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
  const merged = unwrap(await hub.preview(head))
  if (!merged.clean) throw new Error('it conflicts')
  const { commit } = unwrap(await hub.merge({ head, tree: merged.tree, onto: merged.onto, message: 'Merge it' }))
  expect(await hub.standing()).toEqual({ trunk: commit, base: next, ahead: 2 })
  unwrap(await hub.land())
  renameSync(hubDir, `${hubDir}.away`)
  await expect(hub.standing()).rejects.toThrow()
  renameSync(`${hubDir}.away`, hubDir)
  expect(await hub.standing()).toEqual({ trunk: commit, base: next, ahead: 2 })
  unwrap(await hub.refreshBase())
  expect(await hub.standing()).toEqual({ trunk: commit, base: commit, ahead: 0 })
})

test('E07 inherited GIT_DIR, GIT_INDEX_FILE and their like reach no git child', async () => {
  const repo = initRepo(join(folder.dir, 'ws'))
  const victim = initRepo(join(folder.dir, 'victim'))
  const config = readFileSync(join(victim.dir, '.git/config'), 'utf8')
  const names = {
    GIT_DIR: join(victim.dir, '.git'),
    GIT_INDEX_FILE: join(victim.dir, '.git/index'),
    GIT_WORK_TREE: victim.dir,
  }
  const saved = { ...process.env }
  Object.assign(process.env, names)
  try {
    const dirty = { ...env, ...names, GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'core.bare', GIT_CONFIG_VALUE_0: 'true' }
    const hub = unwrap(
      await openHub({ workspace: repo.dir, hubDir: join(folder.dir, 'h/hub.git'), trunk: 'team/trunk', env: dirty }),
    )
    unwrap(await hub.ensureClone('alice', join(folder.dir, 'h/repo')))
    expect(await hub.trunk()).toBe(repoAt(repo.dir).git('rev-parse', 'HEAD'))
  } finally {
    for (const name of Object.keys(names)) delete process.env[name]
    Object.assign(process.env, saved)
  }
  expect(readFileSync(join(victim.dir, '.git/config'), 'utf8')).toBe(config)
  expect(victim.git('config', 'core.bare')).toBe('false')
  expect(victim.git('for-each-ref', '--format=%(refname)')).toBe('refs/heads/main')
})

describe('a base that moves', () => {
  test('E03 is brought into the trunk: nothing, fast-forward, merge, and conflict, where nothing moves', async () => {
    const repo = initRepo(join(folder.dir, 'ws'), { 'a.txt': '1\n2\n3\n', 'b.txt': 'b\n' })
    const hub = unwrap(await open(repo.dir))
    expect(unwrap(await hub.refreshBase())).toMatchObject({ moved: false, how: 'none' })
    const second = repo.commit('Second', { 'b.txt': 'bb\n' })
    expect(unwrap(await hub.refreshBase())).toMatchObject({
      moved: true,
      how: 'fast-forward',
      to: second,
      trunk: second,
    })
    // Work on the trunk that the base has not.
    const side = repoAt(join(folder.dir, 'side'))
    execFileSync('git', ['clone', '-q', hub.dir, side.dir], { env: plainEnv(folder.dir) })
    const worked = side.commit('Work', { 'a.txt': '1\n2\n3 worked\n' })
    side.git('push', '-q', 'origin', 'HEAD:refs/heads/team/trunk')
    const third = repo.commit('Third', { 'b.txt': 'bbb\n' })
    const seen = unwrap(await hub.refreshBase())
    // Nobody has seen that tree yet, so it is the caller's to check and to merge.
    expect(seen).toMatchObject({ how: 'merge', to: third, trunk: worked, tree: expect.any(String) })
    expect(await hub.trunk()).toBe(worked)
    expect(unwrap(await hub.refreshBase())).toEqual({ ...seen, moved: false, from: third })
    const what = { head: third, tree: seen.tree ?? '', onto: worked, message: 'Merge main' }
    const merged = unwrap(await hub.merge(what)).commit
    expect(await hub.trunk()).toBe(merged)
    expect(unwrap(await hub.brings(worked)).commits).toBe(0)
    repo.commit('Fourth', { 'a.txt': '1\n2\n3 otherwise\n' })
    const conflict = unwrap(await hub.refreshBase())
    expect(conflict).toMatchObject({ how: 'conflict', files: ['a.txt'], trunk: merged })
    expect(await hub.trunk()).toBe(merged)
    // Not forgotten: it is told again until it is settled.
    expect(unwrap(await hub.refreshBase())).toMatchObject({ moved: false, how: 'conflict' })
  })

  test('a rewritten one is told as such, a removed or unrelated one is a fault with its remedy', async () => {
    const repo = initRepo(join(folder.dir, 'ws'))
    repo.commit('More', { 'b.txt': 'x\n' })
    const hub = unwrap(await open(repo.dir))
    repo.git('commit', '-q', '--amend', '-m', 'Other words')
    expect(unwrap(await hub.refreshBase())).toMatchObject({ moved: true, rewritten: true, how: 'merge' })
    repo.git('checkout', '-q', '--orphan', 'fresh')
    repo.commit('Another start', { 'z.txt': 'z\n' })
    repo.git('branch', '-f', 'main')
    expect(await hub.refreshBase()).toMatchObject({ ok: false, fault: { code: 'refused' } })
    repo.git('branch', '-D', 'main')
    expect(await hub.refreshBase()).toMatchObject({ ok: false, fault: { code: 'config' } })
  })
})

test('E11 spaces, quotes and unicode in the workspace’s path and its files', async () => {
  const repo = initRepo(join(folder.dir, "My Projekt é's (1)"), { '日本 "x".txt': 'a\n' })
  const hub = unwrap(await open(repo.dir, { hubDir: join(folder.dir, "My root é's (1)/.team/hub.git") }))
  const dest = join(folder.dir, "My root é's (1)/team/a-b/repo")
  unwrap(await hub.ensureClone('a-b', dest))
  expect(readFileSync(join(dest, '日本 "x".txt'), 'utf8')).toBe('a\n')
  symlinkSync(repo.dir, join(folder.dir, 'link'))
  expect(unwrap(await open(join(folder.dir, 'link'), { hubDir: join(folder.dir, 'l/hub.git') })).workspace.dir).toBe(
    repo.dir,
  )
  rmSync(dest, { recursive: true })
  expect(unwrap(await hub.ensureClone('a-b', dest)).made).toBe(true)
})
