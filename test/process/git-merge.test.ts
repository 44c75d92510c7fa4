import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Hub, openHub } from '../../src/git/hub.ts'
import { unwrap } from '../../src/lib/result.ts'
import { initRepo, type Repo, repoAt, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
let repo: Repo
let hub: Hub
beforeEach(async () => {
  folder = tempFolder()
  repo = initRepo(join(folder.dir, 'ws'), { 'a.txt': '1\n2\n3\n', 'b.bin': Buffer.from([0, 1, 2]), 'c.txt': 'c\n' })
  hub = unwrap(
    await openHub({
      workspace: repo.dir,
      hubDir: join(folder.dir, 'root/.team/hub.git'),
      trunk: 'team/trunk',
      env: { PATH: process.env.PATH },
    }),
  )
})
afterEach(() => folder.remove())

/** A teammate's clone standing on a new task branch at the trunk. */
const mate = async (name: string, branch: string): Promise<Repo> => {
  const clone = repoAt(join(folder.dir, 'root/team', name, 'repo'))
  unwrap(await hub.ensureClone(name, clone.dir))
  clone.git('switch', '-q', '-c', branch, await hub.trunk())
  return clone
}
const mergeIn = async (head: string): Promise<string> => {
  const seen = unwrap(await hub.preview(head))
  if (!seen.clean) throw new Error(`conflict in ${seen.files}`)
  return unwrap(await hub.merge({ head, tree: seen.tree, onto: seen.onto, message: 'Merge it\n\nfor a task' })).commit
}

describe('taking a branch', () => {
  test('brings its head, how many commits it is ahead and the paths it changes', async () => {
    const alice = await mate('alice', 'team/task-1')
    alice.commit('One', { '日本 "x".txt': 'x\n' })
    const head = alice.commit('Two', { 'a.txt': '1\n2\n3 more\n' })
    const fetched = unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    expect({ ...fetched, files: [...fetched.files].sort() }).toEqual({
      head,
      commits: 2,
      files: ['a.txt', '日本 "x".txt'].sort(),
      replaced: null,
    })
    expect(unwrap(await hub.branchHead('team/task-1'))).toBe(head)
    expect(unwrap(await hub.fetchBranch(alice.dir, 'team/task-1')).head).toBe(head)
  })

  test('a rewritten branch replaces what the hub had, whose head is kept', async () => {
    const alice = await mate('alice', 'team/task-1')
    const old = alice.commit('One', { 'x.txt': 'x\n' })
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    alice.git('commit', '-q', '--amend', '-m', 'Better')
    expect(unwrap(await hub.fetchBranch(alice.dir, 'team/task-1')).replaced).toBe(old)
    expect(repoAt(hub.dir).git('rev-parse', `refs/team/old/team/task-1/${old}`)).toBe(old)
    expect(repoAt(hub.dir).git('for-each-ref', 'refs/team/incoming')).toBe('')
  })

  test('only a task’s own branch moves; a missing one is told; other refs of the clone reach nothing', async () => {
    const alice = await mate('alice', 'team/task-1')
    alice.commit('One', { 'x.txt': 'x\n' })
    alice.git('branch', 'team/trunk')
    const trunk = await hub.trunk()
    for (const branch of ['team/trunk', 'main', 'HEAD'])
      expect(await hub.fetchBranch(alice.dir, branch)).toMatchObject({ ok: false, fault: { code: 'refused' } })
    expect(await hub.fetchBranch(alice.dir, 'team/task-9')).toMatchObject({ ok: false, fault: { code: 'unknown' } })
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    expect(await hub.trunk()).toBe(trunk)
    expect(repoAt(hub.dir).git('for-each-ref', '--format=%(refname)', 'refs/heads').split('\n')).toEqual([
      'refs/heads/team/task-1',
      'refs/heads/team/trunk',
    ])
  })

  test('a clone that was bent to read somebody else’s repository is refused', async () => {
    const other = initRepo(join(folder.dir, 'private'), { 'secret.txt': 's\n' })
    other.git('branch', 'team/task-1')
    const alice = await mate('alice', 'team/task-1')
    const objects = join(alice.dir, '.git/objects/info/alternates')
    const was = readFileSync(objects, 'utf8')
    writeFileSync(objects, `${was}${other.dir}/.git/objects\n`)
    const refused = { ok: false, fault: { code: 'refused' } }
    expect(await hub.fetchBranch(alice.dir, 'team/task-1')).toMatchObject(refused)
    writeFileSync(objects, was)
    writeFileSync(join(alice.dir, '.git/commondir'), `${other.dir}/.git\n`)
    expect(await hub.fetchBranch(alice.dir, 'team/task-1')).toMatchObject(refused)
    rmSync(join(alice.dir, '.git'), { recursive: true })
    symlinkSync(join(other.dir, '.git'), join(alice.dir, '.git'))
    expect(await hub.fetchBranch(alice.dir, 'team/task-1')).toMatchObject(refused)
    rmSync(join(alice.dir, '.git'))
    writeFileSync(join(alice.dir, '.git'), `gitdir: ${other.dir}/.git\n`)
    expect(await hub.fetchBranch(alice.dir, 'team/task-1')).toMatchObject(refused)
    expect(unwrap(await hub.branchHead('team/task-1'))).toBe(null)
  })

  test('what a clone’s configuration and hooks name is never run by the supervisor', async () => {
    const alice = await mate('alice', 'team/task-1')
    alice.commit('One', { 'x.txt': 'x\n' })
    const bait = join(folder.dir, 'bait')
    const run = `touch '${bait}'`
    for (const [key, value] of Object.entries({
      'core.fsmonitor': run,
      'core.sshCommand': run,
      'uploadpack.packObjectsHook': run,
      'filter.x.smudge': run,
      'core.alternateRefsCommand': run,
      'extensions.partialClone': 'evil',
      'remote.evil.url': `ext::sh -c ${run.replaceAll(' ', '% ')}`,
      'remote.evil.promisor': 'true',
    }))
      alice.git('config', key, value)
    for (const hook of ['pre-receive', 'post-checkout', 'reference-transaction', 'pre-auto-gc'])
      writeFileSync(join(alice.dir, '.git/hooks', hook), `#!/bin/sh\n${run}\n`, { mode: 0o755 })
    const { head } = unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    unwrap(await hub.fetchRescue(alice.dir, 'alice'))
    unwrap(await hub.checkout(head, join(folder.dir, 'out')))
    await mergeIn(head)
    expect(existsSync(bait)).toBe(false)
  })
})

describe('merging', () => {
  test('two branches that do not meet: both are on the trunk, with the owner’s commits and one merge each', async () => {
    const alice = await mate('alice', 'team/task-1')
    const bob = await mate('bob', 'team/task-2')
    const one = alice.commit('A', { 'a.txt': '1 a\n2\n3\n' })
    const two = bob.commit('B', { 'n.txt': 'n\n' })
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    unwrap(await hub.fetchBranch(bob.dir, 'team/task-2'))
    const first = await mergeIn(one)
    const second = await mergeIn(two)
    expect(await hub.trunk()).toBe(second)
    expect(repoAt(hub.dir).git('log', '-1', '--format=%P|%an|%s', second)).toBe(`${first} ${two}|team|Merge it`)
    expect(repoAt(hub.dir).git('show', `${second}:a.txt`)).toBe('1 a\n2\n3')
    expect(unwrap(await hub.mergeOf(two))).toBe(second)
    // What is on the trunk and not yet in the base, and what one merge brought, once it is there.
    expect((await hub.standing()).ahead).toBe(4)
    const { patch } = unwrap(await hub.show(second))
    expect(patch).toContain('+n')
    expect(patch).not.toContain('1 a')
    expect(unwrap(await hub.mergeOf(one))).toBe(first)
    expect(unwrap(await hub.mergeOf((await hub.standing()).base))).toBe(null)
  })

  test('E09 the same line, delete against edit and a binary file: files and words told, trunk and workspace as they were', async () => {
    const alice = await mate('alice', 'team/task-1')
    const bob = await mate('bob', 'team/task-2')
    alice.git('rm', '-q', 'c.txt')
    const one = alice.commit('A', { 'a.txt': '1\n2 alice\n3\n', 'b.bin': Buffer.from([0, 9]), 'sp ace "é".txt': 'a\n' })
    const two = bob.commit('B', {
      'a.txt': '1\n2 bob\n3\n',
      'b.bin': Buffer.from([0, 8]),
      'c.txt': 'edited\n',
      'sp ace "é".txt': 'b\n',
    })
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    unwrap(await hub.fetchBranch(bob.dir, 'team/task-2'))
    const trunk = await mergeIn(one)
    const seen = unwrap(await hub.preview(two))
    if (seen.clean) throw new Error('expected a conflict')
    expect([...seen.files].sort()).toEqual(['a.txt', 'b.bin', 'c.txt', 'sp ace "é".txt'].sort())
    expect(seen.messages.length).toBeGreaterThanOrEqual(4)
    expect(seen.messages.join('\n')).toMatch(/modify\/delete/)
    expect(await hub.trunk()).toBe(trunk)
    expect(existsSync(join(repo.dir, '.git/MERGE_HEAD'))).toBe(false)
    expect(repo.git('status', '--porcelain')).toBe('')
  })

  test('the trunk moves by compare-and-set: a merge prepared on an older trunk is refused and leaves it alone', async () => {
    const alice = await mate('alice', 'team/task-1')
    const bob = await mate('bob', 'team/task-2')
    const one = alice.commit('A', { 'x.txt': 'x\n' })
    const two = bob.commit('B', { 'y.txt': 'y\n' })
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    unwrap(await hub.fetchBranch(bob.dir, 'team/task-2'))
    const stale = unwrap(await hub.preview(two))
    const trunk = await mergeIn(one)
    if (!stale.clean) throw new Error('conflict')
    const late = await hub.merge({ head: two, tree: stale.tree, onto: stale.onto, message: 'Late' })
    expect(late).toMatchObject({ ok: false, fault: { code: 'conflict' } })
    expect(await hub.trunk()).toBe(trunk)
    await mergeIn(two)
  })

  test('the trunk moves to nothing but the merges of exactly the heads that are told, as git computes them then', async () => {
    const alice = await mate('alice', 'team/task-1')
    const one = alice.commit('A', { 'a.txt': '1 a\n2\n3\n' })
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    const bob = await mate('bob', 'team/task-2')
    const two = bob.commit('B', { 'c.txt': 'b\n' })
    unwrap(await hub.fetchBranch(bob.dir, 'team/task-2'))
    const from = await hub.trunk()
    const chained = async (head: string, onto: string, tree?: string) => {
      const seen = unwrap(await hub.preview(head, onto))
      if (!seen.clean) throw new Error('conflict')
      return unwrap(await hub.commitMerge({ head, onto, tree: tree ?? seen.tree, message: 'Merge' })).commit
    }
    const first = await chained(one, from)
    const second = await chained(two, first)
    // A tree that lost what one side wrote, a chain of others than was told, and one that does not begin at the trunk.
    const lost = await chained(two, first, repoAt(hub.dir).git('rev-parse', `${two}^{tree}`))
    const refused = { ok: false, fault: { code: 'refused' } }
    expect(await hub.moveTrunk({ from, to: lost, heads: [one, two] })).toMatchObject(refused)
    expect(await hub.moveTrunk({ from, to: second, heads: [two, one] })).toMatchObject(refused)
    expect(await hub.moveTrunk({ from, to: second, heads: [two] })).toMatchObject(refused)
    expect(await hub.moveTrunk({ from, to: one, heads: [one] })).toMatchObject(refused)
    expect(await hub.trunk()).toBe(from)
    unwrap(await hub.moveTrunk({ from, to: second, heads: [one, two] }))
    expect([await hub.trunk(), unwrap(await hub.mergeOf(one)), unwrap(await hub.mergeOf(two))]).toEqual([
      second,
      first,
      second,
    ])
    const late = await hub.moveTrunk({ from, to: await chained(two, from), heads: [two] })
    expect(late).toMatchObject({ ok: false, fault: { code: 'conflict' } })
  })

  test('B13 what the trunk holds already is told as up to date, and a history of its own is refused', async () => {
    const alice = await mate('alice', 'team/task-1')
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    expect(unwrap(await hub.preview(await hub.trunk()))).toMatchObject({ clean: true, upToDate: true })
    expect(unwrap(await hub.brings(await hub.trunk()))).toEqual({ commits: 0, files: [] })
    alice.git('switch', '-q', '--orphan', 'team/task-5')
    const head = alice.commit('Alone', { 'z.txt': 'z\n' })
    expect(unwrap(await hub.fetchBranch(alice.dir, 'team/task-5')).files).toEqual(['z.txt'])
    expect(await hub.preview(head)).toMatchObject({ ok: false, fault: { code: 'refused' } })
    expect(unwrap(await hub.diff(head)).patch).toContain('+z')
    expect(await hub.preview('0123456789012345678901234567890123456789')).toMatchObject({
      ok: false,
      fault: { code: 'unknown' },
    })
  })

  test('the diff is against where the branch left the trunk, not against what the trunk got since', async () => {
    const alice = await mate('alice', 'team/task-1')
    const bob = await mate('bob', 'team/task-2')
    const one = alice.commit('A', { 'x.txt': 'x\n' })
    const two = bob.commit('B', { 'é y.txt': 'y\n' })
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    unwrap(await hub.fetchBranch(bob.dir, 'team/task-2'))
    await mergeIn(one)
    const { stat, patch } = unwrap(await hub.diff(two))
    expect(stat).toContain('é y.txt | 1 +')
    expect(patch).toContain('+y')
    expect(patch).not.toContain('x.txt')
  })
})

describe('a clean checkout', () => {
  test('of a merged tree: its files alone, a repository of its own, nothing of any clone’s', async () => {
    const alice = await mate('alice', 'team/task-1')
    writeFileSync(join(alice.dir, 'untracked.txt'), 'u')
    const head = alice.commit('A', { 'x.txt': 'x\n' })
    unwrap(await hub.fetchBranch(alice.dir, 'team/task-1'))
    const seen = unwrap(await hub.preview(head))
    if (!seen.clean) throw new Error('conflict')
    const dir = join(folder.dir, 'verify 1')
    const commit = unwrap(await hub.checkout(seen.tree, dir))
    expect(readFileSync(join(dir, 'x.txt'), 'utf8')).toBe('x\n')
    const out = repoAt(dir)
    expect(out.git('rev-parse', 'HEAD')).toBe(commit)
    expect(out.git('rev-parse', 'HEAD^{tree}')).toBe(seen.tree)
    expect(out.git('status', '--porcelain')).toBe('')
    expect(out.git('remote')).toBe('')
    expect(await hub.checkout(seen.tree, dir)).toMatchObject({ ok: false, fault: { code: 'refused' } })
    expect(await hub.checkout('deadbeef', join(folder.dir, 'none'))).toMatchObject({
      ok: false,
      fault: { code: 'unknown' },
    })
  })
})

describe('landing', () => {
  const work = async (files: Record<string, string>, branch = 'team/task-1') => {
    const alice = await mate(`m${branch.replace(/\D/g, '')}`, branch)
    const head = alice.commit('Work', files)
    unwrap(await hub.fetchBranch(alice.dir, branch))
    return mergeIn(head)
  }
  const refused = (code: string) => ({ ok: false, fault: { code } })

  test('fast-forwards the base with its files, and once more there is nothing to do', async () => {
    const from = repo.git('rev-parse', 'HEAD')
    const to = await work({ 'new é.txt': 'n\n' })
    expect(unwrap(await hub.land())).toEqual({ from, to, branch: 'main', commits: 2, how: 'fast-forward' })
    expect(repo.git('rev-parse', 'main')).toBe(to)
    expect(repo.git('status', '--porcelain')).toBe('')
    expect(existsSync(join(repo.dir, 'new é.txt'))).toBe(true)
    expect(unwrap(await hub.land())).toMatchObject({ how: 'already there', commits: 0 })
    expect(repo.git('for-each-ref', '--format=%(refname)')).toBe('refs/heads/main')
  })

  test('refuses uncommitted changes and files in the way, ignored ones too, and changes nothing', async () => {
    const before = repo.git('rev-parse', 'HEAD')
    await work({ 'a.txt': '1\n2\n3 new\n', 'in way.txt': 'theirs\n', 'ign.log': 'theirs\n' })
    repo.write({ 'c.txt': 'edited\n' })
    const dirty = await hub.land()
    expect(dirty).toMatchObject(refused('refused'))
    expect(dirty.ok ? '' : dirty.fault.message).toContain('c.txt')
    repo.git('checkout', '-q', 'c.txt')
    repo.write({ 'in way.txt': 'mine\n' })
    const way = await hub.land()
    expect(way.ok ? '' : way.fault.message).toContain('in way.txt')
    rmSync(join(repo.dir, 'in way.txt'))
    writeFileSync(join(repo.dir, '.git/info/exclude'), '*.log\n')
    repo.write({ 'ign.log': 'mine\n' })
    const ignored = await hub.land()
    expect(ignored.ok ? '' : ignored.fault.message).toContain('ign.log')
    expect(readFileSync(join(repo.dir, 'ign.log'), 'utf8')).toBe('mine\n')
    expect(repo.git('rev-parse', 'HEAD')).toBe(before)
    rmSync(join(repo.dir, 'ign.log'))
    // Untracked files that are not in the way do not hinder.
    repo.write({ 'free.txt': 'f\n' })
    expect(unwrap(await hub.land()).how).toBe('fast-forward')
    expect(readFileSync(join(repo.dir, 'free.txt'), 'utf8')).toBe('f\n')
  })

  test('a base that is not checked out moves by its ref alone; one in another work tree with its files there', async () => {
    repo.git('switch', '-q', '-c', 'elsewhere')
    repo.write({ 'a.txt': 'dirty, but of another branch\n' })
    const base = unwrap(await openHub({ workspace: repo.dir, hubDir: hub.dir, trunk: 'team/trunk', base: 'main' }))
    const one = await work({ 'x.txt': 'x\n' })
    expect(unwrap(await base.land())).toMatchObject({ branch: 'main', to: one })
    expect(repo.git('rev-parse', 'main')).toBe(one)
    expect(existsSync(join(repo.dir, 'x.txt'))).toBe(false)
    const linked = join(folder.dir, 'linked tree')
    repo.git('worktree', 'add', '-q', linked, 'main')
    const two = await work({ 'y.txt': 'y\n' }, 'team/task-2')
    expect(unwrap(await base.land()).to).toBe(two)
    expect(existsSync(join(linked, 'y.txt'))).toBe(true)
    expect(repoAt(linked).git('status', '--porcelain')).toBe('')
  })

  test('a base that went on is merged with, under the person’s name; a conflict is told and nothing moves', async () => {
    await work({ 'x.txt': 'x\n' })
    repo.git('config', 'user.name', 'Ada Own')
    repo.git('config', 'user.email', 'ada@own.invalid')
    repo.commit('Meanwhile', { 'm.txt': 'm\n' })
    expect(unwrap(await hub.land())).toMatchObject({ how: 'merge', branch: 'main' })
    expect(repo.git('log', '-1', '--format=%an|%s')).toBe('Ada Own|Merge team/trunk into main')
    expect(repo.git('status', '--porcelain')).toBe('')
    expect(readdirSync(repo.dir)).toEqual(expect.arrayContaining(['x.txt', 'm.txt']))
    await work({ 'a.txt': 'team\n' }, 'team/task-2')
    const before = repo.commit('Mine', { 'a.txt': 'mine\n' })
    const conflict = await hub.land()
    expect(conflict).toMatchObject(refused('conflict'))
    expect(conflict.ok ? '' : conflict.fault.message).toContain('a.txt')
    expect(repo.git('rev-parse', 'HEAD')).toBe(before)
    expect(repo.git('status', '--porcelain')).toBe('')
  })

  test('refuses while a rebase or merge is in progress, and runs no hook of the workspace', async () => {
    const bait = join(folder.dir, 'bait')
    mkdirSync(join(repo.dir, '.git/hooks'), { recursive: true })
    for (const hook of ['post-merge', 'reference-transaction', 'post-checkout'])
      writeFileSync(join(repo.dir, '.git/hooks', hook), `#!/bin/sh\ntouch '${bait}'\n`, { mode: 0o755 })
    await work({ 'x.txt': 'x\n' })
    mkdirSync(join(repo.dir, '.git/rebase-merge'))
    writeFileSync(join(repo.dir, '.git/rebase-merge/head-name'), 'refs/heads/main\n')
    expect(await hub.land()).toMatchObject(refused('refused'))
    rmSync(join(repo.dir, '.git/rebase-merge'), { recursive: true })
    rmSync(bait, { force: true })
    unwrap(await hub.land())
    expect(existsSync(bait)).toBe(false)
  })

  test('E17 an index.lock in the workspace is waited for shortly, then told with path and age, and stays', async () => {
    const lock = join(repo.dir, '.git/index.lock')
    await work({ 'x.txt': 'x\n' })
    writeFileSync(lock, '')
    const held = await hub.land()
    expect(held).toMatchObject(refused('held'))
    expect(held.ok ? '' : held.fault.message).toMatch(/index\.lock \(\d+ s old\)/)
    expect(existsSync(lock)).toBe(true)
    rmSync(lock)
    unwrap(await hub.land())
  })
})
