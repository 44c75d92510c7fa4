import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { changedScript, readChanged } from '../../src/git/branch.ts'
import { type Hub, openHub } from '../../src/git/hub.ts'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { Config, members } from '../../src/protocol/config.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { completeTask } from '../../src/supervisor/complete.ts'
import { type Core, makeCore } from '../../src/supervisor/core.ts'
import { isGuarded, strays, touchedWrongly } from '../../src/supervisor/touched.ts'
import { initRepo, type Repo, repoAt, sh, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
let hub: Hub
let core: Core
beforeEach(async () => {
  folder = tempFolder()
  const repo = initRepo(join(folder.dir, 'ws'), { 'src/a.txt': '1\n2\n3\n4\n', 'docs/b.txt': 'b\n', 'c.txt': 'c\n' })
  const root = join(folder.dir, 'root')
  const env = { PATH: process.env.PATH }
  hub = unwrap(await openHub({ workspace: repo.dir, hubDir: join(root, '.team/hub.git'), trunk: 'team/trunk', env }))
  const config = Config.parse({ teammates: [{ name: 'ann' }, { name: 'bob' }] })
  core = makeCore(
    {
      store: openMemoryStore(clock),
      root,
      workspace: repo.dir,
      mode: 'git',
      config,
      members: members(config),
      clock,
      hub,
      sandboxed: false,
    },
    () => null,
  )
  core.leases.start({
    runs: () => true,
    onFailure: error => {
      throw error
    },
  })
})
afterEach(() => {
  core.leases.close()
  folder.remove()
})

/** A task in the hands of `name`, in a clone of its own that stands on its branch. */
const begin = async (name: string, more: object = {}): Promise<{ id: string; clone: Repo }> => {
  const { ids } = unwrap(core.tasks.add([{ title: `of ${name}`, ...more }], { by: 'human' }))
  const id = ids[0] ?? ''
  unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner: name, branch: `team/task-${id}` }))
  const clone = repoAt(join(folder.dir, 'root/team', name, 'repo'))
  unwrap(await hub.ensureClone(name, clone.dir))
  clone.git('switch', '-q', '-c', `team/task-${id}`, await hub.trunk())
  return { id, clone }
}
const task = (id: string) => core.tasks.get(id)?.value ?? expect.fail()
const complete = (id: string) =>
  completeTask(core, {
    actor: task(id).owner ?? '',
    task: task(id),
    summary: 'done',
    still: () => ({ ok: true, value: null }),
    after: () => '',
  })
const wrong = async (id: string) =>
  unwrap(await touchedWrongly(core, task(id), task(id).claimed?.head ?? expect.fail())).strays.map(({ path }) => path)
const lease = async (name: string, of: string | null, ...what: string[]): Promise<string> => {
  const data = { kind: 'path' as const, what, seconds: 600, task: of }
  const { request } = unwrap(
    core.requests.open({ type: 'resource_request', from: name, to: 'supervisor', title: 'lease', body: '', data }),
  )
  await expect.poll(() => core.leases.isHeld(request.id)).toBe(true)
  return request.id
}
const giveBack = (id: string, name: string, isLost = false) =>
  unwrap(core.leases.free(id, { by: isLost ? 'supervisor' : name, why: 'over', isLost }))
const land = async (id: string): Promise<void> => {
  const { claimed, attempts, owner } = task(id)
  const head = claimed?.head ?? expect.fail()
  const { files } = unwrap(await hub.brings(head))
  const data = { task: id, attempt: attempts, owner: owner ?? '', branch: '', head, trunk: '', commits: 1, verify: [] }
  unwrap(
    core.requests.open({
      type: 'merge_request',
      from: 'supervisor',
      to: 'human',
      title: 'merge',
      body: '',
      data: { ...data, files },
    }),
  )
  const seen = unwrap(await hub.preview(head))
  if (!seen.clean) throw new Error(`conflict in ${seen.files}`)
  const { commit } = unwrap(await hub.merge({ head, tree: seen.tree, onto: seen.onto, message: 'Merge' }))
  const result = { outcome: 'merged' as const, summary: '', commit, trunk: commit }
  unwrap(core.tasks.move(id, 'supervisor', { move: 'complete', result }))
}

test('a claim that changes what lies outside of the paths is refused, both names of a rename; a lease for the task allows it', async () => {
  const { id, clone } = await begin('ann', { paths: ['src/**'] })
  expect(isGuarded(core, 'ann', task(id))).toBe(true)
  clone.commit('Inside', { 'src/a.txt': '1\n2\n3\n5\n' })
  clone.git('mv', 'docs/b.txt', 'src/b.txt')
  clone.git('commit', '-q', '-m', 'Renamed')
  expect(await complete(id)).toMatchObject({
    ok: false,
    fault: { code: 'refused', message: expect.stringContaining('- docs/b.txt (task 1 is about src/**)') },
  })
  expect(task(id).claimed).toBeNull()
  const had = await lease('ann', id, 'docs')
  giveBack(had, 'ann')
  unwrap(await complete(id))
  expect(task(id).claimed).toMatchObject({ fence: 1 })
  expect(await wrong(id)).toEqual([])
})

test('a lease that was lost allows nothing; what another holds may not be changed, but for who had it before', async () => {
  const { id, clone } = await begin('ann')
  expect(isGuarded(core, 'ann', task(id))).toBe(false)
  clone.commit('Work', { 'c.txt': 'C\n', 'docs/b.txt': 'B\n' })
  const own = await lease('ann', id, 'docs/**')
  const held = await lease('bob', null, 'c.txt')
  expect(strays(core, task(id), 'ann', ['c.txt', 'docs/b.txt', 'new.txt'])).toEqual([
    { path: 'c.txt', why: expect.stringMatching(new RegExp(`^bob holds it until .*, lease ${held}, fence 2$`)) },
  ])
  giveBack(held, 'bob')
  unwrap(await complete(id))
  // It left her hands, so its lease is over; bob, who is next, is to land after her.
  expect(core.leases.isHeld(own)).toBe(false)
  const next = await lease('bob', null, 'docs/b.txt')
  expect(await wrong(id)).toEqual([])
  giveBack(next, 'bob')
  core.tasks.move(id, 'supervisor', { move: 'return', reason: 'red' })
  core.tasks.move(id, 'supervisor', { move: 'start', owner: 'ann', branch: null })
  const other = await begin('bob')
  const lost = await lease('bob', other.id, 'docs')
  giveBack(lost, 'bob', true)
  await lease('ann', id, 'docs')
  expect(strays(core, task(other.id), 'bob', ['docs/b.txt']).map(({ path }) => path)).toEqual(['docs/b.txt'])
})

test('what landed under a later number has to be held by the branch; the earlier one lands before it freely', async () => {
  const ann = await begin('ann')
  const bob = await begin('bob')
  ann.clone.commit('Ann', { 'src/a.txt': '0\n2\n3\n4\n' })
  bob.clone.commit('Bob', { 'src/a.txt': '1\n2\n3\n5\n' })
  await lease('ann', ann.id, 'src')
  unwrap(await complete(ann.id))
  await lease('bob', bob.id, 'src/a.txt')
  unwrap(await complete(bob.id))
  // Both wait; neither has landed: in whatever order, nobody overtook the other yet.
  expect([await wrong(ann.id), await wrong(bob.id)]).toEqual([[], []])
  await land(bob.id)
  expect(await wrong(ann.id)).toEqual(['src/a.txt'])
  core.tasks.move(ann.id, 'supervisor', { move: 'return', reason: 'outrun' })
  core.tasks.move(ann.id, 'supervisor', { move: 'start', owner: 'ann', branch: null })
  ann.clone.git('fetch', '-q', 'hub', 'team/trunk')
  ann.clone.git('merge', '-q', '--no-edit', 'FETCH_HEAD')
  unwrap(await complete(ann.id))
  expect(await wrong(ann.id)).toEqual([])
})

test('what a branch changes is told committed or not, new or renamed, and nothing in the middle of a merge', async () => {
  const { clone } = await begin('ann')
  const changed = () => unwrap(readChanged(sh(changedScript(), clone.dir)))
  clone.git('update-ref', 'refs/remotes/hub/trunk', 'HEAD')
  expect(changed()).toEqual([])
  clone.commit('Work', { 'c.txt': 'C\n' })
  clone.git('mv', 'docs/b.txt', 'docs/ä "b".txt')
  clone.write({ 'new file.txt': 'x\n' })
  expect(changed().sort()).toEqual(['c.txt', 'docs/b.txt', 'docs/ä "b".txt', 'new file.txt'].sort())
  clone.git('update-ref', 'MERGE_HEAD', 'HEAD')
  expect(changed()).toEqual([])
})
