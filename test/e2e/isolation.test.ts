import { spawn } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { cleanEnv, command, ended, says, start, statusOf, team, teamOk, tempFolder, until } from '../support/cli.ts'
import {
  asker,
  call,
  gitTeamOf,
  heard,
  holderOf,
  isAlive,
  journalOf,
  killDaemon,
  model,
  silence,
  sinceTask,
  teamOf,
} from '../support/daemon.ts'

const names = ['alice', 'bob']
const mate = async (root: string, name: string) => (await statusOf(root)).teammates.find(each => each.name === name)

test('C07 a teammate that cannot start is retried ever more slowly, given up in sight of all, and comes back by hand', async () => {
  const server = await model(request =>
    sinceTask(request)?.results.length === 0 ? call('task', { action: 'complete', summary: 'done' }) : 'fine',
  )
  const root = teamOf(server, { limits: { restarts: 2 } })
  // A line in the middle of its session that nobody can read: the thread throws at every start.
  const session = join(root, '.team', 'sessions', 'alice.jsonl')
  mkdirSync(join(root, '.team', 'sessions'), { recursive: true })
  writeFileSync(session, 'no json\n{"k":"todo","items":[]}\n')
  await teamOk(['up', '-d', '--root', root])
  await until(async () => (await mate(root, 'alice'))?.state === 'failed', 60_000)
  const deaths = await until(() => {
    const died = journalOf(root).filter(entry => entry.event === 'teammate.died')
    return died.length >= 3 && died
  })
  expect(deaths).toHaveLength(3)
  const waits = deaths.flatMap(entry => (typeof entry.info?.inMs === 'number' ? [entry.info.inMs] : []))
  expect(waits[1]).toBeGreaterThan(waits[0] ?? 0)
  const status = await teamOk(['status', '--root', root])
  expect(status).toMatch(/alice\s+failed/)
  expect(status).toContain('alice.jsonl:1')
  expect(await teamOk(['inbox', '--root', root])).toContain('alice was given up after 2 restarts')
  // The others work, and so does it once the file is mended.
  await teamOk(['task', 'add', 'For bob', '--assignee', 'bob', '--root', root])
  await until(async () => (await statusOf(root)).tasks[0]?.status === 'completed')
  rmSync(session)
  await teamOk(['restart', 'alice', '--root', root])
  await teamOk(['task', 'add', 'For alice', '--assignee', 'alice', '--root', root])
  await until(async () => (await statusOf(root)).tasks[1]?.status === 'completed')
  await until(async () => (await mate(root, 'alice'))?.restarts === 0)
  await teamOk(['down', '--root', root])
})

test('a teammate whose clone is in the way of something else comes back by team restart once that is moved', async () => {
  const server = await model(() => 'fine')
  const { root } = gitTeamOf(server)
  const clone = join(root, 'team', 'alice', 'repo')
  mkdirSync(clone, { recursive: true })
  writeFileSync(join(clone, 'mine.txt'), 'not yours')
  await teamOk(['up', '-d', '--root', root])
  expect((await mate(root, 'alice'))?.state).toBe('failed')
  expect((await mate(root, 'bob'))?.state).not.toBe('failed')
  expect((await team(['restart', 'alice', '--root', root])).code).toBe(5)
  expect((await mate(root, 'alice'))?.state).toBe('failed')
  expect(readFileSync(join(clone, 'mine.txt'), 'utf8')).toBe('not yours')
  rmSync(clone, { recursive: true })
  await teamOk(['restart', 'alice', '--root', root])
  await until(async () => (await mate(root, 'alice'))?.state === 'idle')
  expect(readFileSync(join(clone, 'a.txt'), 'utf8')).toBe('one\n')
  await teamOk(['down', '--root', root])
})

test('who cannot be made ready is named by up, holds up nobody, and is counted on by nobody', async () => {
  const server = await model(request => {
    if (asker(request, ['lead', 'bob']) === 'lead') return sinceTask(request) ? silence() : 'fine'
    const at = sinceTask(request)
    if (!at) return 'fine'
    return at.results.length === 0
      ? call('request', { action: 'open', type: 'plan_request', title: 'a plan', body: 'to write a.txt' })
      : call('task', { action: 'complete', summary: 'done' })
  })
  const root = teamOf(server, { teammates: [{ name: 'lead' }, { name: 'bob' }], lead: 'lead' })
  await teamOk(['up', '-d', '--root', root])
  // In dir mode its task holds every path: nobody else writes while it is in hand.
  await teamOk(['task', 'add', 'Of the lead', '--assignee', 'lead', '--root', root])
  await until(async () => (await statusOf(root)).tasks[0]?.status === 'in_progress')
  await killDaemon(root)
  const home = join(root, 'team', 'lead')
  rmSync(home, { recursive: true })
  writeFileSync(home, 'a file in the place of its home')
  const up = await team(['up', '-d', '--root', root])
  expect([up.code, up.stderr]).toEqual([0, expect.stringMatching(/lead does not run: team\/lead cannot be prepared/)])
  expect(await teamOk(['logs', '--root', root])).toMatch(/lead was given up: team\/lead cannot be prepared/)
  expect(await teamOk(['inbox', '--root', root])).toMatch(/lead could not be made ready: .*team restart lead starts it/)
  const { tasks, problems } = await statusOf(root)
  expect(tasks[0]).toMatchObject({ status: 'pending', owner: null })
  expect(problems).toContain('task 1 "Of the lead" waits for lead, who does not run (team restart lead)')
  // What the lead would decide goes to the person, and the work of others goes on.
  await teamOk(['task', 'add', 'Of bob', '--assignee', 'bob', '--root', root])
  await until(async () => (await statusOf(root)).requests.some(({ from, to }) => from === 'bob' && to === 'human'))
  await teamOk(['approve', '1', '--root', root])
  await until(async () => (await statusOf(root)).tasks.find(({ id }) => id === '2')?.status === 'completed')
  rmSync(home)
  await teamOk(['restart', 'lead', '--root', root])
  await until(async () => (await statusOf(root)).tasks[0]?.owner === 'lead')
  await teamOk(['down', '--force', '--root', root])
})

test('a set-up of a clone that was cut off by a kill is done again, and one that is done is not', async () => {
  const { root, repo } = gitTeamOf(await model(() => 'fine'), {
    teammates: [{ name: 'alice' }],
    setup:
      'echo begun >> ../../../../setups.txt && if [ -e ../../../../hold ]; then sleep 60; fi && echo done > set-up.txt',
  })
  const log = join(root, 'setups.txt')
  const hold = join(root, 'hold')
  const place = (path: string) => path.replaceAll('../../../../', `${root}/`)
  const config = join(root, 'config.json')
  writeFileSync(config, place(readFileSync(config, 'utf8')))
  writeFileSync(hold, '')
  const count = () => {
    try {
      return readFileSync(log, 'utf8').split('\n').length - 1
    } catch {
      return 0
    }
  }
  const child = start(['up', '--root', root])
  await until(() => count() === 1)
  child.kill('SIGKILL')
  await ended(child)
  rmSync(hold)
  await teamOk(['up', '-d', '--root', root])
  expect(count()).toBe(2)
  expect(readFileSync(join(root, 'team', 'alice', 'repo', 'set-up.txt'), 'utf8')).toBe('done\n')
  await teamOk(['down', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  expect(count()).toBe(2)
  await teamOk(['down', '--root', root])
  expect(repo.git('status', '--porcelain')).toBe('')
})

/** The built product with teammates that misbehave when a file `act` in the team root says how, once each. */
const misbehaving = (): string => {
  const folder = tempFolder()
  const dist = join(folder, 'dist')
  cpSync(dirname(command), dist, { recursive: true })
  cpSync(join(dirname(command), '..', 'package.json'), join(folder, 'package.json'))
  symlinkSync(join(dirname(command), '..', 'node_modules'), join(folder, 'node_modules'))
  renameSync(join(dist, 'teammate.js'), join(dist, 'real.js'))
  writeFileSync(
    join(dist, 'teammate.js'),
    `import { existsSync, readFileSync, rmSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
const file = workerData.root + '/act'
const acts = {
  reject: () => void Promise.reject(new Error('nobody caught this')),
  throw: () => { throw new Error('thrown in a timer') },
  exit: () => process.exit(3),
  talk: () => { for (const said of [null, 42, { t: 'req' }, { t: 'state', state: 'flying' }]) parentPort.postMessage(said) },
}
if (workerData.name === 'alice') setInterval(() => {
  if (!existsSync(file)) return
  const act = readFileSync(file, 'utf8')
  rmSync(file)
  acts[act]()
}, 20).unref()
await import('./real.js')
`,
  )
  return join(dist, 'team.cjs')
}

test('C13 what one thread does wrong harms no other: it alone is restarted, and finishes its task', async () => {
  const server = await model(async request => {
    const at = sinceTask(request)
    if (!at) return 'fine'
    if (asker(request, names) === 'alice' && !existsSync(join(root, 'go'))) return silence()
    return at.results.at(-1)?.name === 'task' ? 'done' : call('task', { action: 'complete', summary: 'done' })
  })
  const { root } = gitTeamOf(server, { limits: { deaths: 9 } })
  await teamOk(['task', 'add', 'For alice', '--assignee', 'alice', '--root', root])
  const child = spawn(process.execPath, [misbehaving(), 'up', '--root', root], { env: cleanEnv() })
  await says(child, /ready, pid/)
  const deaths = () => journalOf(root).filter(entry => entry.event === 'teammate.died')
  const act = async (name: string) => {
    writeFileSync(join(root, 'act.new'), name)
    renameSync(join(root, 'act.new'), join(root, 'act'))
    await until(() => !existsSync(join(root, 'act')))
  }
  await act('talk')
  await until(() => journalOf(root).filter(entry => /malformed message/.test(JSON.stringify(entry.info))).length >= 4)
  expect(deaths()).toEqual([])
  for (const [n, name] of ['reject', 'throw', 'exit'].entries()) {
    await act(name)
    await until(() => deaths().length === n + 1)
  }
  writeFileSync(join(root, 'go'), '')
  await teamOk(['task', 'add', 'For bob', '--assignee', 'bob', '--root', root])
  await until(async () => (await statusOf(root)).tasks.every(task => task.status === 'completed'), 40_000)
  expect((await holderOf(root)).pid).toBe(child.pid)
  expect(new Set(deaths().map(entry => entry.info?.name))).toEqual(new Set(['alice']))
  expect((await statusOf(root)).tasks[0]?.attempts).toBe(1)
  await teamOk(['down', '--root', root])
  expect(await ended(child)).toBe(0)
})

test('a lease goes with the thread that held it: who waited has it, and who comes back is told', async () => {
  const lease = call('request', {
    action: 'open',
    type: 'resource_request',
    data: { kind: 'name', what: ['staging'] },
  })
  const server = await model(request => {
    const at = sinceTask(request)
    if (!at) return 'fine'
    if (at.results.length === 0) return lease
    const isAlice = asker(request, names) === 'alice'
    if (isAlice && !heard(request).includes('You do not hold req_1 any more')) return silence()
    return at.results.at(-1)?.name === 'task' ? 'done' : call('task', { action: 'complete', summary: 'done' })
  })
  const { root } = gitTeamOf(server)
  const child = spawn(process.execPath, [misbehaving(), 'up', '--root', root], { env: cleanEnv() })
  await says(child, /ready, pid/)
  await teamOk(['task', 'add', 'For alice', '--assignee', 'alice', '--root', root])
  await until(async () => (await statusOf(root)).leases.held.length === 1)
  await teamOk(['task', 'add', 'For bob', '--assignee', 'bob', '--root', root])
  await until(async () => (await mate(root, 'bob'))?.waiting?.whom === 'alice')
  writeFileSync(join(root, 'act.new'), 'exit')
  renameSync(join(root, 'act.new'), join(root, 'act'))
  await until(async () => (await statusOf(root)).tasks.every(task => task.status === 'completed'), 40_000)
  const ends = journalOf(root).filter(({ event }) => event === 'effect.done')
  expect(ends[0]?.info).toMatchObject({
    request: 'req_1',
    detail: expect.stringContaining('the thread of alice ended'),
  })
  await teamOk(['down', '--root', root])
  expect(await ended(child)).toBe(0)
})

test('C15 two teammates each see their own clone, and nothing of the environment passes between them or from call to call', async () => {
  const seen = new Map<string, string[]>()
  const server = await model(request => {
    const at = sinceTask(request)
    const who = asker(request, names)
    if (!at) return 'fine'
    seen.set(
      who,
      at.results.filter(result => result.name === 'bash').map(result => result.text),
    )
    if (at.results.length < 6)
      return at.results.length % 2 === 0
        ? call('bash', { command: `pwd; export A=${who}` })
        : call('bash', { command: 'pwd; echo "A=[$A]"' })
    return at.results.at(-1)?.name === 'task' ? 'done' : call('task', { action: 'complete', summary: 'looked' })
  })
  const { root } = gitTeamOf(server)
  for (const name of names) await teamOk(['task', 'add', `Look, ${name}`, '--assignee', name, '--root', root])
  expect((await team(['up', '--once', '--root', root])).code).toBe(0)
  for (const name of names) {
    const texts = seen.get(name) ?? []
    expect(texts).toHaveLength(6)
    for (const text of texts) expect(text).toContain(join(root, 'team', name, 'repo'))
    expect(texts.filter(text => text.includes('A=[]'))).toHaveLength(3)
  }
})

test('C11 up | head -1 ends the reader only: the daemon works on and stops by down', async () => {
  const server = await model(request =>
    sinceTask(request)?.results.length === 0 ? call('task', { action: 'complete', summary: 'done' }) : 'fine',
  )
  const root = teamOf(server)
  const line = '"$NODE" "$TEAM" up --root "$ROOT" 2>/dev/null | head -1'
  const shell = spawn('sh', ['-c', line], { env: { ...cleanEnv(), NODE: process.execPath, TEAM: command, ROOT: root } })
  // The first line, whatever it is, is all that anybody reads.
  await says(shell, /\n/)
  const { pid } = await holderOf(root)
  for (let n = 0; n < 3; n++) await teamOk(['task', 'add', `Task ${n}`, '--root', root])
  await until(async () => (await statusOf(root)).tasks.every(task => task.status === 'completed'))
  expect((await holderOf(root)).pid).toBe(pid)
  // Mail by hand still comes in: it is not the screen that the daemon lives on.
  appendFileSync(
    join(root, '.messages', 'bob.inbox.jsonl'),
    `${JSON.stringify({ from: 'me', to: 'bob', type: 'info', content: 'by hand' })}\n`,
  )
  await until(async () => (await teamOk(['inbox', 'bob', '--root', root])).includes('by hand'))
  await teamOk(['down', '--root', root])
  expect(isAlive(pid)).toBe(false)
})
