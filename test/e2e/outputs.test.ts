import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import * as z from 'zod'
import type { outputs } from '../../src/cli/outputs.ts'
import { team, teamOk, teamRoot, tempFolder, until } from '../support/cli.ts'
import { quiet, scriptedTeam, status } from '../support/scripted-team.ts'

/** What a program that only has the published file would say to an output. */
const fits = (name: keyof typeof outputs, output: string, lines = false): void => {
  const schema = z.fromJSONSchema(JSON.parse(readFileSync(`docs/json/${name}.schema.json`, 'utf8')))
  const values = lines ? output.trim().split('\n') : [output]
  expect(values.length).toBeGreaterThan(0)
  for (const value of values) {
    const parsed = schema.safeParse(JSON.parse(value))
    expect(parsed.success ? null : `${name}: ${JSON.stringify(parsed.error.issues)} in ${value}`).toBe(null)
  }
}

test('what --json prints is what its published schema says', async () => {
  const crew = await scriptedTeam({
    alice: (_request, n) => (n === 0 ? { calls: [{ name: 'ask_user', args: { question: 'Tabs?' } }] } : 'Good.'),
    bob: () => 'Read.',
  })
  const run = (...args: string[]) => teamOk([...args, '--json', '--root', crew.root])
  fits('task-add', await run('task', 'add', 'Indent', '--assignee', 'alice'))
  fits('status', await run('status'))
  await crew.up()
  await until(async () => (await status(crew.root)).requests.length === 1)
  fits('task-add', await run('task', 'add', 'Later', '--after', '1'))
  fits('status', await run('status'))
  fits('task-list', await run('task', 'list'))
  fits('task-show', await run('task', 'show', '1'))
  fits('task-graph', await run('task', 'graph'))
  fits('send', await run('send', 'all', 'hello'))
  await quiet(crew.root, 'bob')
  fits('inbox', await run('inbox', 'bob'))
  fits('inbox-sent', await run('inbox', '--sent'))
  fits('inbox-dead', await run('inbox', '--dead'))
  fits('requests', await run('requests'))
  fits('requests-one', await run('requests', '1'))
  fits('permissions', await run('permissions'))
  fits('logs', await run('logs'), true)
  fits('replay', await run('replay', 'alice'), true)
  fits('prefix', await run('prefix'))
  fits('doctor', (await team(['doctor', '--json', '--root', crew.root])).stdout)
  fits('down', await run('down', 'bob'))
})

test('a key that no schema knows is not let through, so that the check above means something', () => {
  const schema = z.fromJSONSchema(JSON.parse(readFileSync('docs/json/inbox-dead.schema.json', 'utf8')))
  expect(schema.safeParse([{ at: '', file: '', offset: 0, reason: '', line: '', more: 1 }]).success).toBe(false)
})

test('exit codes, command by command: wrong use 2, no team root 3, nobody by that name or id 4, no daemon 6', async () => {
  const root = teamRoot()
  const nowhere = tempFolder()
  const code = async (args: string[], cwd = root) => (await team(args, { cwd, input: 'x\n' })).code
  const wrong = [
    ['chat'],
    ['chat', 'alice', 'bob'],
    ['send', 'alice'],
    ['send', 'alice', 'x', '--type', 'decision'],
    ['inbox', '--sent', '--ack'],
    ['inbox', 'alice', '--ack'],
    ['replay'],
    ['replay', 'alice', '--turn', '0'],
    ['prefix', '--max', '0'],
    ['completion'],
    ['answer', '1'],
    ['ask', '1'],
    ['task', 'show'],
    ['logs', '-n', '0'],
    ['restart'],
  ]
  for (const args of wrong) expect([args, await code(args)]).toEqual([args, 2])
  const rooted = [
    ['chat', 'alice'],
    ['inbox'],
    ['replay', 'alice'],
    ['prefix'],
    ['requests'],
    ['status'],
    ['logs'],
    ['down'],
  ]
  for (const args of rooted) expect([args, await code(args, nowhere)]).toEqual([args, 3])
  const unknown = [
    ['send', 'carol', 'x'],
    ['inbox', 'carol'],
    ['inbox', 'carol', '--sent'],
    ['replay', 'carol'],
    ['prefix', 'carol'],
    ['requests', '9'],
    ['approve', '9'],
    ['reject', '9'],
    ['answer', '9', 'x'],
    ['task', 'show', '9'],
    ['task', 'cancel', '9'],
  ]
  for (const args of unknown) expect([args, await code(args)]).toEqual([args, 4])
  for (const args of [['chat', 'alice'], ['restart', 'alice'], ['inbox', '-f'], ['logs', '-f'], ['down']])
    expect([args, await code(args)]).toEqual([args, 6])
  expect(await code(['replay', 'alice'])).toBe(1)
  expect(await code(['completion', 'bash'], nowhere)).toBe(0)
})
