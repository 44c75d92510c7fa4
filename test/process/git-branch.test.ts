import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readStatus, readSwitch, type SwitchOptions, statusScript, switchScript } from '../../src/git/branch.ts'
import { type Hub, openHub } from '../../src/git/hub.ts'
import { shellWord, unquotePath } from '../../src/git/script.ts'
import { unwrap } from '../../src/lib/result.ts'
import { initRepo, type Repo, repoAt, sh, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
let repo: Repo
let hub: Hub
let clone: Repo
beforeEach(async () => {
  folder = tempFolder()
  repo = initRepo(join(folder.dir, "w's"), { 'a.txt': 'one\n', '.gitignore': 'build\n*.log\n' })
  hub = unwrap(
    await openHub({
      workspace: repo.dir,
      hubDir: join(folder.dir, "r 'é'/.team/hub.git"),
      trunk: 'team/trunk',
      env: { PATH: process.env.PATH },
    }),
  )
  clone = repoAt(join(folder.dir, "r 'é'/team/alice/repo"))
  unwrap(await hub.ensureClone('alice', clone.dir))
})
afterEach(() => folder.remove())

const script = async (branch: string, more: Partial<SwitchOptions> = {}) =>
  switchScript({
    branch,
    start: await hub.trunk(),
    resume: unwrap(await hub.branchHead(branch)),
    hub: hub.dir,
    trunkRef: 'refs/heads/team/trunk',
    mergeTrunk: null,
    ...more,
  })
const switchTo = async (branch: string, more: Partial<SwitchOptions> = {}, at = clone) =>
  unwrap(readSwitch(sh(await script(branch, more), at.dir)))
const merged = async (branch: string) => {
  const fetched = unwrap(await hub.fetchBranch(clone.dir, branch))
  const seen = unwrap(await hub.preview(fetched.head))
  if (!seen.clean) throw new Error('conflict')
  return unwrap(await hub.merge({ head: fetched.head, tree: seen.tree, onto: seen.onto, message: 'Merge' })).commit
}

describe('switching to a task’s branch', () => {
  test('a new one starts at the trunk as it is now, and hub/trunk is brought along', async () => {
    const newer = repo.commit('More', { 'b.txt': 'b\n' })
    unwrap(await hub.refreshBase())
    const done = await switchTo('team/task-1')
    expect(done).toEqual({
      branch: 'team/task-1',
      head: newer,
      rescued: [],
      mergedTrunk: 'no',
      conflicts: [],
      kept: false,
      notes: [],
    })
    expect(clone.git('rev-parse', 'hub/trunk')).toBe(newer)
    // The hub's HEAD is its trunk, whatever that is called.
    expect((await switchTo('team/task-2', { trunkRef: 'HEAD' })).head).toBe(newer)
    expect(clone.git('status', '--porcelain')).toBe('')
  })

  test('run again it changes nothing, and commits and uncommitted work of the same branch stay', async () => {
    await switchTo('team/task-1')
    const head = clone.commit('Work', { 'b.txt': 'b\n' })
    clone.write({ 'a.txt': 'changed\n', 'new.txt': 'n\n' })
    const done = await switchTo('team/task-1')
    expect(done).toMatchObject({ head, rescued: [], kept: true })
    expect(clone.git('status', '--porcelain')).toBe(' M a.txt\n?? new.txt')
  })

  test('uncommitted work of another branch is saved whole before anything moves: changed, staged, untracked, removed', async () => {
    await switchTo('team/task-1')
    clone.commit('Work', { 'gone.txt': 'g\n', 'x.txt': 'x\n' })
    clone.write({ 'a.txt': 'staged\n', '日本 "x"\n.txt': 'odd\n', 'dir/new.txt': 'n\n', 'build/out': 'ignored\n' })
    clone.git('add', 'a.txt')
    clone.write({ 'a.txt': 'in the tree\n' })
    rmSync(join(clone.dir, 'gone.txt'))
    const done = await switchTo('team/task-2')
    expect(done.rescued).toHaveLength(1)
    const ref = done.rescued[0] as string
    expect(ref).toMatch(/^refs\/team\/rescue\/team\/task-1-\d{8}T\d{6}Z-[0-9a-f]{10}$/)
    expect(clone.git('show', `${ref}:a.txt`)).toBe('in the tree')
    expect(clone.git('show', `${ref}^2:a.txt`)).toBe('staged')
    expect(clone.git('show', `${ref}:日本 "x"\n.txt`)).toBe('odd')
    expect(clone.git('show', `${ref}:dir/new.txt`)).toBe('n')
    expect(clone.git('ls-tree', '-r', '--name-only', ref)).not.toContain('gone.txt')
    expect(clone.git('status', '--porcelain')).toBe('')
    expect(clone.git('rev-parse', `${ref}^`)).toBe(clone.git('rev-parse', 'team/task-1'))
    expect(readFileSync(join(clone.dir, 'build/out'), 'utf8')).toBe('ignored\n')
    // And it reaches the hub, under the teammate's name, once.
    expect(unwrap(await hub.fetchRescue(clone.dir, 'alice'))).toEqual([ref.replace('rescue/', 'rescue/alice/')])
    expect(unwrap(await hub.fetchRescue(clone.dir, 'alice'))).toEqual([])
  })

  test('an ignored file that the next branch has of its own is saved, not overwritten', async () => {
    await switchTo('team/task-1')
    clone.git('add', '-f', '.')
    clone.write({ build: 'theirs\n', 'deep/x.log': 'theirs\n' })
    clone.git('add', '-f', 'build', 'deep/x.log')
    clone.git('commit', '-q', '-m', 'Tracked after all')
    await switchTo('team/task-2')
    clone.write({ 'build/mine': 'mine\n' })
    clone.write({ 'deep/x.log': 'mine too\n' })
    const done = await switchTo('team/task-1')
    expect(done.rescued).toHaveLength(1)
    expect(clone.git('show', `${done.rescued[0]}:build/mine`)).toBe('mine')
    expect(clone.git('show', `${done.rescued[0]}:deep/x.log`)).toBe('mine too')
    expect(readFileSync(join(clone.dir, 'build'), 'utf8')).toBe('theirs\n')
  })

  test('a half-done merge or rebase is left behind with its state saved, and a detached commit is not lost', async () => {
    await switchTo('team/task-1')
    clone.commit('Mine', { 'a.txt': 'mine\n' })
    clone.git('branch', 'other', 'HEAD~1')
    clone.git('switch', '-q', 'other')
    clone.commit('Theirs', { 'a.txt': 'theirs\n' })
    clone.git('switch', '-q', 'team/task-1')
    expect(() => clone.git('merge', 'other')).toThrow()
    const first = await switchTo('team/task-2')
    expect(clone.git('show', `${first.rescued[0]}:a.txt`)).toContain('<<<<<<<')
    expect(existsSync(join(clone.dir, '.git/MERGE_HEAD'))).toBe(false)
    await switchTo('team/task-1')
    expect(() => clone.git('rebase', 'other')).toThrow()
    const second = await switchTo('team/task-2')
    expect(second.rescued).toHaveLength(1)
    expect(existsSync(join(clone.dir, '.git/rebase-merge'))).toBe(false)
    clone.git('checkout', '-q', '--detach')
    const lost = clone.commit('Nowhere', { 'n.txt': 'n\n' })
    const third = await switchTo('team/task-1')
    expect(clone.git('rev-parse', `${third.rescued[0]}`)).toBe(lost)
  })

  test('a repository inside the clone is neither saved nor touched, and stops nothing', async () => {
    await switchTo('team/task-1')
    initRepo(join(clone.dir, 'deep/in ner'), {})
    clone.write({ 'deep/beside.txt': 'b\n' })
    const done = await switchTo('team/task-2')
    expect(clone.git('show', `${done.rescued[0]}:deep/beside.txt`)).toBe('b')
    expect(done.notes.join()).toContain('deep/in ner is a repository of its own')
    expect(existsSync(join(clone.dir, 'deep/in ner/.git/HEAD'))).toBe(true)
  })

  test('the next owner starts where the last one’s branch stands in the hub', async () => {
    await switchTo('team/task-1')
    const head = clone.commit('Half', { 'b.txt': 'b\n' })
    unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
    const bob = repoAt(join(folder.dir, 'bob'))
    unwrap(await hub.ensureClone('bob', bob.dir))
    expect(await switchTo('team/task-1', {}, bob)).toMatchObject({ head, rescued: [] })
    // Back with alice, who has the older head: forward to bob's.
    const more = bob.commit('Rest', { 'c.txt': 'c\n' })
    unwrap(await hub.fetchBranch(bob.dir, 'team/task-1'))
    expect(await switchTo('team/task-1')).toMatchObject({ head: more, rescued: [] })
    expect(existsSync(join(clone.dir, 'c.txt'))).toBe(true)
  })

  test('a clone’s own newer or rebased work stays; what went another way than the hub is saved first', async () => {
    await switchTo('team/task-1')
    clone.commit('First', { 'b.txt': 'b\n' })
    unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
    await switchTo('team/task-1')
    clone.git('commit', '-q', '--amend', '-m', 'Rebased')
    const rebased = clone.git('rev-parse', 'HEAD')
    expect(await switchTo('team/task-1')).toMatchObject({ head: rebased, rescued: [] })
    // Somebody else moved the hub's branch meanwhile.
    const bob = repoAt(join(folder.dir, 'bob'))
    unwrap(await hub.ensureClone('bob', bob.dir))
    await switchTo('team/task-1', {}, bob)
    const theirs = bob.commit('Theirs', { 'c.txt': 'c\n' })
    unwrap(await hub.fetchBranch(bob.dir, 'team/task-1'))
    const done = await switchTo('team/task-1')
    expect(done.head).toBe(theirs)
    expect(clone.git('rev-parse', `${done.rescued[0]}`)).toBe(rebased)
  })

  test('the trunk is merged in when asked: already there, clean, or with the conflict left to be settled', async () => {
    await switchTo('team/task-1')
    const trunk = await hub.trunk()
    expect((await switchTo('team/task-1', { mergeTrunk: trunk })).mergedTrunk).toBe('already')
    clone.commit('Mine', { 'a.txt': 'mine\n' })
    repo.commit('Base', { 'other.txt': 'o\n' })
    unwrap(await hub.refreshBase())
    const clean = await switchTo('team/task-1', { mergeTrunk: await hub.trunk() })
    expect(clean).toMatchObject({ mergedTrunk: 'clean', head: clone.git('rev-parse', 'HEAD') })
    expect(existsSync(join(clone.dir, 'other.txt'))).toBe(true)
    repo.commit('Base again', { 'a.txt': 'theirs\n', '日本.txt': 'x\n' })
    unwrap(await hub.refreshBase())
    const conflict = await switchTo('team/task-1', { mergeTrunk: await hub.trunk() })
    expect(conflict).toMatchObject({ mergedTrunk: 'conflict', conflicts: ['a.txt'] })
    expect(readFileSync(join(clone.dir, 'a.txt'), 'utf8')).toContain('<<<<<<<')
    // Cut here by a crash and run again: still there to be settled.
    const again = await switchTo('team/task-1', { mergeTrunk: await hub.trunk() })
    expect(again).toMatchObject({ mergedTrunk: 'conflict', conflicts: ['a.txt'], kept: true, rescued: [] })
    // Settled, it is not brought again, wherever the trunk is by then.
    const wanted = await hub.trunk()
    clone.commit('Settled', { 'a.txt': 'both\n' })
    repo.commit('Base once more', { 'more.txt': 'm\n' })
    unwrap(await hub.refreshBase())
    expect(await switchTo('team/task-1', { mergeTrunk: wanted })).toMatchObject({ mergedTrunk: 'already' })
    expect(existsSync(join(clone.dir, 'more.txt'))).toBe(false)
  })

  test('what is deleted on one side, renamed or binary is left to be settled; what is uncommitted is saved first', async () => {
    repo.commit('More', { 'gone.txt': '1\n', 'old.txt': '1\n2\n3\n', 'pic.bin': Buffer.from([0, 1]), 'x/y.txt': '1\n' })
    unwrap(await hub.refreshBase())
    await switchTo('team/task-1')
    clone.git('rm', '-q', 'gone.txt')
    clone.git('mv', 'old.txt', 'mine.txt')
    clone.commit('Mine', { 'pic.bin': Buffer.from([0, 2]), 'x/y.txt': 'mine\n' })
    repo.git('mv', 'old.txt', 'theirs.txt')
    repo.commit('Base', {
      'gone.txt': '2\n',
      'pic.bin': Buffer.from([0, 3]),
      'new.txt': 'theirs\n',
      'n.log': 'tracked\n',
    })
    repo.git('add', '-f', 'n.log')
    repo.commit('Log')
    unwrap(await hub.refreshBase())
    const trunk = await hub.trunk()
    const seen = unwrap(await hub.preview(unwrap(await hub.fetchBranch(clone.dir, 'team/task-1')).head))
    // Half-done: what a merge that was cut may leave. An ignored file lies where the trunk has one.
    clone.write({ 'a.txt': 'half\n', 'new.txt': 'mine\n', 'n.log': 'mine\n' })
    const done = await switchTo('team/task-1', { mergeTrunk: trunk })
    expect(done).toMatchObject({ mergedTrunk: 'conflict', kept: false })
    expect(done.conflicts).toEqual(['gone.txt', 'mine.txt', 'old.txt', 'pic.bin', 'theirs.txt'])
    expect(seen).toMatchObject({ clean: false, files: expect.arrayContaining(['gone.txt', 'pic.bin']) })
    const saved = (path: string) => clone.git('show', `${done.rescued[0]}:${path}`)
    expect(['a.txt', 'new.txt', 'n.log'].map(saved)).toEqual(['half', 'mine', 'mine'])
    expect(readFileSync(join(clone.dir, 'new.txt'), 'utf8')).toBe('theirs\n')
    expect(readFileSync(join(clone.dir, 'x/y.txt'), 'utf8')).toBe('mine\n')
    expect(clone.git('rev-parse', 'MERGE_HEAD')).toBe(trunk)
    expect(unwrap(readStatus(sh(statusScript(), clone.dir)))).toMatchObject({ operation: 'merge' })
    if (seen.clean) throw new Error('clean')
    const told = unwrap(await hub.conflict({ head: clone.git('rev-parse', 'HEAD'), onto: trunk, files: seen.files }))
    expect(told.since.map(({ subject }) => subject)).toEqual(['Base'])
    expect(told.files.flatMap(({ hunks }) => hunks)).toEqual([])
  })

  test('a conflict is told with its hunks and with what came to the trunk there meanwhile', async () => {
    await switchTo('team/task-1')
    const head = clone.commit('Mine', { 'a.txt': 'mine\n' })
    unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
    repo.commit('Elsewhere', { 'b.txt': 'b\n' })
    const commit = repo.commit('There', { 'a.txt': 'theirs\n' })
    unwrap(await hub.refreshBase())
    expect(unwrap(await hub.conflict({ head, onto: await hub.trunk(), files: ['a.txt'] }))).toEqual({
      files: [{ path: 'a.txt', hunks: ['<<<<<<< the trunk\ntheirs\n=======\nmine\n>>>>>>> your branch'] }],
      since: [{ commit, subject: 'There', files: ['a.txt'] }],
    })
  })

  test('marks of a conflict that were committed are told by place; a heading underlined like one is none', async () => {
    clone.git('checkout', '-q', '-b', 'team/task-1')
    const status = () => unwrap(readStatus(sh(statusScript(), clone.dir)))
    clone.commit('Mine', {
      "it's.txt": 'x\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> hub/trunk\n',
      'head.rst': 'Heading\n=======\n',
      'meant.txt': '<<<<<<< a\n=======\n>>>>>>> b\n',
      '.gitattributes': 'meant.txt conflict-marker-size=30\n',
    })
    expect(status().marks).toEqual(["it's.txt:2", "it's.txt:4", "it's.txt:6"])
    clone.commit('Settled', { "it's.txt": 'both\n' })
    expect(status().marks).toEqual([])
  })

  test('E19 a post-checkout hook that fails is told, and the switch stands', async () => {
    mkdirSync(join(repo.dir, '.git/hooks'), { recursive: true })
    writeFileSync(join(repo.dir, '.git/hooks/post-checkout'), '#!/bin/sh\necho "no network" >&2\nexit 1\n', {
      mode: 0o755,
    })
    unwrap(await hub.ensureClone('alice', clone.dir))
    const done = await switchTo('team/task-1')
    expect(done.notes.join('\n')).toMatch(/a hook failed .*\n.*no network/)
    expect(clone.git('branch', '--show-current')).toBe('team/task-1')
  })

  test('E17 a young index.lock is waited for, then told with age and path and not removed; an old one is taken away', async () => {
    const lock = join(clone.dir, '.git/index.lock')
    writeFileSync(lock, '')
    const refused = readSwitch(sh(await script('team/task-1', { lockSeconds: 0.2 }), clone.dir))
    expect(refused).toMatchObject({ ok: false, fault: { code: 'held' } })
    expect(refused.ok ? '' : refused.fault.message).toMatch(/index\.lock \(\d+ s old\)/)
    expect(existsSync(lock)).toBe(true)
    // A git that ends meanwhile: the wait is enough.
    const holder = spawn('sh', ['-c', `sleep 0.4; rm -f ${shellWord(lock)}`])
    expect((await switchTo('team/task-1')).branch).toBe('team/task-1')
    holder.kill()
    writeFileSync(lock, '')
    const past = statSync(lock).mtimeMs / 1000 - 3600
    utimesSync(lock, past, past)
    expect((await switchTo('team/task-2', { lockSeconds: 0.2 })).notes.join()).toContain('removed')
  })

  test('locks of refs, held for moments by a living git, are taken away when they stay', async () => {
    for (const name of ['packed-refs.lock', 'refs/heads/team/task-1.lock']) {
      mkdirSync(join(clone.dir, '.git/refs/heads/team'), { recursive: true })
      writeFileSync(join(clone.dir, '.git', name), '')
    }
    const done = await switchTo('team/task-1', { lockSeconds: 0.2 })
    expect(done.branch).toBe('team/task-1')
    expect(done.notes.join('\n')).toMatch(/removed .*packed-refs\.lock[\s\S]*removed .*task-1\.lock/)
  })

  test('without a clone it refuses, and a repository around it is never taken for one', async () => {
    const outer = initRepo(join(folder.dir, 'outer'))
    mkdirSync(join(outer.dir, 'inner'))
    expect(readSwitch(sh(await script('team/task-1'), join(outer.dir, 'inner')))).toMatchObject({
      ok: false,
      fault: { code: 'invalid' },
    })
    mkdirSync(join(outer.dir, 'broken/.git'), { recursive: true })
    expect(readSwitch(sh(await script('team/task-1'), join(outer.dir, 'broken')))).toMatchObject({
      ok: false,
      fault: { code: 'invalid' },
    })
    expect(readStatus(sh(statusScript(), join(outer.dir, 'broken')))).toMatchObject({ ok: false })
    expect(outer.git('branch', '--show-current')).toBe('main')
    expect(readSwitch('sh: git: not found\n')).toMatchObject({ ok: false, fault: { code: 'io' } })
  })
})

describe('status', () => {
  test('E11 tells every uncommitted path as it is called, and the commits ahead of the trunk', async () => {
    await switchTo('team/task-1')
    clone.commit('Work', { 'b.txt': 'b\n' })
    clone.write({ '日本 "x".txt': 'x', 'tab\tnew\nline': 'x', 'a.txt': 'changed', 'd/é \\ b': 'x' })
    clone.git('add', 'a.txt')
    const status = unwrap(readStatus(sh(statusScript(), clone.dir)))
    expect([...status.uncommitted].sort()).toEqual(['a.txt', 'd/é \\ b', 'tab\tnew\nline', '日本 "x".txt'].sort())
    expect(status).toMatchObject({
      branch: 'team/task-1',
      head: clone.git('rev-parse', 'HEAD'),
      uncommittedCount: 4,
      commits: 1,
      operation: null,
    })
  })

  test('E17 takes no lock: it answers while the index is locked, and a merge that is not finished is told', async () => {
    await switchTo('team/task-1')
    writeFileSync(join(clone.dir, '.git/MERGE_HEAD'), `${clone.git('rev-parse', 'HEAD')}\n`)
    const status = unwrap(readStatus(sh(`: >.git/index.lock\n${statusScript().replace('unlock\n', '')}`, clone.dir)))
    expect(status).toMatchObject({ uncommittedCount: 0, operation: 'merge' })
  })

  test('lists at most fifty paths and counts them all', async () => {
    clone.write(Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`n${i}`, ''])))
    const status = unwrap(readStatus(sh(statusScript(), clone.dir)))
    expect(status.uncommitted).toHaveLength(50)
    expect(status).toMatchObject({ uncommittedCount: 120, branch: null, commits: 0 })
  })

  test('paths are read back from git’s quotes', () => {
    expect(unquotePath('plain é.txt')).toBe('plain é.txt')
    expect(unquotePath('"a\\"b\\\\c\\t\\346\\227\\245"')).toBe('a"b\\c\t日')
  })
})

const bwrap = spawnSync('bwrap', ['--ro-bind', '/', '/', '--dev', '/dev', '--unshare-all', 'true']).status === 0
test.skipIf(!bwrap)(
  'in a sandbox that shows the hub read-only: switch, commit, status work; no ref of the hub can be moved',
  async () => {
    const inside = (text: string) => {
      const mounts = [
        '--ro-bind',
        '/usr',
        '/usr',
        '--symlink',
        'usr/bin',
        '/bin',
        '--symlink',
        'usr/lib',
        '/lib',
        '--symlink',
        'usr/lib64',
        '/lib64',
      ]
      const view = [
        '--dev',
        '/dev',
        '--proc',
        '/proc',
        '--tmpfs',
        '/tmp',
        '--ro-bind',
        hub.dir,
        hub.dir,
        '--bind',
        clone.dir,
        clone.dir,
        '--chdir',
        clone.dir,
      ]
      const closed = [
        '--unshare-all',
        '--unshare-user',
        '--uid',
        '1000',
        '--gid',
        '1000',
        '--cap-drop',
        'ALL',
        '--die-with-parent',
        '--clearenv',
      ]
      const set = [
        '--setenv',
        'PATH',
        '/usr/bin:/bin',
        '--setenv',
        'HOME',
        '/tmp',
        '--setenv',
        'GIT_CONFIG_GLOBAL',
        '/dev/null',
      ]
      return spawnSync('bwrap', [...mounts, ...view, ...closed, ...set, '--', 'sh', '-c', `exec 2>&1\n${text}`], {
        encoding: 'utf8',
      }).stdout
    }
    clone.write({ 'left over.txt': 'l\n' })
    const done = unwrap(readSwitch(inside(await script('team/task-1'))))
    expect(done.rescued).toHaveLength(1)
    expect(inside('echo b >b.txt && git add -A && git commit -q -m Work && echo fine')).toContain('fine')
    expect(inside(`git push ${shellWord(hub.dir)} HEAD:refs/heads/team/trunk; echo "exit $?"`)).toMatch(/exit [1-9]/)
    expect(unwrap(readStatus(inside(statusScript()))).commits).toBe(1)
    const commit = await merged('team/task-1')
    expect(await hub.trunk()).toBe(commit)
    expect(repoAt(hub.dir).git('log', '-1', '--format=%an <%ae>', `${commit}^2`)).toBe('alice <alice@team.invalid>')
  },
)
