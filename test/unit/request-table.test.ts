import { expect, test, vi } from 'vitest'
import * as z from 'zod'

// The table with one entry more, and nothing else anywhere.
vi.mock('../../src/protocol/request-types.ts', async original => {
  const real = await original<typeof import('../../src/protocol/request-types.ts')>()
  const requestTypes = {
    ...real.requestTypes,
    spend_request: {
      data: z.object({ task: z.string().nullable().default(null), cents: z.number().int().min(1) }),
      opens: 'teammate',
      decides: 'human',
      approvals: 'fixed',
      parks: true,
      title: ({ from }: { from: string }) => `${from} wants to spend`,
      effect: 'the money may be spent',
    },
  }
  return { ...real, requestTypes, requestTypeNames: Object.keys(requestTypes) }
})

const { request: requestTool } = await import('../../src/tools/request.ts')
const { rpcMethods } = await import('../../src/protocol/rpc.ts')
const { coreOf } = await import('../support/core.ts')

test('one more type takes one entry of the table: opened by the tool, announced, bound, decided once, told', async () => {
  expect(rpcMethods['request.open'].safeParse({ type: 'spend_request' }).success).toBe(true)
  expect(JSON.stringify(requestTool.schema)).toContain('spend_request')
  const { handlers, store } = coreOf({ teammates: [{ name: 'alice' }] })
  const open = (data: object) => handlers.call('alice', 'request.open', { type: 'spend_request', body: 'a fee', data })
  expect(await open({ cents: 0 })).toMatchObject({
    ok: false,
    fault: { message: expect.stringContaining('data.cents') },
  })
  expect(await open({ cents: 5 })).toMatchObject({
    ok: true,
    value: { request: { id: 'req_1', type: 'spend_request', to: 'human', title: 'alice wants to spend' } },
  })
  // Repeated while it waits it is the same request; with another content it is another.
  expect(await open({ cents: 5 })).toMatchObject({ ok: true, value: { request: { id: 'req_1' } } })
  expect(await open({ cents: 6 })).toMatchObject({ ok: true, value: { request: { id: 'req_2' } } })
  expect(
    store
      .inbox('user')
      .read(0)
      .map(({ value }) => value.message.requestId),
  ).toEqual(['req_1', 'req_2'])
  const decide = (by: string, decision: string) =>
    handlers.call(by, 'request.decide', { id: 'req_1', decision, reason: 'fine' })
  expect(await decide('alice', 'approve')).toMatchObject({ ok: false, fault: { code: 'refused' } })
  expect(await decide('human', 'approve')).toMatchObject({ ok: true, value: { request: { status: 'approved' } } })
  expect(await decide('human', 'reject')).toMatchObject({
    ok: false,
    fault: { message: expect.stringContaining('already approved') },
  })
  expect(
    store
      .inbox('alice')
      .read(0)
      .map(({ value }) => value.message.content),
  ).toEqual(['req_1 (alice wants to spend) was approved by human: fine'])
})

test('who gives a request no title is told of by what is asked: the first words, a lease by what it is on', async () => {
  const { handlers, store } = coreOf({ teammates: [{ name: 'alice' }] })
  const open = async (type: string, body: string, data = {}) => {
    const opened = await handlers.call('alice', 'request.open', { type, body, data })
    return opened.ok ? (opened.value as { request: { title: string } }).request.title : opened.fault.message
  }
  const long = `Which of\nthese ${'words '.repeat(30)}?`
  expect([
    await open('question', 'Tabs?'),
    await open('question', long),
    await open('plan_request', '', { tasks: [{ title: 'one' }, { title: 'two' }] }),
    await open('plan_request', 'x'.repeat(200)),
    await open('resource_request', 'soon', { kind: 'name', what: ['staging', 'db'] }),
  ]).toEqual([
    'Tabs?',
    `Which of these ${'words '.repeat(9)}words…`,
    'plan of alice: one, two',
    `${'x'.repeat(79)}…`,
    'name staging, db',
  ])
  const told = store.inbox('user').read(0)
  expect(told.slice(0, 3).map(({ value }) => value.message.content)).toEqual([
    'Tabs?\n\nIf approved: the answer goes to who asked, who goes on.',
    `${long}\n\nIf approved: the answer goes to who asked, who goes on.`,
    'plan of alice: one, two\n\nIf approved: the work described may start; proposed tasks are created.',
  ])
})
