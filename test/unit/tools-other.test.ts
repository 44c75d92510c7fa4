import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ToolContext } from '../../src/agent/tool.ts'
import { defaultTools as names } from '../../src/protocol/config.ts'
import { defaultTools, pickTools } from '../../src/tools/index.ts'
import { makePlace, type Place } from '../support/sandbox.ts'
import { toolContext, use } from '../support/tools.ts'

let place: Place
let context: ToolContext
beforeEach(() => {
  place = makePlace()
  context = toolContext(place.view('alice', { mode: 'git' }))
})
afterEach(async () => {
  await context.shell.stop(100)
  place.remove()
})

describe('the list', () => {
  test('holds exactly the tools that config.json may name, sorted, with flat small schemas', () => {
    expect(defaultTools.map(tool => tool.schema.name)).toEqual([...names])
    for (const { schema } of defaultTools) {
      expect(schema.parameters).toMatchObject({ type: 'object', properties: expect.any(Object) })
      expect(schema.parameters).not.toHaveProperty('$schema')
      // Bounds are held by the tool, and its error names them: a model reads none of them before each of its calls.
      expect(JSON.stringify(schema)).not.toMatch(
        /"(m(in|ax)[A-Z]\w*|exclusiveM\w*|m(in|ax)imum|additionalProperties)":/,
      )
    }
    // About 4 characters a token: all schemas stand in every call.
    expect(JSON.stringify(defaultTools.map(tool => tool.schema)).length).toBeLessThan(4600)
  })

  test('is narrowed by name, and a name that there is none of is told with the nearest', () => {
    expect(pickTools(['write_file', 'ls', 'ls'])).toMatchObject({
      ok: true,
      value: [{ schema: { name: 'ls' } }, { schema: { name: 'write_file' } }],
    })
    expect(pickTools(null)).toMatchObject({ ok: true, value: { length: names.length } })
    expect(pickTools(['read-file'])).toMatchObject({
      ok: false,
      fault: { code: 'config', hint: 'did you mean read_file?' },
    })
  })

  test('bad arguments are an error to act on, never a throw', async () => {
    for (const name of names)
      expect(await use(context, name, { nonsense: 1 }), name).toMatchObject({
        isError: true,
        text: expect.stringMatching(/^error: /),
      })
  })
})

describe('bash', () => {
  test('tells the exit code first, then the output, and both streams', async () => {
    expect((await use(context, 'bash', { command: 'echo out; echo err >&2; exit 7' })).text).toMatch(
      /^exit 7 in \d+\.\d s\nout\nerr$/,
    )
    expect((await use(context, 'bash', { command: 'true' })).text).toMatch(/^exit 0 in \d+\.\d s, no output$/)
  })

  test('G13 a long output is cut, its size told, and the whole named in out/', async () => {
    const { text } = await use(context, 'bash', { command: 'seq 1 5000' })
    const [, bytes, file = ''] =
      /^exit 0 in \d+\.\d s, (\d+) bytes of output, all of it in (out\/command-\w+\.txt)\n1\n2\n/.exec(text) ?? []
    expect(Number(bytes)).toBe(readFileSync(join(context.view.home, file)).length)
    expect(text).toMatch(/4999\n5000$/)
    expect(text.length).toBeLessThan(2300)
  })

  test('output over 20 lines stands in out/ as well, and the reply carries the path; up to 20 it is no file', async () => {
    const files = () => readdirSync(join(context.view.home, 'out'))
    for (const command of ['seq 1 20', 'seq 1 19; printf 20', 'printf "no end"'])
      expect((await use(context, 'bash', { command })).text, command).toMatch(/^exit 0 in \d+\.\d s\n/)
    expect(files()).toEqual([])
    for (const [command, said] of [
      ['seq 1 21', 'seq 1 21'],
      ['seq 1 20; printf 21', 'seq 1 20; printf 21'],
      ['seq 1 10; sleep 0.2; seq 11 21; exit 3', 'the same in two pieces'],
    ] as const) {
      const { text } = await use(context, 'bash', { command })
      const [, file = ''] =
        /^exit [03] in \d+\.\d s, 21 lines of output, all of it in (out\/\S+)\n1\n2\n/.exec(text) ?? []
      expect(text.trimEnd(), said).toMatch(/\n20\n21$/)
      expect(readFileSync(join(context.view.home, file), 'utf8').trimEnd().split('\n'), said).toHaveLength(21)
    }
    expect(files()).toHaveLength(3)
  })

  test('bash says what is wrong with a command that no program can be given, before anything is asked or used up', async () => {
    const asked: string[] = []
    const closed = toolContext(context.view, {
      'task.gate': () => asked.push('task.gate') && null,
      'permission.use': () => asked.push('permission.use') && { how: 'once', request: 'req_1' },
    } as never)
    expect(await use(closed, 'bash', { command: 'rm a\0b' })).toMatchObject({
      isError: true,
      text: expect.stringContaining('a command holds no NUL byte'),
    })
    expect(asked).toEqual([])
  })

  test('G05 names what it left running, and says when time ended it', async () => {
    expect((await use(context, 'bash', { command: 'sleep 81 & echo hi' })).text).toMatch(
      /^exit 0 .*\nstill running .*: sleep 81 \(\d+\)\nhi$/,
    )
    expect((await use(context, 'bash', { command: 'echo so far; sleep 82', timeout_s: 0.3 })).text).toMatch(
      /^ended after 0.3 s, its time limit.*\nso far/,
    )
  })

  test('a refusal is an error with its reason', async () => {
    const shell = { ...context.shell, run: async () => ({ refused: 'denied' as const, reason: 'a rule forbids it' }) }
    expect(await use({ ...context, shell }, 'bash', { command: 'x' })).toEqual({
      text: 'error: denied: a rule forbids it',
      isError: true,
    })
  })
})

describe('todo', () => {
  const step = (id: string, status = 'pending') => ({ id, text: `step ${id}`, status })
  test('keeps the list and shows it; too many, two in progress and double ids are refused with the list unchanged', async () => {
    expect((await use(context, 'todo', { items: [step('1', 'completed'), step('2', 'in_progress')] })).text).toBe(
      '1 of 2 done\n[x] 1 step 1\n[>] 2 step 2',
    )
    for (const items of [
      Array.from({ length: 21 }, (_, i) => step(`${i}`)),
      [step('1', 'in_progress'), step('2', 'in_progress')],
      [step('1'), step('1')],
    ])
      expect((await use(context, 'todo', { items })).isError).toBe(true)
    expect(context.todo.get()).toHaveLength(2)
  })
})

describe('message', () => {
  test('A05 sends by the holder with an id of its own and tells how it went; a refusal lists what the holder says', async () => {
    const answers = {
      'message.send': ({ to, id }: { to: string; id: string }) =>
        to === 'nobody' ? 'there is no nobody; there are alice, bob' : { sent: [{ to, id, how: 'delivered' }] },
    }
    const asked = toolContext(context.view, answers as never)
    expect((await use(asked, 'message', { to: 'bob', content: 'half \ud83d', reply_to: 'msg_1' })).text).toMatch(
      /^bob: delivered as msg_/,
    )
    expect(asked.calls[0]).toMatchObject(['message.send', { content: 'half \uFFFD', type: 'reply', replyTo: 'msg_1' }])
    expect((await use(asked, 'message', { to: 'nobody', content: 'x' })).text).toBe(
      'error: there is no nobody; there are alice, bob; look again',
    )
    expect((await use(asked, 'message', { to: 'bob', content: ' ' })).isError).toBe(true)
  })
})

describe('request', () => {
  test('decides, answers, withdraws and opens only by the holder', async () => {
    const request = {
      id: 'req_1',
      type: 'shutdown_request',
      from: 'alice',
      to: 'human',
      status: 'approved',
      outcome: 'decided',
    }
    const answer = () => ({ request, note: 'ends after this turn' })
    const asked = toolContext(context.view, {
      'request.decide': answer,
      'request.open': answer,
      'request.answer': answer,
      'request.withdraw': answer,
    })
    expect((await use(asked, 'request', { action: 'decide', id: 'req_1', decision: 'approve' })).text).toBe(
      'req_1 is approved\nends after this turn',
    )
    expect((await use(asked, 'request', { action: 'decide', id: 'req_1', decision: 'reject' })).text).toMatch(
      /^error: say why/,
    )
    expect((await use(asked, 'request', { action: 'decide', id: 'req_1' })).text).toMatch(/^error: .*needs decision/)
    expect((await use(asked, 'request', { action: 'open', type: 'shutdown_request', title: 'done here' })).text).toBe(
      'opened req_1, human decides',
    )
    expect((await use(asked, 'request', { action: 'answer', id: 'req_1', body: 'so' })).isError).toBe(false)
    expect((await use(asked, 'request', { action: 'withdraw', id: 'req_1' })).isError).toBe(false)
    expect(asked.calls.map(([method]) => method)).toEqual([
      'request.decide',
      'request.open',
      'request.answer',
      'request.withdraw',
    ])
    expect(asked.calls[1]?.[1]).toMatchObject({ data: { teammate: 'alice' }, title: 'done here', body: '' })
  })

  test.each([
    [{ status: 'rejected', outcome: 'decided', reason: 'it closes a circle' }, 'rejected already: it closes a circle'],
    [{ status: 'pending', outcome: 'withdrawn', reason: 'bob left' }, 'withdrawn already: bob left'],
    [
      { status: 'approved', outcome: 'decided', reason: null, effect: { detail: 'x is yours' } },
      'approved already: x is yours',
    ],
  ])('what ended at once is told with how and why: %j', async (ended, how) => {
    const request = { id: 'req_1', type: 'resource_request', from: 'alice', to: 'supervisor', effect: null, ...ended }
    const asked = toolContext(context.view, { 'request.open': () => ({ request }) })
    const data = { kind: 'name', what: ['x'] }
    expect((await use(asked, 'request', { action: 'open', type: 'resource_request', data })).text).toBe(
      `opened req_1, which is ${how}`,
    )
  })
})

describe('task', () => {
  const shown = {
    id: '7',
    title: 'T',
    description: 'D',
    status: 'in_progress',
    owner: 'alice',
    assignee: null,
    blockedBy: [],
    dependsOn: ['3'],
    branch: 'team/task-7',
    verify: null,
    accept: [],
    shown: 'working',
    error: null,
    result: null,
  }
  const answers = {
    'task.complete': () => ({ id: shown.id, note: 'awaits approval' }),
    'task.list': () => ({ tasks: [shown, { ...shown, id: '8', status: 'pending', owner: null, blockedBy: ['7'] }] }),
    'task.get': () => ({ task: shown, requests: [] }),
    'task.add': () => ({ tasks: [shown] }),
    'task.fail': () => ({ task: shown }),
    'task.release': () => ({ task: shown }),
  }
  const inGit = async () => {
    const asked = toolContext(context.view, answers, { task: () => ({ id: '7', branch: 'team/task-7' }) })
    const git = await use(asked, 'bash', {
      command:
        'git init -q -b team/task-7 . && git commit -q --allow-empty -m base && git update-ref refs/remotes/hub/trunk HEAD',
    })
    expect(git.text).toMatch(/^exit 0/)
    return asked
  }

  test('B13 complete is refused while files are uncommitted, and names them', async () => {
    const asked = await inGit()
    await use(asked, 'write_file', { path: 'repo/日本 "x".txt', content: 'x' })
    mkdirSync(join(asked.view.cwd, 'dir'))
    await use(asked, 'write_file', { path: 'repo/dir/b', content: 'x' })
    const result = await use(asked, 'task', { action: 'complete', summary: 'did it' })
    expect(result.text).toMatch(/^error: uncommitted files in repo\/ \(2\)/)
    expect(result.text.split('\n').slice(1).sort()).toEqual(['dir/b', '日本 "x".txt'])
    expect(asked.calls.filter(([method]) => method === 'task.complete')).toEqual([])
  })

  test('B13 complete without a commit says that nothing will be merged, with one counts it', async () => {
    const asked = await inGit()
    expect((await use(asked, 'task', { action: 'complete', summary: 's' })).text).toMatch(
      /claimed done\nThe branch has no commits.*\nawaits approval$/,
    )
    await use(asked, 'bash', { command: 'git commit -q --allow-empty -m work' })
    expect((await use(asked, 'task', { action: 'complete', summary: 's' })).text).toMatch(
      /\n1 commit on team\/task-7\.\nawaits approval$/,
    )
    await use(asked, 'bash', { command: 'git switch -q -c other' })
    expect((await use(asked, 'task', { action: 'complete', summary: 's' })).text).toMatch(/^error: repo\/ is on other/)
  })

  test('what is only said to be done, or was proven by nothing, is told as that', async () => {
    const tasks = [
      { ...shown, shown: 'claimed' },
      { ...shown, id: '8', status: 'completed', shown: 'unverified' },
      { ...shown, id: '9', status: 'completed', shown: 'completed' },
    ]
    const asked = toolContext(context.view, { ...answers, 'task.list': () => ({ tasks }) })
    expect((await use(asked, 'task', { action: 'list' })).text).toBe(
      '3 tasks\n7 [claimed, alice] T\n8 [unverified, alice] T\n9 [completed, alice] T',
    )
  })

  test('shows the board and one task, and wants what an action needs', async () => {
    const asked = toolContext(context.view, answers)
    expect((await use(asked, 'task', { action: 'list' })).text).toBe(
      '2 tasks\n7 [in_progress, alice] T\n8 [pending, blocked by 7] T',
    )
    expect((await use(asked, 'task', { action: 'get', id: '7' })).text).toMatch(
      /^7 \[in_progress, alice\] T\ndepends on: 3\nbranch: team\/task-7\n\nD$/,
    )
    expect((await use(asked, 'task', { action: 'create', title: 'N', depends_on: ['7'] })).text).toMatch(/^created 7/)
    expect((await use(asked, 'task', { action: 'fail' })).text).toBe('error: task fail needs summary')
    const inHand = toolContext(context.view, answers, { task: () => ({ id: '7', branch: null }) })
    expect((await use(inHand, 'task', { action: 'fail', summary: 'no way' })).text).toBe('task 7 is failed')
    expect((await use(asked, 'task', { action: 'claim' })).text).toBe('error: nobody answers task.claim')
  })

  test('what it has not been told of is not ended, though the holder has it in its hands already', async () => {
    const asked = toolContext(context.view, answers)
    for (const action of ['complete', 'release', 'fail'])
      expect((await use(asked, 'task', { action, summary: 'done' })).text).toMatch(/^error: you have no task in hand/)
    expect(asked.calls).toEqual([])
  })
})
