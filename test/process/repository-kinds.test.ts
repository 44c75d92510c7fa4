import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readSwitch, switchScript } from '../../src/git/branch.ts'
import { openHub } from '../../src/git/hub.ts'
import { unwrap } from '../../src/lib/result.ts'
import { initRepo, plainEnv, type Repo, repoAt, sh, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
beforeAll(() => {
  folder = tempFolder()
})
afterAll(() => folder.remove())

/** Every case has a folder of its own; its team root lies beside the repository. */
let count = 0
const place = (): string => {
  const dir = join(folder.dir, `${count++} é's "x"`)
  mkdirSync(join(dir, 'home'), { recursive: true })
  return dir
}
const open = (dir: string, workspace: string, base?: string) =>
  openHub({
    workspace,
    hubDir: join(dir, "r é's/.team/hub.git"),
    trunk: 'team/trunk',
    env: { PATH: process.env.PATH, HOME: join(dir, 'home') },
    ...(base === undefined ? {} : { base }),
  })
const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', args, { cwd, env: plainEnv(cwd), stdio: 'pipe', encoding: 'utf8' })

/** The hub, a clone, and the task's branch in hand there. */
const begin = async (dir: string, workspace: string, base?: string) => {
  const hub = unwrap(await open(dir, workspace, base))
  const clone = repoAt(join(dir, "r é's/team/ann/repo"))
  unwrap(await hub.ensureClone('ann', clone.dir))
  const script = switchScript({
    branch: 'team/task-1',
    start: await hub.trunk(),
    resume: null,
    hub: hub.dir,
    trunkRef: 'refs/heads/team/trunk',
    mergeTrunk: null,
  })
  unwrap(readSwitch(sh(script, clone.dir)))
  return { hub, clone }
}
/** What a commit of everything in the clone says; nothing when all is committed. */
const commit = (clone: Repo) => sh('git add -A && git commit -q -m Work && git status --porcelain', clone.dir, 'ann')

/** A task's whole way: hub, clone, branch, a commit in the clone, merge, landing. */
const roundTrip = async (dir: string, workspace: string, base?: string) => {
  const { hub, clone } = await begin(dir, workspace, base)
  clone.write({ 'work.txt': 'done\n' })
  expect(commit(clone)).toBe('')
  const { head } = unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
  expect(unwrap(await hub.unmergeable(head))).toEqual([])
  const seen = unwrap(await hub.preview(head))
  if (!seen.clean) throw new Error('it conflicts')
  unwrap(await hub.merge({ head, tree: seen.tree, onto: seen.onto, message: 'Merge' }))
  return { hub, clone, landed: await hub.land() }
}

const pointer =
  'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n'

type Made = string | { workspace: string; base: string }

const works: Record<string, (dir: string) => Made> = {
  'spaces, quotes, a newline, a leading dash and bytes that are no UTF-8 in names': dir => {
    const repo = initRepo(join(dir, "My Projekt é's (1)"), { '日本 "x".txt': 'a\n', 'two\nlines': 'b\n', '-rf': 'c\n' })
    execFileSync('sh', ['-c', 'printf x > "$(printf \'caf\\351.txt\')"'], { cwd: repo.dir })
    repo.commit('Bytes')
    return repo.dir
  },
  'a folder below the top': dir => join(initRepo(join(dir, 'ws'), { 'pkg/a.txt': 'a\n' }).dir, 'pkg'),
  'a linked work tree': dir => {
    const repo = initRepo(join(dir, 'ws'))
    repo.git('worktree', 'add', '-q', '-b', 'side', join(dir, 'linked'))
    return join(dir, 'linked')
  },
  'a linked work tree with a configuration of its own': dir => {
    const repo = initRepo(join(dir, 'ws'))
    repo.git('config', 'extensions.worktreeConfig', 'true')
    repo.git('worktree', 'add', '-q', '-b', 'side', join(dir, 'linked'))
    repoAt(join(dir, 'linked')).git('config', '--worktree', 'core.hooksPath', join(dir, 'gone'))
    return join(dir, 'linked')
  },
  'a work tree of a bare repository': dir => {
    git(dir, 'clone', '-q', '--bare', initRepo(join(dir, 'from')).dir, join(dir, 'bare.git'))
    repoAt(join(dir, 'bare.git')).git('worktree', 'add', '-q', join(dir, 'linked'), 'main')
    return join(dir, 'linked')
  },
  'a git folder elsewhere': dir => {
    mkdirSync(join(dir, 'ws'))
    git(join(dir, 'ws'), 'init', '-q', '-b', 'main', '--separate-git-dir', join(dir, 'gitdir'))
    repoAt(join(dir, 'ws')).commit('Start', { 'a.txt': 'a\n' })
    return join(dir, 'ws')
  },
  'objects borrowed from another repository, refs packed': dir => {
    const from = initRepo(join(dir, 'from'))
    git(dir, 'clone', '-q', '--shared', from.dir, join(dir, 'ws'))
    repoAt(join(dir, 'ws')).git('gc', '-q', '--prune=now')
    return join(dir, 'ws')
  },
  'the work tree of a submodule': dir => {
    const top = initRepo(join(dir, 'top'))
    top.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', initRepo(join(dir, 'from')).dir, 'sub')
    return join(top.dir, 'sub')
  },
  'a bare origin': dir => {
    git(dir, 'clone', '-q', '--bare', initRepo(join(dir, 'from')).dir, join(dir, 'origin.git'))
    git(dir, 'clone', '-q', join(dir, 'origin.git'), join(dir, 'ws'))
    return join(dir, 'ws')
  },
  'a sparse checkout': dir => {
    const repo = initRepo(join(dir, 'ws'), { 'a/a.txt': 'a\n', 'b/b.txt': 'b\n' })
    repo.git('sparse-checkout', 'set', 'a')
    return repo.dir
  },
  'signing asked for, without a key': dir => {
    const repo = initRepo(join(dir, 'ws'))
    for (const [key, value] of [
      ['commit.gpgSign', 'true'],
      ['gpg.program', 'false'],
    ] as const) {
      repo.git('config', key, value)
      git(dir, 'config', '-f', join(dir, 'home', '.gitconfig'), key, value)
    }
    return repo.dir
  },
  'a detached HEAD, with base': dir => {
    const repo = initRepo(join(dir, 'ws'))
    repo.git('checkout', '-q', '--detach')
    return { workspace: repo.dir, base: 'main' }
  },
  'settings that change what git does, and files of Git LFS without it': dir => {
    const repo = initRepo(join(dir, 'ws'), {
      '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
      'a.bin': pointer,
    })
    for (const [key, value] of Object.entries({
      'merge.ff': 'false',
      'pull.rebase': 'true',
      'core.autocrlf': 'true',
      'core.fsmonitor': 'false',
      'protocol.file.allow': 'never',
      'fetch.prune': 'true',
      'fetch.recurseSubmodules': 'true',
      'merge.autoStash': 'true',
      'core.commentChar': 'a',
      'status.showUntrackedFiles': 'no',
      'diff.noprefix': 'true',
      'color.ui': 'always',
      'log.showSignature': 'true',
      'core.quotePath': 'true',
      'core.abbrev': '4',
      'diff.external': 'false',
      'commit.cleanup': 'verbatim',
      'column.ui': 'always',
      'transfer.fsckObjects': 'true',
      'core.safecrlf': 'true',
      'uploadpack.hideRefs': 'refs/remotes',
    }))
      repo.git('config', key, value)
    return repo.dir
  },
}

for (const [name, make] of Object.entries(works))
  test.concurrent(`${name}: a task goes its whole way, and lands with its files`, async () => {
    const dir = place()
    const made = make(dir)
    const { workspace, base } = typeof made === 'string' ? { workspace: made, base: undefined } : made
    const top = git(workspace, 'rev-parse', '--show-toplevel').trimEnd()
    const { landed } = await roundTrip(dir, workspace, base)
    expect(landed).toMatchObject({ ok: true, value: { how: 'fast-forward', commits: 2 } })
    expect(git(workspace, 'status', '--porcelain')).toBe('')
    // With base the branch alone moves: the work tree is at another commit.
    if (base === undefined) expect(readFileSync(join(top, 'work.txt'), 'utf8')).toMatch(/^done\r?\n$/)
    else expect(git(workspace, 'show', `${base}:work.txt`)).toBe('done\n')
  })

/** What cannot be worked on: how it is made, what is said, and the remedy that is told, carried out; null where that is another mode. */
interface Refused {
  readonly make: (dir: string) => string
  readonly says: RegExp
  readonly hint: string | RegExp
  readonly mend: ((repo: Repo) => string) | null
}
const cloneOf = (dir: string, ...how: string[]): string => {
  const from = initRepo(join(dir, 'from'))
  from.git('config', 'uploadpack.allowFilter', 'true')
  from.commit('More', { 'b.txt': 'b\n' })
  git(dir, 'clone', '-q', ...how, `file://${from.dir}`, join(dir, 'ws'))
  return join(dir, 'ws')
}
/** The remedy is one git command, and the workspace stays. */
const by =
  (...args: string[]) =>
  (repo: Repo): string => {
    repo.git(...args)
    return repo.dir
  }
const refused: Record<string, Refused> = {
  'no repository': {
    make: dir => {
      mkdirSync(join(dir, 'ws'))
      return join(dir, 'ws')
    },
    says: /is not in a git repository/,
    hint: /run git init there, or set "mode": "dir"/,
    mend: null,
  },
  'a bare repository': {
    make: dir => {
      git(dir, 'clone', '-q', '--bare', initRepo(join(dir, 'from')).dir, join(dir, 'ws'))
      return join(dir, 'ws')
    },
    says: /is a bare repository or a git folder/,
    hint: /name a work tree/,
    mend: repo => {
      repo.git('worktree', 'add', '-q', '../tree', 'main')
      return join(repo.dir, '../tree')
    },
  },
  'a git folder': {
    make: dir => join(initRepo(join(dir, 'ws')).dir, '.git'),
    says: /is a bare repository or a git folder/,
    hint: /name a work tree/,
    mend: repo => join(repo.dir, '..'),
  },
  'a shallow clone': {
    make: dir => cloneOf(dir, '--depth', '1'),
    says: /is a shallow clone/,
    hint: 'fetch the rest: git fetch --unshallow',
    mend: by('fetch', '-q', '--unshallow'),
  },
  'a partial clone': {
    make: dir => cloneOf(dir, '--filter=blob:none'),
    says: /is a partial clone/,
    hint: 'fetch them: git fetch --refetch --no-filter, then git config --unset-all remote.origin.promisor',
    mend: repo => {
      repo.git('fetch', '-q', '--refetch', '--no-filter')
      repo.git('config', '--unset-all', 'remote.origin.promisor')
      // Nothing is elsewhere any more.
      repo.git('remote', 'remove', 'origin')
      return repo.dir
    },
  },
  'a repository without a commit': {
    make: dir => initRepo(join(dir, 'ws'), {}).dir,
    says: /the branch main has no commit yet/,
    hint: 'make the first one: git commit --allow-empty -m "Start"',
    mend: by('commit', '-q', '--allow-empty', '-m', 'Start'),
  },
  'a detached HEAD': {
    make: dir => {
      const repo = initRepo(join(dir, 'ws'))
      repo.git('checkout', '-q', '--detach')
      return repo.dir
    },
    says: /HEAD is detached/,
    hint: 'check out a branch (git switch <branch>), or name one as "base" in config.json',
    mend: by('switch', '-q', 'main'),
  },
  'a rebase that stands still': {
    make: dir => {
      const repo = initRepo(join(dir, 'ws'))
      repo.git('branch', 'other')
      repo.commit('Mine', { 'a.txt': 'mine\n' })
      repo.git('switch', '-q', 'other')
      repo.commit('Other', { 'a.txt': 'other\n' })
      expect(() => repo.git('rebase', '-q', 'main')).toThrow()
      return repo.dir
    },
    says: /HEAD is detached: a rebase of other is in progress/,
    hint: /finish it \(git rebase --continue\) or give it up \(git rebase --abort\)/,
    mend: by('rebase', '--abort'),
  },
  submodules: {
    make: dir => {
      const repo = initRepo(join(dir, 'ws'))
      repo.git(
        '-c',
        'protocol.file.allow=always',
        'submodule',
        '--quiet',
        'add',
        initRepo(join(dir, 'from')).dir,
        'my sub',
      )
      repo.commit('Module')
      return repo.dir
    },
    says: /has submodules \(my sub\)/,
    hint: 'set "mode": "dir" in config.json',
    mend: null,
  },
}

for (const [name, { make, says, hint, mend }] of Object.entries(refused))
  test.concurrent(`${name}: refused before anything is made${mend === null ? '' : ', and its remedy is one'}`, async () => {
    const dir = place()
    const workspace = make(dir)
    const opened = await open(dir, workspace)
    if (opened.ok) throw new Error('it was taken')
    expect(opened.fault.code).toBe('config')
    expect(opened.fault.message).toMatch(says)
    if (typeof hint === 'string') expect(opened.fault.hint).toBe(hint)
    else expect(opened.fault.hint).toMatch(hint)
    expect(existsSync(join(dir, "r é's"))).toBe(false)
    if (mend === null) return
    const mended = mend(repoAt(workspace))
    await begin(dir, mended)
  })

test('merge.verifySignatures: land says that the commits are not signed, and how to let them in', async () => {
  const dir = place()
  const repo = initRepo(join(dir, 'ws'))
  repo.git('config', 'merge.verifySignatures', 'true')
  const before = repo.git('for-each-ref')
  const { hub, landed } = await roundTrip(dir, repo.dir)
  expect(landed).toMatchObject({
    ok: false,
    fault: { code: 'refused', message: expect.stringContaining('not signed') },
  })
  expect(repo.git('for-each-ref')).toBe(before)
  repo.git('config', 'merge.verifySignatures', 'false')
  expect(await hub.land()).toMatchObject({ ok: true })
})

test('objects borrowed from another repository: the hub has its own, whatever becomes of that one', async () => {
  const dir = place()
  const from = initRepo(join(dir, 'from'))
  git(dir, 'clone', '-q', '--shared', from.dir, join(dir, 'ws'))
  const { hub } = await begin(dir, join(dir, 'ws'))
  rmSync(join(from.dir, '.git'), { recursive: true })
  expect(git(hub.dir, 'fsck', '--full')).toBe('')
  unwrap(await hub.ensureClone('ben', join(dir, 'ben')))
  expect(readFileSync(join(dir, 'ben/a.txt'), 'utf8')).toBe('one\n')
})

test('Git LFS and git-crypt: what is stored is what a clone has; content in place of it is told, in commits before the last one too', async () => {
  const dir = place()
  const repo = initRepo(join(dir, 'ws'), {
    '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
    'in ü/.gitattributes': 'key* filter=git-crypt-team diff=git-crypt\n',
    'a.bin': pointer,
    'b.bin': pointer,
    'in ü/key "1"': '\0GITCRYPT\0xxxx',
  })
  const { hub, clone } = await begin(dir, repo.dir)
  const found = async () => {
    const { head } = unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
    return unwrap(await hub.unmergeable(head))
  }
  // Another pointer, a removed one and one that was moved are as they should be.
  clone.git('mv', 'b.bin', 'c.bin')
  clone.commit('Pointers', { 'a.bin': pointer.replace('12345', '54321'), 'empty.bin': '', 'plain.txt': 'p\n' })
  expect(await found()).toEqual([])
  clone.commit('Content', { 'd é.bin': 'all of it\n', 'in ü/key "1"': 'the secret\n' })
  const both = [
    { path: 'd é.bin', why: 'lfs' },
    { path: 'in ü/key "1"', why: 'git-crypt' },
  ]
  expect((await found()).sort((a, b) => (a.path < b.path ? -1 : 1))).toEqual(both)
  // Taken away in a later commit it would still be in the history.
  clone.git('rm', '-q', 'd é.bin')
  clone.git('checkout', '-q', 'hub/trunk', '--', 'in ü')
  clone.commit('Away')
  expect((await found()).sort((a, b) => (a.path < b.path ? -1 : 1))).toEqual(both)
  clone.git('reset', '-q', '--hard', 'HEAD~2')
  expect(await found()).toEqual([])
})

test('a repository that was added as such is told; a base that gets submodules stays out of the trunk until they are gone', async () => {
  const dir = place()
  const repo = initRepo(join(dir, 'ws'))
  const { hub, clone } = await begin(dir, repo.dir)
  initRepo(join(clone.dir, 'nested ü'))
  commit(clone)
  const { head } = unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
  expect(unwrap(await hub.unmergeable(head))).toEqual([{ path: 'nested ü', why: 'repository' }])
  const trunk = await hub.trunk()
  repo.git('update-index', '--add', '--cacheinfo', `160000,${trunk},sub`)
  repo.git('commit', '-q', '-m', 'Module')
  const seen = await hub.refreshBase()
  expect(seen).toMatchObject({ ok: false, fault: { code: 'refused', message: expect.stringContaining('(sub)') } })
  expect(await hub.trunk()).toBe(trunk)
  repo.git('reset', '-q', '--hard', 'HEAD~1')
  const next = repo.commit('More', { 'b.txt': 'b\n' })
  expect(unwrap(await hub.refreshBase())).toMatchObject({ how: 'fast-forward', trunk: next })
})
