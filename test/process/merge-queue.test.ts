import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type Hub, openHub } from '../../src/git/hub.ts'
import { clock } from '../../src/lib/clock.ts'
import { fail, unwrap } from '../../src/lib/result.ts'
import { Config, members } from '../../src/protocol/config.ts'
import type { TaskDrop } from '../../src/protocol/task.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { makeCore } from '../../src/supervisor/core.ts'
import { openLog } from '../../src/supervisor/log.ts'
import { settleMerges } from '../../src/supervisor/merge-settle.ts'
import { Notices } from '../../src/supervisor/notices.ts'
import { Proof } from '../../src/supervisor/proof.ts'
import { initRepo, plainEnv, repoAt, tempFolder } from '../support/repo.ts'

type Files = Record<string, string>

const gate = () => {
  let open: () => void = () => undefined
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { opened, open: () => open() }
}

/** A repository with its hub, and a proof that approves by itself: what is claimed here waits until `go`. */
const setup = async (more: object = {}, files: Files = { 'a.txt': '1\n2\n3\n' }) => {
  const folder = tempFolder()
  onTestFinished(() => folder.remove())
  const repo = initRepo(join(folder.dir, 'ws'), files)
  const root = join(folder.dir, 'root')
  const env = { PATH: process.env.PATH ?? '', HOME: folder.dir }
  const hub = unwrap(
    await openHub({ workspace: repo.dir, hubDir: join(root, '.team/hub.git'), trunk: 'team/trunk', env }),
  )
  const side = repoAt(join(folder.dir, 'side'))
  execFileSync('git', ['clone', '-q', hub.dir, side.dir], { env: plainEnv(folder.dir) })
  const store = openMemoryStore(clock)
  const verified: string[] = []
  store.onEntry(({ event, info }) => {
    if (event !== 'verify.ended') return
    const what = info?.trunk ? 'trunk' : info?.base ? `base of ${info.task}` : [info?.tasks ?? info?.task].flat().join()
    verified.push(`${what} ${info?.ok ? 'green' : 'red'}`)
  })
  const given = { teammates: [{ name: 'alice' }], approvals: { merge_request: 'auto' }, ...more }
  /** A holder over the same records, as after a start. */
  const daemon = (on: Hub = hub, over: object = {}, mode: 'off' | 'required' = 'off') => {
    const config = Config.parse({ ...given, ...over })
    const core = makeCore(
      {
        store,
        root,
        workspace: repo.dir,
        mode: 'git',
        sandboxed: false,
        config,
        members: members(config),
        clock,
        hub: on,
      },
      () => null,
    )
    const notices = new Notices(
      core,
      openLog(folder.dir, join(folder.dir, 'log'), text => text, clock),
    )
    const proof = new Proof({
      core,
      shell: view =>
        makeShell({
          view,
          probe: { kind: 'none', detail: 'none here', remedy: null },
          mode,
          permissions: config.permissions,
          env,
          marker: 'merge-queue',
        }),
      hidden: [],
      signal: new AbortController().signal,
      notices,
    })
    const advance = (id: string): void => proof.advance(id, moved => (moved ? advance(id) : undefined))
    return { core, notices, proof, advance }
  }
  const { core, notices, proof, advance } = daemon()
  /** A task whose branch starts at the trunk (or at `from`), claimed done. */
  const claim = (files: Files, drop: Partial<TaskDrop> = {}, from = 'origin/team/trunk'): string => {
    const added = unwrap(core.tasks.add([{ title: 'Some work', ...drop }], { by: 'human' }))
    const id = added.ids[0] ?? ''
    side.git('fetch', '-q')
    side.git('switch', '-q', '-c', `task-${id}`, from)
    unwrap(core.tasks.move(id, 'alice', { move: 'start', owner: 'alice', branch: `team/task-${id}` }))
    return again(id, files)
  }
  const again = (id: string, files: Files): string => {
    side.git('switch', '-q', `task-${id}`)
    const head = side.commit(`Work of ${id}`, files)
    side.git('push', '-q', 'origin', `HEAD:refs/heads/team/task-${id}`)
    unwrap(core.tasks.move(id, 'alice', { move: 'claim', head, summary: `did ${id}` }))
    return id
  }
  const task = (id: string) => core.tasks.get(id)?.value ?? expect.fail(`no task ${id}`)
  const approved = (id: string) =>
    core.requests
      .all()
      .some(each => each.type === 'merge_request' && each.data.task === id && each.status === 'approved')
  /** Leads these on in this order; none is begun before each is approved. */
  const lead = async (on: { proof: Proof; advance: (id: string) => void }, ...ids: string[]) => {
    const all = gate()
    const held = on.proof.inLane(() => all.opened)
    for (const id of ids) {
      const { opened, open } = gate()
      store.requests.watch(() => approved(id) && open())
      on.advance(id)
      if (!approved(id)) await opened
    }
    all.open()
    await held
  }
  const leadAll = async (...ids: string[]) => {
    await lead({ proof, advance }, ...ids)
    while (proof.busy) await proof.settled()
  }
  const merge = (id: string) =>
    core.requests
      .all()
      .filter(each => each.type === 'merge_request' && each.data.task === id)
      .at(-1)?.effect ?? null
  const git = (...args: string[]) => repoAt(hub.dir).git(...args)
  const told = () => [...store.inbox('user').read(0, 100)].map(({ value }) => value.message.content)
  const retake = (id: string) =>
    unwrap(core.tasks.move(id, 'alice', { move: 'start', owner: 'alice', branch: `team/task-${id}` }))
  return {
    repo,
    hub,
    store,
    core,
    notices,
    proof,
    daemon,
    claim,
    again,
    retake,
    task,
    lead,
    leadAll,
    merge,
    git,
    told,
    verified,
  }
}

const noBad = 'test ! -e bad.txt'

test('what waits is merged onto each other, verified once, and the trunk moves once: each has its own merge and record', async () => {
  const it = await setup({ verify: noBad })
  const before = await it.hub.trunk()
  const ids = [
    it.claim({ 'one.txt': '1\n' }),
    it.claim({ 'two.txt': '2\n' }, { verify: 'cat two.txt' }),
    it.claim({ 'a.txt': '1\n2\n3 more\n' }),
  ]
  await it.leadAll(...ids)
  expect(it.verified).toEqual(['1,2,3 green'])
  const [one, two, three] = ids.map(id => it.merge(id)?.merge)
  expect(ids.map(id => [it.task(id).status, it.task(id).result?.outcome, it.merge(id)?.outcome])).toEqual(
    ids.map(() => ['completed', 'merged', 'ok']),
  )
  const trunk = await it.hub.trunk()
  expect([one?.onto, two?.onto, three?.onto, trunk]).toEqual([before, one?.commit, two?.commit, three?.commit])
  for (const record of [one, two, three]) {
    expect(it.git('log', '-1', '--format=%T %P', record?.commit ?? '')).toBe(
      `${record?.tree} ${record?.onto} ${record?.head}`,
    )
    expect(it.git('merge-tree', '--write-tree', record?.onto ?? '', record?.head ?? '')).toBe(record?.tree)
    expect([record?.checked, record?.batch]).toEqual([three?.tree, ids])
  }
  expect(two?.checks.map(({ command, where, ok, exitCode, tests }) => [command, where, ok, exitCode, tests])).toEqual([
    [noBad, 'merged', true, 0, null],
    ['cat two.txt', 'merged', true, 0, null],
  ])
  expect(two?.checks[1]?.tail).toBe('2')
  expect(one?.checks.map(({ command }) => command)).toEqual([noBad])
  expect(it.git('reflog', '--format=%H', 'team/trunk').split('\n')).toEqual([trunk, before])
})

test('a red batch: the one that broke it is found by halves and sent back, what was before and behind it is merged', async () => {
  const it = await setup({ verify: noBad })
  const ids = [1, 2, 3, 4, 5].map(n => it.claim(n === 3 ? { 'bad.txt': 'b\n' } : { [`n${n}.txt`]: 'n\n' }))
  await it.leadAll(...ids)
  expect(it.verified).toEqual(['1,2,3,4,5 red', '1,2 green', '1,2,3 red', '4,5 green'])
  expect(ids.map(id => it.task(id).status)).toEqual(['completed', 'completed', 'pending', 'completed', 'completed'])
  const { outcome, detail, merge } = it.merge('3') ?? {}
  expect([outcome, detail]).toEqual(['returned', `${noBad} exited 1; green on the trunk alone`])
  expect(merge).toMatchObject({ commit: null, redBefore: false, batch: ['1', '2', '3'] })
  expect(merge?.checks.map(({ where, ok, exitCode }) => [where, ok, exitCode])).toEqual([
    ['merged', false, 1],
    ['trunk', true, 0],
  ])
  expect(it.task('3')).toMatchObject({
    returns: 1,
    error: expect.stringMatching(/exited 1.*your work broke it.*task 1, 2/s),
  })
  expect(it.task('3').spared).toBe(undefined)
  expect(it.git('ls-tree', '--name-only', 'team/trunk').split('\n')).toEqual([
    'a.txt',
    'n1.txt',
    'n2.txt',
    'n4.txt',
    'n5.txt',
  ])
})

test('limits.mergeBatch 1 merges one by one', async () => {
  const it = await setup({ verify: noBad, limits: { mergeBatch: 1 } })
  await it.leadAll(it.claim({ 'one.txt': '1\n' }), it.claim({ 'two.txt': '2\n' }))
  expect(it.verified).toEqual(['1 green', '2 green'])
  expect(it.merge('2')?.merge?.batch).toEqual(['2'])
})

test('red on the trunk before: told apart, not counted, told once for the commit, and what mends it still gets in', async () => {
  const verify = '! grep bad a.txt'
  const it = await setup({ verify, limits: { returns: 1 } }, { 'a.txt': 'bad\n' })
  const trunk = await it.hub.trunk()
  const ids = [it.claim({ 'one.txt': '1\n' }), it.claim({ 'two.txt': '2\n' })]
  await it.leadAll(...ids)
  // By halves down to the first, then one by one; the trunk alone is asked once.
  expect(it.verified).toEqual(['1,2 red', '1 red', 'trunk red', '2 red'])
  for (const id of ids) {
    expect(it.merge(id)).toMatchObject({
      outcome: 'returned',
      detail: `${verify} exited 1; red on the trunk before`,
      merge: { redBefore: true, spared: true, onto: trunk },
    })
    expect(it.task(id)).toMatchObject({ status: 'pending', returns: 1, spared: 1 })
    expect(it.task(id).error).toMatch(/it was red before your work.*not counted/s)
  }
  expect(it.told()).toEqual([expect.stringContaining(`the trunk itself is red at ${trunk.slice(0, 12)}`)])
  expect(it.notices.problems()).toEqual([expect.stringContaining('the trunk itself is red')])
  expect(await it.hub.trunk()).toBe(trunk)

  // Claimed again as it is: that counts, so it does not go round for ever.
  for (const status of ['pending', 'failed']) {
    it.retake('1')
    it.again('1', { 'more.txt': `${status}\n` })
    await it.leadAll('1')
    expect(it.task('1').status).toBe(status)
  }
  expect(it.task('1')).toMatchObject({
    returns: 2,
    spared: 1,
    error: expect.stringMatching(/sent back 1 time already/),
  })
  expect(it.told().length).toBe(1)

  // One that takes the cause away is green on the merged result, and others follow.
  it.claim({ 'a.txt': 'mended\n' }, { title: 'Mend' })
  it.retake('2')
  it.again('2', { 'two.txt': 'again\n' })
  await it.leadAll('3', '2')
  expect(['3', '2'].map(id => it.task(id).status)).toEqual(['completed', 'completed'])
  expect(it.notices.problems()).toEqual([])
})

test('a conflict with one before it in the batch: sent back once that one is merged, merged where that one is not', async () => {
  const it = await setup({ verify: noBad })
  it.claim({ 'a.txt': '1 first\n2\n3\n' })
  it.claim({ 'a.txt': '1 second\n2\n3\n' })
  await it.leadAll('1', '2')
  expect([it.task('1').status, it.task('2').status]).toEqual(['completed', 'pending'])
  expect(it.merge('2')).toMatchObject({ outcome: 'returned', detail: 'conflict in a.txt' })

  it.claim({ 'b.txt': 'third\n', 'bad.txt': 'b\n' })
  it.claim({ 'b.txt': 'fourth\n' })
  await it.leadAll('3', '4')
  expect([it.task('3').status, it.task('4').status]).toEqual(['pending', 'completed'])
  expect(it.git('show', 'team/trunk:b.txt')).toBe('fourth')
})

test('cut by a crash when the trunk had moved and nothing of it was on record: each member is found there and completed, once', async () => {
  const it = await setup({ verify: noBad })
  it.claim({ 'one.txt': '1\n' })
  it.claim({ 'two.txt': '2\n' })
  const moved = gate()
  const cut = it.daemon({
    ...it.hub,
    moveTrunk: async chain => {
      unwrap(await it.hub.moveTrunk(chain))
      moved.open()
      return new Promise(() => undefined)
    },
  })
  await it.lead(cut, '1', '2')
  await moved.opened
  expect([it.merge('1')?.step, it.merge('2')?.step]).toEqual(['intent', 'intent'])
  const trunk = await it.hub.trunk()

  // What is on the trunk was green before it came there: nothing runs again, whatever it would come to now.
  const next = it.daemon(it.hub, { verify: 'false' })
  next.advance('1')
  next.advance('2')
  while (next.proof.busy) await next.proof.settled()
  expect(it.verified).toEqual(['1,2 green'])
  expect(await it.hub.trunk()).toBe(trunk)
  const merges = it.git('log', '--first-parent', '--merges', '--format=%H', 'team/trunk').split('\n').reverse()
  expect(['1', '2'].map(id => it.task(id).result?.commit)).toEqual(merges)
  for (const id of ['1', '2'])
    expect([it.task(id).status, it.merge(id)?.outcome, it.merge(id)?.merge?.commit]).toEqual([
      'completed',
      'ok',
      it.task(id).result?.commit,
    ])
  expect(it.task('1').result?.outcome).toBe('merged')
  const [head, id] = [it.merge('1')?.merge?.head ?? '', it.core.requests.about.latest('merge_request', '1')?.id]
  expect(unwrap(await it.hub.mergeOf(head, id))).toBe(merges[0])
  expect(unwrap(await it.hub.mergeOf(head, `${id}0`))).toBe(null)
  expect(it.merge('1')?.merge).toMatchObject({ batch: ['1', '2'], checks: [{ command: noBad, where: 'merged' }] })
})

test('checks that cannot run at all end all that waited, once, with what it is', async () => {
  const it = await setup({ verify: noBad })
  for (const n of [1, 2, 3]) it.claim({ [`n${n}.txt`]: 'n\n' })
  const trunk = await it.hub.trunk()
  const walled = it.daemon(it.hub, {}, 'required')
  await it.lead(walled, '1', '2', '3')
  while (walled.proof.busy) await walled.proof.settled()
  expect(it.verified).toEqual(['1,2,3 red', 'trunk red'])
  for (const id of ['1', '2', '3']) {
    expect(it.task(id)).toMatchObject({ status: 'failed', returns: 0, error: expect.stringContaining('could not run') })
    expect(it.merge(id)).toMatchObject({ step: 'done', outcome: 'unknown' })
  }
  expect(walled.notices.problems()).toEqual([expect.stringMatching(/^task 1, 2, 3: .*team task retry 1 2 3$/s)])
  expect(await it.hub.trunk()).toBe(trunk)
})

test('a check that is no command fails its own task, and a fault of the program stops nobody else’s merge', async () => {
  const it = await setup({ verify: noBad })
  const ids = ['x\u0000y', `true ${'x'.repeat(200_000)}`, noBad].map((verify, n) =>
    it.claim({ [`n${n}.txt`]: 'n\n' }, { verify }),
  )
  await it.leadAll(...ids)
  expect(ids.map(id => it.task(id).status)).toEqual(['failed', 'failed', 'completed'])
  expect(it.task('1').error).toContain('a command holds no NUL byte')
  expect(it.task('2').error).toContain('longer than the system takes')

  const { commitMerge } = it.hub
  let faults = 0
  const odd = it.claim({ 'odd.txt': 'o\n' })
  const head = it.task(odd).claimed?.head
  Object.assign(it.hub, {
    commitMerge: (what: Parameters<typeof commitMerge>[0]) => {
      if (what.head === head && ++faults > 0) throw new Error('a bug')
      return commitMerge(what)
    },
  })
  const other = it.claim({ 'other.txt': 'o\n' })
  await it.leadAll(odd, other)
  expect([it.task(odd).status, it.task(other).status]).toEqual(['failed', 'completed'])
  expect(it.task(odd).error).toBe('its proof stopped: a bug')
  expect(it.merge(odd)).toMatchObject({ outcome: 'failed', detail: 'a bug' })
  expect(it.notices.problems()).toContainEqual(
    `task ${odd}: its proof stopped: a bug (to try again: team task retry ${odd})`,
  )
  // Together with the other, alone, and alone once more.
  expect(faults).toBe(3)
})

test('a fault of the program that passes is no end of a merge, also when the trunk had moved by it: it is tried once more', async () => {
  const it = await setup({ verify: noBad })
  const { moveTrunk, commitMerge } = it.hub
  let faults = 0
  Object.assign(it.hub, {
    commitMerge: (what: Parameters<typeof commitMerge>[0]) => {
      if (faults++ === 0) throw new Error('a bug')
      return commitMerge(what)
    },
    moveTrunk: async (chain: Parameters<typeof moveTrunk>[0]) => {
      const moved = await moveTrunk(chain)
      if (faults++ === 2) throw new Error('another bug')
      return moved
    },
  })
  it.claim({ 'one.txt': '1\n' })
  await it.leadAll('1')
  expect(it.task('1')).toMatchObject({ status: 'completed', result: { outcome: 'merged' } })
  expect(it.verified).toEqual(['1 green'])
  expect(it.git('log', '--merges', '--format=%H', 'team/trunk').split('\n')).toEqual([it.task('1').result?.commit])
  expect(it.notices.problems()).toEqual([])
})

test('what makes the set-up fail is found by halves: the others are merged', async () => {
  const it = await setup({ verify: noBad, setup: noBad })
  const ids = [1, 2, 3].map(n => it.claim(n === 2 ? { 'bad.txt': 'b\n' } : { [`n${n}.txt`]: 'n\n' }))
  await it.leadAll(...ids)
  expect(ids.map(id => it.task(id).status)).toEqual(['completed', 'failed', 'completed'])
})

test('cut by a crash with its intent on record, and cancelled before the next start: its effect ends with what became of it', async () => {
  const it = await setup({ verify: noBad })
  it.claim({ 'one.txt': '1\n' })
  it.claim({ 'two.txt': '2\n' })
  for (const [id, isMoved] of [
    ['1', true],
    ['2', false],
  ] as const) {
    const { opened, open } = gate()
    const moveTrunk: Hub['moveTrunk'] = async chain => {
      if (isMoved) unwrap(await it.hub.moveTrunk(chain))
      open()
      return new Promise(() => undefined)
    }
    const cut = it.daemon({ ...it.hub, moveTrunk })
    await it.lead(cut, id)
    await opened
    unwrap(cut.core.tasks.move(id, 'human', { move: 'cancel', reason: 'no' }))
  }
  await settleMerges(it.daemon().core)
  expect(it.merge('1')).toMatchObject({
    step: 'done',
    outcome: 'ok',
    detail: expect.stringContaining('task 1 is cancelled'),
  })
  expect(it.merge('2')).toMatchObject({
    step: 'done',
    outcome: 'failed',
    detail: 'nothing was merged: task 2 is cancelled',
  })
  expect(it.git('ls-tree', '--name-only', 'team/trunk')).toBe('a.txt\none.txt')
})

test('cut by a crash between the effect and what follows from it for the task: it is followed from the record, nothing runs again', async () => {
  const it = await setup({ verify: noBad })
  it.claim({ 'one.txt': '1\n' })
  it.claim({ 'bad.txt': 'b\n' })
  const { move } = it.core.tasks
  it.core.tasks.move = (id, by, what, info) =>
    what.move === 'complete' || what.move === 'return'
      ? fail('closed', 'dead')
      : move.call(it.core.tasks, id, by, what, info)
  const end = it.proof
  await it.leadAll('1', '2')
  expect(end.busy).toBe(false)
  expect(['1', '2'].map(id => [it.task(id).status, it.merge(id)?.outcome])).toEqual([
    ['in_progress', 'ok'],
    ['in_progress', 'returned'],
  ])
  const ran = it.verified.length
  const next = it.daemon()
  next.advance('1')
  next.advance('2')
  while (next.proof.busy) await next.proof.settled()
  expect([it.task('1').status, it.task('1').result?.outcome]).toEqual(['completed', 'merged'])
  expect(it.task('2')).toMatchObject({ status: 'pending', returns: 1 })
  expect(it.verified.length).toBe(ran)
})

test('cut by a crash between the effect and the return: the places of a conflict, and the word to a person, are not lost', async () => {
  const it = await setup({ verify: noBad })
  it.claim({ 'a.txt': '1 first\n2\n3\n' })
  await it.leadAll('1')
  it.claim({ 'a.txt': '1 second\n2\n3\n' }, {}, 'origin/team/trunk~1')
  it.claim({ 'new.txt': 'n\n' }, { accept: ['test -e a.txt'] })
  const { move } = it.core.tasks
  it.core.tasks.move = (id, by, what, info) =>
    what.move === 'fail' || what.move === 'return'
      ? fail('closed', 'dead')
      : move.call(it.core.tasks, id, by, what, info)
  await it.leadAll('2', '3')
  expect(['2', '3'].map(id => [it.task(id).status, it.merge(id)?.outcome])).toEqual([
    ['in_progress', 'returned'],
    ['in_progress', 'failed'],
  ])
  const told = it.told().length
  const next = it.daemon()
  next.advance('2')
  next.advance('3')
  while (next.proof.busy) await next.proof.settled()
  expect(it.task('2')).toMatchObject({ status: 'pending', returns: 1, takeIn: await it.hub.trunk() })
  expect(it.task('2').error).toMatch(
    /conflicts with the trunk in: a\.txt.*task 1 "Some work", by alice.*1 first.*1 second/s,
  )
  expect(it.task('3')).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/^accept `test -e a\.txt` passes/),
  })
  // Under one id: told once, whenever the crash came.
  expect(it.told().slice(0, told)).toEqual([expect.stringContaining('Task 3 was not completed: accept')])
  expect(it.told().length).toBe(told)
})

test('a git that is killed while the trunk moves fails no task: each is merged by itself after that', async () => {
  const it = await setup({ verify: noBad })
  it.claim({ 'one.txt': '1\n' })
  it.claim({ 'two.txt': '2\n' })
  let kills = 2
  const { moveTrunk } = it.hub
  Object.assign(it.hub, {
    moveTrunk: (chain: Parameters<typeof moveTrunk>[0]) =>
      kills-- > 0 ? Promise.resolve(fail('io', 'git update-ref: ended by SIGKILL')) : moveTrunk(chain),
  })
  await it.leadAll('1', '2')
  expect([it.task('1').status, it.task('2').status]).toEqual(['completed', 'completed'])
})

test('a check of the task alone that is red without the work too is not called red on the trunk before', async () => {
  const it = await setup()
  it.claim({ 'one.txt': '1\n' }, { verify: 'test -e wanted.txt' })
  await it.leadAll('1')
  const { detail, merge } = it.merge('1') ?? {}
  expect([detail, merge?.redBefore, merge?.spared]).toEqual(['test -e wanted.txt exited 1', undefined, undefined])
  expect(merge?.checks.map(({ where, ok }) => [where, ok])).toEqual([
    ['merged', false],
    ['trunk', false],
  ])
  expect(it.task('1')).toMatchObject({ returns: 1, error: expect.stringContaining("it is this task's own check") })
  expect(it.notices.problems()).toEqual([])
})

test('what git ignores in the workspace and a clone has not is named, but for the team itself', async () => {
  const it = await setup({}, { 'a.txt': 'a\n', '.gitignore': '.env\nnode_modules\n*.log\n' })
  for (const [path, text] of [
    ['.env', 'A=1\n'],
    ['node_modules/x/index.js', ''],
    ['src/node_modules/y/index.js', ''],
    ['seen.log', ''],
  ] as const) {
    mkdirSync(dirname(join(it.repo.dir, path)), { recursive: true })
    writeFileSync(join(it.repo.dir, path), text)
  }
  const clone = join(it.repo.dir, '..', 'clone')
  mkdirSync(clone)
  writeFileSync(join(clone, 'seen.log'), '')
  expect(await it.hub.absent(clone)).toEqual(['.env', 'node_modules/', 'src/node_modules/'])
})

test('accept: red where the branch started and green on the merged result, both on record', async () => {
  const it = await setup({ verify: noBad })
  it.claim({ 'new.txt': 'n\n' }, { accept: ['test -e new.txt', 'grep -q n new.txt'] })
  await it.leadAll('1')
  expect(it.verified).toEqual(['base of 1 red', '1 green'])
  expect(it.task('1')).toMatchObject({ status: 'completed', result: { outcome: 'merged' } })
  expect(it.merge('1')?.merge?.checks.map(({ command, where, ok }) => [command, where, ok])).toEqual([
    ['test -e new.txt', 'base', false],
    ['grep -q n new.txt', 'base', false],
    [noBad, 'merged', true],
    ['test -e new.txt', 'merged', true],
    ['grep -q n new.txt', 'merged', true],
  ])

  // Red on the result: the owner's to mend, and counted.
  it.claim({ 'other.txt': 'o\n' }, { accept: ['test -e wanted.txt'] })
  await it.leadAll('2')
  expect(it.task('2')).toMatchObject({
    status: 'pending',
    returns: 1,
    error: expect.stringContaining('test -e wanted.txt'),
  })
})

test('accept that passes where the branch started proves nothing: not completed, the human is told', async () => {
  const it = await setup()
  const trunk = await it.hub.trunk()
  it.claim({ 'new.txt': 'n\n' }, { accept: ['test -e new.txt', 'test -e a.txt'] })
  await it.leadAll('1')
  expect(it.task('1')).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(/accept `test -e a.txt` passes already where the branch started.*proves nothing/),
  })
  expect(it.merge('1')).toMatchObject({ outcome: 'failed', merge: { commit: null } })
  expect(it.told()).toEqual([expect.stringMatching(/^Task 1 was not completed: accept `test -e a.txt` passes already/)])
  expect(await it.hub.trunk()).toBe(trunk)
})

test('a test runner that executed no test is no green', async () => {
  const it = await setup({ verify: `echo '# tests 0'` }, { 'a.txt': 'a\n' })
  it.claim({ 'one.txt': '1\n' })
  await it.leadAll('1')
  const { outcome, merge } = it.merge('1') ?? {}
  expect([outcome, merge?.checks[0]?.exitCode, merge?.checks[0]?.tests]).toEqual(['returned', 0, 0])
  expect(it.task('1').error).toContain('no test was executed')
})
