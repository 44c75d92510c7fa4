import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { ended, says, start, team, teamOk, until } from '../support/cli.ts'
import { ask, gate, inboxOf, lastSaid, quiet, scriptedTeam, status } from '../support/scripted-team.ts'

const call = (name: string, args: Readonly<Record<string, unknown>>): Reply => ({ calls: [{ name, args }] })
const stateOf = async (root: string, name: string) =>
  (await status(root)).teammates.find(mate => mate.name === name)?.state

test('a line down the pipe is a message of the human, and the words that end the turn are its reply, once', async () => {
  const crew = await scriptedTeam({
    alice: request => (lastSaid(request).includes('left') ? '剩下两个文件。' : 'Read.'),
  })
  await crew.up()
  const ran = await team(['chat', 'alice', '--root', crew.root], { input: 'What is left?\n' })
  expect(ran).toMatchObject({ code: 0, stdout: '剩下两个文件。\n' })
  const { items } = await inboxOf(crew.root, 'alice')
  expect(items[0]?.stored.message).toMatchObject({ from: 'user', type: 'info', content: 'What is left?' })
  const replies = (await inboxOf(crew.root, 'user')).items.map(item => item.stored.message)
  expect(replies).toMatchObject([{ from: 'alice', type: 'reply', replyTo: items[0]?.stored.message.id }])
})

test('what it writes with the message tool is the reply, and the words after it are not sent as well', async () => {
  const crew = await scriptedTeam({
    alice: (_request, n) => (n === 0 ? call('message', { to: 'user', content: 'Two files.' }) : 'Told them.'),
  })
  await crew.up()
  expect(await teamOk(['chat', 'alice', '--root', crew.root], { input: 'What is left?' })).toBe('Two files.\n')
  await quiet(crew.root, 'alice')
  expect((await inboxOf(crew.root, 'user')).items).toHaveLength(1)
})

test('a message to all gets a reply from each, once, over a restart of the daemon', async () => {
  const names = ['alice', 'bob', 'carol']
  const crew = await scriptedTeam(Object.fromEntries(names.map(name => [name, () => 'Here.'])))
  const child = await crew.up()
  await teamOk(['send', 'all', 'Who is there?', '--root', crew.root])
  const replies = async () => (await inboxOf(crew.root, 'user')).items.map(({ stored }) => stored.message.from).sort()
  await until(async () => (await replies()).length >= names.length)
  child.kill('SIGKILL')
  await ended(child)
  await crew.up()
  for (const name of names) await quiet(crew.root, name)
  expect(await replies()).toEqual(names)
})

test('a talk whose daemon is killed ends at once, without waiting for another line, and says so', async () => {
  const crew = await scriptedTeam({ alice: () => 'Here.' })
  const daemon = await crew.up()
  const talk = start(['chat', 'alice', '--root', crew.root])
  const over = says(talk, /the daemon has ended/, 'stderr')
  talk.stdin?.write('Are you there?\n')
  await says(talk, /Here\./)
  daemon.kill('SIGKILL')
  await over
  expect(await ended(talk)).toBe(0)
})

test('a pipe in which nothing was asked has no answer either: no line at all, and a daemon that ended before there was one', async () => {
  const crew = await scriptedTeam({ alice: () => new Promise<Reply>(() => undefined) })
  const daemon = await crew.up()
  const empty = await team(['chat', 'alice', '--root', crew.root], { input: '' })
  expect(empty).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('nothing was asked') })
  await teamOk(['task', 'add', 'Long work', '--root', crew.root])
  await until(async () => (await stateOf(crew.root, 'alice')) === 'working')
  const talk = start(['chat', 'alice', '--root', crew.root])
  await says(talk, /busy with task 1/, 'stderr')
  const over = says(talk, /the daemon ended before alice was asked anything/, 'stderr')
  daemon.kill('SIGKILL')
  await over
  expect(await ended(talk)).toBe(6)
})

test('words that end a turn which no person wrote to go to nobody', async () => {
  const crew = await scriptedTeam({
    bob: (_request, n) => (n === 0 ? call('message', { to: 'alice', content: 'hello' }) : 'Done.'),
    alice: () => 'I read what bob wrote.',
  })
  await crew.up()
  await ask(crew.root, 'message.send', { to: 'bob', content: 'greet alice' })
  await until(async () => (await inboxOf(crew.root, 'alice')).cursor === 1)
  await quiet(crew.root, 'alice', 'bob')
  const mail = (await inboxOf(crew.root, 'user')).items.map(item => item.stored.message.from)
  expect(mail).toEqual(['bob'])
})

test('several lines, an empty one ends it; nothing after it is sent', async () => {
  const crew = await scriptedTeam({
    alice: request =>
      `heard ${lastSaid(request)
        .match(/(one|two|three)/g)
        ?.at(-1)}`,
  })
  await crew.up()
  const ran = await team(['chat', 'alice', '--root', crew.root], { input: 'one\ntwo\n\nthree\n' })
  expect(ran.code).toBe(0)
  expect(ran.stdout).toContain('heard two')
  const sent = (await inboxOf(crew.root, 'alice')).items.map(item => item.stored.message.content)
  expect(sent).toEqual(['one', 'two'])
  expect((await team(['chat', 'alice', '--root', crew.root], { input: 'n\n' })).code).toBe(0)
})

test('a teammate that waits for a decision is said to, and a pipe does not wait with it: exit 1', async () => {
  const crew = await scriptedTeam({
    alice: (_request, n) => (n === 0 ? call('ask_user', { question: 'Tabs?' }) : 'Good.'),
  })
  await teamOk(['task', 'add', 'Indent', '--root', crew.root])
  await crew.up()
  await until(async () => (await stateOf(crew.root, 'alice')) === 'waiting')
  const ran = await team(['chat', 'alice', '--root', crew.root], { input: 'Hello?\n' })
  expect(ran).toMatchObject({ code: 1, stdout: '' })
  expect(ran.stderr).toMatch(/alice waits for human: req_1.*reads this when that is over/)
})

test('a busy one answers between two steps; it is told that it is busy, and a follower sees the reply as it comes', async () => {
  const slow = gate()
  const crew = await scriptedTeam({
    alice: async (request, n) => {
      if (n === 0) await slow.opened
      if (n === 0) return call('ls', {})
      return lastSaid(request).includes('How far') ? call('message', { to: 'user', content: 'Half.' }) : 'Done.'
    },
  })
  await teamOk(['task', 'add', 'Long work', '--root', crew.root])
  await crew.up()
  await until(() => crew.requests('alice').length >= 1)
  const child = start(['chat', 'alice', '--root', crew.root])
  const busy = says(child, /busy with task 1/, 'stderr')
  const half = says(child, /Half\./)
  child.stdin?.write('How far?\n')
  await busy
  slow.open()
  await half
  child.stdin?.end()
})

test('nobody by that name: 4; no daemon: 6; a stopped one is said to be', async () => {
  const crew = await scriptedTeam({ alice: () => 'Yes.' })
  expect((await team(['chat', 'alice', '--root', crew.root], { input: 'x' })).code).toBe(6)
  await crew.up()
  expect(await team(['chat', 'alise', '--root', crew.root], { input: 'x' })).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('did you mean alice?'),
  })
  // Whoever else has an inbox is not to be talked to, and not named.
  for (const [name, said] of [
    ['nobody', /^team: there is no teammate "nobody"\n +teammates: alice$/],
    ['user', /^team: there is no teammate "user"\n +teammates: alice$/],
    ['all', /^team: there is no teammate "all"\n +teammates: alice$/],
    ['lead', /^team: no teammate leads this team\n +teammates: alice$/],
  ] as const) {
    const ran = await team(['chat', name, '--root', crew.root], { input: 'x' })
    expect([ran.code, ran.stderr.trimEnd()]).toEqual([4, expect.stringMatching(said)])
  }
  await teamOk(['down', 'alice', '--root', crew.root])
  const ran = await team(['chat', 'alice', '--root', crew.root], { input: 'x' })
  expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining('alice is stopped') })
})

test('while an edit of config.json does not hold the team is talked to as before', async () => {
  const crew = await scriptedTeam({ alice: () => 'Yes.' })
  await crew.up()
  writeFileSync(join(crew.root, 'config.json'), '{"teammates": [')
  expect(await team(['chat', 'alice', '--root', crew.root], { input: 'x' })).toMatchObject({
    code: 0,
    stdout: 'Yes.\n',
  })
  expect((await team(['chat', 'nobody', '--root', crew.root], { input: 'x' })).code).toBe(4)
})

test('receipts: stored until it is read, then in context at the turn, acted on once answered, in the inbox and with the sender, over a restart', async () => {
  const crew = await scriptedTeam({ alice: () => 'Yes.', bob: () => 'Yes.' })
  const send = (text: string, ...more: string[]) => teamOk(['send', 'alice', text, '--root', crew.root, ...more])
  await send('early')
  const sent = () => teamOk(['inbox', '--sent', '--root', crew.root])
  expect(await sent()).toMatch(/→ alice .* stored msg_/)
  const child = await crew.up()
  await quiet(crew.root, 'alice')
  await send('late')
  await until(async () => (await sent()).includes('acted on, in context at turn 2'))
  await send('a job', '--type', 'task')
  await until(async () => (await sent()).includes('task, taken'))
  child.kill('SIGTERM')
  await until(() => child.exitCode !== null || child.signalCode !== null)
  const told = await teamOk(['inbox', 'alice', '-n', '0', '--root', crew.root])
  expect(told).toMatch(/in context at turn 1[\s\S]*in context at turn 2/)
  const { items } = JSON.parse(await teamOk(['inbox', '--sent', '--json', '--root', crew.root]))
  expect(items.map((item: { receipt: string; turn: number }) => [item.receipt, item.turn])).toEqual([
    ['acted on', 1],
    ['acted on', 2],
    ['taken', null],
  ])
})

test('an answered question says that the asker goes on', async () => {
  const crew = await scriptedTeam({
    alice: (_request, n) => (n === 0 ? call('ask_user', { question: 'Tabs?' }) : 'Good.'),
  })
  await teamOk(['task', 'add', 'Indent', '--root', crew.root])
  await crew.up()
  await until(async () => (await status(crew.root)).requests.length >= 1)
  expect(await teamOk(['answer', '1', 'tabs', '--root', crew.root])).toBe('req_1 answered; alice goes on\n')
})
