import { describe, expect, test } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import type { RpcResults } from '../../src/protocol/rpc.ts'
import { circle, type Wait } from '../../src/protocol/wait-graph.ts'
import type { DaemonLog } from '../../src/supervisor/log.ts'
import { Notices } from '../../src/supervisor/notices.ts'
import { reviewOf } from '../../src/supervisor/review.ts'
import { WaitGraph } from '../../src/supervisor/wait-graph.ts'
import { Waits } from '../../src/supervisor/waits.ts'
import { coreOf } from '../support/core.ts'

const graph =
  (edges: Readonly<Record<string, readonly string[]>>) =>
  (who: string): Wait[] =>
    (edges[who] ?? []).map(to => ({ from: who, to, by: `${who}${to}`, isFirm: true }))

test('a circle is found through the one asked about only, in its order', () => {
  const waits = graph({ a: ['x', 'b'], b: ['c'], c: ['a'], d: ['b'], x: ['y'], y: ['x'] })
  expect(circle('a', waits)?.map(({ by }) => by)).toEqual(['ab', 'bc', 'ca'])
  expect(circle('c', waits)?.map(({ by }) => by)).toEqual(['ca', 'ab', 'bc'])
  expect(circle('d', waits)).toBeNull()
  expect(circle('nobody', waits)).toBeNull()
})

const settled = async () => {
  for (let i = 0; i < 5; i++) await new Promise(resolve => setImmediate(resolve))
}

const setup = (names: readonly string[], more: object = {}) => {
  const { core, store, handlers } = coreOf({ teammates: names.map(name => ({ name })), ...more })
  const failures: unknown[] = []
  const onFailure = (error: unknown) => failures.push(error)
  const notices = new Notices(core, { error: onFailure } as unknown as DaemonLog)
  const ended = new Set<string>()
  const waits = new Waits({ core, notices, hasEnded: name => ended.has(name), onFailure })
  /** A turn of a teammate: it takes in what it has, and ends without having done anything. */
  const turn = async (name: string) => {
    const { last } = store.inbox(name)
    store.inbox(name).ack(name, last, { event: 'message.taken', by: name })
    ended.add(name)
    waits.look()
    await settled()
  }
  core.leases.start({ runs: () => true, onFailure })
  const lease = async (who: string, ...what: string[]): Promise<string> => {
    const opened = await handlers.call(who, 'request.open', { type: 'resource_request', data: { kind: 'name', what } })
    await settled()
    return (unwrap(opened) as RpcResults['request.open']).request.id
  }
  const state = (id: string) => {
    const request = core.requests.get(id)?.value
    return request?.outcome === null ? 'waits' : (request?.status ?? 'gone')
  }
  const told = () =>
    store
      .inbox('user')
      .read(0)
      .map(({ value }) => value.message.content)
  const ask = async (who: string, body: string): Promise<string> => {
    const opened = await handlers.call(who, 'request.open', { type: 'question', body })
    await settled()
    return (unwrap(opened) as RpcResults['request.open']).request.id
  }
  const inbox = (name: string) =>
    store
      .inbox(name)
      .read(0)
      .map(({ value }) => value.message)
  return { core, lease, ask, turn, inbox, state, told, failures, waits, handlers }
}

describe('teammates that wait for one another', () => {
  test('two that each hold what the other wants: the later request is rejected with the circle spelled out, the other goes on', async () => {
    const { lease, state, told, core, failures } = setup(['ann', 'bob'])
    const [a, b] = [await lease('ann', 'a'), await lease('bob', 'b')]
    const wantsB = await lease('ann', 'b')
    expect([a, b, wantsB].map(state)).toEqual(['approved', 'approved', 'waits'])
    const wantsA = await lease('bob', 'a')
    expect([wantsB, wantsA].map(state)).toEqual(['waits', 'rejected'])
    const reason = core.requests.get(wantsA)?.value.reason ?? ''
    expect(reason).toContain(`ann waits for bob (${wantsB})`)
    expect(reason).toContain(`bob waits for ann (${wantsA})`)
    expect(told().filter(text => text.includes('waited for one another'))).toHaveLength(1)
    unwrap(core.leases.free(b, { by: 'bob', why: 'given back', isLost: false }))
    await settled()
    expect(state(wantsB)).toBe('approved')
    expect(failures).toEqual([])
  })

  test('a circle that closes through a fair queue, with one holder alone, and one of three', async () => {
    const one = setup(['ann', 'bob', 'cem'])
    await one.lease('ann', 'a')
    await one.lease('cem', 'c')
    const before = await one.lease('bob', 'a', 'c')
    // bob was there first, so ann would wait behind him, who waits for her.
    const behind = await one.lease('ann', 'c')
    expect([before, behind].map(one.state)).toEqual(['waits', 'rejected'])

    const three = setup(['ann', 'bob', 'cem'])
    for (const [who, what] of [
      ['ann', 'a'],
      ['bob', 'b'],
      ['cem', 'c'],
    ] as const)
      await three.lease(who, what)
    const asked = [await three.lease('ann', 'b'), await three.lease('bob', 'c'), await three.lease('cem', 'a')]
    expect(asked.map(three.state)).toEqual(['waits', 'waits', 'rejected'])
  })

  test('merely waiting in a queue is no circle, however long it is', async () => {
    const { lease, state, told } = setup(['ann', 'bob', 'cem'])
    await lease('ann', 'a')
    const waiting = [await lease('bob', 'a'), await lease('cem', 'a'), await lease('bob', 'a', 'b')]
    expect(waiting.map(state)).toEqual(['waits', 'waits', 'waits'])
    expect(told().filter(text => text.includes('waited for one another'))).toEqual([])
  })
})

test('a request to somebody who does not run is named, with who may decide it; one to the human is not', async () => {
  const { core, handlers, waits } = setup(['ann', 'bob'], { lead: 'bob' })
  unwrap(await handlers.call('ann', 'request.open', { type: 'plan_request', body: 'all of it' }))
  unwrap(await handlers.call('ann', 'request.open', { type: 'question', body: 'why?' }))
  expect(core.requests.waiting().map(({ to }) => to)).toEqual(['bob', 'human'])
  expect(waits.problems()).toEqual([])
  core.store.teammates.create(
    'bob',
    { name: 'bob', standing: 'stopped', reason: null, at: '' },
    { event: 'teammate.stopped', by: 'human' },
  )
  expect(waits.problems()).toEqual([
    'req_1 (all of it) waits for bob, who does not run: decide it yourself (team approve req_1)',
  ])
})

test('a task that becomes ready and that nobody can be given is told to whoever leads, once', async () => {
  const { handlers, told, core } = setup(['ann', 'bob'])
  const tasks = [
    { title: 'one', needs: [] },
    { title: 'two', needs: ['magic'], dependsOn: ['one'] },
    { title: 'three', needs: [], assignee: 'bob', dependsOn: ['one'] },
  ]
  unwrap(await handlers.human('task.add', { tasks }))
  core.store.teammates.create(
    'bob',
    { name: 'bob', standing: 'stopped', reason: null, at: '' },
    { event: 'teammate.stopped', by: 'human' },
  )
  expect(told()).toEqual([])
  for (const m of [
    { move: 'start', owner: 'ann', branch: null },
    { move: 'release', reason: null },
  ] as const)
    unwrap(core.tasks.move('1', 'supervisor', m))
  unwrap(core.tasks.move('1', 'supervisor', { move: 'start', owner: 'ann', branch: null }))
  unwrap(core.tasks.finish('1', 'ann', 'done'))
  expect(told()).toEqual([
    'task 2 "two" can be given to nobody: it needs magic.',
    'task 3 "three" waits for bob, who does not run (team restart bob).',
  ])
})

describe('who is asked to decide', () => {
  test('is asked once more when it ended its turn without deciding; then the human is told, and it stands on the screen', async () => {
    const { handlers, turn, inbox, told, waits, state, core } = setup(['ann', 'bob'], { lead: 'bob' })
    unwrap(await handlers.call('ann', 'request.open', { type: 'plan_request', body: 'all of it' }))
    await settled()
    expect(inbox('bob').map(({ id }) => id)).toEqual(['msg_req_1'])
    await turn('bob')
    expect(inbox('bob').map(({ type }) => type)).toEqual(['request', 'request'])
    expect(inbox('bob').at(-1)?.content).toMatch(/^req_1 \(all of it\), a plan_request of ann, still waits/)
    expect([told(), waits.problems()]).toEqual([[], []])
    await turn('bob')
    await turn('bob')
    expect(inbox('bob')).toHaveLength(2)
    expect(told()).toEqual([
      'req_1 (all of it) of ann waits for bob, who was asked twice and has not decided: team approve req_1, or team reject req_1.',
    ])
    expect(waits.problems()[0]).toContain('waits for bob, who was asked twice and has not decided')
    // Silence decided nothing.
    expect(state('req_1')).toBe('waits')
    unwrap(core.requests.decide('req_1', 'bob', 'approve', 'now'))
    await settled()
    expect(waits.problems()).toEqual([])
  })

  test('what has a deadline needs no reminder: nobody is asked twice to shut down', async () => {
    const { core, turn, inbox, waits } = setup(['ann'])
    const opened = core.requests.open({
      type: 'shutdown_request',
      from: 'human',
      to: 'ann',
      title: 'shut down, ann',
      body: '',
      data: { teammate: 'ann', graceMs: 60_000 },
    })
    expect(unwrap(opened).request.deadline).not.toBeNull()
    await turn('ann')
    await turn('ann')
    expect(inbox('ann')).toHaveLength(1)
    expect(waits.problems()).toEqual([])
  })

  test('asking back is no silence, and its answer is a new reason to decide', async () => {
    const { handlers, turn, inbox, core } = setup(['ann', 'bob'], { lead: 'bob' })
    unwrap(await handlers.call('ann', 'request.open', { type: 'plan_request', body: 'all of it' }))
    unwrap(core.requests.decide('req_1', 'bob', 'ask', 'how long?'))
    await turn('bob')
    expect(inbox('bob')).toHaveLength(1)
    unwrap(core.requests.answer('req_1', 'ann', 'a day'))
    await settled()
    expect(inbox('bob')).toHaveLength(2)
    await turn('bob')
    expect(inbox('bob').map(({ id }) => id)).toEqual(['msg_req_1', 'msg_req_1_3', 'msg_req_1_again_3'])
  })
})

describe('a circle through a decision', () => {
  test('is named while its decider may still end it, and broken once all ended their turns without', async () => {
    const { lease, ask, turn, inbox, told, waits, state, failures } = setup(['ann', 'bob'], {
      lead: 'bob',
      approvals: { question: 'lead' },
    })
    await lease('ann', 'a')
    const question = await ask('ann', 'which one?')
    const wanted = await lease('bob', 'a')
    expect([question, wanted].map(state)).toEqual(['waits', 'waits'])
    expect(waits.problems()[0]).toBe(
      `a circle: ann waits for bob (${question}), bob waits for ann (${wanted}); any decision in it ends it (team reject ${wanted})`,
    )
    await turn('bob')
    expect([question, wanted].map(state)).toEqual(['waits', 'rejected'])
    expect(inbox('user').filter(({ content }) => content.includes('waited for one another'))).toHaveLength(0)
    expect(inbox('bob').filter(({ content }) => content.includes('waited for one another'))).toHaveLength(1)
    expect(waits.problems()).toEqual([])
    expect([told(), failures]).toEqual([[], []])
  })

  test('of decisions alone: the one asked last is withdrawn, and its asker hears why', async () => {
    const { handlers, turn, inbox, state, failures, core } = setup(['ann', 'bob'], {
      approvals: { question: 'bob', plan_request: 'ann' },
    })
    unwrap(await handlers.call('ann', 'request.open', { type: 'question', body: 'may I?' }))
    unwrap(await handlers.call('bob', 'request.open', { type: 'plan_request', body: 'all of it' }))
    await settled()
    expect(core.requests.waiting().map(({ from, to }) => `${from} ${to}`)).toEqual(['ann bob', 'bob ann'])
    await turn('bob')
    expect([state('req_1'), state('req_2')]).toEqual(['waits', 'waits'])
    await turn('ann')
    expect(state('req_1')).toBe('waits')
    expect(core.requests.get('req_2')?.value.outcome).toBe('withdrawn')
    const word = inbox('bob').find(({ id }) => id === 'msg_req_2_2')
    expect(word).toMatchObject({ type: 'decision', requestId: 'req_2' })
    expect(word?.content).toContain('ann waits for bob (req_1)')
    expect(failures).toEqual([])
  })
})

test('the graph holds tasks too: what waits for a task waits for who has it in hand, or decides its merge', async () => {
  const { core, lease, handlers } = setup(['ann', 'bob'])
  unwrap(
    await handlers.human('task.add', {
      tasks: [
        { title: 'one', assignee: 'ann' },
        { title: 'two', dependsOn: ['one'] },
      ],
    }),
  )
  await lease('bob', 'b')
  await lease('ann', 'b')
  const graph = new WaitGraph(core, core.requests.waiting(), () => false)
  const path: string[] = []
  for (let at = 'task 2'; path.length < 5; ) {
    const [next] = graph.waitsOf(at)
    if (!next) break
    path.push(`${next.from} → ${next.to}`)
    at = next.to
  }
  expect(path).toEqual(['task 2 → task 1', 'task 1 → ann', 'ann → bob'])
})

test('who waits for what a claim still holds does not come to the review of it: the lease ends, the review stays', async () => {
  const it = setup(['ann', 'ben'], { review: true })
  const { tasks, requests } = it.core
  const start = (title: string, owner: string, paths: string[]): string => {
    const [id = ''] = unwrap(tasks.add([{ title, paths }], { by: 'human' })).ids
    unwrap(tasks.move(id, 'supervisor', { move: 'start', owner, branch: null }))
    return id
  }
  const first = start('First', 'ann', ['src/**'])
  start('Second', 'ben', ['docs/**'])
  unwrap(tasks.move(first, 'ann', { move: 'claim', head: null, summary: 'did it' }))
  const data = { kind: 'path', what: ['src/a.ts'] }
  const opened = await it.handlers.call('ben', 'request.open', { type: 'resource_request', data })
  const lease = (unwrap(opened) as RpcResults['request.open']).request.id
  await it.turn('ben')
  expect(it.state(lease)).toBe('waits')
  // It will not take this in while it waits with its own task.
  const claim = tasks.get(first)?.value ?? expect.fail('no task')
  const review = unwrap(requests.open(reviewOf(it.core, claim, { commits: 0, files: [] }))).request
  expect(review.to).toBe('ben')
  await settled()
  expect([it.state(lease), it.state(review.id)]).toEqual(['rejected', 'waits'])
  expect(requests.get(lease)?.value.reason).toContain(`ben waits for task ${first}`)
  expect(it.told()).toEqual([expect.stringMatching(/^Teammates waited for one another/)])
  expect(it.failures).toEqual([])
})
