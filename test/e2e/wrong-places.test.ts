import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { cleanEnv, command, team, teamRoot } from '../support/cli.ts'

const put = (root: string, place: string): void => {
  mkdirSync(dirname(join(root, place)), { recursive: true })
  writeFileSync(join(root, place), 'mine\n')
}

const tree = (root: string): string[] => readdirSync(root, { recursive: true }).map(String).sort()

test.each(['.tasks/archive', '.messages', '.team/logs'])(
  'a file in the place of %s: team up names it and the remedy, and touches nothing',
  async place => {
    const root = teamRoot()
    put(root, place)
    const before = tree(root)
    for (const args of [
      ['up', '--once'],
      ['up', '-d'],
      ['task', 'add', 'x'],
    ]) {
      const ran = await team([...args, '--root', root])
      expect(ran.code).toBe(3)
      expect(ran.stderr).toContain(`${join(root, place)} is a file, where a folder belongs`)
      expect(ran.stderr).toContain('Move it away')
      expect(ran.stderr).not.toMatch(/EEXIST|ENOTDIR|\n\s+at /)
    }
    expect(tree(root)).toEqual(before)
  },
)

test('a file in the place of .team: reading commands and team doctor say it in the same words', async () => {
  for (const place of ['.team', '.team/journal']) {
    const root = teamRoot()
    put(root, place)
    for (const args of [['status'], ['inbox'], ['task', 'list']]) {
      const ran = await team([...args, '--root', root])
      expect(ran).toMatchObject({ code: 3 })
      expect(ran.stderr).toContain(`${join(root, place)} is a file, where a folder belongs`)
    }
    const doctor = await team(['doctor', '--root', root])
    expect(doctor.code).toBe(1)
    expect(doctor.stdout).toContain(`${join(root, place)} is a file, where a folder belongs`)
  }
})

test('a folder in the place of the log, and links that lead nowhere or to themselves, are named too', async () => {
  const log = teamRoot()
  mkdirSync(join(log, '.team', 'logs', 'daemon.jsonl'), { recursive: true })
  expect((await team(['up', '--once', '--root', log])).stderr).toContain(
    'daemon.jsonl is a folder, where a file belongs',
  )
  const nowhere = teamRoot()
  symlinkSync('/nowhere/at/all', join(nowhere, '.tasks'))
  expect((await team(['up', '--once', '--root', nowhere])).stderr).toContain('.tasks is a link that leads nowhere')
  const loop = teamRoot()
  symlinkSync('.messages', join(loop, '.messages'))
  expect((await team(['up', '--once', '--root', loop])).stderr).toContain('.messages is a link that leads to itself')
  expect(existsSync(join(loop, '.team'))).toBe(false)
})

test('a folder that may not be written in is named with the right that is missing', () => {
  const root = teamRoot()
  mkdirSync(join(root, '.tasks'))
  chmodSync(join(root, '.tasks'), 0o500)
  // Nothing is forbidden to root, so as root this runs as somebody else.
  const other = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : null
  if (other)
    for (const path of [dirname(root), root, join(root, 'config.json'), join(root, '.tasks')])
      chownSync(path, other.uid, other.gid)
  const ran = spawnSync(process.execPath, [command, 'up', '--once', '--root', root], {
    ...other,
    cwd: root,
    env: cleanEnv(),
    encoding: 'utf8',
  })
  expect(ran.stderr).toContain(`you may not write in ${join(root, '.tasks')}`)
  expect(ran.stderr).toContain('chmod')
  expect(ran.status).toBe(3)
  expect(existsSync(join(root, '.team'))).toBe(false)
})
