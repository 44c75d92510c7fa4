import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusOf, teamOk, until } from '../support/cli.ts'
import { gate, killed, quiet, scriptedTeam } from '../support/scripted-team.ts'

const names = ['alice', 'bob', 'carol']

test('limits.modelCalls: one at a time over the whole team, in turn; who waits is shown; a kill gives no place away for ever; a higher limit holds at once', async () => {
  let under = 0
  let most = 0
  const asked: string[] = []
  const held = [gate(), gate()]
  const answer = (name: string) => async () => {
    most = Math.max(most, ++under)
    asked.push(name)
    await held[asked.length - 1]?.opened
    under--
    return 'Here.'
  }
  const crew = await scriptedTeam(Object.fromEntries(names.map(name => [name, answer(name)])), {
    limits: { modelCalls: 1 },
  })
  const child = await crew.up()
  await teamOk(['send', 'all', 'Who is there?', '--root', crew.root])
  await until(() => asked.length >= 1)
  const waiting = async () =>
    (await statusOf(crew.root)).teammates.filter(mate => mate.waiting?.what.includes('limits.modelCalls')).length
  await until(async () => (await waiting()) >= 2)
  await killed(child)
  held[0]?.open()
  most = 0
  await crew.up()
  // Those of before the kill ask again; the one that is held now keeps the others out.
  await until(() => asked.length >= 2)
  await until(async () => (await waiting()) >= 2)
  expect(most).toBe(1)
  const file = join(crew.root, 'config.json')
  writeFileSync(file, readFileSync(file, 'utf8').replace('"modelCalls":1', '"modelCalls":3'))
  await until(() => asked.length >= 4)
  held[1]?.open()
  for (const name of names) await quiet(crew.root, name)
  expect(most).toBeGreaterThan(1)
  expect([...new Set(asked)].sort()).toEqual(names)
})

test('F11 a usage limit with a stated end: the whole team waits until then, shown as such, and sends nothing meanwhile; it can be stopped', async () => {
  const limit = { type: 'usage_limit_reached', message: 'The usage limit has been reached', resets_in_seconds: 3600 }
  const crew = await scriptedTeam({
    alice: () => ({ status: 429, body: { error: limit } }),
    bob: () => 'Here.',
  })
  await crew.up()
  await teamOk(['send', 'alice', 'Hello?', '--root', crew.root])
  const waiting = async (name: string) =>
    (await statusOf(crew.root)).teammates.find(mate => mate.name === name)?.waiting ?? false
  const inAnHour = (time: string | undefined) => Math.abs(Date.parse(time ?? '') - Date.now() - 3_600_000) < 300_000
  expect(await until(() => waiting('alice'))).toMatchObject({
    what: expect.stringContaining('usage limit'),
    until: expect.toSatisfy(inAnHour),
  })
  await teamOk(['send', 'bob', 'And you?', '--root', crew.root])
  expect(await until(() => waiting('bob'))).toMatchObject({
    what: expect.stringContaining('asked all of the team to wait'),
    until: expect.toSatisfy(inAnHour),
  })
  expect(await teamOk(['status', '--root', crew.root])).toMatch(/waits for the model .* until \d/)
  expect(crew.server.requests).toHaveLength(1)
  expect(await teamOk(['down', '--root', crew.root])).toMatch(/alice/)
})
