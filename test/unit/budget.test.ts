import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { renderBudget } from '../../src/cli/render/status.ts'
import type { Paint } from '../../src/cli/render/text.ts'
import { unwrap } from '../../src/lib/result.ts'
import { costOf, since, usedOf } from '../../src/protocol/amount.ts'
import type { BudgetRequest, Request } from '../../src/protocol/request.ts'
import { isParked } from '../../src/supervisor/withdraw.ts'
import { coreOf } from '../support/core.ts'

const team = (budget: object, more: object = {}) =>
  coreOf({ teammates: [{ name: 'alice' }, { name: 'bob' }], lead: 'bob', budget, ...more })
type Core = ReturnType<typeof team>['core']
const used = (tokens: number, calls = 1) => ({ input: tokens, cachedInput: 0, output: 0, calls })
const told = (tokens: number, calls: number, task: string | null = null) => ({
  ...used(tokens, calls),
  task,
  call: { stop: 'end', calls: [] },
})
const need = (tokens: number) => ({ input: tokens, output: 0 })
const spent = (core: Core, scope = 'team') => core.budget.shown().find(each => each.scope === scope)?.spent
const budgets = (core: Core): BudgetRequest[] =>
  core.requests.all().filter((each): each is BudgetRequest => each.type === 'resource_request')

describe('what was used', () => {
  test('counts once, told again or not, over any restarts of thread and daemon, and over a session that begins anew', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.record({ k: fc.constant('call' as const), tokens: fc.nat(1000), isTold: fc.boolean() }),
            fc.constant({ k: 'again' as const }),
            fc.constant({ k: 'daemon' as const }),
            fc.constant({ k: 'anew' as const }),
          ),
          { maxLength: 40 },
        ),
        steps => {
          let { core, store } = team({ team: { tokens: 1_000_000 } })
          let session = { tokens: 0, calls: 0 }
          let all = 0
          const tell = () => core.budget.heard('alice', told(session.tokens, session.calls))
          for (const step of steps) {
            if (step.k === 'call') {
              session = { tokens: session.tokens + step.tokens + 1, calls: session.calls + 1 }
              all += step.tokens + 1
              // One that is cut off before it is told is told with the next.
              if (step.isTold) tell()
            } else if (step.k === 'again') tell()
            else if (step.k === 'daemon')
              ({ core } = coreOf(
                { teammates: [{ name: 'alice' }, { name: 'bob' }], budget: { team: { tokens: 1_000_000 } } },
                undefined,
                { store },
              ))
            else {
              tell()
              session = { tokens: 0, calls: 0 }
              // Its thread tells first that there is nothing in it yet.
              tell()
            }
          }
          tell()
          expect(spent(core)).toBe(all)
        },
      ),
      { numRuns: 300 },
    )
  })

  test('counts for the teammate, for its task over all who worked on it, and for the team', () => {
    const { core } = team({ team: { tokens: 10_000 }, teammate: { tokens: 10_000 }, task: { tokens: 10_000 } })
    core.tasks.add([{ title: 'one' }], { by: 'human' })
    core.budget.heard('alice', told(1000, 1, '1'))
    core.budget.heard('bob', told(300, 1, '1'))
    core.budget.heard('bob', told(350, 2, null))
    expect(core.budget.shown().map(({ scope, of, spent }) => [scope, of, spent])).toEqual([
      ['team', 'team', 1350],
      ['teammate', 'alice', 1000],
      ['teammate', 'bob', 350],
      ['task', '1', 1300],
    ])
  })

  test('is told apart: work in a task, and calls that only spoke, or that were for mail', () => {
    const { core, store } = team({})
    core.tasks.add([{ title: 'one' }], { by: 'human' })
    const by = (name: string, tokens: number, calls: number, task: string | null, tools: string[]) =>
      core.budget.heard(name, { ...told(tokens, calls, task), call: { stop: 'calls', calls: tools } })
    by('alice', 1000, 1, '1', ['bash'])
    by('alice', 1100, 2, '1', ['message', 'task'])
    by('alice', 1130, 3, '1', ['message', 'edit_file'])
    by('alice', 1137, 4, '1', [])
    by('bob', 50, 1, null, ['bash'])
    // Told again by a thread that knows nothing of the last call.
    core.budget.heard('bob', { ...told(50, 1, null), call: null })
    const seen = { work: used(1037, 3), coordination: used(100, 1) }
    const again = coreOf({ teammates: [{ name: 'alice' }, { name: 'bob' }] }, undefined, { store }).core
    for (const { budget } of [core, again]) {
      expect(budget.usedFor('1')).toMatchObject(seen)
      expect(budget.usedFor()).toMatchObject({ work: used(1037, 3), coordination: used(150, 2) })
      expect(budget.usedFor('2').work.calls).toBe(0)
    }
  })

  test('costs by the price of that time, read from the cache at its own', () => {
    expect(
      costOf({ input: 1_000_000, cachedInput: 400_000, output: 100_000 }, { in: 2, cachedIn: 0.5, out: 10 }),
    ).toBeCloseTo(0.6 * 2 + 0.4 * 0.5 + 1)
    expect(costOf({ input: 1_000_000, cachedInput: 400_000, output: 0 }, { in: 2, out: 10 })).toBeCloseTo(2)
    expect(costOf({ input: 1000, cachedInput: 0, output: 0 }, null)).toBe(0)
  })

  test('is told in digits that tell a small cap from nothing', () => {
    expect(usedOf({ unit: 'cost', spent: 0.0000125, cap: 0.00002 })).toBe('cost 0.0000125 of 0.00002')
    expect(usedOf({ unit: 'cost', spent: 0, cap: 20 })).toBe('cost 0 of 20')
    expect(usedOf({ unit: 'cost', spent: 1.23456, cap: 1234567.5 })).toBe('cost 1.2346 of 1234567.5')
    expect(usedOf({ unit: 'tokens', spent: 1, cap: 1 })).toBe('1 of 1 tokens')
  })

  test('since: a session whose numbers fell is another one', () => {
    expect(since(used(100, 3), used(130, 4))).toEqual(used(30, 1))
    expect(since(used(100, 3), used(20, 1))).toEqual(used(20, 1))
  })
})

describe('a cap', () => {
  test('keeps free what calls under way were promised, until they are heard of or given up', () => {
    const { core } = team({ team: { tokens: 1000 } })
    expect(unwrap(core.budget.reserve('alice', need(600)))).toBeNull()
    expect(unwrap(core.budget.reserve('bob', need(600)))).toMatchObject({ request: 'req_1', scope: 'team' })
    core.budget.heard('alice', told(100, 1))
    expect(unwrap(core.budget.reserve('bob', need(600)))).toBeNull()
    core.budget.release('bob')
    expect(unwrap(core.budget.reserve('alice', need(900)))).toBeNull()
  })

  test('keeps free what each of several subagents was promised, on every cap, until its call was heard of or it ended', () => {
    const { core } = team({ teammate: { tokens: 1000 } })
    const of = (sub: string, tokens: number) => unwrap(core.budget.reserve('alice', { ...need(tokens), sub }))
    expect([of('a', 400), of('b', 400)]).toEqual([null, null])
    expect(of('c', 400)).toMatchObject({ request: 'req_1', scope: 'teammate' })
    // Another teammate has a cap of its own.
    expect(unwrap(core.budget.reserve('bob', need(900)))).toBeNull()
    // Asked again in the place of its own, not beside it.
    expect(of('a', 500)).toBeNull()
    core.budget.heard('alice', { ...told(100, 1), call: { stop: 'end', calls: [], sub: 'a' } })
    expect(of('a', 400)).toBeNull()
    core.budget.release('alice', 'b')
    expect(of('b', 600)).toMatchObject({ scope: 'teammate' })
    expect(of('b', 500)).toBeNull()
    core.budget.release('alice')
    expect(unwrap(core.budget.reserve('alice', need(900)))).toBeNull()
  })

  test('asks the human once for each who waits, whoever `approvals` name, and nobody can ask or decide in a teammate’s name', async () => {
    const { core, handlers } = team({ team: { tokens: 1000 } }, { approvals: { permission_request: 'lead' } })
    for (let i = 0; i < 3; i++) core.budget.reserve('alice', need(2000))
    core.budget.reserve('bob', need(2000))
    expect(budgets(core).map(({ from, to }) => [from, to])).toEqual([
      ['alice', 'human'],
      ['bob', 'human'],
    ])
    const data = { kind: 'budget', scope: 'team', of: 'team', unit: 'tokens', cap: 0, spent: 0, raise: 1e9 }
    const opened = await handlers.call('alice', 'request.open', { type: 'resource_request', body: '', data })
    expect(opened).toMatchObject({ ok: false, fault: { code: 'refused' } })
    for (const [who, id] of [
      ['alice', 'req_1'],
      ['bob', 'req_1'],
      ['bob', 'req_2'],
    ])
      expect(await handlers.call(who ?? '', 'request.decide', { id, decision: 'approve' })).toMatchObject({
        ok: false,
        fault: { code: 'refused', message: `${id} is for human to decide, not for ${who}` },
      })
  })

  test('is raised by the approval at once and once, also for the daemon that comes after', async () => {
    const config = { teammates: [{ name: 'alice' }], budget: { team: { tokens: 1000 } } }
    const first = coreOf(config)
    first.core.budget.reserve('alice', need(2500))
    // Raised by what was said, or by as much as the call needs.
    expect(budgets(first.core)[0]?.data).toMatchObject({ cap: 1000, raise: 1500 })
    unwrap(await first.handlers.call('human', 'request.decide', { id: 'req_1', decision: 'approve' }))
    expect(first.core.budget.shown()[0]?.cap).toBe(2500)
    for (let i = 0; i < 2; i++) {
      const { core } = coreOf(config, undefined, { store: first.store })
      for (const request of core.requests.all()) core.budget.follow(request)
      expect(core.budget.shown()[0]?.cap).toBe(2500)
      expect(unwrap(core.budget.reserve('alice', need(2500)))).toBeNull()
    }
  })

  test('refused: nobody is asked again until it is another one', async () => {
    const { core, handlers } = team({ teammate: { tokens: 1000 } })
    core.budget.reserve('alice', need(2000))
    unwrap(await handlers.call('human', 'request.decide', { id: 'req_1', decision: 'reject', reason: 'no' }))
    expect(unwrap(core.budget.reserve('alice', need(2000)))).toMatchObject({ request: null, scope: 'teammate' })
    // Another's cap is its own.
    expect(unwrap(core.budget.reserve('bob', need(2000)))).toMatchObject({ request: 'req_2' })
    core.roster.set(
      { ...core.config },
      core.members.map(member => ({ ...member, budget: { tokens: 1500 } })),
      [],
    )
    expect(unwrap(core.budget.reserve('alice', need(2000)))).toMatchObject({ request: 'req_3' })
    core.budget.look()
    expect(core.requests.get('req_2')?.value.outcome).toBe('withdrawn')
  })

  test('refused at one cap is refused at a lower one; only who rests at a cap that is another by now is woken', async () => {
    const { core, handlers } = team({ teammate: { tokens: 1000 } })
    const woken: string[] = []
    core.budget.start(name => woken.push(name))
    const caps = (tokens: number) =>
      core.roster.set(
        { ...core.config },
        core.members.map(member => (member.name === 'alice' ? { ...member, budget: { tokens } } : member)),
        [],
      )
    for (const [name, id] of [
      ['alice', 'req_1'],
      ['bob', 'req_2'],
    ] as const) {
      core.budget.reserve(name, need(2000))
      unwrap(await handlers.call('human', 'request.decide', { id, decision: 'reject' }))
      core.budget.follow(core.requests.get(id)?.value as Request)
      core.budget.reserve(name, need(2000))
      expect(core.budget.rests(name)).toContain(`human rejected ${id}`)
    }
    caps(500)
    core.budget.look()
    expect(unwrap(core.budget.reserve('alice', need(2000)))).toMatchObject({ request: null })
    expect(woken).toEqual([])
    caps(1500)
    core.budget.look()
    expect(woken).toEqual(['alice'])
    expect([core.budget.rests('alice'), core.budget.rests('bob')]).toEqual([null, expect.stringContaining('req_2')])
  })

  test('who asked for more before it had a task waits for that with the task in hand', () => {
    const { core } = team({ team: { tokens: 1000 } })
    core.budget.reserve('alice', need(2000))
    core.tasks.add([{ title: 'one' }], { by: 'human' })
    unwrap(core.tasks.move('1', 'supervisor', { move: 'start', owner: 'alice', branch: null }))
    expect(isParked(core, 'alice')).toBe(true)
    expect(isParked(core, 'bob')).toBe(false)
  })
})

test('on the status screen each cap that counts has a line; where none does there is no heading either', () => {
  const row = (n: number, spent: number) => ({
    scope: 'task' as const,
    of: `${n}`,
    unit: 'tokens' as const,
    spent,
    cap: 100,
  })
  const plain = (text: string) => text
  const paint = { bold: plain, dim: plain, red: plain, yellow: plain, green: plain } as unknown as Paint
  expect(renderBudget([row(1, 49)], paint)).toEqual([])
  const many = renderBudget(
    Array.from({ length: 30 }, (_, n) => row(n, 50)),
    paint,
  )
  expect(many[0]).toContain('BUDGET')
  expect(many.at(-1)).toBe('  … and 5 more: team status --json')
})

describe('the cheaper model', () => {
  const price = (each: number) => ({ in: each, out: each })
  const thrifty = (budget: object) =>
    coreOf({
      teammates: [{ name: 'alice' }, { name: 'bob', model: { cheaper: { name: 'small', price: price(1) } } }],
      model: { provider: 'house', name: 'large', baseURL: 'http://127.0.0.1:9/v1', price: price(100) },
      budget,
    }).core
  const million = (share: number) => ({ input: share * 1e6, output: 0 })

  test('is asked for from four fifths of a cap on cost on, by its own price, and the human only where that is too dear as well', () => {
    const core = thrifty({ teammate: { cost: 10 } })
    expect(unwrap(core.budget.reserve('bob', million(0.05)))).toBeNull()
    expect(unwrap(core.budget.reserve('bob', million(0.09)))).toEqual({ cheaper: true })
    // At the price of the first it would be a thousand.
    expect(unwrap(core.budget.reserve('bob', million(9.5)))).toEqual({ cheaper: true })
    expect(unwrap(core.budget.reserve('bob', million(11)))).toMatchObject({ request: 'req_1', scope: 'teammate' })
    // Who has none is asked about at once.
    expect(unwrap(core.budget.reserve('alice', million(0.09)))).toBeNull()
    expect(unwrap(core.budget.reserve('alice', million(0.2)))).toMatchObject({ request: 'req_2' })
  })

  test('by the share that config.json says; never for a cap on tokens', () => {
    const core = thrifty({ team: { cost: 10 }, cheaperAt: 0.5 })
    expect(unwrap(core.budget.reserve('bob', million(0.06)))).toEqual({ cheaper: true })
    expect(unwrap(thrifty({ team: { tokens: 100_000 } }).budget.reserve('bob', million(0.09)))).toBeNull()
  })

  test('only a teammate calls a model: nothing is kept free for anybody else', async () => {
    const { core, handlers } = team({ team: { tokens: 1000 } })
    expect(await handlers.call('human', 'budget.reserve', need(900))).toMatchObject({ ok: false })
    expect(unwrap(core.budget.reserve('alice', need(900)))).toBeNull()
  })
})
