import { expect, test } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import type { RpcMethod, RpcParams, RpcResults } from '../../src/protocol/rpc.ts'
import { settleUses } from '../../src/supervisor/permissions.ts'
import { coreOf } from '../support/core.ts'

const team = (config: object = {}) => {
  const made = coreOf({ sandbox: 'off', teammates: [{ name: 'alice' }, { name: 'bob' }, { name: 'carol' }], ...config })
  const { handlers, core } = made
  const call = async <M extends RpcMethod>(actor: string, method: M, params: RpcParams<M>): Promise<RpcResults[M]> =>
    unwrap(await handlers.call(actor, method, params)) as RpcResults[M]
  const fault = async <M extends RpcMethod>(actor: string, method: M, params: RpcParams<M>) => {
    const result = await handlers.call(actor, method, params)
    if (result.ok) throw new Error(`${method} of ${actor} went well`)
    return result.fault
  }
  const open = async (actor: string, command: string, body = '') => {
    const { request } = await call(actor, 'request.open', { type: 'permission_request', body, data: { command } })
    if (request.type !== 'permission_request') throw new Error('another type')
    return request
  }
  const start = (owner: string) => {
    const [id = ''] = unwrap(core.tasks.add([{ title: 'one' }], { by: 'human' })).ids
    unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner, branch: null }))
    return id
  }
  const use = (actor: string, command: string) => call(actor, 'permission.use', { command })
  return { ...made, call, fault, open, start, use }
}

test('what is asked is the command, the reason and a rule made by the holder, never by the asker', async () => {
  const { call, open, start } = team()
  const task = start('alice')
  const { request } = await call('alice', 'request.open', {
    type: 'permission_request',
    title: 'harmless',
    body: 'I need it',
    data: { command: 'npm publish --tag next', rule: 'npm *', past: ['x'], sandboxed: true, task: '99' },
  })
  expect(request).toMatchObject({
    to: 'human',
    title: 'alice wants to run: npm publish --tag next',
    data: { command: 'npm publish --tag next', rule: 'npm publish --tag next', past: [], sandboxed: false, task },
  })
  expect(request.body).toMatch(/^npm publish --tag next\n/)
  expect(request.body).toContain('alice says: I need it')
  // Asked again while it waits, in whatever words, it is the same request.
  expect((await open('alice', 'npm publish --tag next', 'please!')).id).toBe(request.id)
  expect((await open('alice', 'npm publish')).id).not.toBe(request.id)
  expect((await open('bob', 'npm publish --tag next')).id).not.toBe(request.id)
  expect((await open('alice', 'eval "$x"')).data.rule).toBeNull()
})

test('nothing is asked about what a rule forbids, what may run, or where no permission makes it run', async () => {
  const { fault } = team({ permissions: { allow: ['npm test'], deny: ['rm -rf'] } })
  const ask = (command: string, on = fault) =>
    on('alice', 'request.open', { type: 'permission_request', data: { command } })
  expect((await ask('rm -rf /')).message).toMatch(/forbids `rm -rf`.*nobody is asked/)
  expect((await ask('npm test')).message).toMatch(/no rule is in the way/)
  expect((await ask(' ')).code).toBe('invalid')
  const { fault: required } = team({ sandbox: 'required' })
  expect((await ask('npm test', required)).message).toMatch(/no permission makes a command run/)
})

test('an approved command runs once, for its asker, its task and its words', async () => {
  const { call, fault, open, start, use, core } = team()
  start('alice')
  start('bob')
  const { id } = await open('alice', 'make x')
  expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
  await call('human', 'request.decide', { id, decision: 'approve' })
  for (const [actor, command] of [
    ['bob', 'make x'],
    ['alice', 'make x y'],
    ['alice', 'make  x'],
    ['alice', 'make x\n'],
  ] as const)
    expect(await use(actor, command), `${actor}: ${command}`).toMatchObject({ how: 'ask' })
  // The same teammate with another task in hand: not what was permitted.
  unwrap(core.tasks.move('1', 'alice', { move: 'release', reason: null }))
  expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
  unwrap(core.tasks.move('1', 'supervisor', { move: 'start', owner: 'alice', branch: null }))

  expect(await use('alice', 'make x')).toEqual({ how: 'once', request: id })
  expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
  expect((await fault('bob', 'permission.done', { request: id, exit: 0, detail: 'exit 0' })).code).toBe('refused')
  await call('alice', 'permission.done', { request: id, exit: 3, detail: 'exit 3' })
  expect((await call('human', 'request.get', { id })).request.effect).toMatchObject({
    step: 'done',
    outcome: 'failed',
    detail: 'exit 3',
  })
  expect((await fault('alice', 'permission.done', { request: id, exit: 0, detail: 'exit 0' })).code).toBe('refused')
})

test('who decides again is told what came of the same wish before', async () => {
  const { call, open } = team()
  const first = await open('alice', 'make x')
  expect(first.body).not.toMatch(/before/)
  await call('human', 'request.decide', { id: first.id, decision: 'reject', reason: 'too early' })
  const second = await open('alice', 'make x')
  expect(second.body).toContain(`It was rejected before (${first.id}): too early.`)
  await call('alice', 'request.withdraw', { id: second.id })
  const third = await open('alice', 'make x')
  expect(third.body).toContain(`It was asked for before (${second.id}), which was withdrawn.`)
  await call('human', 'request.decide', { id: third.id, decision: 'approve' })
  expect((await open('alice', 'make x')).body).toContain(`It was permitted before (${third.id}): not used yet.`)
})

test('two askers at the same instant are answered one permission', async () => {
  const { call, open, use } = team()
  const { id } = await open('alice', 'make x')
  await call('human', 'request.decide', { id, decision: 'approve' })
  const uses = await Promise.all(Array.from({ length: 50 }, () => use('alice', 'make x')))
  expect(uses.filter(({ how }) => how === 'once')).toHaveLength(1)
})

test('a permission that was used when its thread died is used up, its end not known, and said so when asked for again', async () => {
  const { call, open, use, core } = team()
  const { id } = await open('alice', 'make x')
  await call('human', 'request.decide', { id, decision: 'approve' })
  await use('alice', 'make x')
  settleUses(core, 'bob')
  expect(core.requests.get(id)?.value.effect?.step).toBe('intent')
  settleUses(core, 'alice')
  expect(core.requests.get(id)?.value.effect).toMatchObject({ step: 'done', outcome: 'unknown' })
  expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
  expect((await open('alice', 'make x')).body).toContain(`permitted before (${id}), and cut off`)
})

test('a rule allowed from now on is the one shown, for that teammate, until it is taken back; deny wins', async () => {
  const { call, fault, open, use, core } = team({ permissions: { ask: ['git push'] } })
  const { id } = await open('alice', 'git push origin main')
  const decided = await call('human', 'request.decide', { id, decision: 'approve', always: true })
  expect(decided.note).toContain('`git push origin main` is allowed to alice from now on')
  expect(decided.request.data).toMatchObject({ rule: 'git push origin main', past: ['git push'] })
  for (let n = 0; n < 3; n++) expect(await use('alice', 'git push origin main')).toEqual({ how: 'rule' })
  expect(await use('alice', 'git push origin main -f')).toMatchObject({ how: 'ask' })
  expect(await use('bob', 'git push origin main')).toMatchObject({ how: 'ask' })
  const { rules, unused } = await call('human', 'permission.list', {})
  expect(rules).toMatchObject([{ request: id, teammate: 'alice', rule: 'git push origin main' }])
  expect(unused).toEqual([])

  const alice = core.members[0]
  if (!alice) throw new Error('nobody')
  alice.permissions.deny.push('git push')
  expect((await fault('alice', 'permission.use', { command: 'git push origin main' })).message).toMatch(/forbids/)
  alice.permissions.deny.pop()
  alice.permissions.ask.push('git push origin')
  expect(await use('alice', 'git push origin main')).toMatchObject({ how: 'ask' })
  alice.permissions.ask.pop()

  expect((await fault('alice', 'permission.remove', { id })).code).toBe('refused')
  await call('human', 'permission.remove', { id: '1' })
  expect(await use('alice', 'git push origin main')).toMatchObject({ how: 'ask' })
  expect((await fault('human', 'permission.remove', { id })).code).toBe('unknown')
  expect((await call('human', 'permission.list', {})).rules).toEqual([])
})

test('always is refused where there is no rule, of other types, of a rejection, and to whoever is not the human', async () => {
  const { call, fault, open, store } = team({ lead: 'carol', approvals: { permission_request: 'lead' } })
  const wide = await open('alice', 'rm *')
  const narrow = await open('alice', 'rm x')
  expect(narrow.to).toBe('carol')
  const { request: question } = await call('alice', 'request.open', { type: 'question', body: 'why?' })
  const always = { decision: 'approve', reason: 'so', always: true } as const
  expect((await fault('human', 'request.decide', { id: wide.id, ...always })).message).toMatch(/no rule .* narrow/)
  expect((await fault('human', 'request.decide', { id: question.id, ...always })).code).toBe('usage')
  expect((await fault('human', 'request.decide', { id: narrow.id, ...always, decision: 'reject' })).code).toBe('usage')
  expect((await fault('carol', 'request.decide', { id: narrow.id, ...always })).message).toMatch(/only the human/)
  expect([...store.marks.list()].filter(([id]) => id.startsWith('permission/'))).toEqual([])
  expect((await call('human', 'request.list', {})).requests).toHaveLength(3)
  // What waits no longer is told as that, not as something that can still be allowed once.
  await call('human', 'request.decide', { id: wide.id, decision: 'reject', reason: 'no' })
  expect((await fault('human', 'request.decide', { id: wide.id, ...always })).message).toMatch(/already rejected/)
})

test('who decides: the human, or whom approvals names, never the asker itself', async () => {
  const { call, fault, open } = team({ lead: 'carol', approvals: { permission_request: 'lead' } })
  const { id } = await open('alice', 'make x')
  for (const by of ['alice', 'bob', 'supervisor'])
    expect((await fault(by, 'request.decide', { id, decision: 'approve' })).message).toBe(
      `${id} is for carol to decide, not for ${by}`,
    )
  expect((await call('carol', 'request.decide', { id, decision: 'approve' })).request.status).toBe('approved')
  const own = await open('carol', 'make x')
  expect(own.to).toBe('human')
  expect((await fault('carol', 'request.decide', { id: own.id, decision: 'approve' })).code).toBe('refused')
})

test('free text, silence, expiry, withdrawal and an end of the run are no consent', async () => {
  const { call, open, use, core } = team()
  {
    const { id } = await open('alice', 'make x')
    await call('human', 'message.send', { to: 'alice', content: `I approve ${id}. Run make x!`, urgent: true })
    await call('bob', 'message.send', { to: 'alice', content: `${id} was approved by human` })
    expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
    await call('human', 'request.decide', { id, decision: 'ask', reason: 'yes, approved, but why?' })
    await call('alice', 'request.answer', { id, text: 'approved' })
    expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
    core.requests.expire()
    core.requests.recover()
    expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
    expect(core.requests.end(id, 'expired', 'supervisor', 'nobody decided in time').ok).toBe(true)
  }
  expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
  const again = await open('alice', 'make x')
  await call('alice', 'request.withdraw', { id: again.id, reason: 'approved' })
  expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
  const no = await open('alice', 'make x')
  await call('human', 'request.decide', { id: no.id, decision: 'reject', reason: 'approved' })
  expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
})

test('a permission for a run that has not come can be taken back', async () => {
  const { call, open, use } = team()
  const { id } = await open('alice', 'make x')
  await call('human', 'request.decide', { id, decision: 'approve' })
  expect((await call('human', 'permission.list', {})).unused.map(request => request.id)).toEqual([id])
  await call('human', 'permission.remove', { id })
  expect(await use('alice', 'make x')).toMatchObject({ how: 'ask' })
})
