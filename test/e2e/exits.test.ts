import { appendFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Cli } from '../../src/cli/cli.ts'
import { commandTable } from '../../src/cli/completion/table.ts'
import { allFamilies } from '../../src/cli/main.ts'
import { outputs } from '../../src/cli/outputs.ts'
import type { Reply } from '../../src/model/scripted.ts'
import { type RunOptions, team, teamOk, teamRoot, tempFolder, until } from '../support/cli.ts'
import { fits } from '../support/fits.ts'
import { gitTeam, runbook } from '../support/git-team.ts'
import { repoAt } from '../support/repo.ts'
import { gate, heard, quiet, scriptedTeam, status } from '../support/scripted-team.ts'

const rows = commandTable(await allFamilies(), {} as Cli)
/** What docs/exit-codes.md says of each command. */
const documented = new Map(
  [...readFileSync('docs/exit-codes.md', 'utf8').matchAll(/^\| `team ([a-z ]+)` +\| ([\d ]+?) *\|/gm)].map(
    ([, path = '', codes = '']) => [path, codes.split(' ').map(Number)] as const,
  ),
)
/** Too long to run here: test/e2e/demo.test.ts has it, and holds what it prints against its schema. */
const seen = new Set<string>(['demo 0'])
const printed = new Set<string>(['demo'])

const pathOf = (args: readonly string[]): string =>
  rows.find(({ path }) => path === args.slice(0, 2).join(' '))?.path ??
  rows.find(({ path }) => path === args[0])?.path ??
  (args[0] === 'permissions' ? 'permissions list' : `no command: ${args.join(' ')}`)

const schemaOf = (path: string, args: readonly string[]): keyof typeof outputs => {
  const special = {
    ps: 'status',
    'permissions list': 'permissions',
    inbox: args.includes('--sent') ? 'inbox-sent' : args.includes('--dead') ? 'inbox-dead' : 'inbox',
    requests: args.some(arg => /^\d+$/.test(arg)) ? 'requests-one' : 'requests',
    plan: args.includes('--edit') ? 'plan-edit' : 'plan',
    replay: args.includes('--verify') ? 'replay-verify' : 'replay',
  }[path]
  return (special ?? path.replace(' ', '-')) as keyof typeof outputs
}

/** Runs it and says what it ended with; `--json` is held against the published schema. */
const ends = async (code: number, args: readonly string[], options: RunOptions = {}): Promise<string> => {
  const ran = await team(args, { input: 'x\n', ...options })
  const path = pathOf(args)
  expect([args.join(' '), ran.code, ran.code === code ? '' : ran.stderr]).toEqual([args.join(' '), code, ''])
  if (code > 1 && args[0] !== 'down') expect(ran.stderr).not.toBe('')
  expect(ran.stderr).not.toMatch(/\n\s+at /)
  seen.add(`${path} ${code}`)
  if (args.includes('--json') && ran.stdout !== '') {
    const name = schemaOf(path, args)
    fits(name, ran.stdout, name === 'logs' || name === 'replay')
    printed.add(name)
    if (code === 0) seen.add(`${path} --json`)
  }
  return ran.stdout
}

/** Several at a time: they have nothing to do with one another. */
const each = async (code: number, all: readonly (readonly string[])[], options: RunOptions = {}): Promise<void> => {
  for (let i = 0; i < all.length; i += 4) await Promise.all(all.slice(i, i + 4).map(args => ends(code, args, options)))
}
/** Both for people and for programs. */
const both = async (args: readonly string[], options: RunOptions = {}): Promise<void> => {
  await Promise.all([ends(0, args, options), ends(0, [...args, '--json'], options)])
}

const call = (name: string, args: Readonly<Record<string, unknown>>): Reply => ({ calls: [{ name, args }] })

describe('exit codes by command', () => {
  test('2: every command refuses an option that it does not have', async () => {
    await each(
      2,
      rows.map(({ path }) => [...path.split(' '), '--frobnicate']),
      { cwd: tempFolder() },
    )
  })

  test('3: every command that needs a team root says that there is none', async () => {
    const words: Record<string, string[]> = {
      why: ['a:1'],
      send: ['a', 'b'],
      answer: ['1', 'x'],
      ask: ['1', '--reason', 'x'],
    }
    const needs = rows.filter(({ path }) => documented.get(path)?.includes(3) && path !== 'doctor')
    await each(
      3,
      needs.map(({ path, positionals }) => [...path.split(' '), ...(words[path] ?? positionals.map(() => '1'))]),
      { cwd: tempFolder() },
    )
    await ends(3, ['doctor', '--root', join(tempFolder(), 'none')])
  })

  test('4 for nobody by that name or id, 6 where the daemon is needed, 1, 5 and 0 without one', async () => {
    const root = teamRoot()
    const at = { cwd: root }
    await both(['status'], at)
    await both(['ps'], at)
    await each(
      4,
      [
        ['task', 'show', '9'],
        ['task', 'cancel', '9'],
        ['task', 'retry', '9'],
        ['inbox', 'carol'],
        ['send', 'carol', 'x'],
        ['plan', '--edit', '9'],
        ['requests', '9'],
        ['approve', '9'],
        ['reject', '9'],
        ['ask', '9', '--reason', 'x'],
        ['answer', '9', 'x'],
        ['permissions', 'remove', '9'],
        ['rescue', 'list', '--task', '9'],
        ['rescue', 'show', '9'],
        ['rescue', 'restore', '9'],
        ['logs', 'carol'],
        ['replay', 'carol'],
        ['prefix', 'carol'],
      ],
      at,
    )
    await each(
      6,
      [['chat', 'alice'], ['restart', 'alice'], ['compact', 'alice'], ['inbox', '-f'], ['logs', '-f'], ['down']],
      at,
    )
    await each(
      1,
      [
        ['replay', 'alice'],
        ['prefix', '--max', '1'],
        ['send', 'alice', '--file', 'none'],
        ['task', 'add', 'x', '--file', 'none'],
        ['init', 'a'.repeat(300), '--yes'],
      ],
      at,
    )
    await each(5, [['plan', 'Better'], ['diff', '1'], ['why', 'a.txt:1'], ['land'], ['init', '.', '--yes']], at)
    await ends(0, ['init', 'new', '--yes'], { cwd: tempFolder() })
    await both(['task', 'add', 'One', '--after', 'none'], at)
    await ends(5, ['task', 'add', 'Two', '--id', '1'], at)
    await ends(5, ['task', 'retry', '1'], at)
    await ends(0, ['task', 'cancel', '1'], at)
    await ends(5, ['task', 'cancel', '1'], at)
    await ends(0, ['task', 'retry', '1'], at)
    await both(['task', 'list'], at)
    await both(['task', 'show', '1'], at)
    await both(['task', 'graph'], at)
    await both(['send', 'alice', 'hello'], at)
    appendFileSync(join(root, '.messages', 'alice.inbox.jsonl'), 'no message\n')
    await ends(0, ['send', 'bob', 'hello'], at)
    for (const more of [[], ['--sent'], ['--dead']]) await both(['inbox', ...more], at)
    await both(['inbox', 'alice'], at)
    await both(['requests'], at)
    await both(['permissions', 'list'], at)
    await both(['rescue', 'list'], at)
    await both(['logs'], at)
    await both(['prefix'], at)
    await ends(0, ['completion', 'bash'], at)
    const sound = teamRoot({ teammates: [{ name: 'alice' }], sandbox: 'off', model: { provider: 'runbook' } })
    await both(['doctor'], { cwd: sound })
    writeFileSync(join(sound, 'config.json'), '{')
    await ends(1, ['doctor', '--json', '--root', sound])
    await ends(1, ['demo'], { env: { TMPDIR: join(root, 'none') } })
  })

  test('with a daemon: talks, decisions, permissions, plans, a rejected shutdown, and all that is gone', async () => {
    const slow = gate()
    const crew = await scriptedTeam(
      {
        alice: (_request, n) =>
          [
            call('bash', { command: 'mkdir -p one' }),
            call('ask_user', { question: 'Tabs?' }),
            call('ask_user', { question: 'Wide?' }),
            call('ask_user', { question: 'Long?' }),
          ][n] ?? 'Hm.',
        bob: () => 'Yes.',
        carl: () => 'Yes.',
        dora: async (request, n) => {
          if (n === 0) await slow.opened
          const id = /<request id="(req_\d+)"/.exec(heard(request))?.[1]
          if (n === 0) return call('ls', {})
          if (id === undefined || n > 1) return call('task', { action: 'complete', summary: 'done' })
          return call('request', { action: 'decide', id, decision: 'reject', reason: 'not yet' })
        },
      },
      { mode: 'dir', lead: 'carl' },
    )
    const at = { cwd: crew.root }
    const parked = (id: string) =>
      until(async () => (await status(crew.root)).teammates.some(mate => mate.waiting?.request === id), 40_000)
    await teamOk(['task', 'add', 'Make', '--assignee', 'alice', '--path', 'one'], at)
    await teamOk(['task', 'add', 'Go slowly', '--assignee', 'dora', '--path', 'two'], at)
    await crew.up()
    await ends(1, ['up'], at)
    await parked('req_1')
    await both(['requests', '1'], at)
    await ends(0, ['approve', '1', '--always'], at)
    await both(['permissions', 'list'], at)
    await ends(0, ['permissions', 'remove', '1'], at)
    await parked('req_2')
    await ends(0, ['answer', '2', 'Tabs.'], at)
    await parked('req_3')
    await ends(0, ['reject', '3'], at)
    await parked('req_4')
    await ends(0, ['ask', '4', '--reason', 'How long?'], at)
    await each(
      5,
      [
        ['approve', '3'],
        ['reject', '3'],
        ['ask', '3', '--reason', 'x'],
        ['answer', '3', 'x'],
      ],
      at,
    )
    await ends(0, ['chat', 'bob'], at)
    await teamOk(['send', 'bob', '-', '--root', crew.root], { input: 'what is to be done '.repeat(500) })
    await quiet(crew.root, 'bob')
    await both(['compact', 'bob', '--focus', 'the names'], at)
    await both(['replay', 'bob'], at)
    await both(['replay', 'bob', '--verify'], at)
    await each(
      4,
      [
        ['chat', 'nobody'],
        ['restart', 'nobody'],
        ['compact', 'nobody'],
        ['down', 'nobody'],
      ],
      at,
    )
    await both(['plan', 'Better'], at)
    await ends(5, ['doctor', '--fix'], at)
    await ends(5, ['restart', 'carl'], at)
    await ends(0, ['down', 'carl'], at)
    await ends(1, ['chat', 'carl'], at)
    await ends(5, ['compact', 'carl'], at)
    await ends(0, ['restart', 'carl'], at)
    const config = readFileSync(join(crew.root, 'config.json'), 'utf8')
    writeFileSync(join(crew.root, 'config.json'), '{"teammates": [')
    await ends(3, ['chat', 'lead'], at)
    const bad = await team(['chat', 'lead'], at)
    expect(bad.stderr).toMatch(/config\.json: .* at line 1, column 16\n +Mend it there; nothing was done\.\n$/)
    writeFileSync(join(crew.root, 'config.json'), config)
    const rejected = ends(5, ['down', 'dora', '--json'], at)
    await until(async () => (await status(crew.root)).requests.some(each => each.type === 'shutdown_request'))
    slow.open()
    await rejected
    await ends(0, ['down', '--force', '--json'], at)
    await ends(0, ['up', '--once'], { cwd: teamRoot({ teammates: [{ name: 'a' }], model: { provider: 'runbook' } }) })
  })

  test('plans and merges: what they bring, what is decided, what is landed', async () => {
    const it = gitTeam({ teammates: [{ name: 'ann' }], lead: 'ann' })
    const at = { cwd: it.root }
    await it.ok('up', '-d')
    it.drop('one.md', runbook('One', { 'a.txt': 'a\n' }, 'One'))
    const merge = await it.merge('1')
    await both(['diff', '1'], at)
    await ends(4, ['diff', '9'], at)
    await ends(0, ['approve', merge.id], at)
    await it.shown('1', 'completed', 'unverified')
    const lock = join(it.repo.dir, '.git', 'index.lock')
    writeFileSync(lock, '')
    await ends(1, ['land'], at)
    rmSync(lock)
    await both(['land'], at)
    const clone = repoAt(it.clone('ann'))
    const saved = clone.git('rev-parse', 'HEAD')
    clone.git('update-ref', 'refs/team/rescue/team/task-1-20260102T030405Z-0123456789', saved)
    const whence = await ends(0, ['why', 'a.txt:1'], at)
    expect(whence).toMatch(
      /commit +[0-9a-f]{10} One, by ann.*\n +merge +[0-9a-f]{10} Merge task 1: One\n +task +1 One, by ann/,
    )
    expect(whence).toMatch(/Decided\n.*merge_request/)
    await ends(0, ['why', 'a.txt:1', '--here', '--json', '--root', it.root], { cwd: it.repo.dir })
    // Whoever squashes a task's work by hand makes a commit that is of no task.
    it.repo.commit('Squashed', { 'own.txt': 'own\n' })
    const own = ['why', '--here', 'own.txt:1', '--root', it.root]
    expect(await ends(0, own, { cwd: it.repo.dir })).toMatch(/no task +team\/trunk does not have that commit.* by hand/)
    await ends(4, ['why', 'none.txt:1'], at)
    // A name that begins with a dash.
    await ends(4, ['why', '--root', it.root, '--', '-x.txt:1'], at)
    await both(['rescue', 'list'], at)
    expect(await ends(0, ['rescue', 'list', '--task', '1'], at)).toContain(`${saved.slice(0, 10)}  `)
    expect(await ends(0, ['task', 'show', '1'], at)).toContain(`\n  ${saved.slice(0, 10)}  `)
    expect(await ends(0, ['doctor'], at)).toContain(`1, the newest ${saved.slice(0, 10)} of `)
    await both(['rescue', 'show', saved], at)
    await both(['rescue', 'restore', saved.slice(0, 8)], at)
    expect(it.repo.git('rev-parse', `rescue/${saved.slice(0, 10)}`)).toBe(saved)
    await ends(5, ['rescue', 'restore', saved, '--to', '.'], at)
    writeFileSync(join(it.repo.dir, 'loose'), '')
    it.drop('two.md', runbook('Two', { loose: 'b\n' }, 'Two'))
    await it.ok('approve', (await it.merge('2')).id)
    await it.shown('2', 'completed', 'unverified')
    await ends(5, ['land'], at)
    await ends(0, ['plan', 'Two files\n\nplan: first one\n```tasks\n- title: one\n```\n', '--json'], at)
    const plan = await until(async () => (await it.requests()).find(each => each.type === 'plan_request'), 40_000)
    const file = join(it.root, 'plan.yaml')
    writeFileSync(file, '- title: another\n')
    await ends(0, ['plan', '--edit', plan.id, '--from', file, '--json'], at)
    await ends(1, ['plan', '--edit', plan.id, '--from', 'none'], at)
    await quiet(it.root)
  })

  test('each command has a line in docs/exit-codes.md, and ends with just the codes that stand there', () => {
    expect([...documented.keys()].sort()).toEqual(rows.map(({ path }) => path).sort())
    const expected = [...documented].flatMap(([path, codes]) => codes.map(code => `${path} ${code}`))
    const codes = [...seen].filter(each => !each.endsWith('--json'))
    expect(codes.sort()).toEqual(expected.sort())
    const forPrograms = rows.filter(({ options }) => options.some(({ flags }) => flags.includes('--json')))
    for (const { path } of forPrograms.filter(({ path }) => path !== 'demo'))
      expect(seen, `${path} --json`).toContain(`${path} --json`)
    expect([...printed].sort()).toEqual(Object.keys(outputs).sort())
  })
})
