import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cleanEnv, ended, says, start, statusOf, team, teamOk, teamRoot, tempFolder, until } from '../support/cli.ts'
import { isAlive, killDaemon, running } from '../support/daemon.ts'

const env = { TEAM_PARENT: 'on' }
const pidOf = async (root: string): Promise<number> => (await statusOf(root)).holder?.pid ?? 0

test('killed, the daemon of team up is started again and goes on with its tasks; team down ends both, with 0', async () => {
  const root = teamRoot()
  const parent = start(['up', '--root', root], { env })
  await says(parent, /ready, pid/)
  const first = await killDaemon(root)
  expect(first).not.toBe(parent.pid)
  const said = await says(parent, /died \(SIGKILL\).*again in 1 s/, 'stderr')
  expect(said).not.toMatch(/\n {4}at /)
  const second = await until(async () => {
    const { code } = await team(['task', 'add', 'After it', '--root', root])
    const pid = code === 0 ? await pidOf(root) : 0
    return pid !== 0 && pid !== first && pid
  }, 40_000)
  expect(second).not.toBe(parent.pid)
  await teamOk(['down', '--root', root])
  expect(await ended(parent)).toBe(0)
  expect(running(root)).toEqual([])
})

test('a signal to the parent stops everyone by the protocol; a detached one is started again too', async () => {
  const root = teamRoot()
  const parent = start(['up', '--root', root], { env })
  await says(parent, /ready, pid/)
  parent.kill('SIGTERM')
  expect(await ended(parent)).toBe(0)
  expect(running(root)).toEqual([])

  await teamOk(['up', '-d', '--root', root], { env })
  const first = await killDaemon(root)
  await until(async () => {
    const pid = await pidOf(root)
    return pid !== 0 && pid !== first
  }, 40_000)
  await teamOk(['down', '--root', root])
  await until(() => running(root).length === 0)
})

test('with its journal removed the daemon ends, and is started again with all that it held', async () => {
  const root = teamRoot()
  await teamOk(['up', '-d', '--root', root], { env })
  const first = await pidOf(root)
  await teamOk(['task', 'add', 'Before it', '--root', root])
  rmSync(join(root, '.team', 'journal'), { recursive: true })
  await until(async () => {
    const pid = await pidOf(root)
    return pid !== 0 && pid !== first
  }, 40_000)
  expect((await statusOf(root)).tasks.map(({ id, title }) => `${id} ${title}`)).toEqual(['1 Before it'])
  await teamOk(['down', '--root', root])
  await until(() => running(root).length === 0)
})

test('what keeps a daemon from starting is said once, with its exit code; a second team up ends at once', async () => {
  const root = teamRoot({ teammates: [] })
  const wrong = await team(['up', '--root', root], { env })
  expect(wrong.code).toBe(3)
  expect(wrong.stderr.match(/name at least one teammate/g)).toHaveLength(1)
  const other = teamRoot()
  const parent = start(['up', '--root', other], { env })
  await says(parent, /ready, pid/)
  const second = await team(['up', '--root', other], { env })
  expect(second.code).not.toBe(0)
  expect(second.stderr).toContain('a daemon runs for')
  // A daemon whose parent is gone goes on alone, and is no second one's to take.
  parent.kill('SIGKILL')
  await ended(parent)
  expect(isAlive(await pidOf(other))).toBe(true)
})

test.skipIf(!existsSync('/proc/self/cmdline'))(
  'team down ends a parent that waits to start the daemon again, and nothing else',
  async () => {
    const [root, other] = [teamRoot(), teamRoot()]
    const script = join(tempFolder(), 'team.cjs')
    writeFileSync(script, "setInterval(() => undefined, 1e6)\nconsole.log('waits')\n")
    const waits = async (cwd: string, more: Record<string, string>, ...args: string[]): Promise<ChildProcess> => {
      const child = spawn(process.execPath, [script, ...args], { cwd, env: { ...cleanEnv(), ...env, ...more } })
      await once(child.stdout, 'data')
      return child
    }
    const named = await waits('/', {}, '--no-color', 'up', '--detached', '--root', root)
    const standing = await waits(root, {}, 'up')
    const others = await Promise.all([
      waits('/', {}, 'up', '--root', other),
      waits(root, {}, 'up', '--child=1'),
      waits(root, { TEAM_PARENT: 'off' }, 'up'),
      waits(root, {}, 'logs', '-f'),
    ])
    try {
      expect((await team(['down', 'alice', '--root', root])).code).toBe(6)
      expect([named, standing].map(({ signalCode }) => signalCode)).toEqual([null, null])
      const ran = await team(['down', '--root', root])
      expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining('it is not any more') })
      await until(() => named.signalCode === 'SIGTERM' && standing.signalCode === 'SIGTERM')
      expect(others.map(({ signalCode }) => signalCode)).toEqual([null, null, null, null])
      expect((await team(['down', '--root', root])).code).toBe(6)
    } finally {
      for (const child of [named, standing, ...others]) child.kill('SIGKILL')
    }
  },
)
