import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { ended, start, statusOf, teamOk, until } from '../support/cli.ts'
import { gitTeamOf, model } from '../support/daemon.ts'
import { ask, gate, journal, killed, type Script, scriptedTeam } from '../support/scripted-team.ts'

type Config = { teammates: { name: string }[]; permissions?: object }
const edit = (root: string, change: (config: Config) => void): void => {
  const file = join(root, 'config.json')
  const config = JSON.parse(readFileSync(file, 'utf8')) as Config
  change(config)
  writeFileSync(file, JSON.stringify(config))
}
const bash = (command: string): Reply => ({ calls: [{ name: 'bash', args: { command } }] })

test('what an edit of permissions forbids binds from the next command on, in the middle of a task', async () => {
  const results: string[] = []
  const gates = [gate(), gate()]
  const alice: Script = async (request, n) => {
    const last = request.messages.findLast(({ role }) => role === 'tool')
    if (last) results.push(String(last.content).split('\n')[0] ?? '')
    if (n === 1) await gates[0]?.opened
    if (n === 2) await gates[1]?.opened
    return bash(`mkdir d${n}`)
  }
  const team = await scriptedTeam({ alice }, { permissions: { allow: ['mkdir *'] } })
  await teamOk(['task', 'add', 'Make folders', '--root', team.root])
  const daemon = await team.up()
  await until(() => team.requests('alice').length >= 2)
  edit(team.root, config => {
    config.permissions = { allow: ['mkdir *'], deny: ['mkdir *'] }
  })
  await until(async () => (await journal(team.root)).some(({ event }) => event === 'config.changed'))
  gates[0]?.open()
  await until(() => team.requests('alice').length >= 3)
  const { pendingChanges } = await ask(team.root, 'status', {})
  expect(pendingChanges.join('\n')).toMatch(
    /alice: permissions changed .* what permissions forbid binds from its next command on/,
  )
  // A rule that is taken away: what nothing allows any more is asked for.
  edit(team.root, config => {
    config.permissions = { allow: ['true'] }
  })
  await until(async () => (await journal(team.root)).filter(({ event }) => event === 'config.changed').length === 2)
  gates[1]?.open()
  await until(async () => (await ask(team.root, 'request.list', {})).requests.length >= 1)
  expect(results.slice(0, 2)).toEqual([expect.stringMatching(/^exit 0/), expect.stringMatching(/^error: denied: /)])
  await killed(daemon)
})

test('an edit takes effect while the first set-up of another hangs, and one about that teammate when it ends', async () => {
  const { root } = gitTeamOf(await model(() => 'fine'), { teammates: [{ name: 'alice' }] })
  const hold = join(root, 'hold')
  writeFileSync(hold, '')
  edit(root, config => {
    Object.assign(config, {
      setup: `if [ -e ${hold} ]; then echo > ${hold}.on; while [ -e ${hold}.on ]; do sleep 0.1; done; fi`,
    })
  })
  const child = start(['up', '--root', root])
  const mates = async () =>
    (await statusOf(root).catch(() => null))?.teammates.map(({ name, state }) => `${name} ${state}`).join()
  await until(async () => (await mates()) === 'alice starting')
  await until(() => existsSync(`${hold}.on`))
  rmSync(hold)
  edit(root, config => config.teammates.push({ name: 'carol' }))
  await until(async () => (await mates()) === 'alice starting,carol idle', 45_000)
  edit(root, config => config.teammates.shift())
  await until(async () => (await statusOf(root)).teammates.length === 2)
  rmSync(`${hold}.on`)
  await until(async () => (await mates()) === 'carol idle', 45_000)
  await teamOk(['down', '--force', '--root', root])
  await ended(child)
})
