import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { cleanEnv, command, ended, team as run, says, teamOk, tempFolder, until } from '../support/cli.ts'
import { ask, gate, lastSaid, type Script, scriptedTeam, status, taken } from '../support/scripted-team.ts'

const hour = 3_600_000

/** A wall clock that a test steps: of the process that is started with these arguments of node, and of its threads. */
const steppedClock = () => {
  const folder = tempFolder()
  const offset = join(folder, 'offset')
  const preload = join(folder, 'clock.cjs')
  writeFileSync(offset, '0')
  writeFileSync(
    preload,
    `const { readFileSync } = require('node:fs')
const Real = Date
const now = () => Real.now() + Number(readFileSync(${JSON.stringify(offset)}, 'utf8'))
globalThis.Date = class extends Real {
  constructor(...args) { super(...(args.length === 0 ? [now()] : args)) }
  static now() { return now() }
}
`,
  )
  return { args: ['--require', preload], step: (ms: number) => writeFileSync(offset, String(ms)) }
}

const lease = (name: string, seconds: number): Reply => ({
  calls: [
    {
      name: 'request',
      args: { action: 'open', type: 'resource_request', data: { kind: 'name', what: [name], seconds } },
    },
  ],
})

test('J09 a clock that jumps an hour ahead and then two back ends no request, lease, decision or call early, and keeps none alive', async () => {
  const answer = gate()
  const takes: Script = request => {
    const [, name, seconds] = /take (\w+) for (\d+)/.exec(lastSaid(request)) ?? []
    return request.messages.at(-1)?.role !== 'tool' && name ? lease(name, Number(seconds)) : 'Read.'
  }
  const team = await scriptedTeam(
    {
      alice: request =>
        request.messages.at(-1)?.role !== 'tool' && lastSaid(request).includes('what now')
          ? { calls: [{ name: 'ask_user', args: { question: 'Tabs?' } }] }
          : takes(request, 0),
      bob: async (_, n) => {
        if (n > 0) return 'Read.'
        await answer.opened
        return { calls: [{ name: 'task', args: { action: 'complete', summary: 'thought' } }] }
      },
      carol: takes,
    },
    { mode: 'dir', limits: { modelIdleSeconds: 600, heartbeatSeconds: 600 } },
  )
  const { root } = team
  const wall = steppedClock()
  const daemon = spawn(process.execPath, [...wall.args, command, 'up', '--root', root], {
    env: cleanEnv(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  await says(daemon, /ready, pid/)
  const tell = (name: string, text: string) => teamOk(['send', name, text, '--root', root])
  const find = async (title: string) =>
    (await ask(root, 'request.list', { all: true })).requests.find(request => request.title.includes(title))
  const held = async (name: string) => (await find(name))?.effect?.step === 'intent'

  // Under way: a lease, a question, a call of the model, and a shutdown that has a deadline.
  await tell('alice', 'take long for 3000')
  await until(() => held('long'))
  await tell('alice', 'what now')
  await until(async () => (await find('Tabs'))?.status === 'pending')
  await teamOk(['task', 'add', 'Think', '--assignee', 'bob', '--root', root])
  await until(() => team.requests('bob').length >= 1)
  const down = run(['down', 'bob', '--timeout', '1800', '--root', root])
  await until(async () => (await find('shut down, bob'))?.status === 'pending')

  const stamps: string[] = []
  for (const [name, offset] of [
    ['ahead', hour],
    ['back', -hour],
  ] as const) {
    wall.step(offset)
    // One that is given after the step ends when its second is over, so time went on for all the others as well.
    await tell('carol', `take ${name} for 1`)
    await until(async () => (await find(name))?.effect?.step === 'done')
    stamps.push((await find(name))?.createdAt ?? '')
    expect(await held('long')).toBe(true)
    expect((await find('Tabs'))?.outcome).toBeNull()
    expect((await find('shut down, bob'))?.outcome).toBeNull()
    expect(team.requests('bob')).toHaveLength(1)
    expect((await status(root)).teammates.map(mate => mate.restarts)).toEqual([0, 0, 0])
  }
  // The daemon's clock did jump.
  const [ahead, back] = stamps.map(stamp => Date.parse(stamp))
  expect((ahead ?? 0) - (back ?? 0)).toBeGreaterThan(hour)

  // Everything goes on, and mail stands in the order in which it was sent.
  await teamOk(['answer', (await find('Tabs'))?.id ?? '', 'Tabs.', '--root', root])
  await until(() => taken(root, 'alice').some(mail => mail.content.includes('Tabs.')))
  answer.open()
  expect((await down).code).toBe(0)
  await until(async () => (await ask(root, 'task.get', { id: '1' })).task.status === 'completed')
  expect(
    taken(root, 'carol')
      .map(mail => mail.content)
      .filter(text => text.startsWith('take')),
  ).toEqual(['take ahead for 1', 'take back for 1'])
  await teamOk(['down', '--root', root])
  expect(await ended(daemon)).toBe(0)
})
