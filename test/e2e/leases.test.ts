import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import type { RequestOf } from '../../src/protocol/request.ts'
import { team, teamOk, until } from '../support/cli.ts'
import { ask, heard, inboxOf, killed, lastSaid, type Script, scriptedTeam, status } from '../support/scripted-team.ts'

const call = (name: string, args: Readonly<Record<string, unknown>>): Reply => ({ calls: [{ name, args }] })
const lease = (kind: string, what: string[], seconds = 600): Reply =>
  call('request', { action: 'open', type: 'resource_request', data: { kind, what, seconds } })
const complete = call('task', { action: 'complete', summary: 'done' })
/** Waits, in a call of the model, for a file that the test makes. */
const opened = (root: string, name: string): Promise<unknown> => until(() => existsSync(join(root, name)), 60_000)
const open = (root: string, name: string): void => writeFileSync(join(root, name), '')
const request = async (root: string, id: string) =>
  (await ask(root, 'request.get', { id })).request as RequestOf<'resource_request'>
const waits = (root: string, name: string) =>
  until(async () => {
    const mate = (await status(root)).teammates.find(each => each.name === name)
    return mate?.state === 'waiting' && mate.waiting
  }, 60_000)
const finished = (root: string, count: number) =>
  until(async () => {
    const { tasks } = await status(root)
    return tasks.length === count && tasks.every(({ status }) => status === 'completed') && tasks
  }, 60_000)

test('a contended lease parks who comes second without a model call, names the holder, and is handed on when the task of the first ends', async () => {
  const team = await scriptedTeam(
    {
      alice: async (_request, n) => {
        if (n === 0) return lease('name', ['database'])
        if (n === 1) await opened(team.root, 'go')
        return n === 1 ? complete : 'Done.'
      },
      bob: (_request, n) => (n === 0 ? lease('name', ['database']) : n === 1 ? complete : 'Done.'),
    },
    { mode: 'dir' },
  )
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'first', assignee: 'alice', needs: [] }] })
  await until(async () => (await status(team.root)).leases.held.length === 1)
  await ask(team.root, 'task.add', { tasks: [{ title: 'second', assignee: 'bob', needs: [] }] })
  expect(await waits(team.root, 'bob')).toEqual({
    what: 'req_2: lease on name database',
    whom: 'alice',
    request: 'req_2',
  })
  const shown = await teamOk(['status', '--root', team.root])
  expect(shown).toMatch(/LEASES 1 held · 1 waiting/)
  expect(shown).toMatch(/req_1 +held +alice +name database +fence 1, for \d+ min more/)
  expect(shown).toMatch(/req_2 +waits +bob +name database +for \d+ s, behind alice \(req_1\)/)
  expect(shown).toMatch(/bob .*waits for req_2: lease on name database \(alice\)/)
  expect(JSON.parse(await teamOk(['status', '--json', '--root', team.root])).leases).toMatchObject({
    held: [{ id: 'req_1', holder: 'alice', task: '1', kind: 'name', what: ['database'], fence: 1 }],
    queued: [{ id: 'req_2', from: 'bob', task: '2', behind: [{ who: 'alice', id: 'req_1' }] }],
  })
  expect(team.requests('bob')).toHaveLength(1)
  open(team.root, 'go')
  await finished(team.root, 2)
  expect(heard(team.requests('alice')[1])).toMatch(/opened req_1, which is approved already: name database is yours/)
  expect(heard(team.requests('bob')[1])).toMatch(
    /req_2 .* was approved by supervisor: name database is yours .*fence 2/,
  )
  expect((await request(team.root, 'req_1')).effect).toMatchObject({ step: 'done', outcome: 'released', fence: 1 })
})

test('over kill -9 what was held is lost and its holder told; who waited is served, with a higher number', async () => {
  const restarted = (asked: Parameters<Script>[0]) => /do not hold req_1 any more/.test(heard(asked))
  const team = await scriptedTeam(
    {
      alice: async (asked, n) => {
        if (n === 0) return lease('path', ['docs/**'])
        if (restarted(asked)) return call('write_file', { path: 'repo/docs-are-lost.txt', content: 'x\n' })
        await opened(team.root, 'over')
        return 'Done.'
      },
      bob: (_asked, n) => (n === 0 ? lease('path', ['docs/a.md']) : n === 1 ? complete : 'Done.'),
    },
    { mode: 'dir' },
  )
  const first = await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'first', assignee: 'alice', needs: [] }] })
  await until(async () => (await status(team.root)).leases.held.length === 1)
  await ask(team.root, 'task.add', { tasks: [{ title: 'second', assignee: 'bob', needs: [] }] })
  await waits(team.root, 'bob')
  await killed(first)
  const down = JSON.parse(await teamOk(['status', '--json', '--root', team.root]))
  expect(down.leases).toMatchObject({ held: [], queued: [{ id: 'req_2' }] })
  await team.up()
  await until(async () => (await ask(team.root, 'task.get', { id: '2' })).task.status === 'completed', 60_000)
  expect((await request(team.root, 'req_1')).effect).toMatchObject({ step: 'done', lost: true, fence: 1 })
  expect((await request(team.root, 'req_2')).effect?.fence).toBe(2)
  await until(() => team.requests('alice').some(restarted), 60_000)
  open(team.root, 'over')
})

test('time over: the next one has it, the old holder is refused at the next write and told why', async () => {
  const results: string[] = []
  const write = call('write_file', { path: 'repo/a.txt', content: 'mine\n' })
  const team = await scriptedTeam(
    {
      alice: async (asked, n) => {
        const last = asked.messages.findLast(({ role }) => role === 'tool')
        if (last) results.push(String(last.content).split('\n')[0] ?? '')
        if (n === 0) return lease('path', ['a.txt'], 2)
        if (n === 1) return write
        if (n === 2) {
          await until(async () => (await request(team.root, 'req_1')).effect?.step === 'done', 60_000)
          await opened(team.root, 'bob-has-it')
          return write
        }
        if (n === 3) open(team.root, 'alice-was-refused')
        return n === 3 ? complete : 'Done.'
      },
      bob: async (_asked, n) => {
        if (n === 0) return lease('path', ['*.txt'])
        if (n > 1) return 'Done.'
        open(team.root, 'bob-has-it')
        await opened(team.root, 'alice-was-refused')
        return complete
      },
    },
    { mode: 'dir' },
  )
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'first', assignee: 'alice', needs: [] }] })
  await until(async () => (await status(team.root)).leases.held.length === 1)
  await ask(team.root, 'task.add', { tasks: [{ title: 'second', assignee: 'bob', needs: [] }] })
  await finished(team.root, 2)
  expect(results).toContain('wrote repo/a.txt, 5 bytes')
  expect(results.find(text => text.startsWith('error'))).toMatch(
    /^error: bob holds a.txt until .*\(lease req_2, fence 2\); wait for it: request open, type resource_request, data \{"kind":"path","what":\["a.txt"\]\}$/,
  )
  expect(team.requests('alice').some(asked => heard(asked).includes('You do not hold req_1 any more'))).toBe(true)
})

test('dir mode: a task is not begun while a lease is in its way, and is shown as that', async () => {
  const team = await scriptedTeam(
    {
      alice: async (_asked, n) => {
        if (n === 0) return lease('path', ['src/**'])
        if (n === 1) await opened(team.root, 'go')
        return n === 1 ? complete : 'Done.'
      },
      bob: (_asked, n) => (n % 2 === 0 ? complete : 'Done.'),
    },
    { mode: 'dir' },
  )
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'first', assignee: 'alice', paths: ['docs'] }] })
  await until(async () => (await status(team.root)).leases.held.length === 2)
  await ask(team.root, 'task.add', {
    tasks: [
      { title: 'in the way', assignee: 'bob', paths: ['src/a'], priority: 1 },
      { title: 'beside', assignee: 'bob', paths: ['test'] },
    ],
  })
  await until(async () => (await ask(team.root, 'task.get', { id: '3' })).task.status === 'completed')
  const two = (await status(team.root)).tasks.find(({ id }) => id === '2')
  expect([two?.shown, two?.why]).toEqual(['ready', 'waits for the lease req_1 of alice'])
  open(team.root, 'go')
  await finished(team.root, 3)
})

test('a teammate that was shut down holds nothing and waits for nothing', async () => {
  const team = await scriptedTeam(
    {
      alice: asked => (/take it/.test(lastSaid(asked)) ? lease('port', ['any']) : 'Done.'),
      bob: asked => (/take it/.test(lastSaid(asked)) ? lease('name', ['gpu']) : 'Done.'),
    },
    { mode: 'dir' },
  )
  await team.up()
  await teamOk(['send', 'alice', 'take it', '--root', team.root])
  await teamOk(['send', 'bob', 'take it', '--root', team.root])
  const held = await until(async () => {
    const now = (await status(team.root)).leases.held
    return now.length === 2 && now
  })
  const port = held.find(({ kind }) => kind === 'port')?.what[0] ?? ''
  expect(Number(port)).toBeGreaterThan(1023)
  const mail = (await inboxOf(team.root, 'alice')).items.map(({ stored }) => stored.message.content)
  expect(mail.some(text => text.includes(`port ${port} is yours until`))).toBe(true)
  await teamOk(['down', 'alice', '--root', team.root])
  expect((await status(team.root)).leases.held.map(({ holder }) => holder)).toEqual(['bob'])
})

test('up --once goes on while somebody waits for a lease that will end, and ends when all is done', async () => {
  const scripted = await scriptedTeam(
    {
      alice: (_asked, n) => (n === 0 ? lease('name', ['gpu'], 3) : 'Kept until its time is over.'),
      bob: async (_asked, n) => {
        // By her second request alice has it.
        if (n === 0) await until(() => scripted.requests('alice').length > 1)
        return n === 0 ? lease('name', ['gpu']) : n === 1 ? complete : 'Done.'
      },
    },
    { mode: 'dir' },
  )
  const { root } = scripted
  await teamOk(['send', 'alice', 'take the gpu', '--root', root])
  await teamOk(['task', 'add', 'Use it', '--assignee', 'bob', '--root', root])
  const ran = await team(['up', '--once', '--root', root])
  expect([ran.code, ran.stdout]).toEqual([0, expect.stringContaining('everything is done')])
  expect(heard(scripted.requests('bob')[1])).toMatch(/approved by supervisor: name gpu is yours .*fence 2/)
})

test('a person takes a held lease back with team reject: its holder is told, the next one has it, and a second time is refused', async () => {
  const crew = await scriptedTeam(
    {
      alice: async (_request, n) => {
        if (n === 1) await opened(crew.root, 'go')
        return n === 0 ? lease('name', ['database']) : n === 1 ? complete : 'Done.'
      },
      bob: (_request, n) => (n === 0 ? lease('name', ['database']) : n === 1 ? complete : 'Done.'),
    },
    { mode: 'dir' },
  )
  const remedy = 'team reject <id> takes a lease from its holder'
  await crew.up()
  await ask(crew.root, 'task.add', { tasks: [{ title: 'first', assignee: 'alice', needs: [] }] })
  await until(async () => (await status(crew.root)).leases.held.length === 1)
  expect(await teamOk(['status', '--root', crew.root])).not.toContain(remedy)
  await ask(crew.root, 'task.add', { tasks: [{ title: 'second', assignee: 'bob', needs: [] }] })
  await waits(crew.root, 'bob')
  expect(await teamOk(['status', '--root', crew.root])).toContain(remedy)
  expect(await teamOk(['reject', '1', '--reason', 'bob is in a hurry', '--root', crew.root])).toBe(
    'req_1 taken back from alice\n',
  )
  await until(async () => (await request(crew.root, 'req_2')).effect !== null)
  expect((await request(crew.root, 'req_1')).effect).toMatchObject({ step: 'done', lost: true, by: 'human' })
  const told = (await inboxOf(crew.root, 'alice')).items.map(item => item.stored.message.content)
  expect(told).toContainEqual(
    expect.stringMatching(/do not hold req_1 any more.*: human took it back: bob is in a hurry\./),
  )
  const shown = await teamOk(['requests', 'req_1', '--root', crew.root])
  expect(shown).toMatch(/effect +done, released by human, bob is in a hurry\n/)
  expect(shown).toMatch(/History\n[\s\S]* human +take back: bob is in a hurry\n$/)
  const logged = await teamOk(['logs', '--root', crew.root])
  expect(logged).toContain('human took back req_1 "name database": bob is in a hurry\n')
  const again = await team(['reject', '1', '--root', crew.root])
  expect([again.code, again.stderr]).toEqual([5, expect.stringContaining('req_1 was already approved by supervisor')])
  open(crew.root, 'go')
  await finished(crew.root, 2)
})
