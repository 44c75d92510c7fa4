import { describe, expect, it } from 'vitest'
import type { Clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { Config, members } from '../../src/protocol/config.ts'
import { asksAtMost, refusal } from '../../src/protocol/request.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { Mail } from '../../src/supervisor/mail.ts'
import { Requests } from '../../src/supervisor/requests.ts'
import { Roster } from '../../src/supervisor/roster.ts'

/** A clock that a test moves by hand; wall and monotonic time apart. */
const fakeClock = () => {
  const at = { wall: Date.parse('2026-05-14T10:00:00Z'), mono: 1000 }
  const clock: Clock = { wall: () => at.wall, mono: () => at.mono }
  return { at, clock }
}

const config = Config.parse({
  teammates: [{ name: 'alice' }, { name: 'bob' }, { name: 'boss' }],
  lead: 'boss',
  limits: { messageBytes: 1000 },
})

const setup = () => {
  const { at, clock } = fakeClock()
  const store = openMemoryStore(clock)
  const mail = new Mail({
    store,
    clock,
    roster: new Roster(config, members(config)),
    away: name => (name === 'bob' ? 'bob is stopped' : null),
  })
  return { at, clock, store, mail, requests: new Requests(store, clock, mail) }
}

const shutdown = (name: string, body = '') => ({
  type: 'shutdown_request' as const,
  from: 'human',
  to: name,
  title: `shut down, ${name}`,
  body,
  data: { teammate: name, graceMs: 5000 },
})
const merge = (task: string, head = 'abc') => ({
  type: 'merge_request' as const,
  from: 'supervisor',
  to: 'human',
  title: `merge ${task}`,
  body: '',
  data: {
    task,
    attempt: 1,
    owner: 'alice',
    branch: `team/task-${task}`,
    head,
    trunk: 'def',
    commits: 1,
    files: ['a'],
    verify: [],
  },
})

describe('requests', () => {
  it('lets the supervisor decide by its rule what is addressed to it, and nothing else', () => {
    const { requests } = setup()
    const { id } = unwrap(requests.open({ ...merge('1'), to: 'supervisor' })).request
    expect(requests.decide(id, 'alice', 'approve', null).ok).toBe(false)
    expect(unwrap(requests.decide(id, 'supervisor', 'approve', 'auto')).request.status).toBe('approved')
    const asked = unwrap(requests.open(merge('2'))).request
    expect(requests.decide(asked.id, 'supervisor', 'approve', 'auto').ok).toBe(false)
  })

  it('D01 is decided once: the first wins, the others are told who decided what, and it never flips', () => {
    for (let round = 0; round < 50; round++) {
      const { requests } = setup()
      const { id } = unwrap(requests.open(merge('1'))).request
      expect(requests.decide(id, 'human', 'approve', null).ok).toBe(true)
      expect(requests.decide(id, 'human', 'approve', null)).toMatchObject({
        ok: false,
        fault: { code: 'refused', message: expect.stringContaining('already approved by human') },
      })
      expect(requests.decide(id, 'human', 'reject', 'no')).toMatchObject({ ok: false })
      expect(requests.get(id)?.value.status).toBe('approved')
    }
  })

  it('D07 keeps every request apart, and tells each verdict to its own requester', () => {
    const { requests, mail } = setup()
    const a = unwrap(requests.open({ ...shutdown('alice'), from: 'alice', to: 'human' })).request
    const b = unwrap(requests.open({ ...shutdown('bob'), from: 'bob', to: 'human' })).request
    const c = unwrap(requests.open({ ...shutdown('alice', 'something else'), from: 'alice', to: 'human' })).request
    expect(new Set([a.id, b.id, c.id]).size).toBe(3)
    for (const request of [c, b, a]) unwrap(requests.decide(request.id, 'human', 'approve', `for ${request.id}`))
    const verdicts = (name: string) =>
      mail
        .read(name, 0, 100)
        .items.filter(item => item.stored.message.type === 'decision')
        .map(item => item.stored.message.requestId)
    expect(verdicts('alice')).toEqual([c.id, a.id])
    expect(verdicts('bob')).toEqual([b.id])
  })

  it('answers a repeated request with the one that waits, and announces it once', () => {
    const { requests, mail } = setup()
    const first = unwrap(requests.open(merge('1'))).request
    expect(unwrap(requests.open(merge('1'))).request.id).toBe(first.id)
    requests.recover()
    expect(mail.read('user', 0, 100).items.length).toBe(1)
    expect(unwrap(requests.open(merge('1', 'another head'))).request.id).not.toBe(first.id)
  })

  it('D11 says of what nobody was asked about where it stands instead', () => {
    const { requests } = setup()
    const make = (task: string) => unwrap(requests.open(merge(task))).request.id
    const ids = ['1', '2', '3', '4', '5', '6'].map(make)
    const [pending = '', approved = '', rejected = '', expired = '', withdrawn = '', superseded = ''] = ids
    unwrap(requests.decide(approved, 'human', 'approve', null))
    unwrap(requests.decide(rejected, 'human', 'reject', null))
    unwrap(requests.end(expired, 'expired', 'supervisor', 'late'))
    unwrap(requests.end(withdrawn, 'withdrawn', 'human', 'no'))
    unwrap(requests.end(superseded, 'withdrawn', 'supervisor', 'moved', pending))
    const said = ids.map(id => {
      const result = requests.answer(id, 'alice', 'because')
      return result.ok ? '' : result.fault.message.replace(`nothing was asked about ${id}: it is `, '')
    })
    expect(said).toEqual([
      'pending',
      'approved by human',
      'rejected by human',
      'expired',
      'withdrawn',
      `superseded by ${pending}`,
    ])
    expect(requests.answer('nonsense', 'human', 'x')).toMatchObject({ fault: { code: 'unknown' } })
  })

  it('D11 has its own words for each way in which a decision is refused', () => {
    const { requests, at } = setup()
    const texts = new Set<string>()
    const refused = (id: string, by = 'human') => {
      const result = requests.decide(id, by, 'approve', null)
      expect(result.ok).toBe(false)
      if (!result.ok) texts.add(result.fault.message.replace(/req_\w+/g, 'R').replace(/\d{4}-.*Z/, 'T'))
    }
    refused('req_99')
    const approved = unwrap(requests.open(merge('1'))).request.id
    refused(approved, 'alice')
    unwrap(requests.decide(approved, 'human', 'approve', null))
    refused(approved)
    const rejected = unwrap(requests.open(merge('2'))).request.id
    unwrap(requests.decide(rejected, 'human', 'reject', 'no'))
    refused(rejected)
    const expired = unwrap(requests.open({ ...shutdown('alice'), deadlineMs: 10 })).request.id
    at.mono += 20
    expect(requests.expire().map(request => request.id)).toEqual([expired])
    refused(expired)
    const withdrawn = unwrap(requests.open(merge('3'))).request.id
    unwrap(requests.end(withdrawn, 'withdrawn', 'supervisor', 'the head moved'))
    refused(withdrawn)
    const superseded = unwrap(requests.open(merge('4'))).request.id
    unwrap(requests.end(superseded, 'withdrawn', 'supervisor', 'the head moved', 'req_77'))
    refused(superseded)
    expect([...texts].length).toBe(7)
  })

  it('lets a teammate ask back only so often about one request, and a person as often as they like', () => {
    const { requests } = setup()
    const plan = {
      type: 'plan_request' as const,
      from: 'alice',
      to: 'boss',
      title: 'plan',
      body: 'p',
      data: { task: null },
    }
    const { id } = unwrap(requests.open(plan)).request
    const round = (by: string) => {
      unwrap(requests.decide(id, by, 'ask', 'why?'))
      unwrap(requests.answer(id, 'alice', 'because'))
    }
    for (let i = 0; i < asksAtMost; i++) round('boss')
    expect(requests.decide(id, 'boss', 'ask', 'why?')).toMatchObject({
      fault: {
        code: 'refused',
        message: expect.stringMatching(/^boss asked about req_1 8 times: approve or reject it/),
      },
    })
    for (let i = 0; i <= asksAtMost; i++) round('human')
    expect(requests.decide(id, 'boss', 'approve', null).ok).toBe(true)
  })

  it('lets a teammate decide only what is addressed to it, and never what it asked for itself', () => {
    const { requests } = setup()
    const to = unwrap(requests.open(shutdown('alice'))).request
    expect(requests.decide(to.id, 'bob', 'approve', null)).toMatchObject({
      ok: false,
      fault: { message: expect.stringContaining('for alice to decide') },
    })
    expect(requests.decide(to.id, 'alice', 'reject', 'busy').ok).toBe(true)
    const own = { ...unwrap(requests.open(merge('1'))).request, from: 'boss', to: 'boss' }
    expect(refusal(own, 'boss', 'approve')?.why).toBe('wrong decider')
    expect(refusal(own, 'human', 'approve')).toBeNull()
  })

  it('tells a teammate whose shutdown the human decided in its place, whoever asked for it', () => {
    const { requests, mail } = setup()
    const told = (name: string) =>
      mail
        .read(name, 0, 100)
        .items.filter(item => item.stored.message.type === 'decision')
        .map(item => item.stored.message.requestId)
    const asked = unwrap(requests.open(shutdown('alice'))).request
    unwrap(requests.decide(asked.id, 'human', 'approve', 'now'))
    const byLead = unwrap(requests.open({ ...shutdown('bob'), from: 'boss' })).request
    unwrap(requests.decide(byLead.id, 'human', 'reject', 'not now'))
    expect(told('alice')).toEqual([asked.id])
    expect(told('bob')).toEqual([byLead.id])
    expect(told('boss')).toEqual([byLead.id])
    const own = unwrap(requests.open(shutdown('alice', 'again'))).request
    unwrap(requests.decide(own.id, 'alice', 'approve', null))
    expect(told('alice')).toEqual([asked.id])
  })

  it('gives a new id after requests that came back from files with holes between them', () => {
    const { requests, store, mail, clock } = setup()
    const first = unwrap(requests.open(merge('1'))).request
    store.requests.create('req_7', { ...first, id: 'req_7' }, { event: 'request.opened', by: 'supervisor' })
    expect(unwrap(requests.open(merge('2'))).request.id).toBe('req_8')
    expect(unwrap(new Requests(store, clock, mail).open(merge('3'))).request.id).toBe('req_9')
  })

  it('J09 finds the merge request of a claim whatever the wall clock does, and takes none of an earlier claim for it', () => {
    const { requests, at } = setup()
    const first = unwrap(requests.open(merge('1'))).request
    at.wall -= 3600_000
    const { id } = unwrap(
      requests.open({ ...merge('1'), data: { ...merge('1').data, attempt: 2, trunk: 'ghi' } }),
    ).request
    expect(id).not.toBe(first.id)
    expect(requests.mergeOf('1', 2, 'abc')?.id).toBe(id)
    expect(requests.mergeOf('1', 1, 'abc')).toBeUndefined()
    expect(requests.mergeOf('1', 2, 'other')).toBeUndefined()
    expect(requests.mergeOf('2', 2, 'abc')).toBeUndefined()
  })

  it('refuses words that would not reach whom they are for, instead of leaving somebody to wait for them', () => {
    const { requests, mail } = setup()
    const plan = (body: string, data: object = {}) => ({
      type: 'plan_request' as const,
      from: 'alice',
      to: 'boss',
      title: 'plan of alice',
      body,
      data: { task: null, ...data },
    })
    const long = 'ü'.repeat(501)
    const tooLong = { ok: false, fault: { code: 'invalid', message: expect.stringContaining('1000 are allowed') } }
    expect(requests.open(plan(long))).toMatchObject(tooLong)
    expect(requests.open(plan('short', { tasks: [{ title: 'x', description: long }] }))).toMatchObject(tooLong)
    const { id } = unwrap(requests.open(plan('ü'.repeat(500)))).request
    expect(mail.read('boss', 0, 9).items.map(({ stored }) => stored.message.content)).toEqual([
      `plan of alice\n${'ü'.repeat(500)}\n\nIf approved: the work described may start; proposed tasks are created.`,
    ])
    expect(requests.decide(id, 'boss', 'ask', long)).toMatchObject(tooLong)
    unwrap(requests.decide(id, 'boss', 'ask', 'why?'))
    expect(requests.answer(id, 'alice', long)).toMatchObject(tooLong)
    expect(requests.decide(id, 'boss', 'approve', long)).toMatchObject(tooLong)
    unwrap(requests.decide(id, 'boss', 'reject', 'x'.repeat(1000)))
    expect(mail.read('alice', 0, 9).items.at(-1)?.stored.message.content).toMatch(/rejected by boss: x{1000}$/)
  })

  it('cuts what the supervisor itself has to say, and never leaves it unsaid', () => {
    const { requests, mail } = setup()
    unwrap(requests.open({ ...merge('1'), body: '€'.repeat(3000) }))
    const said = mail.read('user', 0, 9).items.map(({ stored }) => stored.message.content)
    expect(said).toEqual([expect.stringMatching(/^merge 1\n€+\n\[cut: it had 9059 bytes\]$/)])
    expect(Buffer.byteLength(said[0] ?? '')).toBeLessThanOrEqual(1000 + 2048)
  })

  it('binds a decision to what was shown', () => {
    const { requests } = setup()
    const { id, bodyHash } = unwrap(requests.open(merge('1'))).request
    expect(requests.decide(id, 'human', 'approve', null, 'another hash')).toMatchObject({ ok: false })
    expect(requests.decide(id, 'human', 'approve', null, bodyHash).ok).toBe(true)
  })

  it('goes from pending to needs_info and back by a question and its answer', () => {
    const { requests } = setup()
    const { id } = unwrap(requests.open(merge('1'))).request
    expect(requests.decide(id, 'human', 'ask', null)).toMatchObject({ ok: false, fault: { code: 'usage' } })
    unwrap(requests.decide(id, 'human', 'ask', 'why?'))
    expect(requests.decide(id, 'human', 'ask', 'again?')).toMatchObject({ ok: false })
    expect(requests.answer(id, 'bob', 'because')).toMatchObject({ ok: false })
    expect(unwrap(requests.answer(id, 'alice', 'because')).request.status).toBe('pending')
    expect(requests.answer(id, 'alice', 'because')).toMatchObject({ ok: false })
    expect(unwrap(requests.decide(id, 'human', 'approve', null)).request.history.map(item => item.act)).toEqual([
      'open',
      'ask',
      'answer',
      'approve',
    ])
  })

  it('J09 expires by the monotonic clock: a wall clock that steps expires nothing early and keeps nothing alive', () => {
    const { requests, at } = setup()
    const { id } = unwrap(requests.open({ ...shutdown('alice'), deadlineMs: 10_000 })).request
    at.wall += 3_600_000
    expect(requests.expire()).toEqual([])
    at.wall -= 7_200_000
    at.mono += 9_999
    expect(requests.expire()).toEqual([])
    at.mono += 1
    expect(requests.expire().map(request => request.id)).toEqual([id])
    expect(requests.get(id)?.value).toMatchObject({ outcome: 'expired', status: 'pending' })
  })

  it('D03 is pending still, under the same id, for the next holder of the store', () => {
    const { requests, store, clock, mail } = setup()
    const { id } = unwrap(requests.open({ ...shutdown('alice'), deadlineMs: 10_000 })).request
    const next = new Requests(store, clock, mail)
    expect(next.waiting().map(request => request.id)).toEqual([id])
    expect(next.untilNext()).toBe(10_000)
    expect(next.decide('1', 'alice', 'approve', null).ok).toBe(true)
  })
})

describe('mail', () => {
  it('A05 refuses a name nobody has, naming those there are, and makes no inbox for it', () => {
    const { mail, store } = setup()
    for (const to of ['nobody', 'ALICE', ' alice', 'reviewer', '', '../x']) {
      const sent = mail.send({ from: 'user', to, content: 'x' })
      expect(sent).toMatchObject({
        ok: false,
        fault: { code: 'unknown', hint: expect.stringContaining('alice, bob, boss, user') },
      })
    }
    expect(store.inboxNames.filter(name => !['alice', 'bob', 'boss', 'user', 'supervisor'].includes(name))).toEqual([])
  })

  it('stores one message a recipient for all, and says of a stopped one that it waits', () => {
    const { mail } = setup()
    const { sent } = unwrap(mail.send({ from: 'alice', to: 'all', content: 'hello' }))
    expect(sent.map(one => [one.to, one.how])).toEqual([
      ['bob', 'queued'],
      ['boss', 'delivered'],
    ])
    expect(unwrap(mail.send({ from: 'alice', to: 'lead', content: 'x' })).sent[0]?.to).toBe('boss')
  })

  it('takes equal text as another message, and an equal id as the same one', () => {
    const { mail } = setup()
    for (const id of ['m1', 'm2', 'm1'])
      expect(mail.send({ from: 'user', to: 'alice', content: 'ok', id }).ok).toBe(true)
    expect(mail.read('alice', 0, 10).items.length).toBe(2)
    expect(mail.send({ from: 'user', to: 'alice', content: 'not ok', id: 'm1' })).toMatchObject({
      ok: false,
      fault: { code: 'conflict' },
    })
  })

  it('A11 refuses a body over the limit, and takes the short one after it', () => {
    const { mail } = setup()
    expect(mail.send({ from: 'user', to: 'alice', content: 'x'.repeat(1001) })).toMatchObject({
      ok: false,
      fault: { message: expect.stringContaining('messageBytes') },
    })
    expect(mail.send({ from: 'user', to: 'alice', content: 'short' }).ok).toBe(true)
  })

  it('A03 looking consumes nothing', async () => {
    const { mail, store } = setup()
    unwrap(mail.send({ from: 'user', to: 'alice', content: 'x' }))
    for (let look = 0; look < 2; look++) expect(mail.read('alice', 0, 10).items[0]?.receipt).toBe('stored')
    expect(mail.unread('alice')).toBe(1)
    await store.inbox('alice').ack('alice', 1, { event: 'message.taken', by: 'alice' }).durable
    expect(mail.unread('alice')).toBe(0)
  })

  it('says what the supervisor has to say under another id when foreign lines took the ones it derives', () => {
    const { mail, store, requests } = setup()
    const squats = ['msg_req_1', 'msg_req_1_supervisor']
    for (const id of squats) {
      const message = { id, from: 'x', to: 'user', timestamp: 't', type: 'info' as const, content: 'squat' }
      store.inbox('user').append({ message, origin: 'file' }, { event: 'message.stored', by: 'file' })
    }
    unwrap(requests.open(merge('1')))
    requests.recover()
    const ids = mail.read('user', 0, 10).items.map(item => item.stored.message.id)
    expect(ids).toEqual([...squats, 'msg_req_1_supervisor_supervisor'])
  })
})

it('deadlines of any size, and one in a file that is no date, neither throw nor keep a timer busy', () => {
  const { at, store, requests, clock, mail } = setup()
  for (const [i, deadlineMs] of [1e300, -1e300, Number.NaN, 0.5].entries())
    expect(requests.open({ ...shutdown('alice', `number ${i}`), deadlineMs }).ok).toBe(true)
  at.mono += 1
  requests.expire()
  expect(requests.waiting()).toHaveLength(1)
  const { id, request } = { id: 'req_9', request: { ...requests.all()[0], id: 'req_9', outcome: null } }
  store.requests.create(id, { ...request, status: 'pending', deadline: 'tomorrow' } as never, {
    event: 'request.opened',
    by: 'human',
  })
  const again = new Requests(store, clock, mail)
  expect(again.untilNext()).toBe(0)
  again.expire()
  expect(again.get(id)?.value.outcome).toBe('expired')
})
