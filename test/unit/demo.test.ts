import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { differences, expectedMail, readFacts, summarize } from '../../src/cli/demo/facts.ts'
import { keyOf, mayMerge } from '../../src/cli/demo/policy.ts'
import { Progress } from '../../src/cli/demo/progress.ts'
import { demoTasks, demoTeam } from '../../src/cli/demo/tasks.ts'
import type { JournalEntry } from '../../src/protocol/event.ts'
import { Task } from '../../src/protocol/task.ts'

const at = '2026-01-01T00:00:00.000Z'
const taskOf = (key: string, more: object = {}): Task =>
  Task.parse({
    id: String(demoTasks.findIndex(task => task.key === key) + 1),
    title: demoTasks.find(task => task.key === key)?.title,
    file: `${key}.md`,
    createdAt: at,
    updatedAt: at,
    ...more,
  })
const claimed = { status: 'in_progress', claimed: { head: 'abc', summary: '', at } }
const done = { status: 'completed', result: { outcome: 'merged', summary: '' } }
const world = (states: Record<string, object>) =>
  new Map(demoTasks.map(({ key }) => [key, taskOf(key, states[key] ?? {})]))

describe('the policy of the demo', () => {
  it('merges a task that is alone as soon as it is claimed done', () => {
    expect(mayMerge(world({ 'quoted-cells': claimed }))).toContain('quoted-cells')
  })

  it('merges nothing of a fan-out before all of it is claimed, then those behind after those before', () => {
    const first = { 'quoted-cells': done, totals: claimed, table: claimed, spread: claimed }
    const of = (states: Record<string, object>) => mayMerge(world(states)).filter(key => key !== 'quoted-cells')
    expect(of(first)).toEqual([])
    const all = { ...first, 'strict-numbers': claimed }
    expect(of(all)).toEqual(['totals', 'strict-numbers'])
    expect(of({ ...all, totals: done })).toEqual(['totals', 'table', 'strict-numbers'])
    expect(of({ ...all, totals: done, table: { returns: 1 } })).toContain('table')
  })

  it('waits for nobody who has given up', () => {
    const failed = { status: 'failed', error: 'x' }
    const states = { totals: failed, table: claimed, spread: claimed, 'strict-numbers': failed }
    expect(mayMerge(world(states))).toEqual(expect.arrayContaining(['table', 'spread']))
  })

  it('knows tasks by the file they were dropped as', () => {
    expect(keyOf(taskOf('totals'))).toBe('totals')
  })
})

describe('the facts of the demo', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'demo-facts-'))
    for (const folder of ['.tasks', '.messages/requests']) mkdirSync(join(root, folder), { recursive: true })
  })
  afterEach(() => rmSync(root, { recursive: true, force: true }))

  const put = (path: string, value: unknown) => writeFileSync(join(root, path), JSON.stringify(value))
  const request = (id: string, more: object) =>
    put(`.messages/requests/${id}.json`, {
      id,
      from: 'supervisor',
      to: 'human',
      status: 'approved',
      outcome: 'decided',
      title: '',
      body: '',
      bodyHash: '',
      createdAt: at,
      deadline: null,
      history: [],
      decidedBy: 'human',
      decidedAt: at,
      reason: null,
      successor: null,
      effect: { step: 'done', at, outcome: 'ok' },
      ...more,
    })
  const merge = (id: string, task: string, effect: object) =>
    request(id, {
      type: 'merge_request',
      data: { task, owner: 'writer', branch: 'b', head: 'h', trunk: 't', commits: 1, files: [], verify: [] },
      effect: { step: 'done', at, ...effect },
    })

  /** A team root as it is when all went as it should. */
  const perfect = () => {
    for (const { key } of demoTasks) {
      const task = taskOf(key, done)
      put(`.tasks/task_${task.id}.json`, { v: 1, rev: 1, blockedBy: [], ...task })
    }
    merge('req_1', taskOf('table').id, { outcome: 'returned', detail: 'conflict in src/index.js' })
    merge('req_2', taskOf('spread').id, { outcome: 'returned', detail: 'node --test exited 1' })
    for (const { key } of demoTasks) merge(`req_m${taskOf(key).id}`, taskOf(key).id, { outcome: 'ok' })
    merge('req_3', taskOf('how-to-use').id, {})
    put('.messages/requests/req_3.json', {
      ...JSON.parse(readFileSync(join(root, '.messages/requests/req_3.json'), 'utf8')),
      status: 'rejected',
      reason: demoTasks.find(({ key }) => key === 'how-to-use')?.rejected,
    })
    const about = { task: taskOf('table').id }
    request('req_plan', { type: 'plan_request', from: 'writer', data: about })
    for (const id of ['req_q1', 'req_q2']) request(id, { type: 'question', from: 'counter', data: about, reason: 'so' })
    request('req_perm', { type: 'permission_request', from: 'writer', data: { ...about, command: 'chmod +x x' } })
    const lease = { kind: 'name', what: ['rows'], seconds: 600 }
    const later = '2026-01-01T00:00:01.000Z'
    request('req_l1', {
      type: 'resource_request',
      to: 'supervisor',
      data: { ...about, ...lease },
      effect: { step: 'done', at: later, outcome: 'released' },
    })
    request('req_l2', { type: 'resource_request', to: 'supervisor', data: { ...about, ...lease }, decidedAt: later })
    request('req_no', {
      type: 'shutdown_request',
      to: 'checker',
      status: 'rejected',
      data: { teammate: 'checker', graceMs: 1 },
      effect: null,
    })
    for (const { name } of demoTeam)
      request(`req_${name}`, { type: 'shutdown_request', to: name, data: { teammate: name, graceMs: 1 } })
    const inboxes = new Map<string, string[]>()
    expectedMail().forEach(({ from, to, text }, i) => {
      const line = JSON.stringify({ id: `msg_${i}`, from, to, timestamp: at, type: 'info', content: text })
      inboxes.set(to, [...(inboxes.get(to) ?? []), `${line}\n`])
    })
    for (const [to, text] of inboxes) writeFileSync(join(root, `.messages/${to}.inbox.jsonl`), text.join(''))
  }

  it('differ in nothing when all went as it should, and are counted from the files', () => {
    perfect()
    const facts = readFacts(root)
    expect(differences(facts)).toEqual([])
    const mail = expectedMail()
    expect(summarize(facts)).toEqual({
      tasks: { dropped: 8, completed: 8, merged: 8 },
      notDone: [],
      merges: {
        approved: 10,
        returned: [
          { task: 'table', why: 'conflict in src/index.js' },
          { task: 'spread', why: 'node --test exited 1' },
        ],
        rejected: [{ task: 'how-to-use', why: 'Say what it needs to run, too.' }],
      },
      plans: { approved: 1 },
      questions: { answered: 2 },
      permissions: { granted: 1 },
      leases: { held: 2, waited: 1 },
      messages: { all: mail.length, betweenTeammates: mail.filter(each => each.to !== 'user').length },
      shutdowns: { approved: 4, rejected: 1 },
      deadLetters: 0,
    })
    expect(mail.filter(each => each.to !== 'user').length).toBeGreaterThanOrEqual(8)
  })

  it('name what is missing, what is double and what cannot be read', () => {
    perfect()
    put('.tasks/task_1.json', { ...taskOf('quoted-cells', { status: 'failed', error: 'no luck\nmore' }) })
    merge('req_1', taskOf('table').id, { outcome: 'ok' })
    put('.messages/user.inbox.jsonl', 'no message')
    writeFileSync(join(root, '.messages/dead-letter.jsonl'), '{}\n')
    rmSync(join(root, '.messages/requests/req_reader.json'))
    const found = differences(readFacts(root)).join('\n')
    expect(found).toContain('quoted-cells: failed, not merged (no luck)')
    expect(found).toContain('table: sent back for nothing, not for conflict')
    expect(found).toContain('user.inbox.jsonl cannot be read')
    expect(found).toContain('the message of checker to user is there 0 times')
    expect(found).toContain('3 of 4 teammates agreed to shut down')
    expect(found).toContain('1 dead letters')
  })

  it('of a root that never came up are empty, not an exception', () => {
    rmSync(root, { recursive: true })
    expect(readFacts(root).tasks.size).toBe(0)
  })
})

describe('the progress of the demo', () => {
  const entry = (event: JournalEntry['event'], more: Partial<JournalEntry> = {}): JournalEntry => ({
    seq: 1,
    at,
    event,
    by: 'supervisor',
    ...more,
  })

  it('tells the story in the names of the demo, and leaves the rest out', () => {
    const progress = new Progress()
    const put = (task: Task): Pick<JournalEntry, 'put'> => ({ put: ['tasks', task.id, 1, task] })
    expect(progress.line(entry('task.created', put(taskOf('totals', { dependsOn: ['quoted-cells.md'] }))))).toEqual({
      who: 'dropped',
      what: 'totals, waits for quoted-cells',
    })
    const back = taskOf('totals', { owner: 'counter', returns: 1, error: 'conflict\nlong' })
    expect(progress.line(entry('task.returned', put(back)))?.what).toBe('sends totals back: conflict')
    expect(progress.line(entry('task.started', put(back)))).toEqual({ who: 'counter', what: 'mends totals' })
    const verified = (info: JournalEntry['info']) => progress.line(entry('verify.ended', { info }))?.what
    expect(verified({ task: back.id, ok: false })).toBe('totals on the merged result: red')
    expect(verified({ task: back.id, tasks: [back.id, '9'], ok: true })).toBe('totals, 9 on the merged result: green')
    expect(verified({ trunk: 'c0ffee', ok: true })).toBe('the trunk alone: green')
    expect(verified({ base: 'c0ffee', ok: true })).toBe('the moved base on the merged result: green')
    expect(verified({ task: back.id, base: 'c0ffee', ok: false })).toBe('what totals accepts, where it started: red')
    expect(progress.line(entry('teammate.state'))).toBeNull()
    const message = { id: 'm', from: 'reader', to: 'writer', timestamp: at, type: 'info', content: 'hi' }
    expect(progress.line(entry('message.stored', { append: ['inbox', 1, { message, origin: 'daemon' }] }))).toEqual({
      who: 'reader',
      what: 'to writer: hi',
    })
  })
})
