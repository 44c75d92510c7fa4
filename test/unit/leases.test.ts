import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import { clash } from '../../src/protocol/lease.ts'
import type { LeaseRequest } from '../../src/protocol/request.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { claim } from '../../src/supervisor/leases.ts'
import { coreOf } from '../support/core.ts'
import { ManualTime } from '../support/manual-time.ts'

const names = ['a', 'b', 'c', 'd']

const team = (mode: 'git' | 'dir' = 'git', members = names, workspace = '/nowhere') => {
  const time = new ManualTime()
  const rest = { teammates: members.map(name => ({ name })) }
  const store = openMemoryStore(time.clock)
  const open = () => {
    const made = coreOf(rest, time.clock, { mode, store, workspace })
    const { core, handlers } = made
    core.leases.start({
      runs: () => true,
      onFailure: error => {
        throw error
      },
    })
    return {
      ...made,
      time,
      ask: (by: string, kind: string, what: string[], seconds = 60) =>
        handlers.call(by, 'request.open', { type: 'resource_request', data: { kind, what, seconds } }),
      /** Its id and state. */
      lease: async (by: string, kind: string, what: string[], seconds = 60) => {
        const { request } = unwrap(
          await handlers.call(by, 'request.open', { type: 'resource_request', data: { kind, what, seconds } }),
        ) as { request: LeaseRequest }
        return request
      },
      back: (by: string, id: string) => handlers.call(by, 'request.withdraw', { id }),
      holders: () => core.leases.held().map(({ id, from }) => `${id} ${from}`),
      waiting: () => core.leases.queued().map(({ id, from }) => `${id} ${from}`),
      gate: (by: string, ...paths: string[]) => handlers.call(by, 'task.gate', { paths }),
      told: (name: string) =>
        store
          .inbox(name)
          .read(0)
          .map(({ value }) => value.message.content),
    }
  }
  return { ...open(), reopen: open }
}
const settled = () => new Promise(setImmediate)
const fault = (result: { ok: boolean }) => (result.ok ? null : (result as unknown as { fault: object }).fault)

describe('a lease', () => {
  it('is granted at once when it is free, with a fencing number, in one record with its decision', async () => {
    const it = team()
    const request = await it.lease('a', 'path', ['./src//a/'])
    expect(request).toMatchObject({
      status: 'approved',
      decidedBy: 'supervisor',
      data: { what: ['src/a'] },
      effect: { step: 'intent', fence: 1, until: '2026-01-01T00:01:00.000Z', what: ['src/a'] },
    })
    expect(it.told('a')).toEqual([
      expect.stringMatching(/approved by supervisor: path src\/a is yours until .*fence 1/),
    ])
  })

  it('is waited for in order: who overlaps with one that waits does not overtake it, who is disjoint is granted at once', async () => {
    const it = team()
    await it.lease('a', 'path', ['src/**'])
    await it.lease('b', 'path', ['src/x', 'docs/**'])
    await it.lease('c', 'path', ['docs/y'])
    await it.lease('d', 'path', ['test/**'])
    expect([it.holders(), it.waiting()]).toEqual([
      ['req_1 a', 'req_4 d'],
      ['req_2 b', 'req_3 c'],
    ])
    expect(it.core.leases.shown().queued.map(({ behind }) => behind)).toEqual([
      [{ who: 'a', id: 'req_1', what: 'holds it' }],
      [{ who: 'b', id: 'req_2', what: 'was there before' }],
    ])
    await it.back('a', 'req_1')
    await settled()
    expect([it.holders(), it.waiting()]).toEqual([['req_4 d', 'req_2 b'], ['req_3 c']])
    expect(it.core.requests.get('req_1')?.value.effect).toMatchObject({ step: 'done', outcome: 'released', fence: 1 })
    expect(it.core.requests.get('req_2')?.value.effect).toMatchObject({ step: 'intent', fence: 3 })
  })

  it('J09 ends by the monotonic clock, whatever the wall clock says, and its holder is told', async () => {
    const it = team()
    let wall = 0
    const { clock } = it.time
    const real = clock.wall
    clock.wall = () => real() + wall
    await it.lease('a', 'name', ['db'], 60)
    await it.lease('b', 'name', ['db'], 60)
    wall = 3_600_000
    it.core.leases.expire()
    expect(it.holders()).toEqual(['req_1 a'])
    wall = -3_600_000
    await it.time.pass(59_999)
    it.core.leases.expire()
    expect(it.holders()).toEqual(['req_1 a'])
    await it.time.pass(1)
    it.core.leases.expire()
    await settled()
    expect(it.holders()).toEqual(['req_2 b'])
    expect(it.told('a').at(-1)).toMatch(/do not hold req_1 any more \(name db, fence 1\): its time is over/)
  })

  it('is lost with its holder thread and with the daemon; who waits keeps its place; fencing numbers go on', async () => {
    const it = team()
    await it.lease('a', 'name', ['db'])
    await it.lease('b', 'name', ['db'])
    await it.lease('c', 'name', ['db'])
    it.core.leases.died('a', 'out of memory')
    it.core.leases.died('c', 'out of memory')
    await settled()
    expect([it.holders(), it.waiting()]).toEqual([['req_2 b'], ['req_3 c']])
    expect(it.told('a').at(-1)).toMatch(/the thread of a ended: out of memory/)
    it.core.leases.close()
    const next = it.reopen()
    await settled()
    expect([next.holders(), next.waiting()]).toEqual([['req_3 c'], []])
    expect(next.told('b').at(-1)).toMatch(/the daemon that gave it went down/)
    expect(next.core.requests.get('req_3')?.value.effect?.fence).toBe(3)
  })

  it('ends with who holds it, and what that one waits for is withdrawn', async () => {
    const it = team()
    await it.lease('a', 'name', ['db'])
    await it.lease('a', 'name', ['cache'])
    await it.lease('b', 'name', ['db'])
    await it.lease('b', 'name', ['cache'])
    it.core.leases.ended('b', 'b was shut down')
    expect(it.waiting()).toEqual([])
    it.core.leases.ended('a', 'a was shut down')
    expect(it.holders()).toEqual([])
    expect(it.told('a')).toHaveLength(2)
  })

  it('goes with the task it was for: claimed, released, failed or cancelled', async () => {
    for (const move of ['claim', 'release', 'fail', 'cancel'] as const) {
      const it = team()
      const { tasks } = it.core
      tasks.add([{ title: 'one' }], { by: 'human' })
      tasks.move('1', 'supervisor', { move: 'start', owner: 'a', branch: null })
      await it.lease('a', 'name', ['db'])
      await it.lease('b', 'name', ['db'])
      tasks.move('1', 'a', { move, reason: 'r', head: null, summary: 's' } as never)
      await settled()
      expect([move, it.holders()]).toEqual([move, ['req_2 b']])
    }
  })

  it('a free port can be bound, is nobody else’s, and is named in the decision', async () => {
    const it = team()
    const first = await it.lease('a', 'port', ['any'])
    await it.lease('b', 'port', ['any', 'any'])
    const held = async () => {
      for (;;) {
        const all = it.core.leases.held()
        if (all.length === 2) return all.flatMap(({ effect }) => effect?.what ?? [])
        await settled()
      }
    }
    const ports = await held()
    expect(new Set(ports).size).toBe(3)
    expect(first.status).toBe('pending')
    expect(it.told('a')[0]).toContain(`port ${ports[0]} is yours`)
    for (const port of ports) {
      const server = createServer()
      await new Promise<void>(resolve => server.listen(Number(port), resolve))
      await new Promise(resolve => server.close(resolve))
    }
    expect(await it.lease('c', 'port', [ports[0] ?? ''])).toMatchObject({ status: 'pending' })
  })

  it('on a path that nothing is written by, a link or one of the machine, is refused with the one that is meant', async () => {
    const top = realpathSync(mkdtempSync(join(tmpdir(), 'team-leases-')))
    try {
      for (const folder of ['ws/src/deep', 'out']) mkdirSync(join(top, folder), { recursive: true })
      symlinkSync('src', join(top, 'ws', 'link'))
      symlinkSync('../../src/deep', join(top, 'ws', 'src', 'again'))
      symlinkSync(join(top, 'out'), join(top, 'ws', 'away'))
      symlinkSync('loop', join(top, 'ws', 'loop'))
      symlinkSync(join(top, 'ws'), join(top, 'name'))
      const it = team('dir', names, join(top, 'name'))
      const refused = async (path: string) =>
        (fault(await it.ask('a', 'path', [path])) as { message: string } | null)?.message
      expect(await refused('link/a.ts')).toBe('link/a.ts is a link: ask for src/a.ts, which it leads to')
      expect(await refused('./link/*/x')).toBe('link is a link: ask for src/*/x, which it leads to')
      expect(await refused('link')).toBe('link is a link: ask for src, which it leads to')
      expect(await refused('away/**')).toBe('away leads out of the workspace')
      expect(await refused('loop/x')).toMatch(/is a loop of links/)
      const start = 'paths start at the top of the workspace'
      expect(await refused(`${top}/ws/src/**`)).toBe(`${start}: src/**, not ${top.slice(1)}/ws/src/**`)
      expect(await refused(`${top}/ws`)).toBe(`${start}: **, not ${top.slice(1)}/ws`)
      for (const path of ['src/a.ts', '/src/b.ts', 'new/c', 'src/deep/{d,e}', 'li*/f'])
        expect([path, await refused(path)]).toEqual([path, undefined])
    } finally {
      rmSync(top, { recursive: true })
    }
  })

  it('that cannot be is refused, as is waiting for oneself; nobody can approve what another holds', async () => {
    const it = team()
    expect(fault(await it.ask('a', 'port', ['http']))).toMatchObject({ message: expect.stringContaining('no port') })
    expect(fault(await it.ask('a', 'path', ['repo/src/x']))).toMatchObject({
      message: 'paths start at the top of the workspace: src/x, not repo/src/x',
    })
    await it.lease('a', 'name', ['db'])
    await it.lease('b', 'name', ['db'])
    expect(fault(await it.ask('a', 'name', ['db', 'cache']))).toMatchObject({
      message: 'b waits for this (req_2), and you hold req_1',
    })
    expect(fault(await it.handlers.call('human', 'request.decide', { id: '2', decision: 'approve' }))).toMatchObject({
      message: 'req_2 is granted in its turn, by the supervisor alone: it waits for req_1 of a',
    })
    expect(fault(await it.back('b', 'req_1'))).toMatchObject({ message: 'req_1 is held by a: b cannot give it back' })
    unwrap(await it.handlers.call('human', 'request.decide', { id: '2', decision: 'reject', reason: 'no' }))
    unwrap(await it.back('human', 'req_1'))
    expect([it.holders(), it.waiting()]).toEqual([[], []])
    expect(it.told('a').at(-1)).toMatch(/withdrawn by human/)
  })
})

it('of a thousand that wait for the same each is shown with the nearest before it, and the first is served', async () => {
  const many = ['a', ...Array.from({ length: 40 }, (_, i) => `m${i}`)]
  const { core, handlers, lease, back } = team('git', many)
  await lease('a', 'path', ['src/**/*.ts'])
  const data = { kind: 'path', what: ['src/**/*.ts'] }
  for (let i = 0; i < 1000; i++)
    await handlers.call(many[1 + (i % 40)] ?? '', 'request.open', { type: 'resource_request', title: `${i}`, data })
  const { queued } = core.leases.shown()
  expect(queued).toHaveLength(1000)
  expect(queued.at(-1)?.behind.map(({ id }) => id)).toEqual(['req_1', 'req_1000', 'req_999', 'req_998'])
  expect(core.leases.willMove).toBe(true)
  await back('a', 'req_1')
  await settled()
  expect(core.leases.held().map(({ id }) => id)).toEqual(['req_2'])
})

describe('the gate', () => {
  it('refuses where another holds a lease, and names holder, lease and remedy', async () => {
    const it = team()
    await it.lease('a', 'path', ['src/**/*.ts'])
    expect(fault(await it.gate('b', 'src/x/y.ts'))).toEqual({
      code: 'refused',
      message: 'a holds src/x/y.ts until 2026-01-01T00:01:00.000Z (lease req_1, fence 1)',
      hint: 'wait for it: request open, type resource_request, data {"kind":"path","what":["src/x/y.ts"]}',
    })
    expect(fault(await it.gate('b', 'src/x/y.md'))).toBeNull()
    expect(fault(await it.gate('a', 'src/x/y.ts'))).toBeNull()
  })

  it('refuses outside of the paths of the task, unless there is a lease', async () => {
    const it = team()
    it.core.tasks.add([{ title: 'one', paths: ['src/a'] }], { by: 'human' })
    it.core.tasks.move('1', 'supervisor', { move: 'start', owner: 'a', branch: null })
    expect(fault(await it.gate('a', 'src/a/x.ts'))).toBeNull()
    expect(fault(await it.gate('a', 'docs/x.md'))).toMatchObject({
      message: 'task 1 is about src/a, not about docs/x.md',
    })
    await it.lease('a', 'path', ['docs'])
    expect(fault(await it.gate('a', 'docs/x.md'))).toBeNull()
  })

  it('closes at once when a lease is lost, though nobody else has it and the task may touch everything; a new one opens it', async () => {
    const it = team()
    it.core.tasks.add([{ title: 'one' }], { by: 'human' })
    it.core.tasks.move('1', 'supervisor', { move: 'start', owner: 'a', branch: null })
    await it.lease('a', 'path', ['src/**'], 1)
    await it.time.pass(1000)
    it.core.leases.expire()
    expect(fault(await it.gate('a', 'src/x.ts'))).toMatchObject({
      message: 'you lost your lease req_1 on src/x.ts: its time is over',
    })
    expect(fault(await it.gate('a', 'docs/x.md'))).toBeNull()
    const again = await it.lease('a', 'path', ['src/**'], 1)
    expect(fault(await it.gate('a', 'src/x.ts'))).toBeNull()
    await it.back('a', again.id)
    expect(fault(await it.gate('a', 'src/x.ts'))).toBeNull()
  })

  it('what was lost with nothing in hand closes nothing of the next task; a name is no path', async () => {
    const it = team()
    await it.lease('a', 'path', ['src/x.ts'], 1)
    await it.time.pass(1000)
    it.core.leases.expire()
    expect(fault(await it.gate('a', 'src/x.ts'))).toMatchObject({
      message: expect.stringMatching(/you lost your lease req_1/),
    })
    await it.back('a', (await it.lease('a', 'name', ['src/x.ts'])).id)
    expect(fault(await it.gate('a', 'src/x.ts'))).toMatchObject({
      message: expect.stringMatching(/you lost your lease req_1/),
    })
    it.core.tasks.add([{ title: 'one' }], { by: 'human' })
    it.core.tasks.move('1', 'supervisor', { move: 'start', owner: 'a', branch: null })
    expect(fault(await it.gate('a', 'src/x.ts'))).toBeNull()
  })

  it('in dir mode a task begun holds its paths: others do not write there, and a lease waits for its end', async () => {
    const it = team('dir')
    const { tasks, leases } = it.core
    tasks.add(
      [
        { title: 'one', paths: ['src/**'] },
        { title: 'two', paths: ['docs/**'] },
      ],
      { by: 'human' },
    )
    tasks.move('1', 'supervisor', { move: 'start', owner: 'a', branch: null })
    expect(fault(await it.gate('b', 'src/x.ts'))).toMatchObject({
      message: 'a works on task 1, which may touch src/x.ts',
    })
    await it.lease('b', 'path', ['src/x.ts', 'docs/x.md'])
    expect(leases.shown()).toMatchObject({
      held: [{ id: null, holder: 'a', task: '1', what: ['src/**'], fence: null }],
      queued: [{ id: 'req_1', behind: [{ who: 'a', id: 'task 1' }] }],
    })
    const two = tasks.get('2')?.value
    if (!two) throw new Error('no task')
    expect(leases.bar(two, 'c')).toBe('the lease req_1, which b waits for')
    tasks.move('1', 'a', { move: 'release', reason: null })
    await settled()
    expect(it.holders()).toEqual(['req_1 b'])
    expect(leases.bar(two, 'c')).toBe('the lease req_1 of b')
    expect(leases.bar(two, 'b')).toBeNull()
  })
})

const things = [
  ['path', ['src/**']],
  ['path', ['src/a/**']],
  ['path', ['src/b/*.ts', 'docs']],
  ['path', ['**/*.md']],
  ['name', ['db']],
  ['name', ['db', 'cache']],
  ['port', ['8080']],
] as const
const step = fc.oneof(
  fc.record({
    do: fc.constant('open'),
    who: fc.constantFrom(...names),
    thing: fc.nat(things.length - 1),
    s: fc.integer({ min: 1, max: 30 }),
  }),
  fc.record({ do: fc.constant('back'), nth: fc.nat(5) }),
  fc.record({ do: fc.constantFrom('die', 'end'), who: fc.constantFrom(...names) }),
  fc.record({ do: fc.constant('pass'), s: fc.integer({ min: 1, max: 20 }) }),
  fc.record({ do: fc.constant('restart') }),
)

it('whatever is opened, given back, lost, and whoever dies: never two holders, rising numbers, nobody overtaken, all served', () =>
  fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async steps => {
      const first = team()
      let it = first as ReturnType<typeof first.reopen>
      const order: number[] = []
      let highest = 0
      const check = async () => {
        await settled()
        const held = it.core.leases.held()
        for (const one of held)
          for (const other of held)
            expect(one.id === other.id || one.from === other.from || !clash(claim(one), claim(other))).toBe(true)
        for (const { effect } of [...held].sort((a, b) => (a.effect?.fence ?? 0) - (b.effect?.fence ?? 0)))
          if ((effect?.fence ?? 0) > highest) {
            highest = effect?.fence ?? 0
            order.push(highest)
          }
        expect(order).toEqual([...new Set(order)].sort((a, b) => a - b))
        // Whoever waits has somebody in front.
        for (const request of it.core.leases.queued()) expect(it.core.leases.behind(request)).not.toEqual([])
        // Nobody holds what overlaps with one that waits and was opened before it.
        for (const one of held)
          for (const other of it.core.leases.queued())
            if (number(other.id) < number(one.id)) expect(clash(claim(one), claim(other))).toBe(false)
      }
      for (const each of steps) {
        if (each.do === 'open' && 'thing' in each) {
          const [kind, what] = things[each.thing] ?? things[0]
          await it.ask(each.who, kind, [...what], each.s)
        } else if (each.do === 'back' && 'nth' in each) {
          const one = it.core.leases.held()[each.nth]
          if (one) await it.back(one.from, one.id)
        } else if (each.do === 'die' && 'who' in each) it.core.leases.died(each.who, 'a test')
        else if (each.do === 'end' && 'who' in each) it.core.leases.ended(each.who, 'a test')
        else if (each.do === 'pass' && 'nth' in each === false && 's' in each) {
          await it.time.pass(each.s * 1000)
          it.core.leases.expire()
        } else if (each.do === 'restart') {
          it.core.leases.close()
          it = first.reopen()
        }
        await check()
      }
      // From here only time passes: each turn serves at least the first that waits.
      for (let waiting = it.core.leases.queued().length; waiting > 0; ) {
        await it.time.pass(30_000)
        it.core.leases.expire()
        await check()
        const left = it.core.leases.queued().length
        expect(left).toBeLessThan(waiting)
        waiting = left
      }
      it.core.leases.close()
    }),
    { numRuns: 150 },
  ))
const number = (id: string): number => Number(id.slice('req_'.length))
