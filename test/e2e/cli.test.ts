import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { InboxItem, Status, TaskShown } from '../../src/protocol/rpc.ts'
import { command, statusOf, team, teamOk, teamRoot, tempFolder } from '../support/cli.ts'

const inboxOf = async (root: string, name: string, ...more: string[]) =>
  JSON.parse(await teamOk(['inbox', name, '--json', '--n', '0', '--root', root, ...more])) as {
    cursor: number
    last: number
    items: InboxItem[]
  }
const contents = (items: readonly InboxItem[]) => items.map(item => item.stored.message.content)

describe('exit codes', () => {
  test.each([
    [['frobnicate'], 'unknown command: frobnicate'],
    [['stat'], 'unknown command: stat; did you mean status?'],
    [['task', 'lst'], 'unknown command: task lst; did you mean list?'],
    [['send', 'a', 'b', 'c'], 'Put a text of several words in quotes.'],
    [['send', 'a', 'b', '--type', 'x'], '--type takes one of "info", "question", "reply", "task", not "x"'],
    [['inbox', '-n', 'x'], '-n takes a number, not "x"'],
    [['inbox', '-n', '-1'], '-n takes a whole number, or 0 for all'],
    [['inbox', '-n', ''], '-n needs a value'],
    [['logs', '-n'], '-n needs a value'],
    [['logs', '-n', '1.5'], '-n takes a whole number, or 0 for all'],
    [['logs', '-n', '-1'], '-n takes a whole number, or 0 for all'],
    [['completion', 'tcsh'], '<shell> takes one of "bash", "zsh", "fish", not "tcsh"'],
    [['completion'], 'an argument is missing: <shell>'],
    [['send'], 'an argument is missing: <to>'],
    [['prefix', '--max'], '--max needs a value'],
    [['prefix', '--max', 'NaN'], '--max takes a number, not "NaN"'],
    [['replay', 'a', '--turn', '--json'], '--turn needs a value'],
    [['task', 'add', 'x', '--priority', ''], '--priority needs a value'],
    [['task', 'add', 'x', '--verify='], '--verify needs a value'],
    [['task', 'add', 'x', '--after'], '--after needs a value'],
    [['send', 'a', 'b', '--type'], '--type needs a value'],
    [['reject', '1', '--reason', '-x broke'], 'begins with a dash; as a value it stands behind =: --reason=-x broke'],
    [['status', '--root', ''], '--root needs a value'],
    [['send', 'a', ''], 'the message is empty'],
    [['send', 'a', ' '], 'the message is empty'],
    [['answer', '1', ''], 'the answer is empty'],
    [['init', '', '--yes'], 'the folder has an empty name'],
    [['down', '--timeout', ''], '--timeout needs a value'],
    [['down', '--timeout', '-5'], '--timeout takes a number of seconds'],
    [[], 'say what to do'],
    [['send', 'a', 'b', '--typ', 'x'], 'unknown argument: typ'],
    [['task', 'show'], 'an argument is missing: <id>'],
    [['down', '--timeout', 'soon'], '--timeout takes a number, not "soon"'],
    [['task', 'add', 'x', '--priority', '1.5'], '--priority takes a whole number'],
    [['approve', '3', '--reason', 'a', '--reason', 'b'], '--reason is given more than once'],
    [['init'], 'there is nobody to ask here'],
  ])('2, and how it is used: team %j', async (args, message) => {
    const ran = await team(args, { cwd: tempFolder() })
    expect(ran.stderr).toContain(message)
    expect(ran.stderr.trim().split('\n').length).toBeLessThanOrEqual(2)
    expect(ran.code).toBe(2)
    expect(ran.stdout).toBe('')
  })

  test('3 without a team root and with a config that does not load, with the place of the fault and no stack trace', async () => {
    const nowhere = await team(['status'], { cwd: tempFolder() })
    expect([nowhere.code, nowhere.stderr]).toEqual([3, expect.stringContaining('no team root here')])
    const root = teamRoot({ teamates: [{ name: 'alice' }] })
    for (const args of [['status'], ['up'], ['up', '-d'], ['task', 'add', 'x']]) {
      const ran = await team([...args, '--root', root])
      expect(ran.code).toBe(3)
      expect(ran.stderr).toContain('config.json:1:2 teamates: unknown key (did you mean "teammates"?)')
      expect(ran.stderr).not.toMatch(/^\s+at /m)
    }
    expect(existsSync(join(root, '.team'))).toBe(false)
  })

  test('4 for nobody by that name or id, 5 for what the protocol refuses, 6 where the daemon is needed', async () => {
    const root = teamRoot()
    const code = async (...args: string[]) => (await team([...args, '--root', root])).code
    expect(await code('task', 'show', '99')).toBe(4)
    expect(await code('approve', '99')).toBe(4)
    expect(await code('send', 'nobody', 'hi')).toBe(4)
    await teamOk(['task', 'add', 'one', '--root', root])
    expect(await code('task', 'retry', '1')).toBe(5)
    expect(await code('down')).toBe(6)
    expect(await code('restart', 'alice')).toBe(6)
    expect(await code('logs', '-f')).toBe(6)
  })

  test('the built file is a program by itself, as an installed package links it', () => {
    expect(execFileSync(command, ['--version'], { encoding: 'utf8' }).trim()).toMatch(/^\d+\.\d+\.\d+/)
  })
})

describe('without a daemon', () => {
  test('tasks are added, shown, cancelled and made pending again, and what waits for the next start is said', async () => {
    const root = teamRoot()
    const sub = join(root, 'a', 'b')
    mkdirSync(sub, { recursive: true })
    const added = await team(['task', 'add', 'First', '-d', '-'], { cwd: sub, input: 'line one\n\tline two\n' })
    expect(added).toMatchObject({ code: 0, stdout: 'task 1: ready\n' })
    expect(added.stderr).toContain('no daemon is running. The task is written down')
    await teamOk(['task', 'add', 'Second', '--after', 'First', '--after', 'Third', '--root', root])
    const list = JSON.parse(await teamOk(['task', 'list', '--json', '--root', root])) as TaskShown[]
    expect(list.map(task => [task.id, task.shown, task.dependsOn])).toEqual([
      ['1', 'ready', []],
      ['2', 'waiting', ['1', 'Third']],
    ])
    expect(list[0]?.description).toBe('line one\n\tline two\n')
    expect(await teamOk(['task', 'graph', '--root', root])).toContain('2 waiting Second')
    const cancelled = await team(['task', 'cancel', '2', '9', '--root', root])
    expect([cancelled.code, cancelled.stdout]).toEqual([4, 'task 2: cancelled\n'])
    // Without a reason the word stands there once.
    expect((await teamOk(['task', 'show', '2', '--root', root])).match(/cancelled/g)).toHaveLength(1)
    expect((await teamOk(['logs', '--root', root])).match(/cancelled/g)).toHaveLength(1)
    // The last lines are counted as they are shown: small steps between them do not use them up.
    await teamOk(['send', 'user', 'a word', '--root', root])
    await teamOk(['inbox', '--ack', '--root', root])
    for (const n of [1, 2, 3])
      expect((await teamOk(['logs', '-n', String(n), '--root', root])).trimEnd().split('\n')).toHaveLength(n)
    await teamOk(['task', 'retry', '2', '--root', root])
    expect(JSON.parse(readFileSync(join(root, '.tasks', 'task_2.json'), 'utf8'))).toMatchObject({ status: 'pending' })
    const status = await statusOf(root)
    expect(status.holder).toBeNull()
    expect(status.asOf).not.toBeNull()
    expect(await teamOk(['status', '--root', root])).toContain('not running; as of')
  })

  test('A03 looking at an inbox consumes nothing; only --ack marks the own one as read', async () => {
    const root = teamRoot()
    await teamOk(['send', 'alice', 'hello', '--root', root])
    await teamOk(['send', 'user', 'note to self', '--root', root])
    for (let look = 0; look < 2; look++) {
      expect(await inboxOf(root, 'alice')).toMatchObject({ cursor: 0, last: 1 })
      expect(await teamOk(['inbox', 'alice', '--root', root])).toMatch(/^● user .*\n {4}hello/)
    }
    expect((await team(['inbox', 'alice', '--ack', '--root', root])).code).toBe(2)
    await teamOk(['inbox', '--ack', '--root', root])
    expect(await inboxOf(root, 'user')).toMatchObject({ cursor: 1, last: 1 })
    expect(await teamOk(['inbox', '--unread', '--root', root])).toContain('nothing unread; 1 message so far')
  })

  test('A05 a name that nobody has is refused, the real names are listed, and no inbox is made', async () => {
    const root = teamRoot({ teammates: [{ name: 'alice', role: 'reviewer' }, { name: 'bob' }], sandbox: 'off' })
    await teamOk(['send', 'bob', 'first', '--root', root])
    const before = readdirSync(join(root, '.messages')).sort()
    for (const name of ['nobody', 'ALICE', ' alice', 'reviewer', '', '../x']) {
      const ran = await team(['send', name, 'hi', '--root', root])
      expect(ran.code).toBe(4)
      expect(ran.stderr).toContain('alice, bob')
    }
    expect(readdirSync(join(root, '.messages')).sort()).toEqual(before)
  })

  test('A09 text is sent byte for byte, from the command line, stdin and a file', async () => {
    const root = teamRoot()
    const text = '\uFEFF  "quoted" \u2028 \u2029 \u0085 \r lone\r\n\n-- $HOME 007 🦊 \t\n\n'
    const file = join(root, 'text')
    writeFileSync(file, text)
    await teamOk(['send', 'alice', '--root', root, '--', text])
    await teamOk(['send', 'alice', '-', '--root', root], { input: text })
    await teamOk(['send', 'alice', '--file', 'text', '--root', root], { cwd: root })
    await teamOk(['send', 'alice', '007', '--root', root])
    await teamOk(['send', 'alice', '"x"', '--root', root])
    expect(contents((await inboxOf(root, 'alice')).items)).toEqual([text, text, text, '007', '"x"'])
    const bad = await team(['send', 'alice', '-', '--root', root], { input: Buffer.from([0x68, 0xff]) })
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining('stdin is not UTF-8')])
  })

  test('A01 sends at the same moment each hold the root in turn: every one arrives, once', async () => {
    const root = teamRoot()
    const ran = await Promise.all(
      Array.from({ length: 12 }, (_, i) => team(['send', 'alice', `n=${i}`, '--root', root])),
    )
    expect(ran.map(({ code, stderr }) => [code, stderr.includes('Error')])).toEqual(ran.map(() => [0, false]))
    const { items } = await inboxOf(root, 'alice')
    expect(contents(items).sort()).toEqual(ran.map((_, i) => `n=${i}`).sort())
  })

  test('a reading command whose reader goes away ends quietly', async () => {
    const root = teamRoot()
    const drop = Array.from({ length: 3000 }, (_, i) => ({ title: `Task ${i} ${'x'.repeat(60)}` }))
    mkdirSync(join(root, '.tasks'))
    writeFileSync(join(root, '.tasks', 'many.json'), JSON.stringify(drop))
    await teamOk(['task', 'add', 'One', '--root', root])
    const { spawnSync } = await import('node:child_process')
    const { command, cleanEnv } = await import('../support/cli.ts')
    const ran = spawnSync('sh', ['-c', `"$0" "$1" task list --root "$2" | head -1`, process.execPath, command, root], {
      env: cleanEnv(),
      encoding: 'utf8',
    })
    expect([ran.status, ran.stderr.replace(/^no daemon.*\n/, '')]).toEqual([0, ''])
  })

  test('doctor says what it found, and exits 1 when something must be mended', async () => {
    const root = teamRoot()
    const checks = JSON.parse(await teamOk(['doctor', '--json', '--root', root])) as { what: string; state: string }[]
    expect(checks.map(check => check.what)).toEqual(
      expect.arrayContaining(['node', 'git', 'sandbox', 'config.json', 'model', 'daemon', 'journal']),
    )
    const one = teamRoot({ teammates: [{ name: 'alice' }], sandbox: 'off', mode: 'dir' })
    expect((await team(['doctor', '--root', one])).stdout).toMatch(/config\.json +1 teammate, dir mode/)
    writeFileSync(join(root, 'config.json'), '{"teammates": [')
    const broken = await team(['doctor', '--root', root])
    expect(broken.code).toBe(1)
    expect(broken.stdout).toMatch(/FAIL +config\.json/)
  })
})

test('status --json has the shape that a program may rely on', async () => {
  const root = teamRoot()
  await teamOk(['task', 'add', 'One', '--root', root])
  const status: Status = await statusOf(root)
  expect(Object.keys(status).sort()).toEqual([
    'archived',
    'asOf',
    'base',
    'budget',
    'deadLetters',
    'holder',
    'leases',
    'mode',
    'pendingChanges',
    'problems',
    'requests',
    'root',
    'sandbox',
    'tasks',
    'teammates',
    'trunk',
    'used',
    'workspace',
  ])
  expect(status.teammates.map(mate => [mate.name, mate.state])).toEqual([
    ['alice', 'stopped'],
    ['bob', 'stopped'],
  ])
})

test('team logs -n 0 shows all of it, as team inbox does', async () => {
  const root = teamRoot()
  for (const title of ['One', 'Two', 'Three']) await teamOk(['task', 'add', title, '--root', root])
  const lines = async (...args: string[]) => (await teamOk(['logs', ...args, '--root', root])).trimEnd().split('\n')
  expect(await lines('-n', '1')).toHaveLength(1)
  expect(await lines('-n', '0')).toEqual(await lines())
  expect((await lines('-n', '0')).length).toBeGreaterThan(2)
})
