import { type ChildProcess, spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { type Fault, type Result, unwrap } from '../../src/lib/result.ts'
import type { HoldOptions } from '../../src/store/files/holder.ts'
import { connect, type Holder, hold, openReadOnly } from '../../src/store/index.ts'
import { clientSocket } from '../../src/store/rpc/socket-path.ts'
import { StoreProcess } from '../support/store-process.ts'

const why = { event: 'warning', by: 'human' } as const
let top: string
let root: string
const processes: (StoreProcess | ChildProcess)[] = []
const another = (): StoreProcess => {
  const process = new StoreProcess()
  processes.push(process)
  return process
}
const attempt = (kind: 'daemon' | 'cli' = 'daemon', extra: Partial<HoldOptions> = {}): Promise<Result<Holder>> =>
  hold(root, kind, { version: 'test', clock, ...extra })
const begin = async (kind: 'daemon' | 'cli' = 'daemon', extra: Partial<HoldOptions> = {}) =>
  unwrap(await attempt(kind, extra))
const refused = async (result: Promise<Result<Holder>>): Promise<Fault> => {
  const answer = await result
  if (answer.ok) throw new Error('it was held')
  return answer.fault
}
const listing = () => readdirSync(join(root, '.team'), { recursive: true }).map(String).sort()

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'team-holder-'))
  root = join(top, 'root')
  mkdirSync(root)
})
afterEach(async () => {
  for (const process of processes.splice(0)) {
    if (process instanceof StoreProcess) await process.kill()
    else process.kill('SIGKILL')
  }
  rmSync(top, { recursive: true, force: true })
})

test('of four processes that begin at once, two of them through a symlink, one holds: 20 rounds', async () => {
  symlinkSync(root, join(top, 'link'))
  const contenders = [another(), another(), another(), another()]
  for (let round = 0; round < 20; round++) {
    const said = await Promise.all(contenders.map((one, n) => one.ask('daemon', n % 2 ? join(top, 'link') : root)))
    const winners = said.filter(answer => 'held' in answer)
    expect(winners).toHaveLength(1)
    for (const answer of said.filter(answer => !('held' in answer))) {
      expect(answer.fault).toBe('held')
      expect(answer.message).toContain(`pid ${winners[0]?.pid}`)
    }
    const winner = contenders.find(one => one.pid === winners[0]?.pid)
    expect(await winner?.ask('release')).toEqual({ released: true })
  }
})

test('after kill -9 of the holder one of two contenders takes over at once: 5 rounds', async () => {
  let holder = another()
  await holder.ask('daemon', root)
  for (let round = 0; round < 5; round++) {
    await holder.kill()
    const contenders = [another(), another()]
    const said = await Promise.all(contenders.map(one => one.ask('daemon', root)))
    expect(said.map(answer => 'held' in answer).sort()).toEqual([false, true])
    const [winner, loser] = said[0] && 'held' in said[0] ? contenders : [...contenders].reverse()
    if (!winner || !loser) throw new Error('nobody won')
    await loser.kill()
    holder = winner
  }
})

test('a stopped holder still holds: the second is refused by its pid and touches nothing', async () => {
  const holder = another()
  await holder.ask('daemon', root)
  holder.child.kill('SIGSTOP')
  const before = listing()
  const fault = await refused(attempt())
  expect(fault).toMatchObject({ code: 'held', message: expect.stringContaining(`pid ${holder.pid}`) })
  expect(await refused(attempt('cli'))).toMatchObject({ code: 'held' })
  expect(listing()).toEqual(before)
  holder.child.kill('SIGCONT')
  expect(await holder.ask('release')).toEqual({ released: true })
  await (await begin()).release()
})

test('C01 a dead holder whose pid is another program by now is taken over, and that program is left alone', async () => {
  const holder = another()
  await holder.ask('daemon', root)
  await holder.kill()
  const sleeper = spawn('sleep', ['60'])
  processes.push(sleeper)
  for (const file of [join(root, '.team', 'holder.json'), join(root, '.team', 'journal', '00000001.jsonl')])
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(String(holder.pid), String(sleeper.pid)))
  const mine = await begin()
  expect(mine.report.last).toMatchObject({ pid: sleeper.pid, ended: false })
  await mine.release()
  expect(sleeper.exitCode).toBeNull()
  expect(sleeper.signalCode).toBeNull()
})

test('J07 waiters that all find one old lock never hold together, one killed among them, and the count is exact', async () => {
  const lock = join(root, '.team', 'holder.lock')
  mkdirSync(lock, { recursive: true })
  const hourAgo = new Date(Date.now() - 3_600_000)
  utimesSync(lock, hourAgo, hourAgo)
  const counters = Array.from({ length: 8 }, another)
  for (const [n, one] of counters.entries()) one.tell('count', root, n === 0 ? '1000' : '9')
  const [victim, ...others] = counters
  await victim?.until(() => victim.said.length >= 6)
  await victim?.kill()
  await Promise.all(others.map(one => one.until(said => 'done' in said || 'fault' in said)))
  const said = counters.flatMap(one => one.said)
  expect(said.filter(answer => 'fault' in answer)).toEqual([])
  // The one that was killed inside may have left its mark there.
  expect(said.filter(answer => 'intruder' in answer && answer.intruder !== String(victim?.pid))).toEqual([])
  const counted = said.filter(answer => 'counted' in answer).map(answer => Number(answer.counted))
  expect(new Set(counted).size).toBe(counted.length)
  const total = Number(unwrap(openReadOnly(root, clock)).store.marks.get('count')?.value.n)
  // What the victim made durable and could not say any more counts too.
  expect([counted.length, counted.length + 1]).toContain(total)
})

test('the lock of a contender that died at it, and whom the holder did without, goes with that holder', async () => {
  const lock = join(root, '.team', 'holder.lock')
  const first = await begin()
  mkdirSync(lock)
  const before = new Date(Date.now() - 60_000)
  utimesSync(lock, before, before)
  await first.release()
  expect(existsSync(lock)).toBe(false)
})

test('a command waits for a command, and so does a daemon; past the waiting time it is refused', async () => {
  const first = await begin('cli')
  expect(await refused(attempt('cli', { waitMs: 50 }))).toMatchObject({
    code: 'held',
    message: expect.stringContaining(`pid ${process.pid}`),
  })
  const second = attempt('cli')
  const third = attempt('daemon')
  await first.release()
  const winner = await Promise.any([second.then(unwrap), third.then(unwrap)])
  if (winner.hello.kind === 'cli') {
    await winner.release()
    await unwrap(await third).release()
  } else {
    expect(await refused(second)).toMatchObject({ code: 'held' })
    await winner.release()
  }
})

test('who comes while a daemon is ending waits for its end instead of being refused', async () => {
  const first = await begin()
  const ending = first.release()
  const second = await begin()
  await ending
  expect(second.hello.epoch).toBe(2)
  expect(existsSync(join(root, '.team', 'sock'))).toBe(true)
  await second.release()
})

test('a holder on another host is named and left alone until a person says it is gone', async () => {
  const holder = another()
  await holder.ask('daemon', root)
  await holder.kill()
  const files = [join(root, '.team', 'holder.json'), join(root, '.team', 'journal', '00000001.jsonl')]
  for (const file of files) writeFileSync(file, readFileSync(file, 'utf8').replaceAll(hostname(), 'far-away'))
  const before = listing()
  expect(await refused(attempt())).toMatchObject({
    code: 'held',
    message: expect.stringContaining('far-away'),
    hint: expect.stringContaining('--takeover'),
  })
  expect(listing()).toEqual(before)
  await (await begin('daemon', { takeover: true })).release()
})

test('a holder on another host that said goodbye is not waited for', async () => {
  await (await begin()).release()
  const file = join(root, '.team', 'journal', '00000001.jsonl')
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(hostname(), 'far-away'))
  await (await begin()).release()
})

test('--takeover does not throw out a holder that listens here', async () => {
  const holder = await begin()
  expect(await refused(attempt('daemon', { takeover: true }))).toMatchObject({ code: 'held' })
  await holder.release()
})

test('a released root has no socket, no holder.json and no lock, and is free at once', async () => {
  for (let round = 1; round <= 3; round++) {
    const holder = await begin()
    expect(holder.hello).toMatchObject({ pid: process.pid, kind: 'daemon', epoch: round, host: hostname() })
    expect(holder.report).toMatchObject({ isNew: round === 1, cut: null, warnings: [] })
    await holder.release()
    await holder.release()
    expect(readdirSync(join(root, '.team'))).toEqual(['journal'])
  }
})

test('a daemon whose socket was removed by hand is found again soon, and as often as it is', async () => {
  const holder = await begin()
  const socket = clientSocket(root)
  for (let round = 0; round < 3; round++) {
    if (round !== 1) rmSync(socket)
    if (round !== 0) rmSync(join(root, '.team', 'holder.json'))
    await vi.waitFor(
      async () => {
        const client = unwrap(await connect(root))
        expect(unwrap(await client.call('hello', {}))).toEqual(holder.hello)
        client.close()
        expect(JSON.parse(readFileSync(join(root, '.team', 'holder.json'), 'utf8'))).toMatchObject({ socket })
      },
      { timeout: 45_000, interval: 20 },
    )
  }
  await holder.release()
  expect(readdirSync(join(root, '.team'))).toEqual(['journal'])
})

test('run state is for its user alone', async () => {
  const holder = await begin()
  const modes = listing().map(name => [name, statSync(join(root, '.team', name))] as const)
  for (const [name, stat] of modes) expect([name, stat.mode & 0o077]).toEqual([name, 0])
  expect(statSync(join(root, '.team')).mode & 0o077).toBe(0)
  await holder.release()
})

test('a root that is moved while it is held is still held, but nothing is acknowledged any more', async () => {
  const holder = await begin()
  renameSync(root, join(top, 'moved'))
  root = join(top, 'moved')
  expect(await refused(attempt())).toMatchObject({ code: 'held' })
  const put = holder.store.marks.create('x', {}, why)
  await expect(put.ok && put.durable).rejects.toMatchObject({ fault: { code: 'io' } })
  await holder.release()
  await (await begin()).release()
})

test('a root with a path too long for a socket is held and reached through a short one', async () => {
  root = join(top, 'very-long-folder-name-'.repeat(5), 'r')
  mkdirSync(root, { recursive: true })
  const holder = await begin()
  const socket = clientSocket(root)
  expect(Buffer.byteLength(socket)).toBeLessThanOrEqual(107)
  expect(socket.startsWith(root)).toBe(false)
  const client = unwrap(await connect(root))
  expect(await client.call('hello', {})).toMatchObject({ ok: true, value: { root, pid: process.pid } })
  expect(await refused(attempt())).toMatchObject({ code: 'held' })
  client.close()
  await holder.release()
  expect(existsSync(socket)).toBe(false)
})

test('a root that is not there is a fault of configuration', async () => {
  root = join(top, 'none')
  expect(await refused(attempt())).toMatchObject({ code: 'config' })
})

test('a root whose run state cannot be made is a fault, and leaves nothing behind that keeps the process', async () => {
  mkdirSync(join(root, '.team'))
  writeFileSync(join(root, '.team', 'journal'), '')
  expect(await refused(attempt())).toMatchObject({ code: 'io', message: expect.stringContaining(root) })
  expect(listing()).toEqual(['journal'])
})

test('what a kill left of a file that was being replaced, is gone at the next start', async () => {
  const first = await begin()
  await first.release()
  for (const name of ['.0123456789ab.tmp', 'journal/.ba9876543210.tmp'])
    writeFileSync(join(root, '.team', name), 'half')
  writeFileSync(join(root, '.team', '.mine.tmp'), 'of a person')
  const holder = await begin()
  expect(listing().filter(name => name.endsWith('.tmp'))).toEqual(['.mine.tmp'])
  await holder.release()
})
