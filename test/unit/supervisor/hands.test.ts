import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Hub } from '../../../src/git/hub.ts'
import type { Unmergeable } from '../../../src/git/unmergeable.ts'
import { clock } from '../../../src/lib/clock.ts'
import { fail, ok, unwrap } from '../../../src/lib/result.ts'
import { Config, members } from '../../../src/protocol/config.ts'
import type { Shell } from '../../../src/sandbox/shell.ts'
import { openMemoryStore } from '../../../src/store/memory.ts'
import { type Core, makeCore } from '../../../src/supervisor/core.ts'
import { Crew } from '../../../src/supervisor/crew.ts'
import { Dispatch } from '../../../src/supervisor/dispatch.ts'
import { makeHandlers } from '../../../src/supervisor/handlers.ts'
import { releaseInHand } from '../../../src/supervisor/in-hand.ts'
import { openLog } from '../../../src/supervisor/log.ts'
import { setStanding } from '../../../src/supervisor/members.ts'
import { Notices } from '../../../src/supervisor/notices.ts'
import { Proof } from '../../../src/supervisor/proof.ts'
import { releaseOrphans, Shutdown, settleShutdown, withdrawShutdowns } from '../../../src/supervisor/shutdown.ts'
import { takeTaskMessages } from '../../../src/supervisor/task-messages.ts'
import type { Threads } from '../../../src/supervisor/threads.ts'
import { suspicionOf } from '../../support/core.ts'
import { until } from '../../support/threads.ts'

const gate = () => {
  let open: () => void = () => undefined
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { opened, open: () => open() }
}

const fetched = { head: 'head', commits: 1, files: [], replaced: null }

/** Only what an act on tasks asks of a hub; `wait` is passed by everything that fetches from a clone. */
const fakeHub = (wait: Promise<void>, trunk: () => Promise<string> = async () => 'trunk'): Hub => {
  const hub: Partial<Hub> = {
    brings: async () => ok({ commits: 1, files: [] }),
    fetchBranch: async () => {
      await wait
      return ok(fetched)
    },
    fetchRescue: async () => ok([]),
    refreshBase: async () =>
      ok({
        moved: false,
        from: 'a',
        to: 'a',
        rewritten: false,
        dropped: null,
        how: 'none',
        trunk: 'trunk',
        files: [],
        tree: null,
      }),
    unmergeable: async () => ok([]),
    branchHead: async () => ok(null),
    damage: () => null,
    absent: async () => [],
    trunk,
  }
  return hub as Hub
}

const setup = (hub: Hub | null = null, lead?: string) => {
  const root = mkdtempSync(join(tmpdir(), 'team-hands-'))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const config = Config.parse({
    verify: 'true',
    ...(lead === undefined ? {} : { lead }),
    teammates: [{ name: 'alice' }, { name: 'bob' }],
  })
  const store = openMemoryStore(clock)
  const mode = hub ? ('git' as const) : ('dir' as const)
  const core = makeCore(
    { store, root, workspace: root, mode, config, members: members(config), clock, hub, sandboxed: false },
    () => null,
  )
  const log = openLog(root, join(root, 'log'), text => text, clock)
  const notices = new Notices(core, log)
  const table = makeHandlers(
    core,
    () => Promise.reject(new Error('unused')),
    () => {
      throw new Error('unused')
    },
    null,
  )
  const add = () => unwrap(core.tasks.add([{ title: 'one' }], { by: 'human' })).ids[0] ?? ''
  const start = (id: string, owner: string) =>
    unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner, branch: hub ? `team/task-${id}` : null }))
  const task = (id: string) => core.tasks.get(id)?.value
  return { core, store, log, notices, table, add, start, task }
}

/** Gives out the tasks of `core` to threads that are all alive, and keeps what each was sent in `sent`. */
const dispatchOf = (core: Core, sent: string[] = []) =>
  new Dispatch({
    core,
    send: (name, { id }) => void sent.push(`${name} ${id}`),
    alive: () => true,
    suspicion: suspicionOf(core),
    bringBase: async () => undefined,
    onProblem: () => undefined,
    onFailure: error => {
      throw error
    },
  })

const idleAgain = () => new Promise(resolve => setImmediate(resolve))

describe('a task that leaves its hands', () => {
  it('takes its branch along though a git was killed at that; what goes on failing is told', async () => {
    const answers = [fail('io', 'ended by SIGKILL'), ok(fetched), fail('io', 'first'), fail('held', 'second')]
    const { core, store, add, start } = setup({
      ...fakeHub(Promise.resolve()),
      fetchBranch: async () => answers.shift() ?? fail('internal', 'asked too often'),
    })
    execFileSync('git', ['init', '-q', join(core.root, 'team', 'alice', 'repo')])
    const warnings: unknown[] = []
    store.onEntry(({ event, info }) => {
      if (event === 'warning') warnings.push(info?.text)
    })
    for (const told of [[], ['its branch could not be fetched: second']]) {
      const id = add()
      start(id, 'alice')
      await releaseInHand(core, 'alice', 'stopped')
      await store.flushed()
      expect(warnings).toEqual(told)
    }
    expect(answers).toEqual([])
  })
})

it('what cannot be merged is refused while its author can mend it: the task stays in its hands, and is claimed once that is gone', async () => {
  const found: Unmergeable[] = [
    { path: 'sub', why: 'repository' },
    { path: 'a.bin', why: 'lfs' },
  ]
  const { table, add, start, task } = setup({
    ...fakeHub(Promise.resolve()),
    unmergeable: async () => ok([...found]),
  })
  const id = add()
  start(id, 'alice')
  const refused = await table.call('alice', 'task.complete', { summary: 'done' })
  expect(refused).toMatchObject({
    ok: false,
    fault: {
      code: 'refused',
      message: expect.stringMatching(/sub: is a repository of its own.*a\.bin: is kept by Git LFS/s),
    },
  })
  expect(task(id)).toMatchObject({ status: 'in_progress', owner: 'alice', claimed: null })
  found.length = 0
  unwrap(await table.call('alice', 'task.complete', { summary: 'done' }))
  expect(task(id)?.claimed).toMatchObject({ head: 'head' })
})

describe('a task that changes hands while something about it is under way', () => {
  it('is not given back, failed or released by the one who had it before', async () => {
    for (const act of ['task.release', 'task.fail', 'stop'] as const) {
      const { opened, open } = gate()
      const { core, table, add, start, task } = setup(fakeHub(opened))
      const id = add()
      start(id, 'alice')
      const acting =
        act === 'stop' ? releaseInHand(core, 'alice', 'stopped') : table.call('alice', act, { reason: 'cannot' })
      unwrap(core.tasks.move(id, 'human', { move: 'cancel', reason: 'no' }))
      unwrap(core.tasks.move(id, 'human', { move: 'retry' }))
      start(id, 'bob')
      open()
      const result = await acting
      if (result) expect(result).toMatchObject({ ok: false, fault: { code: 'refused' } })
      expect(task(id)).toMatchObject({ status: 'in_progress', owner: 'bob', error: 'no' })
    }
  })

  it('is not completed or sent back by the check of a claim that was cancelled', async () => {
    for (const exitCode of [0, 1]) {
      const { opened, open } = gate()
      const { core, add, start, task } = setup()
      const running = gate()
      const shell = {
        run: async () => {
          running.open()
          await opened
          return { exitCode, endedBy: 'itself', ms: 1, output: '', left: [] }
        },
        stop: async () => undefined,
      } as unknown as Shell
      const proof = new Proof({
        core,
        shell: () => shell,
        hidden: [],
        signal: new AbortController().signal,
        notices: {
          problem: (_key, text) => {
            throw new Error(text ?? 'a problem was taken away')
          },
          tell: (_to, _id, text) => {
            throw new Error(text)
          },
        },
      })
      const id = add()
      start(id, 'alice')
      unwrap(core.tasks.move(id, 'alice', { move: 'claim', head: null, summary: 'done' }))
      proof.advance(id, () => undefined)
      await running.opened
      unwrap(core.tasks.move(id, 'human', { move: 'cancel', reason: 'no' }))
      unwrap(core.tasks.move(id, 'human', { move: 'retry' }))
      start(id, 'bob')
      open()
      await proof.settled()
      expect(task(id)).toMatchObject({ status: 'in_progress', owner: 'bob', claimed: null, returns: 0 })
      expect(
        core.tasks.move(id, 'supervisor', { move: 'complete', result: { outcome: 'verified', summary: '' } }).ok,
      ).toBe(false)
    }
  })

  it('leaves its teammate free for the next when it is cancelled while it is prepared', async () => {
    const { opened, open } = gate()
    const { core, add, task } = setup(
      fakeHub(Promise.resolve(), async () => {
        await opened
        return 'trunk'
      }),
    )
    const sent: string[] = []
    const dispatch = dispatchOf(core, sent)
    const id = add()
    dispatch.idle('alice')
    await until(() => task(id)?.status === 'in_progress')
    unwrap(core.tasks.move(id, 'human', { move: 'cancel', reason: 'no' }))
    open()
    await until(() => !dispatch.busy)
    const next = add()
    await until(() => sent.length > 0)
    expect(sent).toEqual([`alice ${next}`])
  })

  it('is told once to a teammate that was restarted while it was prepared', async () => {
    const gates = [gate(), gate()]
    let n = 0
    const { core, add, task } = setup(
      fakeHub(Promise.resolve(), async () => {
        await gates[n++]?.opened
        return 'trunk'
      }),
    )
    const sent: string[] = []
    const dispatch = dispatchOf(core, sent)
    const id = add()
    dispatch.idle('alice')
    await until(() => n === 1)
    dispatch.gone('alice')
    dispatch.idle('alice')
    await until(() => n === 2)
    for (const each of gates) each.open()
    await until(() => !dispatch.busy && sent.length > 0)
    await idleAgain()
    expect(sent).toEqual([`alice ${id}`])
    expect(task(id)?.attempts).toBe(1)
  })

  it('fails visibly when it cannot be prepared, and gives no work to a thread that ended meanwhile', async () => {
    const { opened, open } = gate()
    const { core, add, task } = setup(
      fakeHub(Promise.resolve(), async () => {
        await opened
        throw new Error('the hub is gone')
      }),
    )
    const dispatch = dispatchOf(core)
    const id = add()
    dispatch.idle('alice')
    await until(() => task(id)?.status === 'in_progress')
    dispatch.gone('alice')
    open()
    await until(() => task(id)?.status === 'failed')
    const next = add()
    await idleAgain()
    expect(task(id)?.error).toContain('the hub is gone')
    expect(task(next)?.status).toBe('pending')
  })

  it('is prepared once more where a git was killed at it', async () => {
    let asked = 0
    const { core, add, task } = setup(
      fakeHub(Promise.resolve(), async () => {
        if (++asked === 1) throw new Error('git rev-parse: ended by SIGKILL')
        return 'trunk'
      }),
    )
    const sent: string[] = []
    const dispatch = dispatchOf(core, sent)
    const id = add()
    dispatch.idle('alice')
    await until(() => sent.length > 0)
    expect([sent, task(id)?.status]).toEqual([[`alice ${id}`], 'in_progress'])
  })

  it('goes back when the hub was removed while it was prepared: that fails no task', async () => {
    let damage: string | null = null
    const { core, add, task } = setup({
      ...fakeHub(Promise.resolve(), async () => {
        damage = 'hub.git is gone'
        throw new Error('refs/heads/team/trunk does not exist')
      }),
      damage: () => damage,
    })
    const dispatch = dispatchOf(core)
    const id = add()
    dispatch.idle('alice')
    await until(() => task(id)?.status === 'pending' && task(id)?.attempts === 1)
    await idleAgain()
    expect(task(id)).toMatchObject({ status: 'pending', owner: null, attempts: 1 })
  })
})

describe('the crew', () => {
  const makeCrew = (made: ReturnType<typeof setup>) => {
    const crew = new Crew({
      core: made.core,
      notices: made.notices,
      log: made.log,
      redact: text => text,
      threadEntry: '/nowhere',
      threadEnv: () => ({}),
      holdsBack: () => false,
      table: () => made.table,
      onChange: () => undefined,
      onFailure: error => {
        throw error
      },
      onWork: () => undefined,
      bringBase: async () => undefined,
      isGoing: () => false,
    })
    onTestFinished(() => crew.threads.close())
    return crew
  }

  it('keeps what was sent back for its owner, whose start is still to come', async () => {
    const made = setup()
    const { core, add, start, task } = made
    const id = add()
    start(id, 'bob')
    unwrap(core.tasks.move(id, 'bob', { move: 'claim', head: null, summary: '' }))
    unwrap(core.tasks.move(id, 'supervisor', { move: 'return', reason: 'red' }))
    const crew = makeCrew(made)
    crew.dispatch.idle('alice')
    await idleAgain()
    expect(task(id)?.status).toBe('pending')
    setStanding(core, 'bob', 'failed', 'gone')
    crew.dispatch.kick()
    await idleAgain()
    expect(task(id)).toMatchObject({ status: 'in_progress', owner: 'alice' })
  })

  it('tells a teammate of a task that somebody else released, and nobody of what it ended itself', () => {
    const made = setup()
    const { core, add, start, task } = made
    const crew = makeCrew(made)
    const send = vi.spyOn(crew.threads, 'send')
    const id = add()
    const { value: old } = start(id, 'alice')
    unwrap(core.tasks.move(id, 'supervisor', { move: 'release', reason: 'it was shut down' }))
    const now = task(id)
    if (!now) throw new Error('no task')
    crew.taskChanged(now, old, 'alice')
    expect(send).not.toHaveBeenCalled()
    crew.taskChanged(now, old, 'supervisor')
    expect(send).toHaveBeenCalledWith('alice', expect.objectContaining({ t: 'unassign', id }))
  })
})

describe('after a crash', () => {
  it('C01 a task in the hands of one who was given up, stopped or taken off the team goes back to the others', async () => {
    const { core, add, start, task } = setup()
    const [failed, gone, live] = [add(), add(), add()]
    start(failed, 'alice')
    start(gone, 'carol')
    start(live, 'bob')
    setStanding(core, 'alice', 'failed', 'it died too often')
    await releaseOrphans(core)
    expect(task(failed)).toMatchObject({ status: 'pending', owner: null })
    expect(task(gone)).toMatchObject({ status: 'pending', owner: null })
    expect(task(live)).toMatchObject({ status: 'in_progress', owner: 'bob' })
  })
})

describe('a shutdown', () => {
  const ask = (
    core: ReturnType<typeof setup>['core'],
    from: string,
    to: string,
    teammate: string,
    more: { body?: string; wholeTeam?: true } = {},
  ) =>
    unwrap(
      core.requests.open({
        type: 'shutdown_request',
        from,
        to,
        title: 'shut down',
        body: more.body ?? '',
        data: { teammate, graceMs: 1000, ...(more.wholeTeam ? { wholeTeam: true } : {}) },
      }),
    ).request.id

  it('D03 that a person granted while no daemon ran is carried out by the next; what waits for a person goes on waiting', () => {
    const { core } = setup()
    const granted = ask(core, 'alice', 'human', 'alice')
    unwrap(core.requests.decide(granted, 'human', 'approve', null))
    const waiting = ask(core, 'bob', 'human', 'bob')
    const asked = ask(core, 'human', 'bob', 'bob')
    for (const request of core.requests.all()) if (request.type === 'shutdown_request') settleShutdown(core, request)
    expect(core.store.teammates.get('alice')?.value.standing).toBe('stopped')
    expect(core.store.teammates.get('bob')).toBeUndefined()
    expect(core.requests.get(granted)?.value.effect).toMatchObject({ step: 'done', outcome: 'ok' })
    expect(core.requests.get(waiting)?.value.outcome).toBeNull()
    expect(core.requests.get(asked)?.value.outcome).toBe('withdrawn')
  })

  it('D03 that a teammate was asked by the lead and had not answered when the daemon ended is withdrawn, and the lead is told so', () => {
    const { core } = setup()
    const asked = ask(core, 'bob', 'alice', 'alice')
    // Its own, and what a person asked, are nothing to tell a teammate of.
    const own = ask(core, 'alice', 'human', 'alice')
    const byHuman = ask(core, 'human', 'alice', 'alice', { body: 'by name' })
    for (const request of core.requests.all()) if (request.type === 'shutdown_request') settleShutdown(core, request)
    withdrawShutdowns(core, 'alice')
    for (const id of [asked, own, byHuman]) expect(core.requests.get(id)?.value.outcome).toBe('withdrawn')
    const told = (name: string) => core.mail.read(name, 0, 100).items.map(({ stored }) => stored.message.content)
    expect(told('bob')).toEqual([`${asked} (shut down) was withdrawn by supervisor: the daemon it was about has ended`])
    expect(told('alice').filter(content => content.includes('withdrawn'))).toEqual([])
  })

  it('D03 of one teammate alone that it agreed to holds over a crash before its effect was done; of the whole team it does not', () => {
    // Asked alone, by the lead or by `team down <name>`, it stays stopped until it is restarted: a crash in the middle is no
    // restart. Of the whole team, the next start is for everyone. What was never answered is asked again by whoever wants it.
    for (const step of ['decided', 'intent', 'expired'] as const) {
      const { core } = setup()
      const end = (id: string, name: string) => {
        if (step === 'expired') return unwrap(core.requests.end(id, 'expired', 'supervisor', 'no answer'))
        unwrap(core.requests.decide(id, name, 'approve', null))
        if (step === 'intent') unwrap(core.requests.effect(id, 'intent'))
      }
      const alone = ask(core, 'human', 'alice', 'alice')
      const together = ask(core, 'human', 'bob', 'bob', { wholeTeam: true })
      end(alone, 'alice')
      end(together, 'bob')
      for (const request of core.requests.all()) if (request.type === 'shutdown_request') settleShutdown(core, request)
      expect(core.store.teammates.get('alice')?.value.standing, step).toBe('stopped')
      expect(core.store.teammates.get('bob'), step).toBeUndefined()
      for (const id of [alone, together]) expect(core.requests.get(id)?.value.effect?.step, step).toBe('done')
    }
  })

  it('of everybody says so in its data, and one of a single teammate that is under way with it keeps that one stopped', async () => {
    const { core, notices } = setup()
    const states = new Map([
      ['alice', 'working'],
      ['bob', 'working'],
    ])
    const restarted: string[] = []
    const threads = {
      status: (name: string) => ({ state: states.get(name) }),
      leave: async (name: string) => {
        states.set(name, 'stopped')
        return 'bye'
      },
      restart: (name: string) => void restarted.push(name),
    } as unknown as Threads
    const shutdown = new Shutdown({
      core,
      threads,
      notices,
      // As it is while the whole team is being stopped: nothing is put on record.
      afterStop: async name => withdrawShutdowns(core, name),
      onFailure: error => {
        throw error
      },
    })
    core.store.requests.watch((_id, { value }) => {
      if (value.type === 'shutdown_request') shutdown.advance(value)
    })
    const alone = ask(core, 'human', 'alice', 'alice')
    const down = shutdown.all({ force: false, timeoutMs: 60_000, by: 'human' })
    await until(() => core.requests.waiting().length === 3)
    const whole = core.requests.waiting().filter(({ id }) => id !== alone)
    expect(whole.map(({ data }) => data)).toEqual([
      { teammate: 'alice', graceMs: 60_000, wholeTeam: true },
      { teammate: 'bob', graceMs: 60_000, wholeTeam: true },
    ])
    unwrap(core.requests.decide(alone, 'alice', 'approve', null))
    const ofBob = whole.find(({ to }) => to === 'bob')?.id ?? ''
    unwrap(core.requests.decide(ofBob, 'bob', 'reject', 'busy'))
    expect(unwrap(await down).rejected).toEqual([{ name: 'bob', reason: 'busy' }])
    expect(core.store.teammates.get('alice')?.value.standing).toBe('stopped')
    expect(core.store.teammates.get('bob')).toBeUndefined()
    expect(restarted).toEqual([])
  })

  it('has its effect once, though each of its steps is a change that is followed', async () => {
    const { core, notices } = setup()
    let left = 0
    const threads = {
      status: () => ({ state: 'stopped' }),
      leave: async () => {
        left++
        return 'bye'
      },
    } as unknown as Threads
    const shutdown = new Shutdown({
      core,
      threads,
      notices,
      afterStop: async () => undefined,
      onFailure: error => {
        throw error
      },
    })
    core.store.requests.watch((_id, { value }) => {
      if (value.type === 'shutdown_request') shutdown.advance(value)
    })
    const id = ask(core, 'human', 'alice', 'alice')
    unwrap(core.requests.decide(id, 'alice', 'approve', null))
    await until(() => core.requests.get(id)?.value.effect?.step === 'done')
    expect(left).toBe(1)
    // Opened, decided, intent, done.
    expect(core.requests.get(id)?.rev).toBe(4)
  })

  it('of everybody ends at once for one that ended by itself meanwhile, and is no rejection', async () => {
    const { core, notices } = setup()
    const states = new Map([
      ['alice', 'working'],
      ['bob', 'stopped'],
    ])
    const threads = { status: (name: string) => ({ state: states.get(name) }) } as unknown as Threads
    const shutdown = new Shutdown({
      core,
      threads,
      notices,
      afterStop: async () => undefined,
      onFailure: error => {
        throw error
      },
    })
    const down = shutdown.all({ force: false, timeoutMs: 60_000, by: 'human' })
    await until(() => core.requests.waiting().length === 1)
    states.set('alice', 'failed')
    withdrawShutdowns(core, 'alice')
    expect(await down).toEqual(ok({ stopped: [{ name: 'alice', how: 'dead' }], rejected: [] }))
  })
})

describe('whose word it is', () => {
  it('A09 a task that a line in a file asks for is not on record as by whom the line claims', async () => {
    const { core, store, notices } = setup(null, 'bob')
    const entries: [string, string][] = []
    store.onEntry(entry => void entries.push([entry.event, entry.by]))
    const message = {
      id: 'msg_f1',
      from: 'bob',
      to: 'alice',
      timestamp: '2026-05-14T10:00:00Z',
      type: 'task' as const,
      content: 'do it',
    }
    const why = { event: 'message.stored' as const, by: 'file' }
    store.inbox('alice').append({ message, origin: 'file' }, why)
    store.inbox('alice').append({ message: { ...message, id: 'msg_2' }, origin: 'daemon' }, why)
    takeTaskMessages(core, notices)
    await store.flushed()
    expect(entries.filter(([event]) => event === 'task.created')).toEqual([
      ['task.created', 'file'],
      ['task.created', 'bob'],
    ])
  })

  it('a lead that was given up is not told of what needs a person: the human is', () => {
    const { core, notices, add } = setup(null, 'bob')
    setStanding(core, 'bob', 'failed', 'it died too often')
    notices.gaveUp('bob', 'it died too often')
    const id = add()
    const failed = unwrap(core.tasks.move(id, 'supervisor', { move: 'fail', reason: 'x' }))
    notices.taskEnded(failed.value)
    expect(core.mail.read('bob', 0, 10).items).toHaveLength(0)
    expect(core.mail.read('user', 0, 10).items).toHaveLength(2)
  })
})
