import { expect, test } from 'vitest'
import { statusOf, team, teamOk, teamRoot } from '../support/cli.ts'

const stateOf = async (root: string, name: string) =>
  (await statusOf(root)).teammates.find(mate => mate.name === name)?.state

test('down with a name stops that teammate alone, over restarts of the daemon, until team restart', async () => {
  const root = teamRoot({ teammates: [{ name: 'alice' }, { name: 'bob' }] })
  await teamOk(['up', '-d', '--root', root])
  const unknown = await team(['down', 'bobb', '--root', root])
  expect([unknown.code, unknown.stderr]).toEqual([4, expect.stringContaining('did you mean bob?')])
  await expect.poll(() => stateOf(root, 'bob'), { timeout: 15_000 }).toBe('idle')
  expect(await teamOk(['down', 'bob', '--root', root])).toContain('bob: was idle, shut down')
  const states = async () => [await stateOf(root, 'alice'), await stateOf(root, 'bob')]
  await expect.poll(states, { timeout: 15_000 }).toEqual(['idle', 'stopped'])
  expect(await teamOk(['send', 'bob', 'hello', '--root', root])).toContain('queued for bob')
  await teamOk(['down', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  await expect.poll(states, { timeout: 15_000 }).toEqual(['idle', 'stopped'])
  await teamOk(['restart', 'bob', '--root', root])
  await expect.poll(() => stateOf(root, 'bob'), { timeout: 15_000 }).toBe('idle')
  await teamOk(['down', '--root', root])
})
