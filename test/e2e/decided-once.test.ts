import { expect, test } from 'vitest'
import type { Request } from '../../src/protocol/request.ts'
import { statusOf, team, teamOk, until } from '../support/cli.ts'
import { call, gitTeamOf, heard, journalOf, model, sinceTask } from '../support/daemon.ts'
import { ask } from '../support/scripted-team.ts'

const all = async (root: string): Promise<Request[]> => (await ask(root, 'request.list', { all: true })).requests
const open = async (root: string) => (await all(root)).filter(({ outcome }) => outcome === null)

/** Approves and rejects it from two shells at the same instant; answers how it ended, once exactly one of them won. */
const contested = async (root: string, id: string): Promise<Request> => {
  const ways = [
    ['approve', 'approved'],
    ['reject', 'rejected'],
  ] as const
  const ran = await Promise.all(ways.map(([way]) => team([way, id, '--reason', way, '--root', root])))
  expect(ran.map(({ code }) => code).sort()).toEqual([0, 5])
  const won = ran[0]?.code === 0 ? 0 : 1
  expect(ran[1 - won]?.stderr).toMatch(
    new RegExp(`${id} was already ${ways[won][1]} by human at \\d{4}-\\d\\d-\\d\\dT`),
  )
  const now = (await all(root)).find(request => request.id === id)
  if (!now) throw new Error(`${id} is gone`)
  expect([now.status, now.reason, now.decidedBy]).toEqual([ways[won][1], ways[won][0], 'human'])
  return now
}

test('D01 an approval against a rejection, each from a shell of its own: of every type one wins, the other is told, the effect comes once', async () => {
  const rounds = 2
  const each = <T>(make: (n: number) => T) => Array.from({ length: rounds }, (_, n) => make(n))
  const server = await model(request => {
    if (request.model === 'alice') {
      if (request.messages.at(-1)?.role === 'tool' || !heard(request).includes('ask for all')) return 'Noted.'
      if (request.messages.some(({ role }) => role === 'tool')) return 'Noted.'
      return {
        calls: [
          ...each(n => ({ name: 'ask_user', args: { question: `Question ${n}?` } })),
          ...each(n => ({ name: 'request', args: { action: 'open', type: 'plan_request', body: `plan ${n}` } })),
          ...each(n => ({ name: 'bash', args: { command: `chmod +x file-${n}` } })),
        ],
      }
    }
    const at = sinceTask(request)
    if (request.model === 'carol') return at ? call('bash', { command: 'sleep 0.1' }) : 'Noted.'
    const last = at?.results.at(-1)
    if (!at || (last && last.name !== 'bash')) return 'Noted.'
    return last
      ? call('task', { action: 'complete', summary: 'done' })
      : call('bash', { command: `echo x > t${at.id}.txt && git add -A && git commit -qm work-${at.id}` })
  })
  const { root, repo } = gitTeamOf(server, {
    teammates: ['alice', 'bob', 'carol'].map(name => ({ name, model: { name } })),
    limits: { returns: 0, rounds: 100_000, sameCalls: 100_000, callsWithoutEffect: 100_000 },
  })
  for (let n = 0; n < rounds; n++) await teamOk(['task', 'add', `Of bob ${n}`, '--assignee', 'bob', '--root', root])
  await teamOk(['task', 'add', 'Of carol', '--assignee', 'carol', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['send', 'alice', 'ask for all', '--root', root])
  await until(async () => (await open(root)).length === 4 * rounds, 40_000)
  const ended: Request[] = []
  for (const { id } of await open(root)) ended.push(await contested(root, id))
  expect(Object.fromEntries(ended.map(({ type }) => [type, ended.filter(one => one.type === type).length]))).toEqual({
    question: rounds,
    plan_request: rounds,
    permission_request: rounds,
    merge_request: rounds,
  })
  // It works on and never decides, so the human does in its place.
  for (let n = 0; n < rounds; n++) {
    // One that is starting yet, or has nothing in hand, is not asked.
    await until(async () => (await statusOf(root)).teammates.find(({ name }) => name === 'carol')?.state === 'working')
    const down = team(['down', 'carol', '--timeout', '600', '--root', root])
    const [request] = await until(async () => {
      const found = await open(root)
      return found.length > 0 && found
    })
    const now = await contested(root, request?.id ?? '')
    ended.push(now)
    expect([now.status, (await down).code]).toEqual([now.status, now.status === 'approved' ? 0 : 5])
    if (now.status === 'approved') await teamOk(['restart', 'carol', '--root', root])
  }
  const merged = ended.filter(({ type, status }) => type === 'merge_request' && status === 'approved')
  await until(async () => (await all(root)).filter(one => one.effect?.outcome === 'ok').length >= merged.length)
  await teamOk(['down', '--force', '--root', root])
  const trunk = repo.git('--git-dir', `${root}/.team/hub.git`, 'log', '--format=%s', 'team/trunk').split('\n')
  expect(trunk.filter(subject => subject.startsWith('work-'))).toHaveLength(merged.length)
  for (const event of ['request.decided', 'effect.intent', 'effect.done']) {
    const ids = journalOf(root).flatMap(entry => (entry.event === event ? [String(entry.info?.request)] : []))
    expect([event, ids.length]).toEqual([event, new Set(ids).size])
  }
})
