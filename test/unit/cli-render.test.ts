import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { downLines } from '../../src/cli/render/down.ts'
import { renderEvent } from '../../src/cli/render/event.ts'
import { renderGraph } from '../../src/cli/render/graph.ts'
import { renderMail } from '../../src/cli/render/mail.ts'
import { renderRequest } from '../../src/cli/render/request.ts'
import { renderRequests, renderStatus } from '../../src/cli/render/status.ts'
import { renderTask } from '../../src/cli/render/task.ts'
import { harmless, jsonText, oneLine, paint, span, table, when, width } from '../../src/cli/render/text.ts'
import type { JournalEntry } from '../../src/protocol/event.ts'
import type { Request } from '../../src/protocol/request.ts'
import { requestTypeNames, type requestTypes } from '../../src/protocol/request-types.ts'
import type { Status, TaskShown, TeammateStatus } from '../../src/protocol/rpc.ts'
import { Task } from '../../src/protocol/task.ts'

const plain = paint(false)
const at = '2026-05-14T10:00:00.000Z'
const now = Date.parse(at) + 90_000
const task = (id: string, more: Partial<TaskShown> = {}): TaskShown => ({
  ...Task.parse({ id, title: `Title ${id}`, createdAt: at, updatedAt: at }),
  v: 1,
  rev: 1,
  blockedBy: [],
  shown: 'ready',
  why: null,
  ...more,
})
const mate: TeammateStatus = {
  name: 'alice',
  role: '前端开发',
  state: 'waiting',
  since: at,
  task: '7',
  waiting: { what: 'model', whom: 'http://h/v1' },
  unread: 2,
  restarts: 1,
  stall: null,
  heldUp: null,
  background: [],
  reason: null,
  model: 'runbook',
  tokens: { input: 12_345, cachedInput: 0, output: 678, calls: 3 },
  context: 0.123,
}
const noTokens = { input: 0, cachedInput: 0, output: 0, calls: 0 }
const nothingUsed = { work: noTokens, coordination: noTokens, cost: 0 }
const status: Status = {
  holder: { pid: 42, kind: 'daemon', root: '/r', epoch: 1, version: '1.2.3', host: 'h', startedAt: at },
  asOf: null,
  root: '/r',
  workspace: '/w',
  mode: 'git',
  trunk: { name: 'team/trunk', commit: 'a'.repeat(40), ahead: 2 },
  base: { name: 'main', commit: 'b'.repeat(40) },
  sandbox: { mode: 'required', kind: 'bwrap', defended: true, detail: 'bubblewrap 0.8.0' },
  teammates: [mate],
  tasks: [],
  archived: 0,
  requests: [],
  budget: [],
  used: nothingUsed,
  leases: { held: [], queued: [] },
  problems: [],
  pendingChanges: [],
  deadLetters: 0,
}

const requestOf = {
  id: 'req_1',
  from: 'supervisor',
  to: 'human',
  status: 'approved',
  outcome: 'decided',
  title: 'merge',
  successor: null,
  createdAt: '',
}

describe('text for a terminal', () => {
  test('nothing that a model or a file says can move the cursor or hide text', () =>
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), text => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
        expect(harmless(text)).not.toMatch(/[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E]/)
        expect(oneLine(text)).not.toMatch(/[\n\t]/)
      }),
    ))

  test('a list of requests has a line each, cut to the width of the terminal, whatever is asked', () => {
    const asked = (id: string, title: string) =>
      ({
        id,
        type: 'question',
        from: 'alice',
        to: 'human',
        status: 'pending',
        outcome: null,
        title,
        successor: null,
        createdAt: '',
      }) as unknown as Request
    const list = [
      asked('req_1', 'Tabs?'),
      asked('req_12', `Which of these\n${'宽'.repeat(300)}`),
      asked('req_3', 'x'.repeat(300)),
    ]
    for (const columns of [60, 80, 132, undefined]) {
      const lines = renderRequests(list, now, plain, columns).split('\n')
      expect(lines).toHaveLength(3)
      expect(Math.max(...lines.map(width))).toBeLessThanOrEqual(columns ?? 160)
      expect(lines[0]).toMatch(/alice → human .* Tabs\?$/)
      expect(lines[1]).toMatch(/Which of .*…$/)
    }
  })

  test('no text of a request, from whom or where it is, reaches a terminal as it is, nor breaks its line', () => {
    const odd = 'A\u001b[31m\u0000\u009b2J\u202e\u0301\u200b\ud800\r\nB\u2028C\u0085D'
    const data = { plan_request: { task: null, tasks: [{ title: odd, description: odd, verify: odd }] } }
    const request = (type: keyof typeof requestTypes): Request =>
      ({
        ...{
          id: 'req_1',
          type,
          from: 'alice',
          to: 'human',
          status: 'approved',
          outcome: 'decided',
          title: odd,
          body: odd,
        },
        ...{ bodyHash: 'a'.repeat(64), createdAt: odd, deadline: odd, decidedBy: 'human', decidedAt: odd, reason: odd },
        ...{ history: [{ at: odd, by: odd, act: odd, text: odd }], successor: null },
        effect: { step: 'done', at: odd, outcome: 'ok', detail: odd, what: [odd] },
        data: {
          ...{ task: '1', command: odd, rule: odd, kind: 'name', what: [odd], owner: 'alice', branch: 'b', head: 'c' },
          ...{ commits: 1, files: [odd], verify: [odd], teammate: 'alice' },
          ...(type === 'plan_request' ? data.plan_request : {}),
        },
      }) as unknown as Request
    for (const type of requestTypeNames) {
      const shown = `${renderRequest(request(type), now, plain)}\n${renderRequests([request(type)], now, plain)}`
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
      expect(shown).not.toMatch(/[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E]/)
      // The body alone has lines of its own.
      expect(shown.split('\n').filter(line => /^ *B/.test(line))).toHaveLength(1)
    }
  })

  test('how to approve a request is offered while it waits, and not once it is over; its hash stays', () => {
    const request = (status: string, outcome: string | null): string =>
      renderRequest(
        {
          ...{ id: 'req_1', type: 'question', from: 'alice', to: 'human', status, outcome, title: 't', body: 'b' },
          ...{
            bodyHash: 'a'.repeat(64),
            createdAt: at,
            deadline: null,
            decidedBy: null,
            decidedAt: null,
            reason: null,
          },
          ...{ history: [], successor: null, effect: null, data: { task: null } },
        } as unknown as Request,
        now,
        plain,
      )
    const offer = `team approve req_1 --shown ${'a'.repeat(12)}`
    for (const status of ['pending', 'needs_info']) expect(request(status, null)).toContain(offer)
    for (const [status, outcome] of [
      ['approved', 'decided'],
      ['rejected', 'decided'],
      ['pending', 'withdrawn'],
      ['needs_info', 'expired'],
    ] as const) {
      expect(request(status, outcome)).toMatch(/shown +a{12}$/m)
      expect(request(status, outcome)).not.toContain('team approve')
    }
  })

  test('JSON for programs holds the same values, and nothing that a terminal acts on', () =>
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string({ unit: 'binary' })), value => {
        const text = jsonText({ value, c1: '\u009b2J\u202e\u007f' }, 2)
        expect(JSON.parse(text)).toEqual({ value, c1: '\u009b2J\u202e\u007f' })
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
        expect(text).not.toMatch(/[\u0000-\u0009\u000B-\u001F\u007F-\u009F\u2028-\u202E\u2066-\u2069]/)
      }),
    ))

  test('a command that only looks like another is shown as what it is', () => {
    for (const c of ['\u200b', '\u00ad', '\u2060', '\ufeff', '\u{e0041}'])
      expect(oneLine(`rm${c} -rf x`)).toBe('rm\ufffd -rf x')
    expect(oneLine('e\u0301 \u05d0\u200f 👩\u200d💻')).toBe('e\u0301 \u05d0\u200f 👩\u200d💻')
  })

  test('a line is never wider than its bound, wide characters counted as two', () =>
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 5, max: 40 }), (text, max) => {
        expect(width(oneLine(text, max))).toBeLessThanOrEqual(max)
      }),
    ))

  test('columns line up behind wide characters and colours', () => {
    const colours = paint(true)
    const lines = table([
      ['前端', 'x'],
      [colours.red('abcd'), 'y'],
      ['a', 'z'],
    ]).split('\n')
    expect(lines.map(line => width(line))).toEqual([7, 7, 7])
  })

  test.each([
    [0, '0 s'],
    [59_400, '59 s'],
    [60_000, '1 min'],
    [3_600_000, '1 h'],
    [7_500_000, '2 h 5 min'],
    [400_000_000, '4 d'],
    [Number.NaN, '-'],
  ])('a span of %d ms reads %s', (ms, text) => expect(span(ms)).toBe(text))
})

describe('renderStatus', () => {
  test('names daemon, trunk, each teammate with what it waits for and on whom', () => {
    const text = renderStatus(status, now, plain)
    expect(text).toContain('running, pid 42, for 1 min, version 1.2.3')
    expect(text).toContain('team/trunk aaaaaaaaaa, 2 commits to land')
    expect(text).toMatch(
      /alice +waiting +1 min +7 +2 +12% +12\.3k\/678 +runbook +waits for model \(http:\/\/h\/v1\); 1 restart/,
    )
    expect(text).not.toContain('not defended')
  })

  test('without a daemon it says so, and as of when; without a sandbox that authority is not defended', () => {
    const text = renderStatus(
      {
        ...status,
        holder: null,
        asOf: at,
        sandbox: { mode: 'prefer', kind: 'none', defended: false, detail: 'no bwrap' },
      },
      now,
      plain,
    )
    expect(text).toContain(`not running; as of ${when(at, now)}. Start it with team up.`)
    expect(text).toContain('authority is not defended on this machine; no bwrap')
  })

  test('every screen that tells of a completed task says when nothing proved it', () => {
    const done = task('1', { status: 'completed', shown: 'unverified', why: 'completed, but nothing proved it' })
    expect(renderStatus({ ...status, tasks: [done] }, now, plain)).toMatch(/TASKS 1 unverified\n +1 +unverified/)
    expect(renderTask(done, [], [], nothingUsed, now, plain)).toContain('unverified: completed, but nothing proved it')
  })

  test('what models used is told by what for, with what of it came from the cache', () => {
    const used = {
      work: { input: 1_200_000, cachedInput: 900_000, output: 20_000, calls: 34 },
      coordination: { input: 5000, cachedInput: 0, output: 10, calls: 1 },
      cost: 1.25,
    }
    const said = 'work 1.2M in (75% cached), 20.0k out, 34 calls; coordination 5.0k in, 10 out, 1 call; cost 1.25'
    expect(renderStatus({ ...status, used }, now, plain)).toContain(`TOKENS ${said}\n`)
    expect(renderTask(task('1'), [], [], used, now, plain)).toContain(said)
    expect(renderStatus(status, now, plain)).not.toContain('TOKENS work')
  })

  test('a task shows what was merged and what proves it, or what was red where', () => {
    const check = { exitCode: 0, ok: true, ms: 3210, tests: null, tail: 'fine' }
    const merge = {
      onto: 'a'.repeat(40),
      head: 'b'.repeat(40),
      tree: 'c'.repeat(40),
      commit: null,
      checked: 'd'.repeat(40),
      checks: [
        { ...check, command: 'test -e x', where: 'base', ok: false, exitCode: 1, tail: 'not shown' },
        {
          ...check,
          command: 'npm test',
          where: 'merged',
          ok: false,
          exitCode: 3,
          tests: 7,
          tail: 'one\u001b[31m failed',
        },
        { ...check, command: 'npm test', where: 'trunk', tests: 1 },
      ],
      batch: ['4', '5'],
      redBefore: false,
    }
    const request = { ...requestOf, type: 'merge_request', effect: { step: 'done', at, outcome: 'returned', merge } }
    const text = renderTask(task('4'), [request as unknown as Request], [], nothingUsed, now, plain)
    expect(text).toMatch(/merge of +bbbbbbbbbb into aaaaaaaaaa\n +tree +cccccccccc\n +commit +none/)
    expect(text).toMatch(/with +verified together \(tree dddddddddd\): task 4, 5/)
    expect(text).toMatch(/red +by this work: the trunk alone is green/)
    expect(text).toMatch(/red +where it started +test -e x +exit 1 +3.2 s/)
    expect(text).toMatch(/red +merged +npm test +exit 3 +3.2 s +7 tests/)
    expect(text).toMatch(/green +trunk alone +npm test +exit 0 +3.2 s +1 test\n/)
    expect(text).toMatch(/merged, npm test:\n +one.\[31m failed/)
    expect(text).not.toContain('not shown')
    expect(text).not.toContain('\u001b')
  })

  test('ten thousand tasks are counted, and the first of them named', () => {
    const tasks = Array.from({ length: 10_000 }, (_, i) => task(String(i + 1)))
    const text = renderStatus({ ...status, tasks }, now, plain)
    expect(text).toContain('TASKS 10000 ready')
    expect(text).toContain('… and 9975 more: team task list')
    expect(text.split('\n').length).toBeLessThan(60)
  })

  test('a thousand requests are counted, and the oldest of them named', () => {
    const requests = Array.from(
      { length: 1000 },
      (_, i): Request => ({
        ...{ id: `req_${i + 1}`, type: 'question', from: 'alice', to: 'human', status: 'pending', outcome: null },
        ...{
          title: `Which ${i}?`,
          body: '',
          bodyHash: '',
          createdAt: at,
          deadline: null,
          history: [],
          decidedBy: null,
        },
        ...{ decidedAt: null, reason: null, effect: null, successor: null, data: { task: null } },
      }),
    )
    const text = renderStatus({ ...status, requests, problems: ['this is seen too'] }, now, plain)
    expect(text).toMatch(/req_25 .*\n {2}… and 975 more: team requests\n/)
    expect(text).toContain('this is seen too')
    expect(text.split('\n').length).toBeLessThan(60)
  })
})

test('under what waits for a decision stand the commands for what waits there, and no other', () => {
  const waits = (type: Request['type'], data: object = {}) =>
    ({
      ...{ id: 'req_1', type, from: 'alice', to: 'human', status: 'pending', outcome: null },
      title: 'T',
      data,
    }) as Request
  const told = (...requests: Request[]) =>
    renderStatus({ ...status, requests }, now, plain)
      .split('\n')
      .filter(line => /<id>/.test(line))
      .map(line => line.trim())
  const decide = 'then team approve <id> or team reject <id> --reason …'
  expect(told(waits('merge_request'))).toEqual([`team diff <id>, ${decide}`])
  for (const type of ['plan_request', 'permission_request', 'shutdown_request'] as const)
    expect(told(waits(type))).toEqual([`team requests <id>, ${decide}`])
  expect(told(waits('resource_request', { kind: 'budget' }))).toEqual([`team requests <id>, ${decide}`])
  expect(told(waits('question'))).toEqual(['team answer <id> …'])
  expect(told(waits('merge_request'), waits('plan_request'), waits('question'))).toEqual([
    `team diff <id> or team requests <id>, ${decide}`,
    'a question: team answer <id> …',
  ])
})

test('changes that wait have a place of their own: nothing is wrong with them', () => {
  const wait = 'alice: tools changed in config.json, which takes effect at its next task'
  const only = renderStatus({ ...status, pendingChanges: [wait] }, now, plain)
  expect(only).toMatch(new RegExp(`\n\nCHANGES THAT WAIT\n {2}${wait}$`))
  expect(only).not.toContain('WRONG')
  const both = renderStatus({ ...status, pendingChanges: [wait], problems: ['a fault'] }, now, plain)
  expect(both).toMatch(new RegExp(`CHANGES THAT WAIT\n {2}${wait}\n\nWRONG\n {2}! a fault$`))
  expect(renderStatus(status, now, plain)).not.toContain('CHANGES THAT WAIT')
})

describe('renderGraph', () => {
  test('each task stands once in full, under the last of what it waits for', () => {
    const text = renderGraph(
      [
        task('1'),
        task('2', { dependsOn: ['1'] }),
        task('3', { dependsOn: ['1'] }),
        task('4', { dependsOn: ['2', '3'] }),
        task('5', { dependsOn: ['Nobody yet'] }),
      ],
      plain,
    )
    expect(text).toBe(
      [
        '1 ready Title 1',
        '├─ 2 ready Title 2',
        '│  └─ 4 …',
        '└─ 3 ready Title 3',
        '   └─ 4 ready Title 4 (after 2, 3)',
        '5 ready Title 5 (waits for Nobody yet, not there yet)',
      ].join('\n'),
    )
  })

  test('a chain of ten thousand does not overflow', () => {
    const tasks = Array.from({ length: 10_000 }, (_, i) =>
      task(String(i), i === 0 ? {} : { dependsOn: [String(i - 1)] }),
    )
    expect(renderGraph(tasks, plain).split('\n')).toHaveLength(10_000)
  })
})

describe('renderMail', () => {
  test('a sender that only a file claims is shown as such, and unread mail is marked', () => {
    const text = renderMail(
      [
        {
          index: 3,
          receipt: 'stored',
          turn: null,
          stored: {
            origin: 'file',
            message: {
              id: 'm1',
              from: 'human',
              to: 'alice',
              timestamp: at,
              type: 'info',
              content: 'do it\n\u001b[2Jnow',
            },
          },
        },
      ],
      2,
      now,
      plain,
    )
    expect(text).toMatch(/^● "human" \(by file\)/)
    expect(text).toContain('    do it\n    ␛[2Jnow')
  })

  test('a request says who asks; a line of a file says nothing of the kind', () => {
    const mail = (origin: 'daemon' | 'file') => {
      const message = { id: 'm1', from: 'supervisor', to: 'user', timestamp: at, content: 'Tabs?', requestId: 'req_2' }
      const stored = { origin, message: { ...message, type: 'request' as const, data: { from: 'alice' } } }
      return renderMail([{ index: 3, receipt: 'stored' as const, turn: null, stored }], 2, now, plain)
    }
    expect(mail('daemon')).toContain('request, req_2 of alice, stored')
    expect(mail('file')).toContain('request, req_2, stored')
  })
})

describe('renderEvent', () => {
  const entry = (more: Partial<JournalEntry>): JournalEntry => ({
    seq: 1,
    at,
    event: 'warning',
    by: 'supervisor',
    ...more,
  })
  const said = (more: Partial<JournalEntry>, all = false) =>
    renderEvent(entry(more), { now, paint: plain, all })?.replace(/^.{8,19}? {2}/, '')

  test('says what happened in words, with the task and its title', () => {
    expect(said({ event: 'task.started', put: ['tasks', '7', 2, { title: 'Parse', owner: 'alice' }] })).toContain(
      'supervisor gave task 7 "Parse" to alice',
    )
    expect(said({ event: 'teammate.died', info: { name: 'bob', why: 'exit 3' } })).toContain('bob died: exit 3')
    const decided = (type: string) =>
      said({
        event: 'request.decided',
        by: 'human',
        put: ['requests', 'req_3', 2, { id: 'req_3', type, title: 'Tabs?', status: 'approved', reason: 'Yes' }],
      })
    expect(decided('question')).toBe('human answered req_3 "Tabs?": Yes')
    expect(decided('plan_request')).toBe('human approved req_3 "Tabs?": Yes')
    expect(
      said({
        event: 'message.stored',
        by: 'alice',
        info: { to: 'bob' },
        append: ['x', 1, { message: { content: 'hi' } }],
      }),
    ).toContain('alice → bob: hi')
  })

  test('a line of an inbox is told with the sender that it claims; what was refused is not told as the deed of its writer', () => {
    expect(
      said({
        event: 'message.stored',
        by: 'bob',
        info: { inbox: 'bob', origin: 'file' },
        append: ['x', 1, { origin: 'file', message: { from: 'human', content: 'hi' } }],
      }),
    ).toContain('"human" (by file) → bob: hi')
    expect(said({ event: 'drop.refused', by: 'human', info: { file: 'a.md', reason: 'x' } })).toContain(
      'supervisor refused a.md: x',
    )
    expect(said({ event: 'verify.ended', info: { task: '3', ok: true } })).toContain('verify of task 3 passed')
    expect(said({ event: 'verify.ended', info: { task: '3', tasks: ['2', '3'], ok: false } })).toContain(
      'verify of tasks 2, 3 together failed',
    )
    expect(said({ event: 'verify.started', info: { trunk: 'abcdef' } })).toContain('verifies the trunk alone at abcdef')
    expect(said({ event: 'trunk.moved', info: { tasks: ['2', '3'], to: 'abcdef' } })).toContain(
      'moved the trunk by tasks 2, 3 together to abcdef',
    )
  })

  test('a lease that ended: who gave it back or took it is the one who acts', () => {
    const ended = (by: string, detail: string) =>
      said({
        event: 'effect.done',
        info: { outcome: 'released', detail },
        put: ['requests', 'req_7', 2, { title: 'gpu', effect: { step: 'done', outcome: 'released', by } }],
      })
    expect(ended('human', 'mine')).toContain('human took back req_7 "gpu": mine')
    expect(ended('alice', 'done')).toContain('alice gave back req_7 "gpu": done')
    expect(ended('supervisor', 'its time is over')).toContain(
      'supervisor req_7 "gpu" is not held any more: its time is over',
    )
  })

  test('small steps are shown only when all is asked for, and an event without words of its own in the raw', () => {
    expect(said({ event: 'model.call' })).toBeUndefined()
    expect(said({ event: 'model.call', info: { tokens: 5 } }, true)).toContain('model.call {"tokens":5}')
  })
})

test('down tells what became of each, and of a rejection that the daemon stays', () => {
  const lines = downLines({
    stopped: [{ name: 'alice', how: 'forced' }],
    rejected: [{ name: 'bob', reason: 'in the middle of a migration' }],
  })
  expect(lines).toEqual([
    'alice: stopped by force',
    'bob rejects: in the middle of a migration',
    'The daemon stays. Wait, or use team down --force.',
  ])
  const back = downLines({ stopped: [{ name: 'alice', how: 'idle' }], rejected: [] }, ['alice'])
  expect(back).toEqual(['alice: was idle, shut down; is started again'])
})
