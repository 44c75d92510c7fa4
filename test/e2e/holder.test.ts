import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  cleanEnv,
  command,
  ended,
  says,
  start,
  statusOf,
  team,
  teamOk,
  teamRoot,
  tempFolder,
  until,
  willRun,
} from '../support/cli.ts'
import { gitTeamOf, holderOf, isAlive, killDaemon, model, teamOf } from '../support/daemon.ts'

/** Every file below a folder with its content, sockets by name. */
const contents = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter(entry => !entry.isDirectory())
      .map(entry => {
        const path = join(entry.parentPath, entry.name)
        return [
          path,
          entry.isFile() ? createHash('sha256').update(readFileSync(path)).digest('hex') : 'no regular file',
        ]
      }),
  )

const outcome = async (child: ReturnType<typeof start>) => {
  let stderr = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString('utf8')
  })
  return { code: await ended(child), stderr }
}

test('of two started at the same instant, by a link too, one runs and the other names its pid and ends with 1', async () => {
  const root = teamRoot()
  const link = `${root}-link`
  symlinkSync(root, link)
  for (let round = 0; round < 20; round++) {
    const both = [root, round % 2 === 0 ? link : root].map(path => start(['up', '--root', path]))
    const ready = both.map(child => says(child, /ready, pid \d+/).then(said => ({ child, said })))
    const ends = both.map(outcome)
    const winner = (await Promise.any(ready)).child
    for (const each of ready) each.catch(() => undefined)
    const loser = both.indexOf(winner) === 0 ? 1 : 0
    const { code, stderr } = await (ends[loser] as Promise<{ code: unknown; stderr: string }>)
    expect({ round, code, stderr }).toEqual({ round, code: 1, stderr: expect.stringContaining(`pid ${winner.pid}`) })
    expect((await holderOf(root)).pid).toBe(winner.pid)
    winner.kill('SIGTERM')
    expect(await ended(winner)).toBe(0)
  }
  const left = readdirSync(join(root, '.team')).filter(name => name.startsWith('sock') || name.endsWith('.lock'))
  expect(left).toEqual([])
})

test('one that is refused touches nothing, in front and detached', async () => {
  const root = teamRoot()
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['send', 'alice', 'hello', '--root', root])
  const settled = await until(async () => {
    const one = contents(root)
    // Longer than the daemon itself takes to write down, in its own time, how far it has read.
    await new Promise(resolve => setTimeout(resolve, 2000))
    return JSON.stringify(one) === JSON.stringify(contents(root)) && one
  })
  for (const flags of [[], ['-d'], ['--once']]) expect((await team(['up', ...flags, '--root', root])).code).toBe(1)
  expect(contents(root)).toEqual(settled)
})

test('C01 a pid that is another program by now is never signalled, by up or by down', async () => {
  const root = teamRoot()
  const other = spawn('sleep', ['999'])
  await teamOk(['up', '-d', '--root', root])
  await killDaemon(root)
  const file = join(root, '.team', 'holder.json')
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), pid: other.pid }))
  // Nobody runs, and who asks is told so: no pid stands for a daemon.
  expect((await team(['down', '--root', root])).code).toBe(6)
  await teamOk(['up', '-d', '--root', root])
  expect((await holderOf(root)).pid).not.toBe(other.pid)
  await teamOk(['down', '--root', root])
  expect(isAlive(other.pid ?? 0)).toBe(true)
  other.kill()
})

test('a socket that nobody listens at, left in the place of the real one, does not keep the next from starting', async () => {
  const root = teamRoot()
  const path = join(root, '.team', 'sock')
  mkdirSync(join(root, '.team'))
  const server = createServer().listen(path)
  await until(() => existsSync(path))
  // The name stays behind when the one that listened is killed; here it is made anew after an orderly end.
  const keep = spawnSync('cp', ['-a', path, `${path}.kept`])
  expect(keep.status).toBe(0)
  await new Promise(resolve => server.close(resolve))
  spawnSync('mv', [`${path}.kept`, path])
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['send', 'alice', 'hello', '--root', root])
  await teamOk(['down', '--root', root])
})

test('a root too deep for the path of a socket works like any other', async () => {
  const deep = join(tempFolder(), 'a-folder-with-a-long-name/'.repeat(6), 'root')
  mkdirSync(deep, { recursive: true })
  writeFileSync(join(deep, 'config.json'), JSON.stringify({ teammates: [{ name: 'alice' }], sandbox: 'off' }))
  const root = willRun(deep)
  expect(join(root, '.team', 'sock').length).toBeGreaterThan(107)
  await teamOk(['up', '-d', '--root', root])
  const pid = (await holderOf(root)).pid
  const second = await team(['up', '--root', root])
  expect([second.code, second.stderr]).toEqual([1, expect.stringContaining(`pid ${pid}`)])
  await killDaemon(root)
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['send', 'alice', 'hello', '--root', root])
  await teamOk(['down', '--root', root])
  expect((await statusOf(root)).holder).toBeNull()
})

const bwrap = ['--dev-bind', '/', '/']
const hasMounts = spawnSync('bwrap', [...bwrap, 'true']).status === 0

test.skipIf(!hasMounts)('where .team cannot be written to, up says so in a line and ends with 3', async () => {
  const root = teamRoot()
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['down', '--root', root])
  const state = join(root, '.team')
  const before = contents(root)
  for (const flags of [[], ['-d']]) {
    const args = [...bwrap, '--ro-bind', state, state, process.execPath, command, 'up', ...flags, '--root', root]
    const ran = spawnSync('bwrap', args, { env: cleanEnv(), encoding: 'utf8', timeout: 30_000 })
    expect(ran.stderr).toMatch(/may not write in .*EROFS/)
    expect(ran.stderr).toContain(state)
    expect(ran.stderr).not.toMatch(/\n {4}at /)
    expect(ran.status).toBe(3)
  }
  expect(contents(root)).toEqual(before)
})

test('a disk that takes no more ends the daemon with 1 and its reason, and the next one has everything that was acknowledged', async () => {
  const root = teamRoot()
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['down', '--root', root])
  // A file may grow to 256 blocks of 512 bytes here, then every write to it fails.
  const line = `ulimit -f 256; exec "$0" "$@"`
  const child = spawn('sh', ['-c', line, process.execPath, command, 'up', '--root', root], { env: cleanEnv() })
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString('utf8')
  })
  child.stderr.on('data', (chunk: Buffer) => {
    out += chunk.toString('utf8')
  })
  const end = ended(child)
  await until(() => /ready, pid/.test(out))
  const acknowledged: string[] = []
  for (let n = 0; n < 40 && child.exitCode === null; n++) {
    const sent = await team(['send', 'alice', '-', '--root', root], { input: `n=${n} ${'x'.repeat(8000)}` })
    if (sent.code === 0 && !sent.stderr.includes('no daemon')) acknowledged.push(`n=${n} `)
    else {
      expect(sent.stderr).not.toMatch(/\n {4}at /)
      break
    }
  }
  expect([await end, out]).toEqual([1, expect.stringMatching(/EFBIG|too large/i)])
  expect(out).not.toMatch(/\n {4}at /)
  expect(acknowledged.length, 'sent').toBeGreaterThan(2)
  await teamOk(['up', '-d', '--root', root])
  const inbox = await teamOk(['inbox', 'alice', '--json', '--root', root])
  for (const each of acknowledged) expect(inbox).toContain(each)
})

test('down while the daemon still starts ends it cleanly, and so does a signal', async () => {
  const server = await model(() => 'nothing')
  const { root } = gitTeamOf(server, {
    setup: 'sleep 3',
    teammates: Array.from({ length: 4 }, (_, n) => ({ name: `mate-${n}` })),
  })
  const child = start(['up', '--root', root])
  const first = outcome(child)
  await until(() => existsSync(join(root, 'team', 'mate-0', 'repo')))
  const down = await team(['down', '--root', root])
  expect(down.stderr).toBe('')
  expect(down.code).toBe(0)
  expect(await first).toEqual({ code: 0, stderr: expect.not.stringMatching(/\n {4}at /) })
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const again = start(['up', '--root', root])
    const end = outcome(again)
    await until(async () => existsSync(join(root, '.team', 'holder.json')))
    again.kill(signal)
    expect(await end).toEqual({ code: 0, stderr: expect.not.stringMatching(/\n {4}at /) })
    expect((await statusOf(root)).holder).toBeNull()
  }
})

test('down returns only when the process itself is gone', async () => {
  const root = teamOf(await model(() => 'nothing'))
  for (let round = 0; round < 4; round++) {
    await teamOk(['up', '-d', '--root', root])
    const { pid } = await holderOf(root)
    await teamOk(['down', '--root', root])
    expect(isAlive(pid)).toBe(false)
  }
})
