import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { teamOk, until } from '../support/cli.ts'
import { ask, heard, journal, killed, type Script, scriptedTeam, status } from '../support/scripted-team.ts'

const start = (command: string): Reply => ({ calls: [{ name: 'background', args: { action: 'start', command } }] })
const done = (summary = 'did it'): Reply => ({ calls: [{ name: 'task', args: { action: 'complete', summary } }] })
const times = (text: string, what: RegExp): number => text.match(new RegExp(what, 'g'))?.length ?? 0
const permissions = { allow: ['sleep *', 'node *', 'cat *', 'echo *'] }

const alice = async (root: string) => (await status(root)).teammates.find(({ name }) => name === 'alice')
/** Resolves when alice waits for a background command, and nothing else. */
const waits = (root: string) =>
  until(async () => {
    const mate = await alice(root)
    return mate?.state === 'waiting' && mate.waiting?.what.startsWith('background ') && mate
  }, 45_000)
const ended = (root: string, id = '1') =>
  until(async () => {
    const { task } = await ask(root, 'task.get', { id })
    return ['completed', 'failed', 'cancelled'].includes(task.status) && task
  }, 45_000)
/** A program that says a line, then waits until `go` is there, and leaves with 3. */
const program = (root: string): string => {
  const file = join(root, 'wait.js')
  writeFileSync(
    file,
    `process.on('SIGTERM', () => {})
console.log('begun ' + process.pid)
setInterval(() => { if (require('fs').existsSync('${root}/go')) { console.log('41 passed, 1 failed'); process.exit(3) } }, 20)`,
  )
  return `node ${file}`
}
const pidIn = (log: string): number => Number(/begun (\d+)/.exec(readFileSync(log, 'utf8'))?.[1])
const lives = (pid: number): boolean => existsSync(`/proc/${pid}`)

test('G15 a long command runs beside the work: shown, waited for at no cost, its end told once on the wire, and in replay', async () => {
  const made = await scriptedTeam(
    {
      alice: (_request, n) => {
        if (n === 0) return start(program(made.root))
        if (n === 1) return { calls: [{ name: 'bash', args: { command: 'echo meanwhile' } }] }
        return n === 2 ? 'I wait for the tests.' : n === 3 ? done() : 'Done.'
      },
    },
    { permissions },
  )
  await teamOk(['task', 'add', 'Test it', '--root', made.root])
  await made.up()
  const mate = await waits(made.root)
  expect(mate.background).toMatchObject([{ id: 'bg-1', command: expect.stringContaining('wait.js') }])
  expect(mate.task).toBe('1')
  expect(made.requests('alice')).toHaveLength(3)
  expect(await teamOk(['status', '--root', made.root])).toMatch(
    /alice +waiting .*waits for background bg-1: node[^()]*$/m,
  )
  writeFileSync(join(made.root, 'go'), '')
  expect(await ended(made.root)).toMatchObject({ status: 'completed' })
  const [, , before, after] = made.requests('alice').map(heard)
  expect(before).not.toContain('ended: exit')
  expect(after).toMatch(
    /<note>background command bg-1 \(node .*\) ended: exit 3 after \d+\.\d s\n\| begun \d+\n\| 41 passed, 1 failed\n\(all of its output: out\/bg-1\.log\)<\/note>/,
  )
  await until(async () => (await alice(made.root))?.state === 'idle')
  expect(times(heard(made.requests('alice').at(-1)), /bg-1 \(node/)).toBe(1)
  expect(readFileSync(join(made.root, 'team/alice/out/bg-1.log'), 'utf8')).toMatch(/^begun \d+\n41 passed, 1 failed\n$/)
  expect((await alice(made.root))?.background).toEqual([])
  const logs = await teamOk(['logs', '--root', made.root])
  expect(logs).toMatch(/alice runs bg-1 beside its work: node/)
  expect(logs).toMatch(/alice bg-1 ended: exit 3 after/)
  expect(await teamOk(['replay', 'alice', '--root', made.root])).toMatch(/bg-1 starts: node[\s\S]*bg-1 ended: exit 3/)
  expect(await teamOk(['replay', 'alice', '--verify', '--root', made.root])).toMatch(/byte for byte/)
})

test('G15 after kill -9 of the daemon what ran is dead, and the teammate is told once that its outcome is not known', async () => {
  let isBack = false
  const script: Script = (request, n) => {
    if (n === 0) return start(program(made.root))
    if (!isBack) return 'I wait.'
    return heard(request).includes('claimed done') ? 'Done.' : done()
  }
  const made = await scriptedTeam({ alice: script }, { permissions })
  await teamOk(['task', 'add', 'Test it', '--root', made.root])
  const first = await made.up()
  await waits(made.root)
  const log = join(made.root, 'team/alice/out/bg-1.log')
  const pid = await until(async () => existsSync(log) && pidIn(log))
  await killed(first)
  isBack = true
  const second = await made.up()
  expect(await ended(made.root)).toMatchObject({ status: 'completed' })
  await until(async () => !lives(pid))
  const all = heard(made.requests('alice').at(-1))
  expect(await teamOk(['logs', '--root', made.root])).toMatch(/alice bg-1 was ended with the thread that ran it/)
  expect(all).toMatch(
    /bg-1 \(node .*\) was running when you were interrupted, and was ended by that: how far it came is not known\n\(all of its output: out\/bg-1\.log\)/,
  )
  await killed(second)
  await made.up()
  await teamOk(['send', 'alice', 'again?', '--root', made.root])
  await until(async () => heard(made.requests('alice').at(-1)).includes('again?'))
  expect(times(await teamOk(['logs', '--root', made.root]), /bg-1 was ended with/)).toBe(1)
  expect(times(heard(made.requests('alice').at(-1)), /bg-1 \(node/)).toBe(1)
})

test('team down ends what runs, KILL where TERM is not heard, and the next start tells how', async () => {
  let isBack = false
  const script: Script = (request, n) => {
    if (n === 0) return start(program(made.root))
    if (heard(request).includes('shut')) return 'Yes.'
    return isBack ? 'Read.' : 'I wait.'
  }
  const made = await scriptedTeam({ alice: script }, { permissions })
  await made.up()
  // With no task in hand.
  await teamOk(['send', 'alice', 'run the tests and tell me', '--root', made.root])
  await waits(made.root)
  const pid = await until(async () => pidIn(join(made.root, 'team/alice/out/bg-1.log')))
  // A command does not keep it from its mail, so nothing says that an answer has to wait.
  const said = await teamOk(['chat', 'alice', '--root', made.root], { input: 'how is it?\n' })
  expect(said).toContain('I wait.')
  expect(said).not.toContain('waits for')
  await waits(made.root)
  await teamOk(['down', '--root', made.root])
  expect(made.requests('alice')).toHaveLength(3)
  await until(async () => !lives(pid))
  isBack = true
  const asked = made.requests('alice').length
  await made.up()
  await until(() => made.requests('alice').length > asked)
  expect(heard(made.requests('alice').at(-1))).toMatch(
    /bg-1 \(node .*\) was stopped as alice stopped after \d+\.\d s\n\| begun/,
  )
})

test('with a task in hand, too, what runs when the team stops is told as stopped by that at the next start', async () => {
  let isBack = false
  const script: Script = (request, n) => {
    if (n === 0) return start('sleep 300')
    if (isBack) return heard(request).includes('claimed done') ? 'Done.' : done()
    const id = /<request id="(req_\d+)" type="shutdown_request"/.exec(heard(request))?.[1]
    return id === undefined
      ? 'I wait.'
      : { calls: [{ name: 'request', args: { action: 'decide', id, decision: 'approve', reason: 'yes' } }] }
  }
  const made = await scriptedTeam({ alice: script }, { permissions })
  await teamOk(['task', 'add', 'Test it', '--root', made.root])
  await made.up()
  await waits(made.root)
  await teamOk(['down', '--root', made.root])
  isBack = true
  await made.up()
  await ended(made.root)
  const all = heard(made.requests('alice').at(-1))
  expect(times(all, /bg-1 \(sleep 300\) was stopped as alice stopped after/)).toBe(1)
})

test('a command that must be asked for waits for the decision, and runs once it is started again', async () => {
  const script: Script = (request, n) => {
    const text = heard(request)
    if (n === 0) return start('mkdir made')
    if (n === 1) return start('mkdir made')
    return text.includes('ended: exit 0') ? (text.includes('claimed done') ? 'Done.' : done()) : 'I wait.'
  }
  const made = await scriptedTeam({ alice: script })
  await teamOk(['task', 'add', 'Make it', '--root', made.root])
  await made.up()
  await until(async () => (await alice(made.root))?.waiting?.request === 'req_1')
  expect((await ask(made.root, 'request.get', { id: 'req_1' })).request).toMatchObject({
    type: 'permission_request',
    data: { command: 'mkdir made' },
  })
  expect((await journal(made.root)).some(({ event }) => event === 'background.started')).toBe(false)
  await teamOk(['approve', '1', '--root', made.root])
  expect(await ended(made.root)).toMatchObject({ status: 'completed' })
  const { request } = await ask(made.root, 'request.get', { id: 'req_1' })
  expect(request.effect).toMatchObject({ step: 'done', detail: 'exit 0' })
})

test('the end of the task ends what runs and says so; a task that is cancelled does too', async () => {
  let isSecond = false
  const script: Script = (request, n) => {
    if (n === 0) return start(program(made.root))
    if (n === 1) return done()
    if (heard(request).includes('# Second') && !isSecond) {
      isSecond = true
      return start('sleep 300')
    }
    return 'Read.'
  }
  const made = await scriptedTeam({ alice: script }, { permissions })
  await teamOk(['task', 'add', 'First', '--root', made.root])
  await made.up()
  await ended(made.root)
  await until(() => made.requests('alice').length >= 3)
  const told = heard(made.requests('alice')[2])
  expect(told).toMatch(/task 1 is claimed done[\s\S]*background command bg-1 \(node .*\) was stopped with task 1 after/)
  const pid = pidIn(join(made.root, 'team/alice/out/bg-1.log'))
  expect(Number.isNaN(pid) || !lives(pid)).toBe(true)
  await teamOk(['task', 'add', 'Second', '--root', made.root])
  await waits(made.root)
  await teamOk(['task', 'cancel', '2', '--root', made.root])
  await until(async () => (await alice(made.root))?.state === 'idle')
  expect((await journal(made.root)).filter(({ event }) => event === 'background.ended').at(-1)?.info).toMatchObject({
    id: 'bg-2',
    how: expect.stringMatching(/^was stopped with task 2 after/),
  })
  await teamOk(['send', 'alice', 'hello', '--root', made.root])
  await until(() => heard(made.requests('alice').at(-1)).includes('hello'))
  expect(times(heard(made.requests('alice').at(-1)), /bg-2 \(sleep 300\) was stopped/)).toBe(1)
})
