import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'
import { teamOk, until } from '../support/cli.ts'
import { ask, gate, journal, killed, type Script, scriptedTeam, status } from '../support/scripted-team.ts'

const isSub = (request: ScriptedRequest): boolean => /^You are a subagent/.test(request.messages[0]?.content ?? '')
const usage = { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010 }
const results = (request: ScriptedRequest | undefined): string[] =>
  request?.messages.flatMap(each => (each.role === 'tool' ? [each.content ?? ''] : [])) ?? []
const gives = (...prompts: string[]): Reply => ({
  calls: prompts.map(prompt => ({ name: 'subagent', args: { prompt } })),
  usage,
})
const ends: Reply = { calls: [{ name: 'task', args: { action: 'complete', summary: 'did it' } }], usage }

/** Gives out the prompts of its first answer, and claims its task done when it has the results. */
const teammate =
  (prompts: readonly string[], sub: Script): Script =>
  (request, n) => {
    if (isSub(request)) return sub(request, n)
    const said = results(request)
    if (said.length === 0) return gives(...prompts)
    return said.some(text => text.includes('is claimed done')) ? { text: 'Done.', usage } : ends
  }
const ended = (root: string) =>
  until(async () => {
    const { task } = await ask(root, 'task.get', { id: '1' })
    return ['completed', 'failed'].includes(task.status) && task
  }, 45_000)
const subagentTranscripts = (root: string): string[] => {
  const folder = join(root, '.transcripts')
  return existsSync(folder) ? readdirSync(folder).filter(name => name.includes('_task-subagent')) : []
}

test('three work side by side, see nothing of their teammate, and what they used is its own and its task’s', async () => {
  const all = gate()
  let atOnce = 0
  const sub: Script = async request => {
    if (results(request).length === 0) return { calls: [{ name: 'bash', args: { command: 'echo seen' } }], usage }
    // None is answered before all of them are asked: they overlap, or this never ends.
    if (++atOnce === 3) all.open()
    await all.opened
    return { text: `found by ${request.messages[1]?.content}`, usage }
  }
  const prompts = ['look in the docs', 'look in the tests', 'look in the sources']
  const crew = await scriptedTeam(
    { alice: teammate(prompts, sub) },
    { permissions: { allow: ['*', '* *'] }, budget: { task: { tokens: 1_000_000 } } },
  )
  const { root } = crew
  await crew.up()
  await teamOk(['task', 'add', 'Find the pearl of SECRET ISLAND', '--root', root])
  await ended(root)
  const subs = crew.requests('alice').filter(isSub)
  expect(subs).toHaveLength(6)
  for (const request of subs) {
    expect(request.messages[1]).toEqual({ role: 'user', content: expect.stringMatching(/^look in the \w+$/) })
    expect(JSON.stringify(request.messages)).not.toMatch(/SECRET ISLAND|<task/)
    expect(request.tools?.map(tool => tool.function.name)).toEqual([
      'bash',
      'edit_file',
      'grep',
      'ls',
      'read_file',
      'write_file',
    ])
  }
  const own = crew.requests('alice').filter(request => !isSub(request))
  expect(results(own[1])).toEqual(prompts.map(prompt => `found by ${prompt}`))
  // Nine calls: six of the subagents, and the teammate's three; each counted once.
  const counted = { input: 9000, output: 90, calls: 9 }
  await until(async () => (await status(root)).teammates[0]?.tokens?.calls === 9)
  const { used, teammates } = await status(root)
  expect(teammates[0]?.tokens).toMatchObject(counted)
  expect(used.work.calls + used.coordination.calls).toBe(9)
  const shown = JSON.parse(await teamOk(['task', 'show', '1', '--json', '--root', root]))
  expect(shown.used.work.calls).toBeGreaterThanOrEqual(7)
  expect(await teamOk(['task', 'show', '1', '--root', root])).toMatch(/tokens +work [^\n]*\d/)
  expect(await teamOk(['replay', 'alice', '--verify', '--root', root])).toContain('3 model calls of alice: each')
  expect(await teamOk(['replay', 'alice', '--root', root])).toMatch(/its subagent \w+ says/)
  const calls = (await journal(root)).filter(({ event }) => event === 'model.call')
  expect(new Set(calls.map(({ info }) => info?.sub)).size).toBe(4)
  expect(subagentTranscripts(root)).toHaveLength(3)
  expect(readdirSync(join(root, '.team', 'sessions'))).toEqual(['alice.jsonl'])
  expect(await teamOk(['logs', '--root', root])).toMatch(/had work done by its subagent \w+ \(ended\)/)
})

test('at a cap the subagent ends and its teammate waits; approved, it goes on with what came of it', async () => {
  const sub: Script = () => ({ text: 'I read on.', calls: [{ name: 'ls', args: {} }], usage })
  const crew = await scriptedTeam({ alice: teammate(['read all of it'], sub) }, { budget: { team: { tokens: 6000 } } })
  const { root } = crew
  const first = await crew.up()
  await teamOk(['task', 'add', 'Read', '--root', root])
  const waits = () =>
    until(async () => {
      const [alice] = (await status(root)).teammates
      return alice?.state === 'waiting' && alice.waiting
    }, 45_000)
  expect(await waits()).toMatchObject({ whom: 'human', request: 'req_1' })
  const asked = crew.requests('alice').length
  // Not one call went past the cap, and over a crash it waits on and calls nothing.
  expect((await status(root)).teammates[0]?.tokens).toMatchObject({ calls: asked, input: asked * 1000 })
  expect(asked * 1010).toBeLessThanOrEqual(6000)
  await killed(first)
  await crew.up()
  await waits()
  expect(crew.requests('alice')).toHaveLength(asked)
  await teamOk(['approve', 'req_1', '--root', root])
  expect((await ended(root)).status).toBe('completed')
  const own = crew.requests('alice').filter(request => !isSub(request))
  expect(results(own[1])[0]).toMatch(
    /^error: the subagent was ended: .* of 6,000 tokens of the budget of the team are used[^\n]*\nIt had said last:\nI read on\.$/,
  )
  expect(subagentTranscripts(root)).toHaveLength(1)
})

test('kill -9 while it works: the call is told as interrupted, nothing is run again, and what it used is counted', async () => {
  const sub: Script = () => ({ calls: [{ name: 'bash', args: { command: 'echo run >> ran; sleep 600' } }], usage })
  const crew = await scriptedTeam({ alice: teammate(['go to sleep'], sub) }, { permissions: { allow: ['*', '* *'] } })
  const { root } = crew
  const first = await crew.up()
  await teamOk(['task', 'add', 'Sleep', '--root', root])
  const ran = () => (existsSync(join(root, 'ran')) ? readFileSync(join(root, 'ran'), 'utf8') : '')
  await until(async () => ran() !== '')
  await killed(first)
  expect(readdirSync(join(root, '.team', 'sessions')).filter(name => name.includes('.sub-'))).toHaveLength(1)
  await crew.up()
  await ended(root)
  const own = crew.requests('alice').filter(request => !isSub(request))
  expect(results(own[1])[0]).toMatch(/^error: interrupted, outcome unknown/)
  expect(ran()).toBe('run\n')
  expect(crew.requests('alice').filter(isSub)).toHaveLength(1)
  const [saved = ''] = subagentTranscripts(root)
  expect(readFileSync(join(root, '.transcripts', saved), 'utf8')).toMatch(
    /cut off, with the thread[\s\S]*go to sleep[\s\S]*sleep 600/,
  )
  expect(readdirSync(join(root, '.team', 'sessions'))).toEqual(['alice.jsonl'])
  await until(async () => ((await status(root)).teammates[0]?.tokens?.calls ?? 0) >= 4)
  expect((await status(root)).teammates[0]?.tokens).toMatchObject({ calls: 4, input: 4000 })
})
