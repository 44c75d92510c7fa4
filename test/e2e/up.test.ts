import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cleanEnv, command, ended, says, start, statusOf, team, teamOk, teamRoot, until } from '../support/cli.ts'

test('up -d returns when the daemon is ready, and everything is asked of it until down', async () => {
  const root = teamRoot()
  const said = await teamOk(['up', '-d', '--root', root])
  const status = await statusOf(root)
  expect(said).toContain(`pid ${status.holder?.pid}`)
  expect(status.holder?.kind).toBe('daemon')
  expect(status.asOf).toBeNull()
  expect(await teamOk(['send', 'alice', 'hi', '--root', root])).toContain('delivered for alice')
  expect(await teamOk(['ps', '--root', root])).toContain('running, pid')
  expect(await teamOk(['down', '--root', root])).toContain('the daemon has stopped')
  expect((await statusOf(root)).holder).toBeNull()
})

test('up -d returns when the threads of all teammates have started', async () => {
  const names = Array.from({ length: 12 }, (_, n) => `mate-${n}`)
  const root = teamRoot({ sandbox: 'off', teammates: names.map(name => ({ name })) })
  await teamOk(['up', '-d', '--root', root])
  expect((await statusOf(root)).teammates.map(({ name, state }) => `${name} ${state}`)).toEqual(
    names.map(name => `${name} idle`),
  )
})

test('a second up, by a symlink too, is refused with exit 1 and the pid of the one that runs', async () => {
  const root = teamRoot()
  await teamOk(['up', '-d', '--root', root])
  const pid = (await statusOf(root)).holder?.pid
  symlinkSync(root, `${root}-link`)
  const journal = readFileSync(join(root, '.team', 'holder.json'), 'utf8')
  for (const path of [root, `${root}-link`])
    for (const flags of [[], ['-d']]) {
      const second = await team(['up', ...flags, '--root', path])
      expect([second.code, second.stderr]).toEqual([1, expect.stringContaining(`pid ${pid}`)])
    }
  expect(readFileSync(join(root, '.team', 'holder.json'), 'utf8')).toBe(journal)
  expect((await statusOf(root)).holder?.pid).toBe(pid)
})

test('C01 after kill -9 the next up starts at once', async () => {
  const root = teamRoot()
  await teamOk(['up', '-d', '--root', root])
  const pid = (await statusOf(root)).holder?.pid
  if (pid === undefined) throw new Error('no daemon')
  process.kill(pid, 'SIGKILL')
  await teamOk(['up', '-d', '--root', root])
  expect((await statusOf(root)).holder?.pid).not.toBe(pid)
})

test('C11 up goes on when its reader goes away, and still stops by down', async () => {
  const root = teamRoot()
  const child = start(['up', '--root', root])
  await says(child, /ready, pid/)
  child.stdout?.destroy()
  child.stderr?.destroy()
  for (let i = 0; i < 5; i++) await teamOk(['send', 'alice', `to a closed screen ${i}`, '--root', root])
  expect((await statusOf(root)).holder?.pid).toBe(child.pid)
  await teamOk(['down', '--root', root])
  expect(await ended(child)).toBe(0)
})

test('C11 up goes on when nobody ever reads its output', async () => {
  const root = teamRoot()
  const child = start(['up', '--root', root])
  await says(child, /ready, pid/)
  child.stdout?.pause()
  const long = 'x'.repeat(200_000)
  for (let i = 0; i < 6; i++) await teamOk(['send', 'bob', '-', '--root', root], { input: `${i}${long}` })
  expect((await statusOf(root)).holder?.pid).toBe(child.pid)
  child.kill('SIGTERM')
  expect(await ended(child)).toBe(0)
})

const hasFull = existsSync('/dev/full')
/** A line of the shell, which puts the streams of `team …` where it says. */
const shell = (line: string, root: string) =>
  spawn('/bin/sh', ['-c', line], {
    env: { ...cleanEnv(), NODE: process.execPath, TEAM: command, ROOT: root },
    stdio: ['ignore', 'pipe', 'pipe'],
  })

test.skipIf(!hasFull)('C11 up goes on when its output goes to a disk that is full', async () => {
  const root = teamRoot()
  const child = shell('"$NODE" "$TEAM" up --root "$ROOT" >/dev/full 2>/dev/full', root)
  await until(async () => (await statusOf(root)).holder?.kind === 'daemon')
  for (let i = 0; i < 5; i++) await teamOk(['send', 'alice', `to a full disk ${i}`, '--root', root])
  expect((await statusOf(root)).holder?.kind).toBe('daemon')
  await teamOk(['down', '--root', root])
  expect(await ended(child)).toBe(0)
})

test('C11 up goes on when the file that its output goes to may not grow, and writes to it again when it may', async () => {
  const root = teamRoot()
  const output = join(root, '..', 'output')
  writeFileSync(output, '')
  // Longer than any file may get from here on; everything else that is written is small.
  truncateSync(output, 64 << 20)
  const child = shell(`ulimit -f 65536; "$NODE" "$TEAM" up --root "$ROOT" >>"${output}" 2>&1`, root)
  await until(async () => (await statusOf(root)).holder?.kind === 'daemon')
  await teamOk(['send', 'alice', 'to a file that may not grow', '--root', root])
  truncateSync(output, 0)
  await teamOk(['send', 'alice', 'to a file that may', '--root', root])
  await teamOk(['down', '--root', root])
  expect(await ended(child)).toBe(0)
  const said = readFileSync(output, 'utf8')
  expect(said).toMatch(/^… \d+ lines left out: they could not be written\n/)
  expect(said).toContain('user → alice: to a file that may\n')
  expect(said).toContain('the daemon has stopped')
})

test.skipIf(!hasFull)('output that cannot be written is told in one line, and the command ends with 1', async () => {
  const root = teamRoot()
  await teamOk(['task', 'add', 'One', '--root', root])
  for (const line of ['status', 'task list', 'logs', 'requests --json', '--help']) {
    const child = shell(`"$NODE" "$TEAM" ${line} --root "$ROOT" >/dev/full`, root)
    const told = says(
      child,
      /team: the output could not be written: ENOSPC: no space left on device, write\n/,
      'stderr',
    )
    expect([line, await ended(child)]).toEqual([line, 1])
    expect(await told).not.toContain('    at ')
  }
})

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  'C11 %s in front goes the way of down and exits 0',
  async signal => {
    const root = teamRoot()
    const child = start(['up', '--root', root])
    await says(child, /ready, pid/)
    child.kill(signal)
    await says(child, /the daemon has stopped/)
    expect(await ended(child)).toBe(0)
    expect((await statusOf(root)).holder).toBeNull()
  },
)

const hasScript = spawnSync('script', ['--version']).status === 0

test.skipIf(!hasScript)('C11 closing the terminal stops it as down does, and it ends with exit 0', async () => {
  const root = teamRoot()
  const code = join(root, '..', 'code')
  // `script` gives a terminal of its own and takes it away when it is killed; the shell passes the hang-up on, as shells do,
  // and outlives the terminal to tell the exit code.
  const line = `"$NODE" "$TEAM" up --root "$ROOT" & trap 'kill -HUP $!' HUP; wait $!; wait $!; echo $? > "$CODE"`
  const terminal = spawn('script', ['-qfec', line, '/dev/null'], {
    env: { ...cleanEnv(), SHELL: '/bin/sh', NODE: process.execPath, TEAM: command, ROOT: root, CODE: code },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  await says(terminal, /ready, pid/)
  terminal.kill('SIGKILL')
  expect(await until(() => existsSync(code) && readFileSync(code, 'utf8'))).toBe('0\n')
  expect((await statusOf(root)).holder).toBeNull()
})

test('C11 detached, the end of the terminal does not end the daemon', async () => {
  const root = teamRoot()
  await teamOk(['up', '-d', '--root', root])
  const pid = (await statusOf(root)).holder?.pid
  if (pid === undefined) throw new Error('no daemon')
  process.kill(pid, 'SIGHUP')
  await teamOk(['send', 'alice', 'still there?', '--root', root])
  expect((await statusOf(root)).holder?.pid).toBe(pid)
})

test('up --once ends by itself: 0 when nothing is left to do, 1 when a person is needed', async () => {
  const root = teamRoot()
  expect((await team(['up', '--once', '--root', root])).code).toBe(0)
  await teamOk(['task', 'add', 'Needs somebody', '--after', 'something that never comes', '--root', root])
  const ran = await team(['up', '--once', '--root', root])
  expect([ran.code, ran.stdout]).toEqual([1, expect.stringContaining('1 task waits for a person')])
  // Nobody asked for the end of the run: it is the daemon's own.
  expect(ran.stdout).toMatch(/supervisor asks alice for a decision: .*shut down, alice/)
  expect(ran.stdout).not.toContain('human asks')
})

test('logs -f tells what happens as it happens, and ends with the daemon', async () => {
  const root = teamRoot()
  await teamOk(['up', '-d', '--root', root])
  const logs = start(['logs', '-f', '--root', root])
  await says(logs, /is ready/)
  const heard = says(logs, /user → alice: news for the log/)
  await teamOk(['send', 'alice', 'news for the log', '--root', root])
  await heard
  const inbox = start(['inbox', 'bob', '-f', '--root', root])
  const mail = says(inbox, /one more/)
  await until(async () => {
    await teamOk(['send', 'bob', 'one more', '--root', root])
    return Promise.race([mail.then(() => true), new Promise<false>(resolve => setTimeout(() => resolve(false), 200))])
  })
  await teamOk(['down', '--root', root])
  expect([await ended(logs), await ended(inbox)]).toEqual([0, 0])
})

test('what keeps a detached daemon from starting is passed on, with its exit code', async () => {
  const root = teamRoot({ teammates: [{ name: 'alice' }], sandbox: 'off', model: { provider: 'deepseek' } })
  const ran = await team(['up', '-d', '--root', root])
  expect([ran.code, ran.stderr]).toEqual([3, expect.stringContaining('DEEPSEEK_API_KEY')])
  expect(existsSync(join(root, '.team', 'sock'))).toBe(false)
})

test('the key of a model reaches no file of the team', async () => {
  const root = teamRoot({
    teammates: [{ name: 'alice' }],
    sandbox: 'off',
    model: { baseURL: 'http://127.0.0.1:1/v1', name: 'm' },
  })
  const key = 'key-that-must-not-be-written'
  const env = { OPENAI_API_KEY: key }
  await teamOk(['up', '-d', '--root', root], { env })
  await teamOk(['status', '--root', root])
  await teamOk(['down', '--force', '--root', root])
  const { execFileSync } = await import('node:child_process')
  const found = execFileSync('sh', ['-c', 'grep -rl "$1" "$2" || true', 'sh', key, root], { encoding: 'utf8' })
  expect(found).toBe('')
})

test('up.log takes what a detached daemon has to say', async () => {
  const root = teamRoot()
  writeFileSync(
    join(root, 'config.json'),
    JSON.stringify({ teammates: [{ name: 'alice' }], sandbox: 'off', data: ['gone'] }),
  )
  await teamOk(['up', '-d', '--root', root])
  const log = join(root, '.team', 'logs', 'up.log')
  expect(readFileSync(log, 'utf8')).toContain('data names gone')
})

test('as process 1 up asks for an init, and ends by SIGTERM and by a down that sees its number as another program', async () => {
  const root = teamRoot()
  for (const end of ['signal', 'down'] as const) {
    const args = ['--dev-bind', '/', '/', '--proc', '/proc', '--unshare-pid', '--as-pid-1', '--die-with-parent']
    const line = [...args, process.execPath, command, 'up', '--root', root]
    const outer = spawn('bwrap', line, { env: cleanEnv(), stdio: ['ignore', 'pipe', 'pipe'] })
    const code = ended(outer)
    const warned = says(outer, /this is process 1.*--init/, 'stderr')
    await says(outer, /ready, pid 1:/)
    await warned
    if (end === 'signal')
      process.kill(Number(readFileSync(`/proc/${outer.pid}/task/${outer.pid}/children`, 'utf8')), 'SIGTERM')
    else expect(await teamOk(['down', '--root', root])).toContain('the daemon has stopped')
    expect(await code).toBe(0)
  }
})
