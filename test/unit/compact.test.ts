import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as z from 'zod'
import { Compaction, instruction, within } from '../../src/agent/compact.ts'
import type { Item } from '../../src/agent/items.ts'
import { Session } from '../../src/agent/session.ts'
import { defineTool, said } from '../../src/agent/tool.ts'
import { writeTranscript } from '../../src/agent/transcript.ts'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import type { ChatMessage } from '../../src/model/model.ts'
import { type Reply, type ScriptedRequest, type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import { folder, turn } from '../support/agent.ts'

const summary = '## Goal\nread all\n## Decisions\nnone\n## State\n3 read\n## Open\nthe rest\n## Files\na.txt'
const isAsked = ({ messages }: ScriptedRequest): boolean =>
  messages.at(-1)?.content?.includes('Your conversation is put together now') ?? false
const note = (text: string): Item => ({ k: 'note', text })
const read: Reply = { calls: [{ name: 'read', args: {} }] }

let home: ReturnType<typeof folder>
let session: Session
let server: ScriptedServer | undefined
beforeEach(() => {
  home = folder()
  session = unwrap(Session.open(join(home.path, 's.jsonl'), clock))
  session.begin('you are a test', false)
})
afterEach(async () => {
  session.close()
  await server?.close()
  server = undefined
  home.remove()
})

/** A tool whose results are `size` characters long. */
const reads = (size: number, letter = 'x') =>
  defineTool({ name: 'read', description: 'x', input: z.looseObject({}), run: () => said(letter.repeat(size)) })

const folderOf = () => join(home.path, '.transcripts')
const compaction = (
  window: number,
  tool = reads(3000),
  more: Partial<ConstructorParameters<typeof Compaction>[0]> = {},
) => {
  const told: string[] = []
  const made = new Compaction({
    session,
    schemas: [tool.schema],
    window,
    answer: 200,
    retell: async () => ({ system: 'you are a test', items: [] }),
    save: () =>
      writeTranscript(folderOf(), {
        teammate: 'alice',
        task: null,
        title: 'x',
        how: null,
        at: '2026-01-01T00:00:00.000Z',
        messages: session.whole(),
      }),
    on: {
      done: ({ why, before, after }) => told.push(`${why} ${after < before}`),
      failed: (why, last) => told.push(`${why}${last ? ', last' : ''}`),
    },
    ...more,
  })
  return { made, told }
}
const transcripts = () => {
  try {
    return readdirSync(folderOf()).sort()
  } catch {
    return []
  }
}

/** One turn in which the model reads `rounds` times, then ends; a question for a summary is answered with `summaries` in turn. */
const run = async (
  rounds: number,
  summaries: readonly Reply[],
  window: number,
  o: { tool?: ReturnType<typeof reads>; reply?: Reply; more?: Parameters<typeof compaction>[2] } = {},
) => {
  await server?.close()
  const tool = o.tool ?? reads(3000)
  let asked = 0
  let n = 0
  server = await startScripted(request =>
    isAsked(request) ? (summaries[asked++] ?? summary) : n++ < rounds ? (o.reply ?? read) : 'all done',
  )
  const { made, told } = compaction(window, tool, o.more)
  const end = await turn({
    baseURL: server.baseURL,
    session,
    home: home.path,
    tools: [tool],
    boundaries: [[note('begin')]],
    limits: { rounds: 500, retries: 0, window },
    compaction: made,
  })
  return { end, told, asked: () => asked, requests: server.requests, made }
}
const entries = (k: string): Record<string, unknown>[] =>
  readFileSync(session.file, 'utf8')
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line))
    .filter(entry => entry.k === k)

describe('a conversation that fills the window', () => {
  // Answers are the larger part, so that dropping results does not help.
  const wordy: Reply = { text: 'w'.repeat(3000), calls: [{ name: 'read', args: {} }] }

  test('F19 is saved whole, then a summary takes its place; a strict endpoint takes the question for it', async () => {
    const { end, told, requests } = await run(8, [], 8000, { reply: wordy, tool: reads(200) })
    expect(end).toEqual({ how: 'ended', text: 'all done' })
    expect(told).toEqual(['full true'])
    const at = requests.findIndex(isAsked)
    const [before, question, after] = requests.slice(at - 1, at + 2)
    // All that was sent before, so that the prompt cache holds, then the question; the tools as always, and no choice of them.
    expect(question?.messages.slice(0, before?.messages.length)).toEqual(before?.messages)
    expect(question?.tools).toEqual(before?.tools)
    expect(question).not.toHaveProperty('tool_choice')
    expect(after?.messages[0]).toEqual(before?.messages[0])
    expect(after?.messages[1]?.content).toContain(`<summary>\n${summary}\n</summary>`)
    // The last round stands as it was.
    expect(after?.messages.slice(2).map(({ role }) => role)).toEqual(['assistant', 'tool'])
    expect(transcripts()).toEqual(['2026-01-01_task-x.md'])
    const saved = readFileSync(join(folderOf(), '2026-01-01_task-x.md'), 'utf8')
    expect(saved.split('w'.repeat(3000))).toHaveLength(
      (before?.messages.filter(m => m.role === 'assistant').length ?? 0) + 2,
    )
    // Counted like any call, and no round of the turn.
    expect(session.usage.calls).toBe(requests.length)
    const again = unwrap(Session.open(session.file, clock))
    expect(again.context.messages).toEqual(session.context.messages)
    expect(again.usage).toEqual(session.usage)
    again.close()
  })
  test('H03 is kept as it is when the summary is none, and that is tried again, three times', async () => {
    const bad: [Reply, RegExp][] = [
      [{ status: 500 }, /500/],
      [{ text: '' }, /empty/],
      ['  \n ', /empty/],
      [{ reasoning: 'let me think' }, /empty/],
      [{ text: summary, calls: [{ name: 'read', args: {} }] }, /called a tool/],
      [{ text: summary, finish: 'length' }, /cut off/],
      ['nothing useful', /says nothing of Goal, Decisions, State, Open, Files/],
      [`${summary}\n${'z'.repeat(40_000)}`, /save too little/],
    ]
    for (const [reply, why] of bad) {
      session.begin('you are a test', false)
      const { end, told, asked, requests } = await run(14, [reply], 9000, { reply: wordy, tool: reads(200) })
      expect(end.how).toBe('ended')
      expect(told).toEqual([expect.stringMatching(why), 'full true'])
      expect(asked()).toBe(2)
      const at = requests.findIndex(isAsked)
      const [before, , after] = requests.slice(at - 1, at + 2)
      expect(after?.messages.slice(0, before?.messages.length)).toEqual(before?.messages)
    }
    session.begin('you are a test', false)
    const never = await run(18, ['no', 'no', 'no', 'no'], 9000, { reply: wordy, tool: reads(200) })
    expect(never.end.how).toBe('ended')
    expect(never.told).toHaveLength(3)
    expect(never.told.at(-1)).toMatch(/last$/)
  })
  test('H09 is measured by own estimate where the endpoint counts nothing, or nonsense; CJK is no cheaper than it is', async () => {
    for (const usage of [
      { total_tokens: 0 },
      null,
      { prompt_tokens: -1 },
      { prompt_tokens: 1e12, completion_tokens: 1 },
    ]) {
      session.begin('you are a test', false)
      const { told } = await run(12, [], 8000, { reply: { ...(wordy as object), usage } as Reply, tool: reads(200) })
      expect(told[0]).toBe('full true')
    }
    session.begin('you are a test', false)
    // 3000 characters a round are some 2400 tokens here, and were 750 in English.
    const { told, requests } = await run(3, [], 8000, {
      reply: { text: '汉'.repeat(3000), calls: [{ name: 'read', args: {} }] },
      tool: reads(200),
    })
    expect(told).toEqual(['full true'])
    expect(requests.findIndex(isAsked)).toBe(3)
  })
  const wordier: Reply = { text: 'w'.repeat(6000), calls: [{ name: 'read', args: {} }] }

  test('is bounded: thirty summaries in a row make no context larger than the first', async () => {
    const { end, told, requests } = await run(155, [], 8000, { reply: wordier, tool: reads(200) })
    expect(end.how).toBe('ended')
    expect(told.length).toBeGreaterThanOrEqual(30)
    expect(new Set(told)).toEqual(new Set(['full true']))
    const sizes = requests.map(request => JSON.stringify(request.messages).length)
    const afters = requests.flatMap((_, i) =>
      i > 0 && isAsked(requests[i - 1] as ScriptedRequest) ? [sizes[i] ?? 0] : [],
    )
    expect(Math.max(...afters)).toBeLessThanOrEqual((afters[0] ?? 0) + 100)
    expect(transcripts()).toHaveLength(told.length)
    // No summary of an earlier one stands beside the last.
    expect(JSON.stringify(requests.at(-1)?.messages).split('<summary>')).toHaveLength(2)
  })
  test('in a large journal goes on in a new file that stands alone', async () => {
    session.close()
    session = unwrap(Session.open(session.file, clock, { rotateBytes: 4096 }))
    session.setTodo([{ id: '1', text: 'go on', status: 'in_progress' }])
    session.take([note('mail')], { upTo: 7, early: [9] })
    await run(8, [], 8000, { reply: wordy, tool: reads(200) })
    expect(
      readdirSync(home.path)
        .filter(name => name.endsWith('.jsonl'))
        .sort(),
    ).toEqual(['s.1.jsonl', 's.jsonl'])
    expect(entries('compacted')).toHaveLength(1)
    const again = unwrap(Session.open(session.file, clock))
    expect(again.context.messages).toEqual(session.context.messages)
    expect([again.mail, again.todo, again.usage]).toEqual([{ upTo: 7, early: [9] }, session.todo, session.usage])
    again.close()
  })
  test('loses its old results first, all at once, where that frees a fifth of the window', async () => {
    const { told, requests } = await run(14, [], 16_000)
    expect(told).toEqual([])
    const dropped = entries('dropped')
    expect(dropped.length).toBeGreaterThan(0)
    // Outside of that each request begins with the one before.
    const same = requests.filter((request, i) => {
      const before = requests[i - 1]?.messages ?? []
      return JSON.stringify(request.messages.slice(0, before.length)) === JSON.stringify(before)
    })
    expect(requests.length - same.length).toBe(dropped.length)
    for (const { ids } of dropped) expect((ids as string[]).length * 3000).toBeGreaterThan((16_000 / 5) * 3.5)
    // What was dropped is whole where the conversation is saved.
    expect(
      session
        .whole()
        .filter(m => m.role === 'tool')
        .every(m => m.text.length === 3000),
    ).toBe(true)
  })
})

describe('an endpoint that says the request is too large', () => {
  const refusal: Reply = {
    status: 400,
    body: { error: { code: 'context_length_exceeded', message: 'maximum context' } },
  }
  const chars = (request: ScriptedRequest) => JSON.stringify(request.messages).length

  test('old results go first, then a summary of what fits is asked for, and the turn goes on', async () => {
    // It takes half of what the window is said to be.
    const wordy: Reply = { text: 'w'.repeat(3000), calls: [{ name: 'read', args: {} }] }
    let n = 0
    server = await startScripted(request =>
      chars(request) > 16_000 ? refusal : isAsked(request) ? summary : n++ < 12 ? wordy : 'all done',
    )
    const tool = reads(300)
    const { made, told } = compaction(100_000, tool)
    const common = { baseURL: server.baseURL, session, home: home.path, tools: [tool], compaction: made }
    const limits = { rounds: 50, retries: 0, window: 100_000 }
    expect((await turn({ ...common, limits, boundaries: [[note('begin')]] })).how).toBe('ended')
    expect(told.length).toBeGreaterThan(1)
    expect(told.every(text => text.endsWith('true'))).toBe(true)
    // From then on it knows better.
    expect(made.window).toBeLessThan(6000)
    expect(server.requests.filter(request => chars(request) > 16_000).length).toBeLessThanOrEqual(4)
  })
  test('one that refuses everything ends the turn with that reason', async () => {
    server = await startScripted(() => refusal)
    const tool = reads(300)
    const { made } = compaction(100_000, tool)
    const end = await turn({
      baseURL: server.baseURL,
      session,
      home: home.path,
      tools: [tool],
      boundaries: [[note('y'.repeat(50_000))]],
      compaction: made,
    })
    expect(end).toMatchObject({ how: 'fault', fault: { kind: 'overflow' } })
    expect(server.requests.length).toBeLessThanOrEqual(5)
  })
})

test('what goes with the question fits, and no result is without its call', () => {
  const messages: ChatMessage[] = [{ role: 'user', text: 'u'.repeat(9000) }]
  for (let i = 0; i < 10; i++) {
    messages.push({ role: 'assistant', text: 'a'.repeat(300), calls: [{ id: `${i}`, name: 'read', arguments: '{}' }] })
    messages.push({ role: 'tool', callId: `${i}`, name: 'read', text: 't'.repeat(5000) })
  }
  const weigh = (text: string) => Math.ceil(text.length / 4)
  for (const room of [50_000, 6000, 2500, 1000, 300, 10]) {
    const fitted = within(messages, room, weigh)
    const size = fitted.reduce((sum, { text }) => sum + weigh(text), 0)
    if (room > 300) expect(size).toBeLessThanOrEqual(room)
    const ids = new Set(fitted.flatMap(m => (m.role === 'assistant' ? m.calls.map(({ id }) => id) : [])))
    for (const m of fitted) if (m.role === 'tool') expect(ids.has(m.callId)).toBe(true)
    expect(fitted.length).toBeGreaterThan(0)
  }
  expect(within(messages, 50_000, weigh)).toBe(messages)
  expect(instruction('the tests')).toContain('Keep above all: the tests')
})
