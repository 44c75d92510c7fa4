import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { Config, members } from '../../src/protocol/config.ts'
import type { RequestOf } from '../../src/protocol/request.ts'
import { type RequestType, requestTypeNames } from '../../src/protocol/request-types.ts'
import { hold } from '../../src/store/index.ts'
import { makeCore } from '../../src/supervisor/core.ts'
import { team, teamOk, teamRoot } from '../support/cli.ts'

const data: { readonly [T in RequestType]: RequestOf<T>['data'] } = {
  shutdown_request: { teammate: 'alice', graceMs: 1000 },
  plan_request: { task: null },
  resource_request: { task: null, kind: 'name', what: ['printer'], seconds: 60 },
  merge_request: {
    task: '7',
    attempt: 1,
    owner: 'alice',
    branch: 'team/task-7',
    head: 'a'.repeat(40),
    trunk: 'b'.repeat(40),
    commits: 1,
    files: [],
    verify: [],
  },
  review_request: {
    task: '7',
    attempt: 1,
    owner: 'alice',
    head: 'a'.repeat(40),
    commits: 1,
    files: [],
    verify: [],
  },
  permission_request: { task: null, command: 'make x', rule: 'make x', past: [], sandboxed: false },
  question: { task: null },
}

/** A root where requests of every type ended in every way, or wait; their ids by way, in the order of the table. */
const everyWay = async () => {
  const config = { teammates: [{ name: 'alice' }, { name: 'bob' }], sandbox: 'off', mode: 'dir' }
  const root = teamRoot(config)
  mkdirSync(join(root, '.team'), { recursive: true })
  const holder = unwrap(await hold(root, 'cli', { version: 'test', clock }))
  const parsed = Config.parse(config)
  const { requests } = makeCore(
    {
      store: holder.store,
      root,
      workspace: root,
      mode: 'dir',
      config: parsed,
      members: members(parsed),
      clock,
      hub: null,
      sandboxed: false,
    },
    () => null,
  )
  const open = (way: string) =>
    requestTypeNames.map(type => {
      const from =
        type === 'merge_request' || type === 'review_request'
          ? 'supervisor'
          : type === 'shutdown_request'
            ? 'bob'
            : 'alice'
      const to = type === 'shutdown_request' ? 'alice' : 'human'
      return unwrap(requests.open({ type, from, to, title: `${way} ${type}`, body: way, data: data[type] })).request.id
    })
  const ids = {
    pending: open('pending'),
    needs_info: open('needs_info'),
    approved: open('approved'),
    rejected: open('rejected'),
    expired: open('expired'),
    withdrawn: open('withdrawn'),
    superseded: open('superseded'),
  }
  for (const id of ids.needs_info) unwrap(requests.decide(id, 'human', 'ask', 'which?'))
  for (const id of ids.approved) unwrap(requests.decide(id, 'human', 'approve', 'good'))
  for (const id of ids.rejected) unwrap(requests.decide(id, 'human', 'reject', 'bad'))
  for (const id of ids.expired) unwrap(requests.end(id, 'expired', 'supervisor', 'nobody decided in time'))
  for (const id of ids.withdrawn) unwrap(requests.end(id, 'withdrawn', 'human', 'not needed'))
  for (const [i, id] of ids.superseded.entries())
    unwrap(requests.end(id, 'withdrawn', 'supervisor', 'it changed', ids.pending[i]))
  // Who may not decide, of each type: somebody else, and the one that asked.
  const wrong = ids.pending.map(id => [
    requests.decide(id, 'bob', 'approve', 'I say so'),
    requests.decide(id, requests.get(id)?.value.from ?? '', 'approve', 'I say so'),
  ])
  const changed = ids.pending.map(id => requests.decide(id, 'human', 'approve', 'so', '0'.repeat(64)))
  await holder.store.flushed()
  await holder.release()
  return { root, ids, wrong, changed }
}

test('D11 each way in which a decision is refused has its own words and exit code, for every type of request', async () => {
  const { root, ids, wrong, changed: other } = await everyWay()
  expect(ids.pending).toHaveLength(requestTypeNames.length)
  for (const [i, id] of ids.pending.entries())
    for (const refused of wrong[i] ?? [])
      expect(refused).toMatchObject({
        ok: false,
        fault: {
          code: 'refused',
          message: expect.stringMatching(new RegExp(`^${id} is for (human|alice) to decide, not for `)),
        },
      })

  for (const [i, id] of ids.pending.entries())
    expect(other[i]).toMatchObject({
      ok: false,
      fault: { message: `${id} is not what was shown any more: look at it again` },
    })

  const refusedAs = async (command: string, of: readonly string[], words: string) => {
    const ran = await team([command, ...of, '--reason', 'so', '--root', root])
    expect(ran.code, `${command} ${of}`).toBe(5)
    expect(ran.stdout).toBe('')
    for (const id of of) expect(ran.stderr).toMatch(new RegExp(`^team: ${id} ${words}`, 'm'))
  }
  const words: readonly (readonly [readonly string[], string])[] = [
    [ids.approved, 'was already approved by human at \\d{4}-'],
    [ids.rejected, 'was already rejected by human at \\d{4}-'],
    [ids.expired, 'expired at .* without a decision$'],
    [ids.withdrawn, 'was withdrawn: not needed$'],
    [ids.superseded, 'was superseded by req_\\d+: decide that one$'],
  ]
  for (const [of, text] of words) await refusedAs('approve', of, text)
  for (const command of ['reject', 'ask']) {
    const all = words.flatMap(([of]) => of)
    const ran = await team([command, ...all, '--reason', 'so', '--root', root])
    expect([ran.code, ran.stdout]).toEqual([5, ''])
    for (const [of, text] of words)
      for (const id of of) expect(ran.stderr).toMatch(new RegExp(`^team: ${id} ${text}`, 'm'))
  }
  await refusedAs('ask', ids.needs_info, 'waits for \\w+ to answer already$')
  const unknown = await team(['approve', '999', '--root', root])
  expect([unknown.code, unknown.stderr]).toEqual([4, expect.stringMatching(/^team: there is no request 999$/m)])
  for (const id of ['999', 'nonsense', 'req 1']) {
    const ran = await team(['answer', id, 'because', '--root', root])
    expect([ran.code, ran.stderr]).toEqual([
      4,
      expect.stringMatching(new RegExp(`^team: there is no request ${id}$`, 'm')),
    ])
  }
  const [first = ''] = ids.pending
  const changed = await team(['approve', first, '--shown', '0'.repeat(12), '--root', root])
  expect([changed.code, changed.stderr]).toEqual([
    5,
    expect.stringMatching(new RegExp(`^team: ${first} is not what was shown any more: look at it again$`, 'm')),
  ])
  const badHash = await team(['approve', '1', '--shown', 'what I saw', '--root', root])
  expect([badHash.code, badHash.stderr]).toEqual([2, expect.stringMatching(/shown: the hash as/)])
  const several = await team(['approve', '1', '2', '--shown', '0'.repeat(12), '--root', root])
  expect(several.code).toBe(2)

  // Nothing of that changed anything, and each state is told by a word of its own.
  const shown = await teamOk(['requests', '--all', '--root', root])
  for (const [way, of] of Object.entries(ids))
    for (const id of of) expect(shown).toMatch(new RegExp(`^ *${id} +${way} `, 'm'))
  const [gone = ''] = ids.superseded
  expect(await teamOk(['requests', gone, '--root', root])).toMatch(/state +superseded\n/)
  // What is still what was shown goes through.
  const [question = ''] = ids.pending.slice(-1)
  const { bodyHash } = JSON.parse(await teamOk(['requests', question, '--json', '--root', root]))
  await teamOk(['approve', question, '--shown', bodyHash.slice(0, 12), '--reason', 'yes', '--root', root])
})
