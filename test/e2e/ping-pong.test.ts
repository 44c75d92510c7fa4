import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { teamOk, until } from '../support/cli.ts'
import { ask, heard, inboxOf, quiet, type Script, scriptedTeam, status } from '../support/scripted-team.ts'

const call = (name: string, args: Readonly<Record<string, unknown>>): Reply => ({ calls: [{ name, args }] })

/** Answers each message of a teammate with thanks, for ever; ends its turn only when told that its mail is held. */
const thanking =
  (to: string): Script =>
  (request, n) => {
    const last = request.messages.at(-1)
    if (last?.role === 'tool') return 'Thanks sent.'
    return call('message', { to, content: `thank you ${n}` })
  }
const problem = (root: string) =>
  until(async () => (await status(root)).problems.find(text => text.includes('answered each other')))

test('two that thank each other for ever are stopped: told once, nothing lost or said to be delivered, freed by a word', async () => {
  const crew = await scriptedTeam(
    { alice: thanking('bob'), bob: thanking('alice') },
    { limits: { mailRounds: 3 }, teammates: [{ name: 'alice' }, { name: 'bob' }] },
  )
  await crew.up()
  await ask(crew.root, 'message.send', { to: 'alice', content: 'greet bob' })
  expect(await problem(crew.root)).toMatch(/^alice and bob answered each other for 3 rounds .*1 held/)
  await quiet(crew.root, 'alice', 'bob')
  const count = async () =>
    (await inboxOf(crew.root, 'alice')).items.length + (await inboxOf(crew.root, 'bob')).items.length
  const before = await count()
  expect(before).toBeLessThan(12)
  const sayings = [...crew.requests('alice'), ...crew.requests('bob')].map(heard).join('\n')
  expect(sayings).toMatch(/: held as msg_\S+, you answer each other/)
  const news = async () =>
    (await inboxOf(crew.root, 'user')).items
      .map(item => item.stored.message)
      .filter(({ from }) => from === 'supervisor')
  expect(await news()).toMatchObject([{ content: expect.stringMatching(/held now[\s\S]*alice → bob: thank you/) }])
  expect(await teamOk(['status', '--root', crew.root])).toContain('answered each other')

  // A word of the human delivers what was held, first written first, and they may go on for as many rounds.
  await ask(crew.root, 'message.send', { to: 'bob', content: 'go on' })
  await until(async () => (await count()) > before + 2)
  await until(async () => (await news()).length === 2)
  await quiet(crew.root, 'alice', 'bob')
  const told = (await inboxOf(crew.root, 'bob')).items.map(item => item.stored.message)
  const thanks = told.filter(({ from }) => from === 'alice').map(({ content }) => content)
  expect(new Set(thanks).size).toBe(thanks.length)
})

test('a circle of three is stopped too, where one of them leads it is the human who is told; a task frees them', async () => {
  const crew = await scriptedTeam(
    { alice: thanking('bob'), bob: thanking('carol'), carol: thanking('alice') },
    { lead: 'carol', limits: { mailRounds: 2 }, teammates: [{ name: 'alice' }, { name: 'bob' }, { name: 'carol' }] },
  )
  await crew.up()
  await ask(crew.root, 'message.send', { to: 'alice', content: 'greet bob' })
  expect(await problem(crew.root)).toMatch(/^alice and bob and carol/)
  await until(async () =>
    (await inboxOf(crew.root, 'user')).items.some(item => item.stored.message.content.includes('is held now')),
  )
  await quiet(crew.root, 'alice', 'bob', 'carol')
  await teamOk(['task', 'add', 'Something', '--assignee', 'alice', '--root', crew.root])
  await until(async () => !(await status(crew.root)).problems.some(text => text.includes('answered each other')))
})

test('thanks to all and urgent thanks are stopped too, after a bounded number of calls, and a task frees them', async () => {
  const shouting: Script = (request, n) =>
    request.messages.at(-1)?.role === 'tool'
      ? 'Sent.'
      : call('message', { to: 'all', content: `thank you ${n}`, urgent: true })
  const names = ['alice', 'bob', 'carol']
  const crew = await scriptedTeam(Object.fromEntries(names.map(name => [name, shouting])), {
    limits: { mailRounds: 2 },
  })
  await crew.up()
  await ask(crew.root, 'message.send', { to: 'alice', content: 'greet them' })
  await problem(crew.root)
  await quiet(crew.root, ...names)
  // Twice as many rounds for urgent mail, two calls each, and what three at once had begun by then.
  for (const name of names) expect(crew.requests(name).length).toBeLessThan(30)
  const calls = names.map(name => crew.requests(name).length)
  await teamOk(['task', 'add', 'Something', '--assignee', 'bob', '--root', crew.root])
  await until(() => crew.requests('bob').length > (calls[1] ?? 0))
})

test('a flood of urgent mail neither loses the task in hand nor costs a call for each', async () => {
  const crew = await scriptedTeam(
    {
      alice: (request, n) => {
        if (n === 0) return call('bash', { command: 'sleep 3' })
        if (request.messages.some(each => each.role === 'assistant' && JSON.stringify(each).includes('complete')))
          return 'Fine.'
        return heard(request).includes('urgent 199')
          ? call('task', { action: 'complete', summary: 'done' })
          : call('bash', { command: 'sleep 0.2' })
      },
    },
    { permissions: { allow: ['sleep *'] } },
  )
  await crew.up()
  const { tasks } = await ask(crew.root, 'task.add', { tasks: [{ title: 'Work' }] })
  await until(() => crew.requests('alice').length > 0)
  for (let i = 0; i < 200; i++)
    await ask(crew.root, 'message.send', { to: 'alice', content: `urgent ${i}`, urgent: true })
  await until(async () => (await ask(crew.root, 'task.get', { id: tasks[0]?.id ?? '' })).task.status === 'completed')
  await quiet(crew.root, 'alice')
  const last = crew.requests('alice').map(heard).join('\n')
  for (let i = 0; i < 200; i++) expect(last).toContain(`urgent ${i}\n`)
  expect(crew.requests('alice').length).toBeLessThan(60)
})
