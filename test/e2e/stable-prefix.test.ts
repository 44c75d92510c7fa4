import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { teamOk, until } from '../support/cli.ts'
import { ask, heard, killed, quiet, type ScriptedTeam, scriptedTeam } from '../support/scripted-team.ts'

/** Rules and a skill, so that every section of the prefix says something. */
const furnish = (root: string): void => {
  const write = (path: string, text: string): void => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  write('team/AGENTS.md', '# Rules\nSay „Grüß Gott“ first.\n')
  write('team/skills/tidy/SKILL.md', '---\nname: tidy\ndescription: How to tidy up\n---\nBODY OF TIDY\n')
}

/** What stands before the conversation, byte for byte as it came over the wire: the schemas of the tools, then the system message. */
const prefixOf = (body: string): string => {
  const { messages } = JSON.parse(body)
  expect(messages[0].role).toBe('system')
  const system = `"messages":[${JSON.stringify(messages[0])}`
  const at = body.indexOf(system)
  expect(at).toBeGreaterThan(0)
  return body.slice(0, at + system.length)
}

/** A body without what follows its conversation. */
const conversationOf = (body: string): string => body.slice(0, body.lastIndexOf('],"stream":'))

const bodiesOf = ({ server }: ScriptedTeam, name: string): string[] =>
  server.bodies.filter((_, n) => server.requests[n]?.model === name)

test('the prefix is the same bytes in turns 1 to 8, and after a restart of the thread and of the daemon; each request begins with the one before it', async () => {
  const crew = await scriptedTeam({
    alice: (_request, n) => (n % 2 === 0 ? { calls: [{ name: 'ls', args: {} }] } : `Turn done, ${n}.`),
  })
  furnish(crew.root)
  const daemon = await crew.up()
  const turn = async (said: string): Promise<void> => {
    await ask(crew.root, 'message.send', { to: 'alice', content: said })
    await until(() => crew.requests('alice').some(request => heard(request).includes(said)))
    await quiet(crew.root, 'alice')
  }
  for (let n = 1; n <= 8; n++) await turn(`message ${n}`)
  await teamOk(['down', 'alice', '--root', crew.root])
  await teamOk(['restart', 'alice', '--root', crew.root])
  await turn('after a restart of the thread')
  await killed(daemon)
  await crew.up()
  await turn('after a restart of the daemon')
  const bodies = bodiesOf(crew, 'alice')
  expect(bodies.length).toBeGreaterThanOrEqual(20)
  expect(new Set(bodies.map(prefixOf)).size).toBe(1)
  const prefix = prefixOf(bodies[0] ?? '')
  for (const part of ['Grüß Gott', 'tidy: How to tidy up', 'You are alice', '"name":"write_file"'])
    expect(prefix).toContain(part)
  expect(prefix).not.toContain('BODY OF TIDY')
  for (const [n, body] of bodies.entries())
    if (n > 0) expect(body.startsWith(conversationOf(bodies[n - 1] ?? '')), `request ${n + 1}`).toBe(true)
})

test('eight teammates of one role have the same tools and the same system message, but for the line that names them', async () => {
  const crew = await scriptedTeam(
    {},
    { teammates: [{ name: 'w', role: 'tester', system_prompt: 'Try everything.', count: 8 }, { name: 'boss' }] },
  )
  furnish(crew.root)
  await crew.up()
  const names = Array.from({ length: 8 }, (_, n) => `w-${n + 1}`)
  await ask(crew.root, 'message.send', { to: 'all', content: 'hello' })
  await quiet(crew.root, 'boss', ...names)
  const prefixes = bodiesOf(crew, 'w').map(prefixOf)
  const named = (prefix: string): string => /## You\\nYou are ([\w-]+), tester\./.exec(prefix)?.[1] ?? ''
  expect([...new Set(prefixes.map(named))].sort()).toEqual(names)
  const own = (name: string): string => `## You\\nYou are ${name}, tester."}`
  const shared = prefixes.map(prefix => {
    const end = own(named(prefix))
    expect(prefix.endsWith(end)).toBe(true)
    return prefix.slice(0, -end.length)
  })
  expect(new Set(shared).size).toBe(1)
  expect(shared[0]).toMatch(/Grüß Gott.*- w-1: tester.*- w-8: tester.*tidy: .*Try everything\./)
  // Another role has the same beginning too, up to where the role is told.
  const boss = prefixOf(bodiesOf(crew, 'boss')[0] ?? '').replace('"model":"boss"', '"model":"w"')
  const common = (shared[0] ?? '').slice(0, (shared[0] ?? '').indexOf('## Your role'))
  expect(boss.startsWith(common)).toBe(true)
})
