import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'
import { team, teamOk, until } from '../support/cli.ts'
import { ask, journal, killed, scriptedTeam } from '../support/scripted-team.ts'

/** Ends its task, and after that its turn. */
const done = ({ messages }: ScriptedRequest): Reply =>
  messages.at(-1)?.content?.includes('is claimed done')
    ? 'Done.'
    : { calls: [{ name: 'task', args: { action: 'complete', summary: 'done' } }] }
const ended = (root: string, id = '1') =>
  until(async () => {
    const { task } = await ask(root, 'task.get', { id })
    return ['completed', 'failed', 'cancelled'].includes(task.status) && task
  }, 45_000)
const refuse = (message: string): Reply => ({ status: 400, body: { error: { message } } })

test('a refused parameter is known to the whole team over kill -9, shown by doctor, and forgotten with its file', async () => {
  const alice = (request: ScriptedRequest): Reply =>
    'max_tokens' in request ? refuse("Unsupported parameter: 'max_tokens'") : done(request)
  const { root, up, requests } = await scriptedTeam(
    { alice },
    { teammates: [{ name: 'alice', model: { maxOutputTokens: 500 } }] },
  )
  const file = join(root, '.team', 'models.json')
  await teamOk(['task', 'add', 'One', '--root', root])
  let daemon = await up()
  await ended(root)
  await until(() => existsSync(file), 45_000)
  const refused = () => requests('alice').filter(request => 'max_tokens' in request).length
  expect(refused()).toBe(1)
  await until(async () => (await journal(root)).some(({ event }) => event === 'model.learned'), 45_000)
  expect(await teamOk(['logs', '--root', root])).toContain('max_completion_tokens')
  await killed(daemon)

  expect(await teamOk(['doctor', '--root', root])).toContain('max_completion_tokens (learned)')
  await teamOk(['task', 'add', 'Two', '--root', root])
  daemon = await up()
  await ended(root, '2')
  expect(refused()).toBe(1)
  await killed(daemon)

  // Half a file is told, and nothing waits for it; what it said is learned again.
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, 40))
  expect((await team(['doctor', '--root', root])).stdout).toContain('is damaged')
  await teamOk(['task', 'add', 'Three', '--root', root])
  daemon = await up()
  await ended(root, '3')
  expect(refused()).toBe(2)
  expect(
    (await journal(root)).some(({ event, info }) => event === 'warning' && /damaged/.test(String(info?.text))),
  ).toBe(true)
  await until(() => readFileSync(file, 'utf8').includes('max_completion_tokens'), 45_000)
  await killed(daemon)
  rmSync(file)
  expect(await teamOk(['doctor', '--root', root])).not.toContain('max_completion_tokens')
})
