import { expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { nextOfReview, reviewerFor, reviewersDue, reviewOf } from '../../src/supervisor/review.ts'
import { unfit } from '../../src/supervisor/schedule.ts'
import { shownOf } from '../../src/supervisor/shown.ts'
import { stranded } from '../../src/supervisor/stranded.ts'
import { withdrawStale } from '../../src/supervisor/withdraw.ts'
import { coreOf } from '../support/core.ts'

const team = (...more: object[]) =>
  coreOf({ review: true, teammates: [{ name: 'ann' }, ...more], lead: 'lea' }, clock, { mode: 'git' })

type Team = ReturnType<typeof team>

const given = ({ core }: Team, id: string, owner: string) =>
  unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner, branch: `team/task-${id}` })).value
const claimed = (it: Team, id: string, owner: string, head = 'a'.repeat(40)) => {
  given(it, id, owner)
  return unwrap(it.core.tasks.move(id, owner, { move: 'claim', head, summary: 'did it' })).value
}
const added = ({ core }: Team, title: string, more: object = {}): string =>
  unwrap(core.tasks.add([{ title, ...more }], { by: 'human' })).ids[0] ?? ''
const asked = ({ core }: Team, id: string) => {
  const task = core.tasks.get(id)?.value
  if (!task) throw new Error('no such task')
  return unwrap(core.requests.open(reviewOf(core, task, { commits: 1, files: ['a.txt'] }))).request
}

test('chosen to read it: free first, then not the lead, then who reviewed least; never a runbook, who cannot read, or who had it', () => {
  const it = team(
    { name: 'lea' },
    { name: 'ben' },
    { name: 'cat' },
    { name: 'dumb', model: { provider: 'runbook' } },
    { name: 'blind', tools: ['bash', 'request'] },
  )
  const [first, second, third] = [added(it, 'First'), added(it, 'Second'), added(it, 'Third')]
  const task = claimed(it, first, 'ann')
  expect(reviewerFor(it.core, task)).toBe('ben')
  expect(asked(it, first).to).toBe('ben')
  // Ben is to read that one; then cat is at work, so the lead is the one who is free.
  expect(reviewerFor(it.core, claimed(it, second, 'ann'))).toBe('cat')
  given(it, third, 'cat')
  expect(asked(it, second).to).toBe('lea')
  it.core.tasks.move(first, 'human', { move: 'cancel', reason: 'no' })
  it.core.tasks.move(third, 'cat', { move: 'release', reason: null })
  // Both are free again, and ben was asked before.
  expect(it.core.requests.reviewsOf(first)[0]).toMatchObject({ outcome: 'withdrawn' })
  expect(reviewerFor(it.core, claimed(it, added(it, 'Fourth'), 'ann'))).toBe('cat')
  // Cat had the third in hand once.
  expect(reviewerFor(it.core, claimed(it, third, 'ann'))).toBe('ben')
  const alone = team({ name: 'lea', model: { provider: 'runbook' } })
  expect(reviewerFor(alone.core, claimed(alone, added(alone, 'Alone'), 'ann'))).toBe('human')
})

test('a claim is shown as one, with whom it waits for; what depends on it says that it is not proven; proven is another word', () => {
  const it = team({ name: 'lea' }, { name: 'ben' })
  const id = added(it, 'First')
  const next = added(it, 'Next', { blockedBy: [id] })
  claimed(it, id, 'ann')
  const { id: request } = asked(it, id)
  const screen = (of: string) => shownOf(it.core, of)
  expect(screen(id)).toMatchObject({
    shown: 'claimed',
    why: `ann says it is done; not proven yet; ${request} waits for ben`,
  })
  expect(screen(next)).toMatchObject({ shown: 'blocked', why: `by ${id} (claimed done, not proven yet)` })
  unwrap(it.core.requests.decide(request, 'ben', 'ask', 'why?'))
  expect(screen(id).why).toMatch(new RegExp(`${request} waits for ann$`))
  it.core.tasks.move(id, 'supervisor', { move: 'complete', result: { outcome: 'merged', summary: '', commit: 'c' } })
  expect(screen(id)).toMatchObject({ shown: 'completed', why: 'verified and merged' })
  expect(screen(next).shown).toBe('ready')
})

test('only who is asked decides, never the author; a claim of another head, or of no head, is another claim', () => {
  const it = team({ name: 'lea' }, { name: 'ben' })
  const id = added(it, 'First')
  let task = claimed(it, id, 'ann')
  expect(nextOfReview(it.core, task)).toEqual({ step: 'open' })
  const { id: request, to } = asked(it, id)
  expect(to).toBe('ben')
  expect(nextOfReview(it.core, task)).toEqual({ step: 'wait' })
  for (const by of ['ann', 'lea', 'supervisor'])
    expect(it.core.requests.decide(request, by, 'approve', null)).toMatchObject({
      ok: false,
      fault: { code: 'refused' },
    })
  unwrap(it.core.requests.decide(request, 'ben', 'approve', null))
  expect(nextOfReview(it.core, task)).toEqual({ step: 'passed' })
  // Sent back for something else and claimed anew: what was approved before says nothing about it.
  it.core.tasks.move(id, 'supervisor', { move: 'return', reason: 'red' })
  task = claimed(it, id, 'ann', 'b'.repeat(40))
  expect(nextOfReview(it.core, task)).toEqual({ step: 'open' })
  expect(nextOfReview(it.core, { ...task, claimed: { head: null, summary: '', at: task.updatedAt } })).toEqual({
    step: 'passed',
  })
})

test('a review that came to its author all the same is not decided by that one', () => {
  const it = team({ name: 'ben' })
  const task = claimed(it, added(it, 'First'), 'ann')
  const opening = { ...reviewOf(it.core, task, { commits: 1, files: ['a.txt'] }), to: 'ann' }
  const { id } = unwrap(it.core.requests.open(opening)).request
  expect(it.core.requests.decide(id, 'ann', 'approve', null)).toMatchObject({
    ok: false,
    fault: { message: `${id} is about the work of ann itself: another decides it` },
  })
  unwrap(it.core.requests.decide(id, 'human', 'approve', null))
})

test('set or taken back meanwhile: what was asked for counts, and what is on its way to the trunk is not read any more', () => {
  const it = team({ name: 'ben' })
  const off = Object.create(it.core, { config: { value: { ...it.core.config, review: false } } })
  const [first, second] = [added(it, 'First'), added(it, 'Second')]
  const task = claimed(it, first, 'ann')
  expect(nextOfReview(off, task)).toEqual({ step: 'passed' })
  const { id } = asked(it, first)
  expect(nextOfReview(off, task)).toEqual({ step: 'wait' })
  unwrap(it.core.requests.decide(id, 'ben', 'reject', 'half of it'))
  expect(nextOfReview(off, task)).toMatchObject({ step: 'back', reason: expect.stringContaining('half of it') })

  const other = claimed(it, second, 'ann')
  const { id: ended } = asked(it, second)
  unwrap(it.core.requests.end(ended, 'withdrawn', 'supervisor', 'ben does not run'))
  expect([nextOfReview(it.core, other).step, nextOfReview(off, other).step]).toEqual(['open', 'passed'])
  const head = other.claimed?.head ?? ''
  const data = { task: second, attempt: other.attempts, owner: 'ann', branch: 'b', head, trunk: head }
  unwrap(
    it.core.requests.open({
      type: 'merge_request',
      from: 'supervisor',
      to: 'human',
      title: 'merge',
      body: '',
      data: { ...data, commits: 1, files: [], verify: [] },
    }),
  )
  expect(nextOfReview(it.core, other)).toEqual({ step: 'passed' })
})

test('twice rejected it is not given to its author any more, until a retry; where only the author may have it, that is told', () => {
  const it = team({ name: 'lea' }, { name: 'ben' })
  const id = added(it, 'First', { assignee: 'ann' })
  for (const [n, toOther] of [false, true].entries()) {
    const task = claimed(it, id, 'ann', String(n).repeat(40))
    const { id: request } = asked(it, id)
    unwrap(it.core.requests.decide(request, 'ben', 'reject', 'no test'))
    const next = nextOfReview(it.core, task)
    expect(next).toEqual({ step: 'back', reason: `the review ${request} was rejected by ben: no test`, toOther })
    it.core.tasks.move(id, 'supervisor', { move: 'return', reason: 'no test', toOther })
  }
  const task = () => it.core.tasks.get(id)?.value ?? expect.fail()
  const [ann] = it.core.members
  if (!ann) expect.fail()
  expect(task()).toMatchObject({ owner: null, notFor: ['ann'], givenTo: ['ann'] })
  expect(unfit({ ...task(), assignee: null }, ann, () => true)).toBe('the work of ann on it was rejected 2 times')
  expect(stranded(it.core, task())).toMatch(/can be given to nobody: it is assigned to ann, .* rejected 2 times/)
  it.core.tasks.move(id, 'human', { move: 'cancel', reason: 'again' })
  it.core.tasks.move(id, 'human', { move: 'retry' })
  expect(unfit(task(), ann, () => true)).toBeNull()
})

test('who is to read a review gets nothing else first; once it is taken in, or ended, that is over', () => {
  const it = team({ name: 'lea' }, { name: 'ben' })
  const id = added(it, 'First')
  claimed(it, id, 'ann')
  asked(it, id)
  expect([...reviewersDue(it.core)]).toEqual(['ben'])
  it.store.inbox('ben').ack('ben', 1, { event: 'message.taken', by: 'ben' })
  expect([...reviewersDue(it.core)]).toEqual([])
  it.core.tasks.move(id, 'human', { move: 'cancel', reason: 'no' })
  withdrawStale(it.core)
  expect(it.core.requests.waiting()).toEqual([])
})

test('who waits for more of its own budget, or was given no more, reads nothing: another does; at the cap of the team it stays', () => {
  const budget = { teammate: { tokens: 1000 }, team: { tokens: 5000 } }
  const it = coreOf({ review: true, budget, teammates: [{ name: 'ann' }, { name: 'ben' }, { name: 'cat' }] }, clock, {
    mode: 'git',
  })
  const id = added(it, 'First')
  const task = claimed(it, id, 'ann')
  const review = asked(it, id)
  expect([review.to, nextOfReview(it.core, task)]).toEqual(['ben', { step: 'wait' }])
  const over = (name: string, input: number) => {
    const answer = unwrap(it.core.budget.reserve(name, { input, output: 0 }))
    return answer && 'request' in answer ? answer.request : undefined
  }
  const raise = over('ben', 2000) ?? expect.fail('not asked for')
  expect(nextOfReview(it.core, task)).toEqual({
    step: 'choose anew',
    request: review.id,
    why: `ben waits for more of its budget (${raise})`,
  })
  expect(reviewerFor(it.core, task)).toBe('cat')
  unwrap(it.core.requests.decide(raise, 'human', 'reject', 'enough'))
  expect(over('ben', 2000)).toBe(null)
  expect(nextOfReview(it.core, task)).toMatchObject({ why: 'ben calls no model any more: its budget is used up' })
  unwrap(it.core.requests.end(review.id, 'withdrawn', 'supervisor', 'ben rests'))
  expect(asked(it, id).to).toBe('cat')
  // Everybody waits for that one decision, so nobody else is asked for the review.
  expect(over('cat', 9000)).toBeTypeOf('string')
  expect(nextOfReview(it.core, task)).toEqual({ step: 'wait' })
})
