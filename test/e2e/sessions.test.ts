import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, test } from 'vitest'
import { team, teamOk, teamRoot, until } from '../support/cli.ts'
import { ask, heard, killed, quiet, scriptedTeam } from '../support/scripted-team.ts'

test('replay shows what a teammate was told, said and did, turn by turn', async () => {
  const crew = await scriptedTeam({
    alice: (_request, n) => (n === 0 ? { calls: [{ name: 'ls', args: {} }] } : `Words ${n}.`),
  })
  await crew.up()
  await ask(crew.root, 'message.send', { to: 'alice', content: 'look around' })
  await quiet(crew.root, 'alice')
  await ask(crew.root, 'message.send', { to: 'alice', content: 'and again' })
  await quiet(crew.root, 'alice')
  const all = await teamOk(['replay', 'alice', '--root', crew.root])
  expect(all).toMatch(/turn 1[\s\S]*look around[\s\S]*ls \{\}[\s\S]*✓ ls[\s\S]*Words 1\.[\s\S]*turn 2[\s\S]*and again/)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: no colour in a pipe
  expect(all).not.toMatch(/\u001b/)
  const one = await teamOk(['replay', 'alice', '--turn', '2', '--root', crew.root])
  expect(one).toContain('and again')
  expect(one).not.toContain('look around')
  const lines = (await teamOk(['replay', 'alice', '--json', '--root', crew.root])).trim().split('\n')
  expect(lines.map(line => JSON.parse(line).k)).toContain('tool.result')
  expect((await team(['replay', 'alise', '--root', crew.root])).code).toBe(4)
  const verify = () => team(['replay', 'alice', '--verify', '--root', crew.root])
  expect(await verify()).toMatchObject({ code: 0, stdout: expect.stringMatching(/^3 model calls of alice: each/) })
  const file = join(crew.root, '.team', 'sessions', 'alice.jsonl')
  writeFileSync(file, readFileSync(file, 'utf8').replace('Words 1.', 'Words I.'))
  // What was answered to the first message is part of what was sent with the second.
  expect(await verify()).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^turn 2, model call 3 of alice: another context .* 2 came out the same/),
  })
})

test('prefix weighs every part, and ends with 1 above the bound; the default one is within 1,500 tokens', async () => {
  const root = teamRoot({ teammates: [{ name: 'alice' }, { name: 'bob' }] })
  expect((await team(['prefix', '--max', '1500', '--root', root])).code).toBe(0)
  const small = JSON.parse(await teamOk(['prefix', 'alice', '--json', '--root', root]))
  mkdirSync(join(root, 'team', 'alice'), { recursive: true })
  writeFileSync(join(root, 'team', 'alice', 'AGENTS.md'), 'Be brief. '.repeat(1000))
  const [alice] = JSON.parse(await teamOk(['prefix', 'alice', '--json', '--root', root]))
  expect(alice.bytes - small[0].bytes).toBe('Be brief. '.length * 1000 - 1 + '## Rules for you\n'.length)
  expect(alice.parts.map((each: { part: string }) => each.part)).toEqual([
    'ground rules',
    'team',
    'own rules',
    'you',
    'tools',
  ])
  const heavy = await team(['prefix', '--max', '1500', '--root', root])
  expect(heavy).toMatchObject({ code: 1, stderr: expect.stringMatching(/alice has \d+ tokens, more than 1500/) })
  expect(heavy.stderr).not.toContain('bob has')
  expect((await team(['prefix', 'carol', '--root', root])).code).toBe(4)
  expect((await team(['prefix', '--max', 'x', '--root', root])).code).toBe(2)
})

test('prefix counts tokens as o200k has them, what looks like a token of control counted as the text it is', async () => {
  const root = teamRoot({ teammates: [{ name: 'alice', tools: ['ls'], system_prompt: 'x' }] })
  const tokens = async () => {
    const [alice] = JSON.parse(await teamOk(['prefix', '--json', '--root', root]))
    return alice.parts.find((each: { part: string }) => each.part === 'own rules')?.tokens ?? 0
  }
  mkdirSync(join(root, 'team', 'alice'), { recursive: true })
  const rules = async (text: string) => {
    writeFileSync(join(root, 'team', 'alice', 'AGENTS.md'), text)
    return await tokens()
  }
  for (const text of ['hello hello hello', 'see <|endoftext|>', '每个成员都有自己的收件箱', 'x'.repeat(20_000)])
    expect(await rules(text), text.slice(0, 40)).toBe(
      countTokens(`## Rules for you\n${text}`, { disallowedSpecial: new Set() }),
    )
})

test('the team that init makes is within 1,500 tokens', async () => {
  const root = join(teamRoot(), 'new')
  await teamOk(['init', root, '--yes'])
  const weighed = await team(['prefix', '--max', '1500', '--root', root])
  expect(weighed).toMatchObject({ code: 0, stdout: expect.stringMatching(/together .* tokens[\s\S]*together/) })
})

test('NO_COLOR takes colours away, FORCE_COLOR gives them to a pipe', async () => {
  const root = teamRoot()
  const coloured = async (env: Record<string, string>, ...more: string[]) =>
    (await team(['prefix', '--root', root, ...more], { env })).stdout.includes('\u001b')
  expect(await coloured({})).toBe(false)
  expect(await coloured({ FORCE_COLOR: '1' })).toBe(true)
  expect(await coloured({ FORCE_COLOR: '0' })).toBe(false)
  expect(await coloured({ FORCE_COLOR: '1', NO_COLOR: '1' })).toBe(false)
  expect(await coloured({ FORCE_COLOR: '1' }, '--no-color')).toBe(false)
})

test('sessions removed under a running team are written anew, and the context outlives kill -9; removed under none, it is told', async () => {
  const crew = await scriptedTeam({ alice: (_request, n) => `Words ${n}.` })
  const { root } = crew
  const said = async (word: string) => {
    const before = crew.requests('alice').length
    await ask(root, 'message.send', { to: 'alice', content: word })
    await until(() => crew.requests('alice').length > before)
    await quiet(root, 'alice')
    return heard(crew.requests('alice').at(-1))
  }
  const first = await crew.up()
  await said('word-one')
  rmSync(join(root, '.team', 'sessions'), { recursive: true })
  await said('word-two')
  await killed(first)
  await crew.up()
  expect(await said('word-three')).toMatch(/word-one[\s\S]*word-two[\s\S]*word-three/)
  expect(await teamOk(['logs', '--root', root])).toMatch(/sessions\/alice\.jsonl was removed.*written anew/)
  await teamOk(['down', '--root', root])
  rmSync(join(root, '.team', 'sessions'), { recursive: true })
  await crew.up()
  expect(await said('word-four')).not.toContain('word-three')
  expect(await teamOk(['logs', '--root', root])).toContain('the session of alice is gone')
})
