import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readSwitch, switchScript } from '../../src/git/branch.ts'
import { type Hub, openHub } from '../../src/git/hub.ts'
import { clonesIn, findSaved } from '../../src/git/rescue.ts'
import { unwrap } from '../../src/lib/result.ts'
import type { SavedShown } from '../../src/protocol/work.ts'
import { fingerprint } from '../support/git-team.ts'
import { initRepo, type Repo, repoAt, sh, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
let repo: Repo
let hub: Hub
let clone: Repo
const team = () => join(folder.dir, 'r é', 'team')
const saved = async () => unwrap(await hub.saved(clonesIn(team())))
const switchTo = async (branch: string) =>
  unwrap(
    readSwitch(
      sh(
        switchScript({
          branch,
          start: await hub.trunk(),
          resume: unwrap(await hub.branchHead(branch)),
          hub: hub.dir,
          trunkRef: 'HEAD',
          mergeTrunk: null,
        }),
        clone.dir,
      ),
    ),
  )

beforeEach(async () => {
  folder = tempFolder()
  repo = initRepo(join(folder.dir, 'w é'), { 'a.txt': 'one\n' })
  hub = unwrap(
    await openHub({
      workspace: repo.dir,
      hubDir: join(folder.dir, 'r é', '.team/hub.git'),
      trunk: 'team/trunk',
      env: { PATH: process.env.PATH },
    }),
  )
  clone = repoAt(join(team(), 'alice/repo'))
  unwrap(await hub.ensureClone('alice', clone.dir))
  // A file in the place of a home, a folder that is no clone, and one with a link in the place of its refs.
  writeFileSync(join(team(), 'AGENTS.md'), '')
  mkdirSync(join(team(), 'skills', 'repo', '.git'), { recursive: true })
  unwrap(await hub.ensureClone('bob', join(team(), 'bob/repo')))
  mkdirSync(join(team(), 'bob/repo/.git/refs/team'))
  symlinkSync(join(clone.dir, '.git/refs/team/rescue'), join(team(), 'bob/repo/.git/refs/team/rescue'))
})
afterEach(() => folder.remove())

/** Uncommitted work of task 1 that lies in the clone. */
const saveOne = async (): Promise<SavedShown> => {
  await switchTo('team/task-1')
  clone.write({ 'a.txt': 'half\n', '日本 "x".txt': 'odd\n' })
  await switchTo('team/task-2')
  const [one] = await saved()
  if (!one) throw new Error('nothing saved')
  return one
}

test('what was saved is listed from the clone, from its packed refs, and from the hub once it is there', async () => {
  expect(await saved()).toEqual([])
  const one = await saveOne()
  expect(one).toMatchObject({
    kind: 'uncommitted',
    teammate: 'alice',
    branch: 'team/task-1',
    isInCloneAlone: true,
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/),
  })
  clone.git('pack-refs', '--all')
  expect(await saved()).toEqual([one])
  unwrap(await hub.fetchRescue(clone.dir, 'alice'))
  expect(await saved()).toEqual([{ ...one, isInCloneAlone: false }])
  // Commits on no branch, and a head that its branch was moved away from.
  clone.git('switch', '-q', '--detach')
  const lost = clone.commit('On no branch', { 'b.txt': 'b\n' })
  await switchTo('team/task-1')
  const first = clone.commit('First', { 'c.txt': 'c\n' })
  unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
  clone.git('commit', '-q', '--amend', '-m', 'Otherwise')
  unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
  unwrap(await hub.fetchRescue(clone.dir, 'alice'))
  const all = await saved()
  expect(all.find(({ commit }) => commit === lost)).toMatchObject({ kind: 'commits', branch: null, teammate: 'alice' })
  expect(all.find(({ commit }) => commit === first)).toMatchObject({
    kind: 'replaced',
    branch: 'team/task-1',
    teammate: null,
  })
  expect(all).toHaveLength(3)
  expect(unwrap(findSaved(all, one.id)).ref).toBe(one.ref)
  expect(unwrap(findSaved(all, one.ref)).id).toBe(one.id)
  expect(findSaved(all, 'ffff')).toMatchObject({ ok: false, fault: { code: 'unknown' } })
  const twins = all.map(each => ({ ...each, commit: `abcd${each.commit}` }))
  expect(findSaved(twins, 'abcd')).toMatchObject({ ok: false, fault: { code: 'usage' } })
})

test('it becomes a branch of the repository: a new one, never one that is there; nothing else of it changes', async () => {
  const one = await saveOne()
  unwrap(await hub.fetchRescue(clone.dir, 'alice'))
  repo.write({ 'a.txt': 'mine, not committed\n' })
  repo.git('branch', 'taken')
  const before = fingerprint(repo)
  for (const branch of ['taken', 'main', 'taken/below'])
    expect(await hub.restore(one, { branch })).toMatchObject({ ok: false, fault: { code: 'refused' } })
  // One that cannot be made since another stands in its way is no race.
  repo.git('branch', '-q', 'group/one')
  expect(await hub.restore(one, { branch: 'group' })).toMatchObject({
    fault: { message: expect.stringContaining('group could not be moved: ') },
  })
  repo.git('branch', '-q', '-D', 'group/one')
  for (const branch of ['a..b', '-x', '@{-1}', ''])
    expect(await hub.restore(one, { branch })).toMatchObject({ ok: false, fault: { code: 'usage' } })
  expect(fingerprint(repo)).toEqual(before)
  expect(unwrap(await hub.restore(one, { branch: 'saved/é' }))).toEqual({
    commit: one.commit,
    branch: 'saved/é',
    folder: null,
  })
  expect(repo.git('show', 'saved/é:日本 "x".txt')).toBe('odd')
  // Once more it is there already.
  expect(await hub.restore(one, { branch: 'saved/é' })).toMatchObject({ ok: true })
  const { refs: _, ...rest } = fingerprint(repo)
  expect(before).toMatchObject(rest)
})

test('it becomes the files of a folder: a new or an empty one, whole; never one with something in it', async () => {
  const one = await saveOne()
  unwrap(await hub.fetchRescue(clone.dir, 'alice'))
  const to = join(folder.dir, 'é out')
  expect(unwrap(await hub.restore(one, { folder: to })).folder).toBe(to)
  expect(readdirSync(to).sort()).toEqual(['a.txt', '日本 "x".txt'].sort())
  expect(readFileSync(join(to, 'a.txt'), 'utf8')).toBe('half\n')
  writeFileSync(join(to, 'a.txt'), 'went on\n')
  expect(await hub.restore(one, { folder: to })).toMatchObject({ ok: false, fault: { code: 'refused' } })
  expect(readFileSync(join(to, 'a.txt'), 'utf8')).toBe('went on\n')
  mkdirSync(join(folder.dir, 'empty'))
  unwrap(await hub.restore(one, { folder: join(folder.dir, 'empty') }))
  expect(existsSync(join(folder.dir, 'empty', 'a.txt'))).toBe(true)
  expect(await hub.restore(one, { folder: join(folder.dir, 'none', 'x') })).toMatchObject({
    ok: false,
    fault: { code: 'usage' },
  })
  expect(await hub.restore(one, { folder: join(to, 'a.txt', 'x') })).toMatchObject({
    ok: false,
    fault: { code: 'usage' },
  })
  // Nothing beside it is taken for a half made one of ours.
  mkdirSync(join(folder.dir, '.more.mine.new'))
  unwrap(await hub.restore(one, { folder: join(folder.dir, 'more') }))
  rmdirSync(join(folder.dir, '.more.mine.new'))
  symlinkSync(join(folder.dir, 'empty'), join(folder.dir, 'link'))
  expect(await hub.restore(one, { folder: join(folder.dir, 'link') })).toMatchObject({ ok: false })
  expect(readdirSync(folder.dir).filter(name => name.startsWith('.'))).toEqual([])
})
