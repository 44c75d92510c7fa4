import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ended, start, statusOf, team, teamOk, until } from '../support/cli.ts'
import { call, gitTeamOf, isAlive, killDaemon, model, running, sinceTask, teamOf } from '../support/daemon.ts'

/** Works a task off by steps that may be done twice; asks anew for what was cut off. Agrees to every shutdown. */
const steady = () =>
  model(request => {
    const at = sinceTask(request)
    if (!at) return 'nothing in hand'
    const last = at.results.at(-1)
    const done = at.results.some(result => result.name === 'bash' && /^exit 0/.test(result.text))
    if (last?.name === 'task' && /claimed done|no task in hand|not in your hands/.test(last.text)) return 'done'
    if (!done)
      return call('bash', {
        command: `sleep 0.1; grep -qsx ${at.id} t${at.id}.txt || echo ${at.id} >> t${at.id}.txt; git add -A && git diff --cached --quiet || git commit -qm task-${at.id}`,
      })
    return call('task', { action: 'complete', summary: 'committed' })
  })

/** `TEAM_KILLS=40` for a long look. */
const wanted = Number(process.env.TEAM_KILLS ?? 8)

test('killed at any moment, again and again: every task is completed once, merged once, and files and journal agree', async () => {
  const server = await steady()
  const mark = `verify-${Math.floor(Math.random() * 1e9)}`
  const { root, repo } = gitTeamOf(server, {
    teammates: [{ name: 'alice' }, { name: 'bob' }, { name: 'carol' }],
    sandbox: 'prefer',
    permissions: { allow: ['sleep *', 'git *', 'grep *'] },
    approvals: { merge_request: 'auto' },
    verify: `node -e "setTimeout(() => {}, 150)" ${mark}`,
  })
  let added = 0
  const add = () =>
    teamOk(['task', 'add', `Task ${++added}`, ...(added > 3 ? ['--after', String(added - 3)] : []), '--root', root])
  for (let n = 0; n < 6; n++) await add()
  let kills = 0
  for (let round = 0; kills < wanted; round++) {
    const child = start(['up', '--root', root])
    let said = ''
    child.stdout?.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8')
    })
    child.stderr?.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8')
    })
    // A kill in the start itself, or in whatever goes on after it; sometimes while everyone is asked to stop.
    const early = round % 4 === 0
    if (!early) await until(() => /ready, pid/.test(said))
    const alive = Math.random() * (early ? 800 : 4000)
    await new Promise(resolve => setTimeout(resolve, alive))
    if (round % 5 === 4) {
      child.kill('SIGTERM')
      await new Promise(resolve => setTimeout(resolve, Math.random() * 150))
    }
    child.kill('SIGKILL')
    if ((await ended(child)) === 'SIGKILL') kills++
    expect(said).not.toMatch(/\n {4}at /)
    // There is always something left to be killed in.
    if (added < 4 + wanted / 2 && round % 2 === 0) await add()
  }
  const last = await team(['up', '--once', '--root', root])
  const { tasks, problems } = await statusOf(root)
  const open = tasks.flatMap(task => (task.status === 'completed' ? [] : [`${task.id} ${task.shown} ${task.error}`]))
  expect({ open, problems: problems.filter(text => !/sandbox/.test(text)), code: last.code }).toEqual({
    open: [],
    problems: [],
    code: 0,
  })
  const git = (...args: string[]) => repo.git('--git-dir', join(root, '.team', 'hub.git'), ...args)
  const merges = git('log', '--merges', '--format=%s', 'team/trunk').split('\n')
  expect(merges.sort()).toEqual(tasks.map(task => `Merge task ${task.id}: ${task.title}`).sort())
  for (const { id, result } of tasks) {
    expect(git('show', `team/trunk:t${id}.txt`)).toBe(id)
    expect(result?.outcome).toBe('merged')
  }
  expect([...running(mark), ...running(root)]).toEqual([])
  // The files show what the journal says, and nothing besides lies there.
  const files = readdirSync(join(root, '.tasks')).filter(name => name.endsWith('.json'))
  expect(files.sort()).toEqual(tasks.map(task => `task_${task.id}.json`).sort())
  for (const task of tasks) {
    const { shown: _shown, why: _why, ...stored } = task
    expect(JSON.parse(readFileSync(join(root, '.tasks', `task_${task.id}.json`), 'utf8'))).toMatchObject(
      JSON.parse(JSON.stringify(stored)),
    )
  }
  expect(readdirSync(join(root, '.team')).filter(name => /^(sock|verify\/.)/.test(name))).toEqual([])
})

test('F03 after kill -9 in the middle of three calls each is answered, next to its call, and none is run again', async () => {
  const server = await model(request => {
    const at = sinceTask(request)
    if (!at) return 'nothing'
    if (at.results.length > 0)
      return at.results.at(-1)?.name === 'task' ? 'done' : call('task', { action: 'complete', summary: 'x' })
    return {
      calls: [
        { name: 'bash', args: { command: 'echo one >> ran.txt' }, id: 'first' },
        { name: 'bash', args: { command: 'echo two >> ran.txt; sleep 300' }, id: 'second' },
        { name: 'bash', args: { command: 'echo three >> ran.txt' }, id: 'third' },
      ],
    }
  })
  const root = teamOf(server, { teammates: [{ name: 'alice' }] })
  await teamOk(['task', 'add', 'Three at once', '--root', root])
  await teamOk(['up', '-d', '--root', root])
  const ran = () => {
    try {
      return readFileSync(join(root, 'ran.txt'), 'utf8')
    } catch {
      return ''
    }
  }
  await until(() => ran().includes('two'))
  await killDaemon(root)
  await teamOk(['up', '-d', '--root', root])
  await until(async () => (await statusOf(root)).tasks[0]?.status === 'completed')
  // The endpoint is a strict one: it would have refused a history with a call that is not answered right after it.
  const resent = server.requests.at(-1)?.messages ?? []
  const answers = ['first', 'second', 'third'].map(id => resent.find(message => message.tool_call_id === id)?.content)
  expect(answers).toEqual([
    expect.stringContaining('exit 0'),
    expect.stringContaining('interrupted, outcome unknown'),
    expect.stringContaining('not run'),
  ])
  expect(ran()).toBe('one\ntwo\n')
  await teamOk(['down', '--root', root])
})

test('C09 a daemon that was stopped for many heartbeats restarts nobody and loses nothing, and the model call goes on', async () => {
  let answer: (() => void) | undefined
  const server = await model(async request => {
    const at = sinceTask(request)
    if (!at) return 'nothing'
    if (at.results.length > 0) return 'done'
    await new Promise<void>(resolve => {
      answer = resolve
    })
    return call('task', { action: 'complete', summary: 'slept over it' })
  })
  const root = teamOf(server, { limits: { heartbeatSeconds: 3 } })
  await teamOk(['task', 'add', 'Sleep', '--assignee', 'alice', '--root', root])
  const child = start(['up', '--root', root])
  await until(() => answer !== undefined)
  child.kill('SIGSTOP')
  // While it is stopped it still holds the root.
  await new Promise(resolve => setTimeout(resolve, 8_000))
  const second = await team(['up', '--root', root])
  expect([second.code, second.stderr]).toEqual([1, expect.stringMatching(/does not answer|runs for/)])
  child.kill('SIGCONT')
  answer?.()
  await until(async () => (await statusOf(root)).tasks[0]?.status === 'completed')
  const { teammates, tasks } = await statusOf(root)
  expect(teammates.map(mate => mate.restarts)).toEqual([0, 0])
  expect(tasks[0]?.attempts).toBe(1)
  const logs = await teamOk(['logs', '--json', '--root', root])
  expect(logs).not.toMatch(/teammate\.died|task\.released/)
  await teamOk(['down', '--root', root])
  expect(isAlive(child.pid ?? 0)).toBe(false)
})
