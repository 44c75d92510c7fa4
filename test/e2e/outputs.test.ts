import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { team, teamOk, until } from '../support/cli.ts'
import { fits } from '../support/fits.ts'
import { quiet, scriptedTeam, status } from '../support/scripted-team.ts'

test('what --json prints is what its published schema says', async () => {
  const crew = await scriptedTeam({
    alice: (_request, n) => (n === 0 ? { calls: [{ name: 'ask_user', args: { question: 'Tabs?' } }] } : 'Good.'),
    bob: () => 'Read.',
  })
  const run = (...args: string[]) => teamOk([...args, '--json', '--root', crew.root])
  fits('task-add', await run('task', 'add', 'Indent', '--assignee', 'alice'))
  fits('status', await run('status'))
  await crew.up()
  await until(async () => (await status(crew.root)).requests.length >= 1)
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
  fits('replay-verify', await run('replay', 'alice', '--verify'))
  fits('prefix', await run('prefix'))
  fits('doctor', (await team(['doctor', '--json', '--root', crew.root])).stdout)
  fits('down', await run('down', 'bob'))
})

test('a key that no schema knows is not let through, so that the check above means something', () => {
  const schema = z.fromJSONSchema(JSON.parse(readFileSync('docs/json/inbox-dead.schema.json', 'utf8')))
  expect(schema.safeParse([{ at: '', file: '', offset: 0, reason: '', line: '', seen: true, more: 1 }]).success).toBe(
    false,
  )
})
