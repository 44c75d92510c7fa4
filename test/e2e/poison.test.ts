import { expect, test } from 'vitest'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'
import { ended, says, start, teamOk, until } from '../support/cli.ts'
import { call, journalOf, killDaemon, running, silence, sinceTask } from '../support/daemon.ts'
import { gate, inboxOf, type ScriptedTeam, scriptedTeam, status } from '../support/scripted-team.ts'

const env = { TEAM_PARENT: 'on' }
const deaths = (root: string) =>
  journalOf(root).flatMap(({ event, info }) => (event === 'task.death' ? [info ?? {}] : []))
/** Null while no daemon runs. */
const seen = (root: string) => status(root).catch(() => null)
const taskOf = async (root: string, id: string) => (await seen(root))?.tasks.find(each => each.id === id)
const pidOf = async (root: string) => (await status(root)).holder?.pid
const stateOf = async (root: string, id: string) => (await taskOf(root, id))?.status

/** Completes what it is given, but for a task called Poison: that is answered by `poison`. */
const worker =
  (poison: (request: ScriptedRequest) => Reply | Promise<Reply>) =>
  (request: ScriptedRequest): Reply | Promise<Reply> => {
    const at = sinceTask(request)
    if (!at) return 'Read.'
    if (at.text.includes('Poison')) return poison(request)
    return at.results.length === 0 ? call('task', { action: 'complete', summary: 'done' }) : 'done'
  }

/** So long an answer that a small heap cannot take it in. */
const flood: Reply = {
  raw: `data: ${JSON.stringify({
    choices: [{ index: 0, delta: { content: 'y '.repeat(3_900_000) }, finish_reason: 'stop' }],
  })}\n\ndata: [DONE]\n\n`,
}

const toldOf = async (team: ScriptedTeam, name: string, id: string) =>
  (await inboxOf(team.root, name)).items.filter(({ stored }) => stored.message.content.startsWith(`Task ${id} "`))

test('a task whose answer blows its teammate’s heap is failed at the third death, told once; the team works on, and a retry counts anew', async () => {
  let isPoison = true
  const work = worker(() => (isPoison ? flood : call('task', { action: 'complete', summary: 'tame' })))
  const team = await scriptedTeam(
    { boss: () => 'Read.', alice: work, bob: work },
    {
      lead: 'boss',
      teammates: [{ name: 'boss', autoClaim: false }, { name: 'alice' }, { name: 'bob' }],
      limits: { heapMb: 24, restarts: 2 },
    },
  )
  const { root } = team
  await teamOk(['task', 'add', 'Poison', '--root', root])
  await teamOk(['task', 'add', 'After it', '--after', '1', '--root', root])
  const parent = start(['up', '--root', root], { env })
  await says(parent, /ready, pid/)
  const pid = await pidOf(root)
  for (const n of [3, 4, 5]) await teamOk(['task', 'add', `Task ${n}`, '--root', root])
  await until(async () => (await stateOf(root, '1')) === 'failed', 60_000)
  const { tasks, teammates, problems } = await until(async () => {
    const now = await status(root)
    return ['3', '4', '5'].every(id => now.tasks.find(task => task.id === id)?.status === 'completed') && now
  })
  expect(deaths(root).map(({ task, deaths: n, why }) => [task, n, why])).toEqual(
    [1, 2, 3].map(n => ['1', n, 'its heap grew over the limit']),
  )
  const error = tasks.find(({ id }) => id === '1')?.error
  expect(error).toMatch(/^it was in hand at 3 deaths .*: (\w+ at \d{4}-\S+, its heap grew over the limit(; )?){3}$/)
  expect(tasks.find(({ id }) => id === '2')).toMatchObject({ shown: 'blocked', why: 'by 1 (failed)' })
  expect(problems).toContainEqual(expect.stringContaining('task 1 "Poison" failed: it was in hand at 3 deaths'))
  // Nobody was given up for it, although so many restarts are not allowed of one that dies by itself.
  expect(teammates.map(({ state }) => state)).not.toContain('failed')
  for (const name of ['boss', 'user']) expect(await toldOf(team, name, '1')).toHaveLength(1)
  expect(await pidOf(root)).toBe(pid)
  isPoison = false
  await teamOk(['task', 'retry', '1', '--root', root])
  await until(async () => (await stateOf(root, '2')) === 'completed')
  expect(deaths(root).at(-1)).toEqual({ task: '1', forgiven: true })
  await teamOk(['down', '--root', root])
  expect(await ended(parent)).toBe(0)
  expect(running(root)).toEqual([])
})

test('a task that ends the daemon is found among two in hand, each tried alone, and failed; a kill -9 counts for nothing, and the parent goes on', async () => {
  const armed = gate()
  const team = await scriptedTeam(
    {
      alice: worker(async () => {
        await armed.opened
        return call('bash', { command: `kill -ABRT ${await pidOf(team.root)}` })
      }),
      bob: request => {
        const at = sinceTask(request)
        if (!at) return 'Read.'
        if (deaths(team.root).length === 0) return silence()
        return at.results.length === 0 ? call('task', { action: 'complete', summary: 'done' }) : 'done'
      },
    },
    { limits: { deaths: 1 }, permissions: { allow: ['kill *'] } },
  )
  const { root } = team
  await teamOk(['task', 'add', 'Poison', '--assignee', 'alice', '--path', 'a', '--root', root])
  await teamOk(['task', 'add', 'Innocent', '--assignee', 'bob', '--path', 'b', '--root', root])
  const parent = start(['up', '--root', root], { env })
  await says(parent, /ready, pid/)
  const asked = (name: string) => team.requests(name).filter(request => sinceTask(request) !== null).length
  await until(() => asked('alice') > 0 && asked('bob') > 0)
  await killDaemon(root)
  await says(parent, /died \(SIGKILL\)/, 'stderr')
  await until(() => asked('alice') > 1 && asked('bob') > 1)
  expect(deaths(root)).toEqual([])
  // Bob's is in hand, and silent, when alice's ends the daemon.
  armed.open()
  await until(async () => (await stateOf(root, '1')) === 'failed', 60_000)
  await until(async () => (await stateOf(root, '2')) === 'completed')
  expect((await taskOf(root, '1'))?.error).toMatch(
    /^it was in hand at 1 death .*: alice at \S+, the daemon died \(SIGABRT\)$/,
  )
  expect((await taskOf(root, '2'))?.attempts).toBe(1)
  const noted = deaths(root)
  expect(noted.filter(({ suspected }) => suspected !== undefined).map(({ task }) => task)).toEqual(['1', '2'])
  expect(noted.filter(({ deaths: n }) => n !== undefined).map(({ task }) => task)).toEqual(['1'])
  await teamOk(['task', 'add', 'One more', '--assignee', 'bob', '--root', root])
  await until(async () => (await stateOf(root, '3')) === 'completed')
  await teamOk(['down', '--root', root])
  expect(await ended(parent)).toBe(0)
  expect(running(root)).toEqual([])
})
