import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Request } from '../../src/protocol/request.ts'
import { cleanEnv, command, ended, says, start, statusOf, team, teamOk, until } from '../support/cli.ts'
import {
  asker,
  call,
  gitTeamOf,
  heard,
  holderOf,
  isAlive,
  model,
  running,
  silence,
  sinceTask,
  teamOf,
} from '../support/daemon.ts'

const names = ['alice', 'bob']
const requestsOf = async (root: string): Promise<Request[]> =>
  JSON.parse(await teamOk(['requests', '--all', '--json', '--root', root]))
const is = (root: string, name: string, state: string) =>
  until(async () => (await statusOf(root)).teammates.find(mate => mate.name === name)?.state === state)
const unique = () => String(600_000 + Math.floor(Math.random() * 300_000))

test('C03 what a command started, in its group or out of it, does not outlive team down', async () => {
  const [inside, apart] = [unique(), unique()]
  const server = await model(request => {
    const at = sinceTask(request)
    if (!at || at.results.length > 0) return silence()
    return call('bash', { command: `(sleep ${inside} & sleep ${inside}) & setsid sleep ${apart} & echo started; wait` })
  })
  const root = teamOf(server, { teammates: [{ name: 'alice' }], limits: { graceSeconds: 1 } })
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['task', 'add', 'Start three', '--root', root])
  await until(() => running(`sleep ${inside}`).length >= 2 && running(`sleep ${apart}`).length >= 1)
  await teamOk(['down', '--timeout', '1', '--root', root])
  expect([...running(`sleep ${inside}`), ...running(`sleep ${apart}`)]).toEqual([])
})

test('C03 what a killed daemon left running is ended and named by the next one', async () => {
  const word = unique()
  const server = await model(request =>
    sinceTask(request)?.results.length === 0 ? call('bash', { command: `setsid sleep ${word} & wait` }) : silence(),
  )
  const root = teamOf(server, { teammates: [{ name: 'alice' }] })
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['task', 'add', 'Start one', '--root', root])
  await until(() => running(`sleep ${word}`).length > 0)
  const { pid } = await holderOf(root)
  process.kill(pid, 'SIGKILL')
  await until(() => !isAlive(pid))
  expect(running(`sleep ${word}`).length).toBeGreaterThan(0)
  await teamOk(['up', '-d', '--root', root])
  expect(running(`sleep ${word}`)).toEqual([])
  expect(await teamOk(['logs', '--json', '--root', root])).toContain(`sleep ${word}`)
})

test('C05 down, a signal and Ctrl-C each end a team whose model never answers, within the grace, with exit 0', async () => {
  const server = await model(silence)
  const root = teamOf(server, { teammates: [{ name: 'alice' }], limits: { graceSeconds: 2 } })
  await teamOk(['task', 'add', 'Wait for ever', '--root', root])
  for (const how of ['down', 'SIGTERM', 'SIGINT'] as const) {
    const asked = server.requests.length
    const child = start(['up', '--root', root])
    await says(child, /ready, pid/)
    await until(() => server.requests.length > asked)
    const end = ended(child)
    if (how === 'down') expect(await teamOk(['down', '--timeout', '2', '--root', root])).toContain('stopped by force')
    else child.kill(how)
    expect(await end).toBe(0)
    const { tasks, holder } = await statusOf(root)
    expect([holder, tasks[0]?.status, tasks[0]?.owner]).toEqual([null, 'pending', null])
  }
  const all = await requestsOf(root)
  expect(all.map(request => [request.outcome, request.effect?.outcome])).toEqual(
    Array.from({ length: 3 }, () => ['expired', 'forced']),
  )
})

test('C05 a person who approves a shutdown in the place of a teammate whose model never answers has it at once, and the turn goes on later', async () => {
  const server = await model(silence)
  const root = teamOf(server, { teammates: [{ name: 'alice' }], limits: { graceSeconds: 600 } })
  await teamOk(['task', 'add', 'Wait for ever', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  await until(() => server.requests.length > 0)
  const down = teamOk(['down', 'alice', '--root', root])
  const [request] = await until(async () => {
    const { requests } = await statusOf(root)
    return requests.length > 0 && requests
  })
  await teamOk(['approve', request?.id ?? '', '--root', root])
  expect(await down).toBe('alice: shut down\n')
  expect((await requestsOf(root)).map(({ outcome, effect }) => [outcome, effect?.outcome])).toEqual([['decided', 'ok']])
  await teamOk(['restart', 'alice', '--root', root])
  await until(() => server.requests.length > 1)
  await teamOk(['down', '--force', '--root', root])
})

const hasScript = spawnSync('script', ['--version']).status === 0

describe.each(['on', 'off'])('with its parent %s', TEAM_PARENT =>
  test.skipIf(!hasScript)('C05 Ctrl-C twice at a real terminal stops everyone at once', async () => {
    const server = await model(silence)
    const root = teamOf(server, { limits: { graceSeconds: 600 } })
    await teamOk(['task', 'add', 'Wait for ever', '--root', root])
    const code = join(root, '..', 'code')
    // A key that comes when the team has just ended is the shell's, which is to say the code all the same.
    const line = 'trap : INT; "$NODE" "$TEAM" up --root "$ROOT"; echo $? > "$CODE"'
    const terminal = spawn('script', ['-qfec', line, '/dev/null'], {
      // An interactive shell's rule: the one in front gets the key, and whoever started it does not die of it.
      env: {
        ...cleanEnv(),
        TEAM_PARENT,
        SHELL: '/bin/bash',
        NODE: process.execPath,
        TEAM: command,
        ROOT: root,
        CODE: code,
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    await says(terminal, /ready, pid/)
    await until(() => server.requests.length > 0)
    const first = says(terminal, /once more stops at once/)
    terminal.stdin.write('\x03')
    await first
    // Two within a tenth of a second are one: a person's second is later than that.
    let over = false
    const second = says(terminal, /has stopped/).finally(() => {
      over = true
    })
    await until(() => {
      if (!over) terminal.stdin.write('\x03')
      return over
    })
    await second
    await until(() => existsSync(code) && readFileSync(code, 'utf8') !== '')
    expect((await statusOf(root)).holder).toBeNull()
    expect(readFileSync(code, 'utf8')).toBe('0\n')
  }),
)

test('D09 a shutdown that the model ignores is forced after the grace, recorded so, told to the lead, and no work is lost', async () => {
  const server = await model(request => {
    if (asker(request, names) !== 'alice') return 'nothing to do'
    const at = sinceTask(request)
    if (!at) return 'nothing to do'
    if (at.results.length === 0)
      return call('bash', { command: 'echo committed > a.txt && git commit -qam half && echo loose > loose.txt' })
    // Talks on and on, and never of what it was asked.
    return call('ls', { path: '.' })
  })
  const { root, repo } = gitTeamOf(server, {
    limits: { graceSeconds: 1, rounds: 100_000, sameCalls: 100_000, callsWithoutEffect: 100_000 },
  })
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['task', 'add', 'Ignore everything', '--assignee', 'alice', '--root', root])
  await until(() => existsSync(join(root, 'team', 'alice', 'repo', 'loose.txt')))
  await is(root, 'bob', 'idle')
  const said = await teamOk(['down', '--timeout', '3', '--root', root])
  expect(said).toMatch(/alice: stopped by force/)
  expect(said).toMatch(/bob: was idle, shut down/)
  expect(heard(server.requests.at(-1))).toContain('type="shutdown_request"')
  const request = (await requestsOf(root)).find(one => one.to === 'alice')
  expect([request?.outcome, request?.effect?.step, request?.effect?.outcome]).toEqual(['expired', 'done', 'forced'])
  expect(await teamOk(['inbox', '--root', root])).toMatch(/alice was stopped by force/)
  expect(readFileSync(join(root, 'team', 'alice', 'repo', 'loose.txt'), 'utf8')).toBe('loose\n')
  expect(
    spawnSync('git', ['-C', join(root, '.team', 'hub.git'), 'log', '--format=%s', 'team/task-1'], { encoding: 'utf8' })
      .stdout,
  ).toContain('half')
  expect(repo.git('status', '--porcelain')).toBe('')
})

test('D09 a command that runs for ten minutes does not hold a shutdown up, and what is uncommitted stays', async () => {
  const word = unique()
  const server = await model(request => {
    const at = sinceTask(request)
    return at?.results.length === 0
      ? call('bash', { command: `echo half > half.txt; sleep ${word}`, timeout_s: 600 })
      : 'done'
  })
  const root = teamOf(server, { teammates: [{ name: 'alice' }], lead: 'alice', limits: { graceSeconds: 1 } })
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['task', 'add', 'Take ten minutes', '--root', root])
  await until(() => running(`sleep ${word}`).length > 0)
  expect(await teamOk(['down', '--timeout', '1', '--root', root])).toMatch(/alice: stopped by force/)
  expect(running(`sleep ${word}`)).toEqual([])
  expect(existsSync(join(root, 'half.txt'))).toBe(true)
  const request = (await requestsOf(root)).at(-1)
  expect(request?.effect?.outcome).toBe('forced')
  // The lead is the one that was stopped: it reads of it when it is back.
  expect(await teamOk(['inbox', 'alice', '--root', root])).toMatch(/by force/)
})

test('a teammate that rejects its shutdown keeps the daemon: exit 5, the reason printed, and everyone works on', async () => {
  let mayGo = false
  const server = await model(async request => {
    if (asker(request, names) === 'bob') return 'nothing to do'
    const at = sinceTask(request)
    const asked = [...heard(request).matchAll(/<request id="(req_\d+)"/g)].map(found => found[1] ?? '')
    if (!at) return 'nothing to do'
    const decided = at.results.filter(result => result.name === 'request').length
    if (asked.length > decided)
      return call('request', {
        action: 'decide',
        id: asked[decided],
        decision: mayGo ? 'approve' : 'reject',
        reason: mayGo ? 'done by now' : 'the migration is half done',
      })
    if (decided > 0 && !mayGo && at.results.at(-1)?.name === 'request')
      return call('task', { action: 'complete', summary: 'migrated' })
    return call('bash', { command: 'sleep 0.2' })
  })
  const root = teamOf(server)
  await teamOk(['up', '-d', '--root', root])
  const { pid } = await holderOf(root)
  await teamOk(['task', 'add', 'Migrate', '--assignee', 'alice', '--root', root])
  await is(root, 'alice', 'working')
  await is(root, 'bob', 'idle')
  const refused = await team(['down', '--root', root])
  expect([refused.code, refused.stdout]).toEqual([5, expect.stringContaining('the migration is half done')])
  expect(refused.stdout).toContain('bob: was idle, shut down; is started again\n')
  expect((await holderOf(root)).pid).toBe(pid)
  await until(async () => (await statusOf(root)).tasks[0]?.status === 'completed')
  // bob had agreed to go, and is back; new work is given out.
  mayGo = true
  await teamOk(['task', 'add', 'One more', '--assignee', 'bob', '--root', root])
  await until(async () => (await statusOf(root)).tasks[1]?.attempts !== 0)
  await teamOk(['down', '--root', root])
})

test('a teammate stopped on request stays so over a restart of the daemon, until team restart', async () => {
  const server = await model(request =>
    sinceTask(request)
      ? call('task', { action: 'complete', summary: 'done' })
      : call('request', { action: 'open', type: 'shutdown_request', title: 'Nothing for me', body: 'tired' }),
  )
  const root = teamOf(server, { teammates: [{ name: 'alice' }] })
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['send', 'alice', 'say what you want', '--root', root])
  await until(async () => (await statusOf(root)).requests.length > 0)
  const [request] = (await statusOf(root)).requests
  await teamOk(['approve', request?.id ?? '', '--root', root])
  const state = async () => (await statusOf(root)).teammates[0]?.state
  await until(async () => (await state()) === 'stopped')
  await teamOk(['down', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  expect(await state()).toBe('stopped')
  expect((await team(['restart', 'nobody', '--root', root])).code).toBe(4)
  expect(await teamOk(['restart', 'alice', '--root', root])).toContain('alice starts again')
  await until(async () => ['idle', 'working'].includes((await state()) ?? ''))
  expect((await team(['restart', 'alice', '--root', root])).code).toBe(5)
  await teamOk(['down', '--root', root])
})

test('up --once works everything off and ends with 0; with one failed task it ends with 1 and says what is left', async () => {
  const server = await model(request => {
    const at = sinceTask(request)
    if (!at) return 'nothing'
    if (at.results.length > 0) return 'done'
    return /Hopeless/.test(at.text)
      ? call('task', { action: 'fail', summary: 'it cannot be done' })
      : call('task', { action: 'complete', summary: 'done' })
  })
  const root = teamOf(server)
  for (const title of ['One', 'Two', 'Three']) await teamOk(['task', 'add', title, '--root', root])
  const fine = await team(['up', '--once', '--root', root])
  expect([fine.code, (await statusOf(root)).tasks.map(task => task.status)]).toEqual([
    0,
    ['completed', 'completed', 'completed'],
  ])
  await teamOk(['task', 'add', 'Hopeless', '--root', root])
  const left = await team(['up', '--once', '--root', root])
  expect([left.code, left.stdout]).toEqual([1, expect.stringContaining('1 task')])
})
