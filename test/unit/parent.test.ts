import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { mostDeaths, parented, restartDelay, runParent } from '../../src/cli/parent.ts'
import { clock } from '../../src/lib/clock.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'team-parent-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** A child whose script sees how often one died before it as `deaths`; it keeps each in a file. */
const run = async (script: string, more: Partial<Parameters<typeof runParent>[0]> = {}) => {
  const file = join(folder, 'child.cjs')
  writeFileSync(
    file,
    `const deaths = Number(process.argv.find(arg => arg.startsWith('--child=')).split('=')[1])
const died = process.argv.find(arg => arg.startsWith('--died='))?.split('=')[1]
require('node:fs').appendFileSync(${JSON.stringify(join(folder, 'lives'))}, deaths + '\\n')
const ready = then => process.send({ t: 'ready', pid: process.pid }, then)
const end = code => process.send({ t: 'end' }, () => process.exit(code))
${script}`,
  )
  const said: string[] = []
  const relayed: unknown[] = []
  const waits: number[] = []
  const exit = await runParent({
    command: [process.execPath, file],
    clock,
    say: line => said.push(line),
    relay: word => relayed.push(word),
    hangUp: true,
    wait: async ms => {
      waits.push(ms)
    },
    ...more,
  })
  const lives = readFileSync(join(folder, 'lives'), 'utf8').trim().split('\n').map(Number)
  return { exit, said, relayed, waits, lives }
}

test('a daemon that dies is started again, with growing waits; one that ends by its own word is not, and its code is passed on', async () => {
  const { exit, said, relayed, waits, lives } = await run(
    `ready(() => deaths < 2 ? process.kill(process.pid, 'SIGKILL') : end(3))`,
  )
  expect({ exit, lives, waits }).toEqual({ exit: 3, lives: [0, 1, 2], waits: [1000, 2000] })
  expect(said).toEqual([
    'the daemon died (SIGKILL); it is started again in 1 s, nothing that it acknowledged is lost',
    'the daemon died (SIGKILL); it is started again in 2 s, nothing that it acknowledged is lost',
  ])
  // Who detached it hears of the first one alone.
  expect(relayed).toEqual([{ t: 'ready', pid: expect.any(Number) }])
})

test('one that exits without its last word died too; one that dies again and again is given up', async () => {
  const { exit, said, lives } = await run(`ready(() => process.exit(7))`)
  expect(exit).toBe(1)
  expect(lives).toHaveLength(mostDeaths + 1)
  expect(said[0]).toContain('(exit 7)')
  expect(said.at(-1)).toContain('is not started again')
  expect([1, 2, 3, 7, 20].map(restartDelay)).toEqual([1000, 2000, 4000, 60_000, 60_000])
})

test('one that the disk does not let go on is tried again for as long as it takes, and no death is told of it', async () => {
  const many = mostDeaths * 2
  const { exit, said, lives, relayed } = await run(
    `if (deaths === ${many}) ready(() => end(died === undefined ? 0 : 9))
else if (deaths === 0) ready(() => process.send({ t: 'works' }, () => process.send({ t: 'disk' }, () => process.exit(1))))
else process.send({ t: 'disk' }, () => process.exit(1))`,
  )
  expect([exit, lives.length, relayed.length]).toEqual([0, many + 1, 1])
  expect(said[0]).toBe('the daemon cannot go on; it is started again in 1 s, nothing that it acknowledged is lost')
})

test('one that never got ready is not tried again: what it says and its code are all there is', async () => {
  const { exit, relayed, lives } = await run(`process.send({ t: 'fault', code: 'held', message: 'm' }, () => end(1))`)
  expect({ exit, lives, relayed }).toEqual({
    exit: 1,
    lives: [0],
    relayed: [{ t: 'fault', code: 'held', message: 'm' }],
  })
  expect((await run(`process.kill(process.pid, 'SIGABRT')`)).lives).toHaveLength(2)
})

test('how a daemon died is told to the next where a task was at work in it, and only then; a death that a task was found for is no reason to give up', async () => {
  const file = join(folder, 'died')
  const note = `require('node:fs').appendFileSync(${JSON.stringify(file)}, died + '\\n')`
  const { exit, lives } = await run(`${note}
const abort = () => process.kill(process.pid, 'SIGABRT')
if (deaths === 0) ready(abort)
else if (deaths === 1) process.send({ t: 'works' }, () => process.exit(7))
else if (deaths < ${mostDeaths + 5}) process.send({ t: 'counted' }, () => process.send({ t: 'works' }, abort))
else end(0)`)
  expect([exit, lives]).toEqual([0, Array.from({ length: mostDeaths + 6 }, (_, n) => n)])
  const told = readFileSync(file, 'utf8').trim().split('\n')
  expect(told).toEqual(['undefined', 'undefined', 'exit 7', ...Array.from({ length: mostDeaths + 3 }, () => 'SIGABRT')])
})

test('where no process can be made it says why, and ends with 1', async () => {
  const said: string[] = []
  const exit = await runParent({
    command: [join(folder, 'nothing')],
    clock,
    say: line => said.push(line),
    relay: () => undefined,
    hangUp: true,
  })
  expect([exit, said]).toEqual([1, [expect.stringContaining('the daemon cannot be started: spawn')]])
})

test('only a plain `team up` gets a parent: not one that asks for help, detaches, was told not to, or is wrong', () => {
  const yes = [
    'up',
    'up --once',
    'up --root /x --takeover',
    'up --root=/x',
    'up --detached --root /x',
    'up --no-color',
    '--root /x up',
    '--no-color --root=/x up --once',
  ]
  const no = [
    'up -d',
    'up --detach',
    'up --help',
    'up -h',
    'up --no-parent',
    'up --child=0',
    'up --onec',
    'up x',
    'up up',
    '--root up',
    '--root up status',
    'status',
    '',
  ]
  for (const line of yes) expect([line, parented(line.split(' '), {})]).toEqual([line, true])
  for (const line of no) expect([line, parented(line.split(' '), {})]).toEqual([line, false])
  expect(parented(['up'], { TEAM_PARENT: 'off' })).toBe(false)
})
