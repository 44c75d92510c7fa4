import { expect, test } from 'vitest'
import { coreOf } from '../support/core.ts'

const config = { teammates: [{ name: 'alice', model: { provider: 'runbook' } }] }

test('git mode before anybody made a hub: land and diff say so, and dir mode says what is so there', async () => {
  const git = coreOf(config, undefined, { mode: 'git' }).handlers
  await git.human('task.add', { tasks: [{ title: 'One' }] })
  const missing = {
    ok: false,
    fault: { code: 'refused', message: expect.stringMatching(/^there is no hub here/), hint: 'team up makes it' },
  }
  expect(await git.human('land', {})).toMatchObject(missing)
  expect(await git.human('diff', { id: '1' })).toMatchObject(missing)
  const dir = coreOf(config).handlers
  for (const answer of [await dir.human('land', {}), await dir.human('diff', { id: '1' })])
    expect(answer).toMatchObject({ fault: { code: 'refused', message: expect.stringContaining('in dir mode') } })
})

test.each([
  ['a plan request', { type: 'plan_request', body: 'First this, then that' }],
  ['a question', { type: 'question', body: 'Tabs?' }],
  ['for a lease', { type: 'resource_request', data: { kind: 'name', what: ['gpu'] } }],
])('diff of a request that is %s says that it is no merge, and what shows it', async (kind, asked) => {
  for (const mode of ['git', 'dir'] as const) {
    const { handlers } = coreOf(config, undefined, { mode })
    expect(await handlers.call('alice', 'request.open', asked)).toMatchObject({ ok: true })
    expect(await handlers.human('diff', { id: 'req_1' })).toMatchObject({
      ok: false,
      fault: {
        code: 'refused',
        message: `req_1 is ${kind}, no merge: there is nothing to compare`,
        hint: 'team requests req_1 shows it',
      },
    })
  }
})
