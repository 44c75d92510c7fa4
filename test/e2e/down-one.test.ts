import { expect, test } from 'vitest'
import { statusOf, team, teamOk, teamRoot, until } from '../support/cli.ts'
import { journalOf, killDaemon } from '../support/daemon.ts'

const stateOf = async (root: string, name: string) =>
  (await statusOf(root)).teammates.find(mate => mate.name === name)?.state

test('down with a name stops that teammate alone, over restarts of the daemon, until team restart', async () => {
  const root = teamRoot({ teammates: [{ name: 'alice' }, { name: 'bob' }] })
  await teamOk(['up', '-d', '--root', root])
  const unknown = await team(['down', 'bobb', '--root', root])
  expect([unknown.code, unknown.stderr]).toEqual([4, expect.stringContaining('did you mean bob?')])
  await expect.poll(() => stateOf(root, 'bob'), { timeout: 45_000 }).toBe('idle')
  expect(await teamOk(['down', 'bob', '--root', root])).toContain('bob: was idle, shut down')
  const states = async () => [await stateOf(root, 'alice'), await stateOf(root, 'bob')]
  await expect.poll(states, { timeout: 45_000 }).toEqual(['idle', 'stopped'])
  expect(await teamOk(['send', 'bob', 'hello', '--root', root])).toContain('queued for bob')
  await teamOk(['down', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  await expect.poll(states, { timeout: 45_000 }).toEqual(['idle', 'stopped'])
  await teamOk(['restart', 'bob', '--root', root])
  await expect.poll(() => stateOf(root, 'bob'), { timeout: 45_000 }).toBe('idle')
  await teamOk(['down', '--root', root])
})

test('killed as soon as one teammate agreed to stop, the next daemon leaves that one stopped, and starts the others', async () => {
  const root = teamRoot({ teammates: [{ name: 'alice' }, { name: 'bob' }] })
  const states = async () => [await stateOf(root, 'alice'), await stateOf(root, 'bob')]
  for (let round = 0; round < 3; round++) {
    await teamOk(['up', '-d', '--root', root])
    if (round > 0) await teamOk(['restart', 'bob', '--root', root])
    await expect.poll(states, { timeout: 45_000 }).toEqual(['idle', 'idle'])
    const down = team(['down', 'bob', '--root', root])
    await until(() => journalOf(root).filter(({ event }) => event === 'request.decided').length > round)
    await killDaemon(root)
    await down
    await teamOk(['up', '-d', '--root', root])
    await expect.poll(states, { timeout: 45_000 }).toEqual(['idle', 'stopped'])
    await killDaemon(root)
  }
})
