import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { team as command, ended, says, start, teamOk, until } from '../support/cli.ts'
import { gitTeam } from '../support/git-team.ts'
import {
  ask,
  gate,
  heard,
  inboxOf,
  journal,
  quiet,
  type Script,
  type ScriptedTeam,
  scriptedTeam,
  status,
} from '../support/scripted-team.ts'

const call = (name: string, args: Readonly<Record<string, unknown>>): Reply => ({ calls: [{ name, args }] })
/** Completes each task at once. */
const doer: Script = request =>
  request.messages.at(-1)?.role === 'user' && request.messages.at(-1)?.content?.includes('<task id=')
    ? call('task', { action: 'complete', summary: 'done' })
    : 'Fine.'

interface Shape {
  teammates: { name: string; [key: string]: unknown }[]
  [key: string]: unknown
}
const configOf = ({ root }: ScriptedTeam): Shape => JSON.parse(readFileSync(join(root, 'config.json'), 'utf8')) as Shape
const save = ({ root }: ScriptedTeam, config: object) =>
  writeFileSync(join(root, 'config.json'), JSON.stringify(config, null, 2))
/** Lays an edit over what the file says now. */
const edit = (team: ScriptedTeam, change: (config: Shape) => unknown): void => {
  const config = configOf(team)
  change(config)
  save(team, config)
}
const mate = (name: string, more: object = {}) => ({ name, model: { name }, ...more })
const names = async (root: string) => (await status(root)).teammates.map(({ name }) => name)
const completed = (root: string, id: string) =>
  until(async () => (await ask(root, 'task.get', { id })).task.status === 'completed', 40_000)
const told = async (root: string) =>
  (await inboxOf(root, 'user')).items
    .map(({ stored }) => stored.message.content)
    .filter(content => content.includes('config.json'))
const problem = (root: string, text: string | RegExp) =>
  until(async () => (await status(root)).problems.find(line => line.match(text)), 45_000)
const noProblem = (root: string, text: string) =>
  until(async () => !(await status(root)).problems.some(line => line.includes(text)), 45_000)
/** A change that has not taken effect yet; nothing is wrong with it. */
const pending = (root: string, text: string | RegExp) =>
  until(async () => {
    const now = await status(root)
    expect(now.problems.filter(line => line.match(text))).toEqual([])
    return now.pendingChanges.find(line => line.match(text))
  }, 45_000)
const nonePending = (root: string, text: string) =>
  until(async () => !(await status(root)).pendingChanges.some(line => line.includes(text)), 45_000)
const prefixes = (team: ScriptedTeam, name: string) =>
  team.requests(name).map(({ messages }) => messages[0]?.content ?? '')

test('a teammate written into config.json joins while the team runs: home, inbox, status, and it takes a task', async () => {
  const team = await scriptedTeam({ alice: doer, carol: doer }, { teammates: [{ name: 'alice' }] })
  await team.up()
  edit(team, config => config.teammates.push(mate('carol', { role: 'writer' })))
  await until(async () => (await names(team.root)).join() === 'alice,carol')
  await quiet(team.root, 'alice', 'carol')
  await ask(team.root, 'task.add', { tasks: [{ title: 'Write', assignee: 'carol' }] })
  await completed(team.root, '1')
  await teamOk(['send', 'carol', 'welcome', '--root', team.root])
  await until(() => readFileSync(join(team.root, '.messages', 'carol.inbox.jsonl'), 'utf8').includes('welcome'))
  // The others are told of it when their next task begins.
  await ask(team.root, 'task.add', { tasks: [{ title: 'Look around', assignee: 'alice' }] })
  await completed(team.root, '2')
  expect(prefixes(team, 'alice').at(-1)).toContain('- carol: writer')
  expect((await journal(team.root)).filter(({ event }) => event === 'teammate.joined')).toHaveLength(1)
})

test('a teammate taken out of config.json is asked to shut down, its task goes on elsewhere with its work, its mail is kept', async () => {
  const asked = gate()
  const alice: Script = async request => {
    const last = request.messages.at(-1)?.content ?? ''
    if (last.includes('<task id=')) return call('write_file', { path: 'repo/a.txt', content: 'half\n' })
    if (/shut down/.test(last)) {
      const id = /req_\d+/.exec(last)?.[0]
      return call('request', { action: 'decide', id, decision: 'approve' })
    }
    await asked.opened
    return 'Still at it.'
  }
  const team = await scriptedTeam(
    { alice, bob: doer },
    { teammates: [{ name: 'alice', skills: ['half'] }, { name: 'bob' }] },
  )
  await team.up()
  await quiet(team.root, 'alice', 'bob')
  await ask(team.root, 'task.add', { tasks: [{ title: 'Half', needs: ['write'], skills: ['half'] }] })
  await until(async () => (await status(team.root)).tasks[0]?.status === 'in_progress')
  const owner = (await status(team.root)).tasks[0]?.owner
  expect(owner).toBe('alice')
  await until(() => team.requests('alice').length >= 2)
  await teamOk(['send', 'alice', 'keep this', '--root', team.root])
  edit(team, config => {
    config.teammates = config.teammates.filter(({ name }) => name !== 'alice')
  })
  await until(async () =>
    (await ask(team.root, 'request.list', { all: true })).requests.some(({ type }) => type === 'shutdown_request'),
  )
  asked.open()
  await completed(team.root, '1')
  await until(async () => !(await names(team.root)).includes('alice'))
  const { task } = await ask(team.root, 'task.get', { id: '1' })
  expect([task.owner, task.attempts]).toEqual(['bob', 2])
  expect(readFileSync(join(team.root, 'a.txt'), 'utf8')).toBe('half\n')
  const refused = await command(['send', 'alice', 'hello?', '--root', team.root])
  expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining('alice is not on the team any more')])
  expect(await teamOk(['inbox', 'alice', '--root', team.root])).toContain('keep this')
  const { requests } = await ask(team.root, 'request.list', { all: true })
  expect(requests.filter(({ type }) => type === 'shutdown_request')).toMatchObject([
    { from: 'human', to: 'alice', status: 'approved', effect: { step: 'done' } },
  ])
  // Its kept inbox is nobody's mistake.
  expect((await status(team.root)).problems.filter(line => line.includes('inbox'))).toEqual([])

  // Back again: the inbox and the session go on.
  edit(team, config => config.teammates.push(mate('alice')))
  await until(async () =>
    (await status(team.root)).teammates.some(({ name, state }) => name === 'alice' && state === 'idle'),
  )
  expect((await inboxOf(team.root, 'alice')).items.map(({ stored }) => stored.message.content)).toContain('keep this')
  await teamOk(['send', 'alice', 'welcome back', '--root', team.root])
  const last = await until(() =>
    team.requests('alice').find(({ messages }) => JSON.stringify(messages).includes('welcome back')),
  )
  expect(JSON.stringify(last.messages)).toContain('Half')
})

test('who rejects its removal works on until its task ends, and that is told; taken back in time nothing happens to it', async () => {
  const more = gate()
  let rejected = false
  const alice: Script = async request => {
    const id = /req_\d+/.exec(heard(request))?.[0]
    if (id && !rejected) {
      rejected = true
      return call('request', { action: 'decide', id, decision: 'reject', reason: 'nearly done' })
    }
    if (!id) return call('ls', {})
    await more.opened
    return call('task', { action: 'complete', summary: 'done' })
  }
  const first = gate()
  const team = await scriptedTeam({
    alice: async (request, n) => {
      if (n === 1) {
        await first.opened
        return call('ls', {})
      }
      return alice(request, n)
    },
    bob: doer,
  })
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'Long', assignee: 'alice' }] })
  await until(() => team.requests('alice').length >= 2)
  edit(team, config => {
    config.teammates = config.teammates.filter(({ name }) => name !== 'alice')
  })
  await until(async () => (await ask(team.root, 'request.list', {})).requests.length > 0)
  first.open()
  await pending(team.root, /alice is not in config.json any more and rejected its shutdown \(nearly done\)/)
  expect(await names(team.root)).toContain('alice')
  more.open()
  await completed(team.root, '1')
  await until(async () => !(await names(team.root)).includes('alice'))
  await nonePending(team.root, 'alice')
})

test('taken out and put back before it answered, a teammate goes on with its task as if nothing had been asked', async () => {
  const held = gate()
  const team = await scriptedTeam({
    alice: async (_request, n) => {
      if (n === 0) {
        await held.opened
        return call('ls', {})
      }
      return n === 1 ? call('task', { action: 'complete', summary: 'done' }) : 'Fine.'
    },
    bob: doer,
  })
  await team.up()
  const before = configOf(team)
  await ask(team.root, 'task.add', { tasks: [{ title: 'Long', assignee: 'alice' }] })
  await until(() => team.requests('alice').length >= 1)
  save(team, { ...before, teammates: before.teammates.slice(1) })
  await until(async () => (await ask(team.root, 'request.list', {})).requests.length > 0)
  save(team, before)
  await until(async () => (await ask(team.root, 'request.list', {})).requests.length === 0)
  held.open()
  await completed(team.root, '1')
  const { task } = await ask(team.root, 'task.get', { id: '1' })
  expect([task.owner, task.attempts]).toEqual(['alice', 1])
  const { requests } = await ask(team.root, 'request.list', { all: true })
  expect(requests.map(({ outcome, reason }) => [outcome, reason])).toEqual([
    ['withdrawn', 'alice is in config.json again'],
  ])
})

test('a changed system_prompt takes effect at the next task; until then every call begins with the same bytes', async () => {
  const held = gate()
  const team = await scriptedTeam({
    alice: async (request, n) => {
      if (n === 0) return call('ls', {})
      if (n === 1) {
        await held.opened
        return call('ls', {})
      }
      return doer(request, n) === 'Fine.' && n === 2
        ? call('task', { action: 'complete', summary: 'done' })
        : doer(request, n)
    },
  })
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'First' }] })
  await until(() => team.requests('alice').length >= 2)
  edit(team, config => {
    config.teammates = [mate('alice', { system_prompt: 'Answer in rhymes.' })]
  })
  expect(await pending(team.root, 'system_prompt')).toBe(
    'alice: system_prompt changed in config.json, which takes effect at its next task',
  )
  held.open()
  await completed(team.root, '1')
  await nonePending(team.root, 'system_prompt')
  const during = prefixes(team, 'alice')
  expect(new Set(during).size).toBe(1)
  expect(during[0]).not.toContain('rhymes')
  await ask(team.root, 'task.add', { tasks: [{ title: 'Second' }] })
  await completed(team.root, '2')
  expect(prefixes(team, 'alice').at(-1)).toContain('Answer in rhymes.')
})

test('other tools and another model need a new thread, which waits for the end of the task in hand; the context goes on', async () => {
  const held = gate()
  const team = await scriptedTeam(
    {
      alice: async (_request, n) => {
        if (n > 0) return 'Fine.'
        await held.opened
        return call('task', { action: 'complete', summary: 'first done' })
      },
      other: doer,
    },
    { teammates: [{ name: 'alice' }] },
  )
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'First' }] })
  await until(() => team.requests('alice').length >= 1)
  edit(team, config => {
    config.teammates = [{ name: 'alice', tools: ['ls', 'read_file', 'task', 'write_file'], model: { name: 'other' } }]
  })
  await pending(team.root, 'alice: model, tools changed in config.json')
  held.open()
  await completed(team.root, '1')
  await ask(team.root, 'task.add', { tasks: [{ title: 'Second' }] })
  await completed(team.root, '2')
  await nonePending(team.root, 'alice: ')
  const request = team.requests('other')[0]
  expect(JSON.stringify(request?.messages)).toContain('first done')
  expect((await journal(team.root)).filter(({ event }) => event === 'teammate.renewed')).toHaveLength(1)
})

test('an edit while a teammate is parked on a question waits too; the answer resumes the same context', async () => {
  const team = await scriptedTeam({
    alice: (request, n) => {
      if (n === 0) return call('ask_user', { question: 'Tabs or spaces?' })
      const answer = /was answered by human: (\w+)/.exec(JSON.stringify(request.messages))?.[1]
      return answer && n === 1 ? call('task', { action: 'complete', summary: answer }) : 'Fine.'
    },
  })
  await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'Indent' }] })
  await until(async () => (await status(team.root)).teammates[0]?.state === 'waiting')
  edit(team, config => {
    config.teammates = [mate('alice', { tools: ['ls', 'task', 'write_file'] })]
  })
  await pending(team.root, 'alice: tools changed')
  expect((await status(team.root)).teammates[0]?.state).toBe('waiting')
  await teamOk(['answer', '1', 'spaces', '--root', team.root])
  await completed(team.root, '1')
  expect((await ask(team.root, 'task.get', { id: '1' })).task).toMatchObject({
    result: { summary: 'spaces' },
    attempts: 1,
  })
  await nonePending(team.root, 'tools')
  await quiet(team.root, 'alice')
})

test.for([
  ['invalid JSON', (text: string) => text.replace('"sandbox"', '"sandbox" oops'), /config\.json: .*line 2/],
  [
    'an unknown key',
    (text: string) => text.replace('"sandbox"', '"sandboxx": 1,\n"sandbox"'),
    /config\.json:2:\d+ sandboxx: unknown key/,
  ],
  [
    'a name twice',
    (text: string) => text.replace('"name": "bob",', '"name": "alice",'),
    /teammates\[1\]\.name: "alice" is the name of/,
  ],
  [
    'a lead who is not there',
    (text: string) => text.replace('{', '{ "lead": "carol",'),
    /1:\d+ lead: nobody is named "carol"/,
  ],
  [
    'a key that the environment has not',
    (text: string) => text.replace('"provider"', '"apiKeyEnv": "NO_SUCH_KEY", "provider"'),
    /NO_SUCH_KEY/,
  ],
] as const)('%s: told once with its place, the team works on, mended it is cleared', async ([, broken, what]) => {
  const team = await scriptedTeam({ alice: doer, bob: doer })
  const path = join(team.root, 'config.json')
  save(team, configOf(team))
  await team.up()
  const good = readFileSync(path, 'utf8')
  writeFileSync(path, broken(good))
  const line = await problem(team.root, what)
  expect(line).toContain('the team goes on as it was before this edit')
  // Looked at again and again it is one report.
  writeFileSync(path, broken(good))
  await ask(team.root, 'task.add', { tasks: [{ title: 'Work' }] })
  await completed(team.root, '1')
  expect(await told(team.root)).toEqual([`${line}. Mend it there; that clears this.`])
  expect((await journal(team.root)).filter(({ event }) => event === 'config.refused')).toHaveLength(1)
  writeFileSync(path, good)
  await noProblem(team.root, 'config.json')
  expect(await told(team.root)).toHaveLength(1)
  expect(await names(team.root)).toEqual(['alice', 'bob'])
})

test('config.json removed and put back: every command still finds the team, which works on, and it can be stopped', async () => {
  const team = await scriptedTeam({ alice: doer, bob: doer })
  const path = join(team.root, 'config.json')
  const child = await team.up()
  const good = readFileSync(path, 'utf8')
  rmSync(path)
  await problem(team.root, /there is no .*config\.json; the team goes on/)
  expect((await teamOk(['status'], { cwd: team.root })).includes('there is no')).toBe(true)
  await teamOk(['task', 'add', 'Work', '--root', team.root])
  await completed(team.root, '1')
  writeFileSync(path, good)
  await noProblem(team.root, 'there is no')
  expect(await told(team.root)).toHaveLength(1)
  rmSync(path)
  await teamOk(['down', '--root', team.root])
  await ended(child)
  const up = await command(['up', '--root', team.root])
  expect([up.code, up.stderr]).toEqual([3, expect.stringContaining('config.json')])
})

test('half-written saves, editors that rename, and twenty saves in a row tell of nothing false and end in the last', async () => {
  const team = await scriptedTeam({ alice: doer })
  await team.up()
  const path = join(team.root, 'config.json')
  const good = configOf(team)
  const grown = JSON.stringify({ ...good, teammates: [mate('alice'), mate('bob')] }, null, 2)
  // The file is cut and written in two goes.
  writeFileSync(path, grown.slice(0, 40))
  await new Promise(resolve => setTimeout(resolve, 20))
  writeFileSync(path, grown)
  await until(async () => (await names(team.root)).length === 2)
  // Moved away, then written anew; and a new one moved over it.
  renameSync(path, `${path}~`)
  save(team, { ...good, teammates: [mate('alice'), mate('bob'), mate('carol')] })
  await until(async () => (await names(team.root)).length === 3)
  rmSync(`${path}~`)
  writeFileSync(`${path}.tmp`, JSON.stringify({ ...good, teammates: [mate('alice'), mate('carol')] }))
  renameSync(`${path}.tmp`, path)
  await until(async () => (await names(team.root)).length === 2)
  for (let n = 0; n < 20; n++) {
    const more = Array.from({ length: n % 4 }, (_, i) => mate(`w-${i + 1}`))
    save(team, { ...good, teammates: [mate('alice'), ...more] })
    await new Promise(resolve => setTimeout(resolve, n % 3 === 0 ? 20 : 0))
  }
  save(team, { ...good, teammates: [mate('alice'), { name: 'w', count: 3, model: { name: 'w' } }] })
  await until(async () => (await names(team.root)).join() === 'alice,w-1,w-2,w-3')
  await quiet(team.root, 'alice', 'w-1', 'w-2', 'w-3')
  save(team, { ...good, teammates: [mate('alice'), { name: 'w', count: 2, model: { name: 'w' } }] })
  await until(async () => (await names(team.root)).join() === 'alice,w-1,w-2')
  expect(await told(team.root)).toEqual([])
  expect((await journal(team.root)).filter(({ event }) => event === 'config.refused')).toEqual([])
})

test('keys of the whole team hold at once; what only the next start can take is said and not half applied', async () => {
  const team = await scriptedTeam({ alice: doer }, { mode: 'dir' })
  await team.up()
  edit(team, config => Object.assign(config, { verify: 'false', trunk: 'other', limits: { returns: 0 } }))
  expect(await pending(team.root, 'next team up')).toBe(
    'config.json: trunk changed, which takes effect at the next team up',
  )
  await ask(team.root, 'task.add', { tasks: [{ title: 'Checked' }] })
  const failed = await until(async () => {
    const { task } = await ask(team.root, 'task.get', { id: '1' })
    return task.status === 'failed' && task
  })
  expect(failed.error).toContain('false')
  edit(team, config => Object.assign(config, { trunk: 'team/trunk' }))
  await nonePending(team.root, 'next team up')
})

test('killed while a teammate was leaving, the next start loads what config.json says and releases what it had in hand', async () => {
  const team = await scriptedTeam({ alice: () => new Promise<Reply>(() => undefined), bob: doer })
  const daemon = await team.up()
  await ask(team.root, 'task.add', { tasks: [{ title: 'Stuck', assignee: 'alice' }, { title: 'Free' }] })
  await until(() => team.requests('alice').length >= 1)
  edit(team, config => {
    config.teammates = config.teammates.slice(1)
  })
  await until(async () => (await ask(team.root, 'request.list', {})).requests.length > 0)
  daemon.kill('SIGKILL')
  await new Promise(resolve => daemon.once('exit', resolve))
  await team.up()
  const now = await status(team.root)
  expect(now.teammates.map(({ name }) => name)).toEqual(['bob'])
  expect(now.tasks.find(({ id }) => id === '1')).toMatchObject({ status: 'pending', assignee: 'alice' })
  await completed(team.root, '2')
})

test('E03 who joins a team on a repository gets a clone of the base as it is by then, before any task', async () => {
  const it = gitTeam({ teammates: [{ name: 'alice' }] })
  await says(start(['up', '--root', it.root]), /ready, pid/)
  await quiet(it.root, 'alice')
  it.repo.commit('Later', { 'later.txt': 'later\n' })
  const file = join(it.root, 'config.json')
  const config = JSON.parse(readFileSync(file, 'utf8')) as Shape
  writeFileSync(file, JSON.stringify({ ...config, teammates: [{ name: 'alice' }, { name: 'bob' }] }))
  await until(async () => (await names(it.root)).includes('bob'))
  await quiet(it.root, 'bob')
  expect(existsSync(join(it.clone('bob'), 'later.txt'))).toBe(true)
})

test('named again when it has agreed to leave and is not gone yet, a teammate begins anew: it does not stay stopped', async () => {
  const team = await scriptedTeam(
    {
      alice: (request, n) => {
        const id = /(req_\d+)/.exec(request.messages.at(-1)?.content ?? '')?.[1]
        const waitFor = (file: string) => ({
          name: 'bash',
          args: { command: `node -e "setInterval(() => require('fs').existsSync('${file}') && process.exit(), 20)"` },
        })
        if (n === 0) return { calls: [waitFor('asked')] }
        if (n > 1) return doer(request, n)
        return { calls: [{ name: 'request', args: { action: 'decide', id, decision: 'approve' } }, waitFor('go')] }
      },
      bob: doer,
    },
    { permissions: { allow: ['node *'] } },
  )
  await team.up()
  await quiet(team.root, 'alice', 'bob')
  const whole = configOf(team)
  const seen = async (event: string) => (await journal(team.root)).filter(entry => entry.event === event).length
  await ask(team.root, 'task.add', { tasks: [{ title: 'Look around', assignee: 'alice' }] })
  await until(async () => (await status(team.root)).teammates[0]?.state === 'working')
  save(team, { ...whole, teammates: [mate('bob')] })
  await until(async () => (await seen('request.opened')) === 1)
  writeFileSync(join(team.root, 'asked'), '')
  await until(async () => (await seen('request.decided')) === 1)
  save(team, whole)
  await until(async () => (await seen('config.changed')) === 2)
  expect((await status(team.root)).teammates[0]).toMatchObject({ name: 'alice', state: 'draining' })
  writeFileSync(join(team.root, 'go'), '')
  await until(async () => (await seen('teammate.joined')) === 1)
  const { teammates } = await quiet(team.root, 'alice', 'bob')
  expect(teammates.map(({ name, state }) => [name, state])).toEqual([
    ['alice', 'idle'],
    ['bob', 'idle'],
  ])
})
