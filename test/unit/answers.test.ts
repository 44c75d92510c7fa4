import { expect, test } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import type { Message, Stored } from '../../src/protocol/message.ts'
import { coreOf } from '../support/core.ts'

const at = '2026-01-01T00:00:00.000Z'
const stored = (more: Partial<Message>, origin: Stored['origin'] = 'daemon'): Stored => ({
  origin,
  message: { id: 'msg_1', from: 'bob', to: 'alice', timestamp: at, type: 'info', content: 'hello', ...more },
})

test('a message is acted on by an answer that its own reader wrote through the daemon, or by an act on its request', () => {
  const { core, store } = coreOf({ teammates: [{ name: 'alice' }, { name: 'bob' }] })
  const put = (inbox: string, value: Stored) => store.inbox(inbox).append(value, { event: 'message.stored', by: 'x' })
  const receipts = () => core.mail.read('alice', 0, 100).items.map(({ receipt }) => receipt)
  put('alice', stored({ id: 'msg_1' }))
  const asked = unwrap(
    core.requests.open({
      type: 'merge_request',
      from: 'supervisor',
      to: 'alice',
      title: 'merge',
      body: 'b',
      data: {
        task: '1',
        attempt: 1,
        owner: 'bob',
        branch: 'x',
        head: 'a'.repeat(40),
        trunk: 'b'.repeat(40),
        commits: 1,
        files: [],
        verify: [],
      },
    }),
  ).request
  const last = store.inbox('alice').last
  expect(receipts()).toEqual(['stored', 'stored'])
  store.inbox('alice').ack('alice', last, { event: 'message.taken', by: 'alice' })
  expect(receipts()).toEqual(['in context', 'in context'])
  put('bob', stored({ id: 'msg_2', from: 'alice', to: 'bob', replyTo: 'msg_1' }, 'file'))
  put('bob', stored({ id: 'msg_3', from: 'bob', to: 'alice', replyTo: 'msg_1' }))
  expect(receipts()[0]).toBe('in context')
  put('bob', stored({ id: 'msg_4', from: 'alice', to: 'bob', replyTo: 'msg_1' }))
  expect(receipts()).toEqual(['acted on', 'in context'])
  unwrap(core.requests.decide(asked.id, 'alice', 'ask', 'which?'))
  expect(receipts()).toEqual(['acted on', 'acted on'])
  // A person who decided it did not have to mark it as read.
  const question = unwrap(
    core.requests.open({
      type: 'question',
      from: 'alice',
      to: 'human',
      title: 'tabs?',
      body: 'tabs?',
      data: { task: null },
    }),
  ).request
  const own = () => core.mail.read('user', 0, 100).items.map(({ receipt }) => receipt)
  expect(own()).toEqual(['stored'])
  unwrap(core.requests.decide(question.id, 'human', 'approve', 'yes'))
  expect(own()).toEqual(['acted on'])
})
