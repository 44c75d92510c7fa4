import { execFileSync } from 'node:child_process'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openHub } from '../../src/git/hub.ts'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { Config, members } from '../../src/protocol/config.ts'
import { Task } from '../../src/protocol/task.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { Base } from '../../src/supervisor/base.ts'
import { makeCore } from '../../src/supervisor/core.ts'
import { landTrunk } from '../../src/supervisor/landing.ts'
import { openLog } from '../../src/supervisor/log.ts'
import { Notices } from '../../src/supervisor/notices.ts'
import { Proof } from '../../src/supervisor/proof.ts'
import { initRepo, plainEnv, type Repo, repoAt, tempFolder } from '../support/repo.ts'

/** A repository, its hub with work of the team on the trunk, and what brings the base there behind `verify`. */
const setup = async (verify: string | undefined, sandbox: 'off' | 'required' = 'off') => {
  const folder = tempFolder()
  onTestFinished(() => folder.remove())
  const repo = initRepo(join(folder.dir, "it's ws"), { 'a.txt': '1\n2\n3\n', 'b.txt': 'b\n' })
  const root = join(folder.dir, 'root')
  const env = { PATH: process.env.PATH ?? '', HOME: folder.dir }
  const reopen = () => openHub({ workspace: repo.dir, hubDir: join(root, '.team/hub.git'), trunk: 'team/trunk', env })
  const hub = unwrap(await reopen())
  const side = repoAt(join(folder.dir, 'side'))
  execFileSync('git', ['clone', '-q', hub.dir, side.dir], { env: plainEnv(folder.dir) })
  const work = (files: Record<string, string>) => {
    side.git('pull', '-q', 'origin', 'team/trunk')
    const head = side.commit('Work', files)
    side.git('push', '-q', 'origin', 'HEAD:refs/heads/team/trunk')
    return head
  }
  const config = Config.parse({ teammates: [{ name: 'alice' }], ...(verify === undefined ? {} : { verify }) })
  const core = makeCore(
    {
      store: openMemoryStore(clock),
      root,
      workspace: repo.dir,
      mode: 'git',
      sandboxed: false,
      config,
      members: members(config),
      clock,
      hub,
    },
    () => null,
  )
  const notices = new Notices(
    core,
    openLog(folder.dir, join(folder.dir, 'log'), text => text, clock),
  )
  const ran: string[] = []
  core.store.onEntry(({ event, info }) => {
    if (event === 'verify.ended') ran.push(`${info?.base === undefined ? 'task' : 'base'} ${info?.ok}`)
  })
  const gate = {
    core,
    shell: (view: Parameters<typeof makeShell>[0]['view']) =>
      makeShell({
        view,
        probe: { kind: 'none', detail: 'none here', remedy: null },
        mode: sandbox,
        permissions: config.permissions,
        env,
        marker: 'base-gate',
      }),
    signal: new AbortController().signal,
  }
  const proof = new Proof({
    ...gate,
    hidden: [],
    notices,
  })
  const laned = { ...gate, notices, inLane: <T>(act: () => Promise<T>) => proof.inLane(act) }
  const base = new Base(laned)
  const told = () => [...core.store.inbox('user').read(0, 100)].map(({ value }) => value.message.content)
  return { core, repo, hub, work, base, laned, notices, ran, told, reopen }
}

/** Green unless both files changed: neither side alone shows it. */
const notBoth = `test "$(cat a.txt b.txt | grep -c changed)" -lt 2`

test('a base that moved comes into a trunk with work of its own only when verify is green on the merge of both', async () => {
  const { repo, hub, work, base, notices, ran, told } = await setup(notBoth)
  const followed = repo.commit('Person, before any work', { 'b.txt': 'changed\n', 'c.txt': 'c\n' })
  await base.bring()
  // Exactly the base: the person's own word, and nothing to merge.
  expect([await hub.trunk(), ran]).toEqual([followed, []])

  const trunk = work({ 'a.txt': 'changed\n' })
  const red = repo.commit('Person', { 'c.txt': 'cc\n' })
  await Promise.all([base.bring(), base.bring()])
  await base.bring()
  expect([await hub.trunk(), ran]).toEqual([trunk, ['base false']])
  expect(notices.problems()).toEqual([
    expect.stringMatching(new RegExp(`${red.slice(0, 12)} and fails verify when merged.*exited 1.*mend it on main`)),
  ])
  expect(told()).toEqual([expect.stringContaining('The trunk stays where it is')])

  // Moved again, green this time: the problem goes with it.
  const green = repo.commit('Mended', { 'b.txt': 'as it was\n' })
  await Promise.all([base.bring(), base.bring()])
  expect([ran, notices.problems(), told().length]).toEqual([['base false', 'base true'], [], 1])
  expect(unwrap(await hub.mergeOf(green))).toBe(await hub.trunk())
  expect(unwrap(await hub.brings(trunk)).commits).toBe(0)
})

test('a base that conflicts with the trunk is told once and tried again when it moved', async () => {
  const { repo, hub, work, base, notices, ran, told } = await setup('true')
  const trunk = work({ 'a.txt': '1\n2\n3 team\n' })
  repo.commit('Person', { 'a.txt': '1\n2\n3 person\n' })
  await base.bring()
  await base.bring()
  expect([await hub.trunk(), ran, told().length]).toEqual([trunk, [], 1])
  expect(notices.problems()).toEqual([
    expect.stringMatching(/conflicts with the trunk in a\.txt;.*git fetch '.*hub\.git'/),
  ])
  repo.commit('Taken back', { 'a.txt': '1\n2\n3\n' })
  await base.bring()
  expect([ran, notices.problems(), told().length]).toEqual([['base true'], [], 1])
  expect(await hub.trunk()).not.toBe(trunk)
})

test('a check of the base that could not run is no green, and one that is not set keeps nothing', async () => {
  const stuck = await setup('true', 'required')
  const trunk = stuck.work({ 'a.txt': 'team\n' })
  stuck.repo.commit('Person', { 'b.txt': 'bb\n' })
  await stuck.base.bring()
  await stuck.base.bring()
  expect([await stuck.hub.trunk(), stuck.ran, stuck.told().length]).toEqual([trunk, ['base false'], 1])
  expect(stuck.notices.problems()).toEqual([expect.stringMatching(/"true" could not run.*start the team again/)])

  const free = await setup(undefined)
  free.work({ 'a.txt': 'team\n' })
  const head = free.repo.commit('Person', { 'b.txt': 'bb\n' })
  await free.base.bring()
  expect([unwrap(await free.hub.mergeOf(head)), free.ran]).toEqual([await free.hub.trunk(), []])
})

/** What a person may do to the base, and what the human is told for it; after each of them work goes on. */
const changes: Record<string, { act: (repo: Repo) => void; told: RegExp | null }> = {
  'reset to before': {
    act: repo => repo.git('reset', '-q', '--hard', 'HEAD~1'),
    told: /was rewritten: .* is on team\/trunk still, so that team land brings it back: \w+ Second\. To be rid of it/,
  },
  amended: {
    act: repo => {
      repo.write({ 'c.txt': 'and this\n' })
      repo.git('add', 'c.txt')
      repo.git('commit', '-q', '--amend', '-m', 'Second, and more')
    },
    told: /was rewritten: .* brings it back: \w+ Second\. /,
  },
  rebased: {
    act: repo => {
      repo.git('switch', '-q', '-c', 'onto', 'HEAD~1')
      repo.commit('Before', { 'c.txt': 'c\n' })
      repo.git('rebase', '-q', 'onto', 'main')
    },
    told: /was rewritten: .*All that it had is in it still, as other commits; team\/trunk has both/,
  },
  'rewritten with its objects gone at once': {
    act: repo => {
      repo.git('reset', '-q', '--hard', 'HEAD~1')
      repo.git('reflog', 'expire', '--expire=now', '--all')
      repo.git('gc', '-q', '--prune=now')
    },
    told: /brings it back: \w+ Second\. /,
  },
  'left alone by a gc': { act: repo => repo.git('gc', '-q', '--prune=now', '--aggressive'), told: null },
  'a commit further': { act: repo => repo.commit('Third', { 'c.txt': 'c\n' }), told: null },
}
for (const [name, change] of Object.entries(changes))
  test(`E03 a base ${name}: the trunk keeps what it had, and a person is told what to know`, async () => {
    const { repo, hub, work, base, notices, told } = await setup(undefined)
    const second = repo.commit('Second', { 'b.txt': 'second\n' })
    await base.bring()
    const head = work({ 'a.txt': 'team\n' })
    change.act(repo)
    await base.bring()
    await base.bring()
    expect(notices.problems()).toEqual([])
    expect(told()).toEqual(change.told === null ? [] : [expect.stringMatching(change.told)])
    for (const commit of [second, head, repo.git('rev-parse', 'main')])
      expect(unwrap(await hub.brings(commit)).commits).toBe(0)
    // Of what was told there is nothing more to ask.
    expect(await hub.land()).toMatchObject({ ok: true })
    expect(repo.git('rev-parse', 'HEAD^{tree}')).toBe(repoAt(hub.dir).git('rev-parse', 'team/trunk^{tree}'))
  })

const gone: Record<string, { act: (repo: Repo) => void; what: RegExp }> = {
  'is renamed': {
    act: repo => repo.git('branch', '-m', 'main', 'it-is/new'),
    what: /the base branch main of .* was renamed to it-is\/new \(set "base": "it-is\/new" in config\.json/,
  },
  'is deleted': {
    act: repo => {
      repo.git('switch', '-q', '-c', 'other', 'HEAD~1')
      repo.git('branch', '-q', '-D', 'main')
      repo.git('gc', '-q', '--prune=now')
    },
    what: /the base branch main is gone from /,
  },
}
for (const [name, { act, what }] of Object.entries(gone))
  test(`a base that ${name} stops nothing: it is told once, landing says it too, a new start works, and the remedy is one`, async () => {
    const { repo, hub, work, base, notices, told, reopen } = await setup(undefined)
    const second = repo.commit('Second', { 'b.txt': 'second\n' })
    await base.bring()
    act(repo)
    await base.bring()
    const head = work({ 'a.txt': 'team\n' })
    await base.bring()
    expect(told()).toEqual([expect.stringMatching(what)])
    expect(notices.problems()).toEqual([expect.stringMatching(what)])
    const again = unwrap(await reopen())
    expect([await again.trunk(), again.baseName]).toEqual([head, 'main'])
    const landed = await again.land()
    if (landed.ok) throw new Error('it landed in nothing')
    expect(landed.fault.code).toBe('config')
    const command = /make it again: (git .*?)(;|$)/.exec(landed.fault.hint ?? '')?.[1] ?? ''
    execFileSync('sh', ['-ec', command], { env: plainEnv(repo.dir), stdio: 'pipe' })
    expect(repo.git('rev-parse', 'main')).toBe(second)
    await base.bring()
    expect([notices.problems(), told().length]).toEqual([[], 1])
    expect(await hub.land()).toMatchObject({ ok: true, value: { branch: 'main', to: head } })
  })

test('E03 a base rewritten since it was looked at: landing says once what it would bring back, and then does', async () => {
  const { repo, hub, work, base, core } = await setup(undefined)
  repo.commit('Second', { 'b.txt': 'second\n' })
  await base.bring()
  const head = work({ 'a.txt': 'team\n' })
  repo.git('reset', '-q', '--hard', 'HEAD~1')
  const before = repo.git('rev-parse', 'main')
  expect(await landTrunk(core)).toMatchObject({
    ok: false,
    fault: { code: 'refused', message: expect.stringMatching(/brings it back: \w+ Second/), hint: expect.any(String) },
  })
  expect(repo.git('rev-parse', 'main')).toBe(before)
  expect(await landTrunk(core)).toMatchObject({ ok: true, value: { to: head } })
  expect(await hub.standing()).toMatchObject({ base: head, ahead: 0 })
})

test('a trunk that something else moved back is told once, with the way to have the work again, and is none when it is', async () => {
  const { core, repo, hub, work, laned, notices, told, reopen } = await setup(undefined)
  const start = await hub.trunk()
  // A hub that was made in this run tells what it lacks by itself.
  const later = { ...core, hub: unwrap(await reopen()) }
  const merged = (id: string, commit: string) => {
    const at = `2026-01-01T00:00:0${id}.000Z`
    const result = { outcome: 'merged', summary: '', commit, trunk: commit }
    const fields = { id, title: id, status: 'completed', createdAt: at, updatedAt: at, completedAt: at, result }
    core.store.tasks.create(id, Task.parse(fields), { event: 'task.created', by: 'human' })
  }
  merged('1', work({ 'a.txt': 'one\n' }))
  const two = work({ 'b.txt': 'two\n' })
  merged('2', two)
  const again = new Base({ ...laned, core: later })
  await again.look()
  expect([notices.problems(), told()]).toEqual([[], []])
  repo.git('-C', hub.dir, 'update-ref', 'refs/heads/team/trunk', start)
  await again.look()
  await again.look()
  const words = [expect.stringMatching(/^team\/trunk does not hold any more .* tasks 1, 2: /)]
  expect([notices.problems(), told()]).toEqual([words, words])
  repo.git('fetch', '-q', hub.dir, two)
  repo.git('merge', '-q', 'FETCH_HEAD')
  await again.look()
  await again.look()
  expect([await hub.trunk(), notices.problems(), told().length]).toEqual([two, [], 1])
})

test('a workspace that is moved away stops no work: it is said, by landing too, and all goes on once it is back', async () => {
  const { repo, hub, work, base, notices, told } = await setup(undefined)
  renameSync(repo.dir, `${repo.dir}.away`)
  await base.bring()
  const head = work({ 'a.txt': 'team\n' })
  const gone = /the workspace .* is gone/
  expect([notices.problems(), told()]).toEqual([[expect.stringMatching(gone)], [expect.stringMatching(gone)]])
  expect(await hub.land()).toMatchObject({ ok: false, fault: { code: 'config', message: expect.stringMatching(gone) } })
  renameSync(`${repo.dir}.away`, repo.dir)
  await base.bring()
  expect(notices.problems()).toEqual([])
  expect(await hub.land()).toMatchObject({ ok: true, value: { to: head } })
})

test('E03 a base rewritten, and a crash between its being fetched and told: the next start tells it, once', async () => {
  const { repo, core, work, base, laned, reopen, told } = await setup(undefined)
  repo.commit('Second', { 'b.txt': 'second\n' })
  await base.bring()
  work({ 'a.txt': 'work\n2\n3\n' })
  repo.git('reset', '-q', '--hard', 'HEAD~1')
  repo.commit('Other', { 'c.txt': 'c\n' })
  const again = unwrap(await reopen())
  // All that the look before the crash had come to.
  unwrap(await again.refreshBase())
  expect(told()).toEqual([])
  const next = new Base({ ...laned, core: { ...core, hub: unwrap(await reopen()) } })
  await next.bring()
  const words = [expect.stringMatching(/was rewritten: .* brings it back: \w+ Second\. /)]
  expect(told()).toEqual(words)
  await next.bring()
  await new Base({ ...laned, core: { ...core, hub: unwrap(await reopen()) } }).bring()
  expect(told()).toEqual(words)
  // What only grows is nothing to tell.
  repo.commit('Third', { 'c.txt': 'd\n' })
  await next.bring()
  expect(told()).toEqual(words)
})
