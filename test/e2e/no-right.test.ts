import { spawn } from 'node:child_process'
import { appendFileSync, chmodSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cleanEnv, command, ended, says, statusOf, teamOk, teamRoot, until } from '../support/cli.ts'

/** `team up` that rights hold for, even where the tests run as root. */
const up = (root: string) => {
  const isRoot = process.getuid?.() === 0
  const program = isRoot ? 'setpriv' : process.execPath
  const first = isRoot ? ['--bounding-set=-dac_override,-dac_read_search', process.execPath] : []
  return spawn(program, [...first, command, 'up', '--root', root], {
    env: cleanEnv(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

test('a folder of tasks, mail or requests that may not be entered is told, stops nothing, and is caught up with when it may', async () => {
  const root = teamRoot({ teammates: [{ name: 'alice', autoClaim: false }], sandbox: 'off' })
  const child = up(root)
  const end = ended(child)
  await says(child, /ready, pid/)
  for (const [n, name] of ['.tasks', '.messages', '.messages/requests'].entries()) {
    const folder = join(root, name)
    chmodSync(folder, 0o000)
    await teamOk(['task', 'add', `into ${name}`, '--root', root])
    await teamOk(['send', 'alice', `beside ${name}`, '--root', root])
    await until(async () => (await statusOf(root)).problems.some(line => line.startsWith(`${name}/: EACCES`)))
    chmodSync(folder, 0o700)
    await until(async () => !(await statusOf(root)).problems.some(line => line.includes('EACCES')))
    await until(() => existsSync(join(root, '.tasks', `task_${n + 1}.json`)))
    await until(() => readFileSync(join(root, '.messages', 'alice.inbox.jsonl'), 'utf8').includes(`"beside ${name}"`))
  }
  await teamOk(['down', '--root', root])
  expect(await end).toBe(0)
})

test('without a right to its run state the daemon ends with 1 and says why, and the next one has what was acknowledged', async () => {
  const root = teamRoot()
  const child = up(root)
  let out = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      out += chunk.toString('utf8')
    })
  const end = ended(child)
  await until(() => out.includes('ready, pid'))
  await teamOk(['task', 'add', 'before', '--root', root])
  chmodSync(join(root, '.team'), 0o000)
  const line = { from: 'ada', to: 'alice', type: 'info', content: 'after' }
  appendFileSync(join(root, '.messages', 'alice.inbox.jsonl'), `${JSON.stringify(line)}\n`)
  const code = await end
  chmodSync(join(root, '.team'), 0o700)
  expect([code, out]).toEqual([1, expect.stringMatching(/it cannot go on: the journal cannot be written: EACCES/)])
  expect(out).not.toMatch(/\n {4}at /)
  expect((await statusOf(root)).tasks.map(task => task.title)).toEqual(['before'])
  await teamOk(['up', '-d', '--root', root])
  expect(await teamOk(['inbox', 'alice', '--json', '--root', root])).toContain('"after"')
})
