import { spawn } from 'node:child_process'
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusOf, team, teamOk, until } from '../support/cli.ts'
import { isAlive } from '../support/daemon.ts'
import { gitTeam } from '../support/git-team.ts'
import { repoAt } from '../support/repo.ts'
import { treeOf } from '../support/tree.ts'

interface Check {
  readonly what: string
  readonly state: string
  readonly detail: string
  readonly fix?: string
  readonly fixed?: boolean
}

const doctor = async (
  root: string,
  ...args: string[]
): Promise<{ code: number | null; checks: Check[]; stderr: string }> => {
  const ran = await team(['doctor', '--json', '--root', root, ...args])
  return { code: ran.code, checks: ran.stdout === '' ? [] : JSON.parse(ran.stdout), stderr: ran.stderr }
}

test('team doctor finds what broken runs left, changes nothing; --fix mends it, and all that it takes away is in its backup', async () => {
  const crew = gitTeam({ teammates: [{ name: 'alice' }, { name: 'bob' }] })
  const { root } = crew
  await teamOk(['up', '--once', '--root', root])
  await teamOk(['task', 'add', 'One', '--root', root])
  await teamOk(['task', 'add', 'Two', '--root', root])
  const at = (...parts: string[]) => join(root, ...parts)
  const clean = await doctor(root)
  expect(clean.checks.filter(check => check.fix !== undefined)).toEqual([])
  expect(clean.checks).toContainEqual(expect.objectContaining({ what: 'leftovers', detail: 'none' }))

  // Each kind, as a run that was cut off, or an older one, would have left it.
  const put = (text: string, ...parts: string[]): string => {
    mkdirSync(at(...parts, '..'), { recursive: true })
    writeFileSync(at(...parts), text)
    return join(...parts)
  }
  const moved = [
    put('half', '.team/journal/.0123456789ab.tmp'),
    put('half', '.team/journal/.epoch-3-abc'),
    put('half', '.team/sessions/.alice.next'),
    put('half', '.tasks/archive/.task_1.json.tmp'),
    put('gone.md was not taken in:\n  why\n', '.tasks/gone.md.error.txt'),
    put('', '.tasks/task_1.json'),
    put('{"id":"req_9","rev":1}', '.messages/requests/req_9.json'),
    put('{"k":"turn"\nno line\n{"k":"turn"}\n', '.team/sessions/alice.jsonl'),
    put('\0\0\0', '.team/journal/snapshot-00000001.json'),
    put('a long one', '.messages/archive/oversize/msg_old.txt'),
    put('', 'team/alice/repo/.git/index.lock'),
    put('', '.team/hub.git/refs/heads/team/trunk.lock'),
    put('x', '.team/verify/alice-0123/a.txt'),
    put('x', 'team/bob/.repo.01234567.new/a.txt'),
  ]
  rmSync(at('team/bob/repo/.git/HEAD'))
  moved.push('team/bob/repo')
  // What stays for who may come back, a folder for a person, and files that only look like what is looked for.
  put('{}\n', '.team/sessions/carol.jsonl')
  cpSync(at('team/alice/repo'), at('team/carol/repo'), { recursive: true })
  rmSync(at('team/carol/repo/.git/index.lock'))
  put('mine', 'team/carol/notes.txt')
  put('what I found\n', '.tasks/mine.error.txt')
  const hub = repoAt(at('.team/hub.git'))
  const trunk = hub.git('rev-parse', 'refs/heads/team/trunk')
  const lost = hub.git('commit-tree', '-m', 'work', `${trunk}^{tree}`)
  hub.git('update-ref', 'refs/heads/team/task-77', lost)
  hub.git('update-ref', 'refs/team/incoming/team/task-1', lost)
  hub.git('update-ref', 'refs/team/rescue/carol/x', lost)
  writeFileSync(
    at('.team/holder.json'),
    JSON.stringify({
      v: 1,
      pid: 1,
      host: (await import('node:os')).hostname(),
      kind: 'daemon',
      startedAt: 'x',
      socket: 'x',
    }),
  )
  const dead = createServer().listen(at('.team/s.00ff00+'))
  await new Promise(resolve => dead.once('listening', resolve))
  renameSync(at('.team/s.00ff00+'), at('.team/s.00ff00'))
  await new Promise(resolve => dead.close(resolve))
  const orphan = spawn('sleep', ['600'], {
    env: { ...process.env, TEAM_COMMAND: `${root}#alice.1-1` },
    stdio: 'ignore',
  })
  const pid = orphan.pid ?? 0

  const before = treeOf(root)
  const dry = await doctor(root)
  expect(treeOf(root)).toEqual(before)
  expect(dry.code).toBe(1)
  const found = dry.checks.filter(check => check.fix !== undefined)
  const about = (text: string) => found.filter(check => check.detail.includes(text))
  for (const path of moved) {
    const name = path.startsWith('.team/verify') || path.includes('.new/') ? join(path, '..') : path
    expect(about(name), name).toHaveLength(1)
  }
  for (const name of ['team/task-77', 'incoming/team/task-1', 'holder.json', 's.00ff00', `pid ${pid} `])
    expect(about(name), name).toHaveLength(1)
  expect(
    found
      .filter(check => check.state === 'fail')
      .map(check => check.what)
      .sort(),
  ).toEqual(['clone', 'session'])
  expect(found.map(check => check.detail).join('\n')).not.toMatch(/mine|carol|rescue/)
  expect(found).toHaveLength(moved.length + 5)

  // However much of it there is, what helps is said once, for what must and for what may be mended.
  expect((await team(['doctor', '--root', root])).stdout.match(/team doctor --fix/g)).toHaveLength(2)
  const fixed = await doctor(root, '--fix')
  expect(fixed.stderr).toBe('')
  expect(fixed.code).toBe(0)
  expect(fixed.checks.filter(check => check.fixed === false)).toEqual([])
  expect(fixed.checks.filter(check => check.fixed)).toHaveLength(found.length)
  const backup = fixed.checks.find(check => check.what === 'backup')?.detail ?? ''
  expect(backup.startsWith(at('.team/doctor/'))).toBe(true)
  for (const path of moved) {
    // What a holder was writing goes whenever the root is taken.
    expect(existsSync(join(backup, path)), path).toBe(!path.startsWith('.team/journal/.0'))
    if (path !== '.tasks/task_1.json') expect(existsSync(at(path)), path).toBe(false)
  }
  expect(readFileSync(join(backup, '.messages/archive/oversize/msg_old.txt'), 'utf8')).toBe('a long one')
  // Shown again from the journal; what is a person's is where it was; commits are kept.
  expect(JSON.parse(readFileSync(at('.tasks/task_1.json'), 'utf8'))).toMatchObject({ id: '1', title: 'One' })
  expect(readFileSync(at('team/carol/notes.txt'), 'utf8')).toBe('mine')
  for (const path of ['.tasks/mine.error.txt', '.team/sessions/carol.jsonl', 'team/carol/repo/.git/HEAD'])
    expect(existsSync(at(path)), path).toBe(true)
  const refs = hub.git('for-each-ref', '--format=%(refname)').split('\n')
  expect(refs).not.toContain('refs/heads/team/task-77')
  expect(refs).toContain(`refs/team/old/doctor/heads/team/task-77/${lost}`)
  expect(refs).toContain(`refs/team/old/doctor/team/incoming/team/task-1/${lost}`)
  expect(refs).toContain('refs/team/rescue/carol/x')
  expect(readFileSync(join(backup, 'changed.txt'), 'utf8')).toContain('refs/heads/team/task-77')
  await until(() => !isAlive(pid))
  expect(readdirSync(at('.team')).filter(name => lstatSync(at('.team', name)).isSocket())).toEqual([])

  const after = await doctor(root)
  expect(after.checks.filter(check => check.fix !== undefined)).toEqual([])
  expect(after.code).toBe(0)
  // The team goes on: the clone is made again, and nothing is wrong.
  await teamOk(['up', '-d', '--root', root])
  expect((await statusOf(root)).problems.filter(text => !/mine\.error|sandbox/.test(text))).toEqual([])
  expect(existsSync(at('team/bob/repo/.git/HEAD'))).toBe(true)

  // Not while a daemon uses what may look like a leftover.
  put('half', '.team/journal/.0123456789ab.tmp')
  const running = treeOf(at('.tasks'))
  const refused = await doctor(root, '--fix')
  expect([refused.code, refused.checks]).toEqual([5, []])
  expect(refused.stderr).toMatch(/a daemon runs .*\n.*team down/)
  expect(treeOf(at('.tasks'))).toEqual(running)
  expect(existsSync(at('.team/journal/.0123456789ab.tmp'))).toBe(true)
  expect((await doctor(root)).checks).toContainEqual(
    expect.objectContaining({ what: 'leftovers', detail: expect.stringContaining('nobody holds') }),
  )
})

test('a hub that is gone or no repository is for a person to mend: doctor says how, and --fix leaves it as it is', async () => {
  const { root } = gitTeam({ teammates: [{ name: 'alice' }] })
  await teamOk(['up', '--once', '--root', root])
  const hub = join(root, '.team', 'hub.git')
  rmSync(join(hub, 'objects'), { recursive: true })
  const before = treeOf(hub)
  for (const args of [[], ['--fix']]) {
    const { code, checks } = await doctor(root, ...args)
    expect(code).toBe(1)
    expect(checks.filter(check => check.what === 'hub')).toEqual([
      expect.objectContaining({ state: 'fail', remedy: expect.stringMatching(/^Mend .*, or move it away: /) }),
    ])
  }
  expect(treeOf(hub)).toEqual(before)
  renameSync(hub, join(root, 'aside'))
  expect((await doctor(root, '--fix')).checks.filter(check => check.what === 'hub')).toEqual([
    expect.objectContaining({ state: 'warn', remedy: expect.stringMatching(/^Put it back .*; else the next team up/) }),
  ])
  await teamOk(['up', '--once', '--root', root])
  expect((await doctor(root)).checks.filter(check => check.what === 'hub')).toEqual([])
})

test('a repository that cannot be worked on, and a base that is gone, are found by doctor before team up, with the remedy', async () => {
  const { root, repo } = gitTeam({ teammates: [{ name: 'alice' }] })
  const found = async () => {
    const { code, checks } = await doctor(root)
    return [code, checks.filter(check => check.what === 'repository')]
  }
  repo.git('checkout', '-q', '--detach')
  expect(await found()).toEqual([
    1,
    [expect.objectContaining({ state: 'fail', remedy: expect.stringMatching(/^check out a branch/) })],
  ])
  repo.git('switch', '-q', 'main')
  expect(await found()).toEqual([
    0,
    [expect.objectContaining({ state: 'ok', detail: expect.stringContaining('base main at') })],
  ])
  await teamOk(['up', '--once', '--root', root])
  repo.git('branch', '-m', 'main', 'next')
  expect(await found()).toEqual([
    0,
    [expect.objectContaining({ state: 'warn', remedy: expect.stringMatching(/^set "base": "next" in config\.json/) })],
  ])
})
