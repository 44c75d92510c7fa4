import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Hub, openHub } from '../../src/git/hub.ts'
import { unwrap } from '../../src/lib/result.ts'
import { initRepo, type Repo, repoAt, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
let repo: Repo
let hub: Hub
let clone: Repo
beforeEach(async () => {
  folder = tempFolder()
  repo = initRepo(join(folder.dir, 'w'), { 'app/日本 é.txt': 'one\ntwo\nthree\n', 'b.txt': 'b\n' })
  hub = unwrap(
    await openHub({
      workspace: join(repo.dir, 'app'),
      hubDir: join(folder.dir, 'r/.team/hub.git'),
      trunk: 'team/trunk',
      env: { PATH: process.env.PATH },
    }),
  )
  clone = repoAt(join(folder.dir, 'r/team/alice/repo'))
  unwrap(await hub.ensureClone('alice', clone.dir))
  clone.git('switch', '-q', '-c', 'team/task-1')
})
afterEach(() => folder.remove())

const merge = async (subject: string) => {
  const { head } = unwrap(await hub.fetchBranch(clone.dir, 'team/task-1'))
  const seen = unwrap(await hub.preview(head))
  if (!seen.clean) throw new Error('conflict')
  return unwrap(await hub.merge({ head, tree: seen.tree, onto: seen.onto, message: subject })).commit
}
const at = async (file: string, line: number, more: { cwd?: string; isHere?: boolean } = {}) =>
  hub.blame({ file, line, cwd: '/', isHere: false, ...more })

test('a line leads to the commit that wrote it, through moves, and to the merge that brought it, also by a settled conflict', async () => {
  const start = repo.git('rev-parse', 'HEAD')
  const mine = clone.commit('Two', { 'app/日本 é.txt': 'one\nzwei, long enough to be known again anywhere\nthree\n' })
  const first = await merge('Merge one')
  repo.commit('Base', { 'b.txt': 'base\n' })
  expect(unwrap(await hub.refreshBase()).how).toBe('merge')
  clone.git('mv', 'app/日本 é.txt', 'moved.txt')
  clone.commit('Moved', { 'b.txt': 'mine\n' })
  const second = await merge('Merge two')
  const line = unwrap(await at('../moved.txt', 2))
  expect(line).toMatchObject({
    path: 'moved.txt',
    text: 'zwei, long enough to be known again anywhere',
    commit: { id: mine, author: 'Ada', subject: 'Two', path: 'app/日本 é.txt', line: 2 },
  })
  expect(unwrap(await hub.broughtBy(mine))).toEqual({ id: first, subject: 'Merge one' })
  const settled = unwrap(await at('b.txt', 1, { cwd: repo.dir })).commit?.id ?? ''
  expect(unwrap(await hub.broughtBy(settled))).toEqual({ id: second, subject: 'Merge two' })
  // The beginning stands on the trunk itself, and so does the merge.
  expect(unwrap(await at('../moved.txt', 1)).commit?.id).toBe(start)
  expect(unwrap(await hub.broughtBy(start))).toEqual({ id: start, subject: 'Start' })
  expect(unwrap(await hub.broughtBy(second))).toEqual({ id: second, subject: 'Merge two' })
  expect(unwrap(await hub.broughtBy('0'.repeat(40)))).toBeNull()
})

test('the repository as it lies: what is not committed, what is of it alone, and paths from where one stands', async () => {
  const own = repo.commit('Own', { 'app/日本 é.txt': 'one\nown\nthree\n' })
  repo.write({ 'app/日本 é.txt': 'new\none\nown\nthree\n' })
  const here = { isHere: true, cwd: join(repo.dir, 'app') }
  expect(unwrap(await at('日本 é.txt', 1, here))).toEqual({
    path: 'app/日本 é.txt',
    line: 1,
    text: 'new',
    commit: null,
  })
  const line = unwrap(await at(join(repo.dir, 'app/日本 é.txt'), 3, { isHere: true }))
  expect(line).toMatchObject({ text: 'own', commit: { id: own, line: 2 } })
  expect(unwrap(await hub.broughtBy(own))).toBeNull()
  // From elsewhere a path is meant from the workspace, which is a folder of the repository.
  expect(unwrap(await at('日本 é.txt', 2)).text).toBe('two')
  expect(unwrap(await at('../b.txt', 1)).path).toBe('b.txt')
})

test('a path with quotes in it, and one that is meant through a link', async () => {
  repo.commit('Odd', { 'q"é.txt': 'odd\n' })
  const odd = unwrap(await at('q"é.txt', 1, { cwd: repo.dir, isHere: true }))
  expect(odd).toMatchObject({ path: 'q"é.txt', commit: { path: 'q"é.txt' } })
  symlinkSync(repo.dir, join(folder.dir, 'link'))
  const linked = unwrap(await at(join(folder.dir, 'link', 'b.txt'), 1))
  expect(linked.path).toBe('b.txt')
  // One that is on the trunk alone has no folder here.
  expect(await at(join(folder.dir, 'link', 'no/such/b.txt'), 1)).toMatchObject({
    fault: { message: 'there is no file no/such/b.txt on team/trunk' },
  })
})

test('what is not there is said so: file, line, a path out of the repository, a folder', async () => {
  mkdirSync(join(repo.dir, 'empty'))
  const why = async (...args: Parameters<typeof at>) => {
    const found = await at(...args)
    return found.ok ? 'found' : `${found.fault.code}: ${found.fault.message}`
  }
  expect(await why('none.txt', 1)).toBe('unknown: there is no file app/none.txt on team/trunk')
  expect(await why('日本 é.txt', 4)).toBe('unknown: app/日本 é.txt has 3 lines on team/trunk, so no line 4')
  expect(await why('../../x', 1)).toMatch(/^unknown: \.\.\/\.\.\/x is not in /)
  expect(await why('-x', 1, { isHere: true })).toMatch(/^unknown: there is no file app\/-x in /)
  expect(await why('..', 1)).toMatch(/^unknown: /)
})

test("from a folder of a teammate's clone, or by a whole path into it, a file is meant as it lies in the repository", async () => {
  repo.commit('Deep', { 'app/deep/c.txt': 'c\n' })
  unwrap(await hub.refreshBase())
  const path = async (file: string, cwd = '/') => {
    const found = await at(file, 1, { cwd })
    return found.ok ? found.value.path : found.fault.message
  }
  expect(await path('c.txt', join(clone.dir, 'app/deep'))).toBe('app/deep/c.txt')
  expect(await path('b.txt', clone.dir)).toBe('b.txt')
  expect(await path(join(clone.dir, 'app/deep/c.txt'))).toBe('app/deep/c.txt')
  expect(await path(join(repo.dir, 'b.txt'), join(clone.dir, 'app'))).toBe('b.txt')
  // Beside the clone is no place of the repository, nor is what only looks like one.
  expect(await path(join(clone.dir, '../NOTES.md'))).toMatch(/ is not in /)
  expect(await path(join(folder.dir, 'r/team/nobody/repo/b.txt'))).toMatch(/ is not in /)
})
