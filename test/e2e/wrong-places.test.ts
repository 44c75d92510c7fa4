import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { cleanEnv, command, team, teamOk, teamRoot } from '../support/cli.ts'

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

/** Runs as somebody to whom files may be closed: nothing is closed to root. */
const asOther = (root: string, args: readonly string[]) => {
  const other = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : null
  if (other)
    for (const path of [dirname(root), root, ...tree(root).map(each => join(root, each))])
      if (!lstatSync(path).isSocket()) chownSync(path, other.uid, other.gid)
  return spawnSync(process.execPath, [command, ...args, '--root', root], {
    ...other,
    cwd: root,
    env: cleanEnv(),
    encoding: 'utf8',
  })
}

const reads: [place: string, args: string[]][] = [
  ['config.json', ['status']],
  ['config.json', ['prefix']],
  ['team/AGENTS.md', ['prefix']],
  ['team/alice/AGENTS.md', ['prefix', 'alice']],
  ['.team/sessions/alice.jsonl', ['replay', 'alice']],
  ['.team/journal/00000001.jsonl', ['task', 'list']],
  ['.team/journal/00000001.jsonl', ['send', 'alice', 'x']],
]

const used = async (): Promise<string> => {
  const root = teamRoot()
  await teamOk(['task', 'add', 'One', '--root', root])
  return root
}

test.each(reads)('a folder in the place of %s: team %j names it and the remedy', async (place, args) => {
  const root = await used()
  rmSync(join(root, place), { force: true })
  mkdirSync(join(root, place), { recursive: true })
  for (const named of [[...args, '--root', root], args]) {
    const ran = await team(named, { cwd: root })
    expect(ran.stderr).toContain(`${join(root, place)} is a folder, where a file belongs`)
    expect(ran.stderr).toMatch(/Move it away|restore the file from a backup/)
    expect(ran).toMatchObject({ code: 3, stdout: '' })
  }
})

test.each(reads)('%s may not be read: team %j says so, and how to get the right', async (place, args) => {
  const root = await used()
  if (!existsSync(join(root, place))) put(root, place)
  chmodSync(join(root, place), 0)
  const ran = asOther(root, args)
  expect(ran.stderr).toContain(`you may not read ${join(root, place)}`)
  expect(ran.stderr).toContain('chmod')
  expect(ran).toMatchObject({ status: 3, stdout: '' })
})

test('a file in the place of .team/sessions, and what is no text file given with --file', async () => {
  const root = await used()
  put(root, '.team/sessions')
  const replay = await team(['replay', 'alice', '--root', root])
  expect([replay.code, replay.stderr]).toEqual([3, expect.stringContaining('.team/sessions is a file, where a folder')])
  for (const [file, why] of [
    ['.', 'it is a folder'],
    ['none', 'there is no such file'],
  ] as const) {
    const ran = await team(['send', 'alice', '--file', file, '--root', root], { cwd: root })
    expect([ran.code, ran.stderr]).toEqual([1, expect.stringContaining(`cannot read ${file}: ${why}`)])
  }
})

test('a folder in the place of an inbox holds up no command; the message follows when it is away', async () => {
  const root = await used()
  const inbox = join(root, '.messages', 'alice.inbox.jsonl')
  rmSync(inbox)
  mkdirSync(inbox)
  expect(await teamOk(['send', 'alice', 'hello', '--root', root])).toContain('queued for alice')
  rmdirSync(inbox)
  await teamOk(['send', 'bob', 'x', '--root', root])
  expect(readFileSync(inbox, 'utf8')).toContain('"hello"')
})

test('in a folder that is gone every command says so in two lines', () => {
  const gone = join(teamRoot(), 'gone')
  mkdirSync(gone)
  const ran = spawnSync('sh', ['-c', 'rmdir "$1" && exec "$2" "$3" status', 'sh', gone, process.execPath, command], {
    cwd: gone,
    env: cleanEnv(),
    encoding: 'utf8',
  })
  expect(ran).toMatchObject({ status: 3, stdout: '' })
  expect(ran.stderr).toMatch(/^team: the folder that you stand in is gone\n.*\n$/)
})
