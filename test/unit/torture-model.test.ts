import { expect, test } from 'vitest'
import { teammateModel } from '../torture/model.ts'

/** What bob's model says to the task `ask w2`, whose question had this result. */
const after = (result: string) =>
  teammateModel('/root', ['alice', 'bob'])({
    model: 'bob',
    messages: [
      { role: 'user', content: '<task id="2">\n# ask w2\n</task>' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'ask_user', arguments: '{"question":"tabs in 2?"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: result },
    ],
  })

test('a question that a crash cut off is asked again, one that was asked is waited for', () => {
  expect(after('error: interrupted, outcome unknown: it had started when this session was cut off.')).toMatchObject({
    calls: [{ name: 'ask_user' }],
  })
  expect(after('asked as req_1')).toBe('I wait.')
})

test('of two tasks in one message the last one is in hand', () => {
  const content = [
    '<task id="10">\n# mail w62\n</task>',
    '<note>You were restarted. Task 10 is not in your hands any more.</note>\n<task id="14">\n# work w100\n</task>',
  ].join('\n\n')
  expect(
    teammateModel('/root', ['alice', 'bob'])({ model: 'bob', messages: [{ role: 'user', content }] }),
  ).toMatchObject({
    calls: [{ name: 'bash', args: { command: expect.stringContaining('w100') } }],
  })
})
