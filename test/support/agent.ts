import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import type { Item } from '../../src/agent/items.ts'
import { runTurn, type TurnOptions } from '../../src/agent/loop.ts'
import { localGate } from '../../src/agent/retry.ts'
import { Session } from '../../src/agent/session.ts'
import { type Background, defineTool, said, type Tool, type ToolContext } from '../../src/agent/tool.ts'
import { clock } from '../../src/lib/clock.ts'
import { fail, unwrap } from '../../src/lib/result.ts'
import { openaiModel } from '../../src/model/openai.ts'
import type { Shell } from '../../src/sandbox/shell.ts'
import type { View } from '../../src/sandbox/view.ts'

/** A temporary folder, and how to take it away. */
export const folder = (): { path: string; remove(): void } => {
  const path = mkdtempSync(join(tmpdir(), 'team-agent-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export const openSession = (file: string): Session => unwrap(Session.open(file, clock))

export const noView = (home: string): View => {
  mkdirSync(join(home, 'out'), { recursive: true })
  return { name: 'alice', home, mounts: [], cwd: home, readable: [], resolve: () => fail('invalid', 'no mounts') }
}
export const noShell: Shell = {
  probe: { kind: 'none', detail: 'test', remedy: null },
  mode: 'off',
  permissions: { allow: [], ask: [], deny: [] },
  run: async () => ({ refused: 'no sandbox', reason: 'test' }),
  tighten: () => undefined,
  stop: async () => undefined,
}

export const noBackground: Background = {
  start: async () => ({ refused: 'no sandbox', reason: 'test' }),
  list: () => [],
  look: () => null,
  stop: async () => false,
  stopAll: async () => null,
}

/** A tool that records what it was run with. */
export const recorder = (ran: string[], name = 'note'): Tool =>
  defineTool({
    name,
    description: 'records',
    input: z.strictObject({ text: z.string().default('') }),
    run: ({ text }) => {
      ran.push(text)
      return said(`noted ${text}`)
    },
  })

export const toolContext = (session: Session, home: string): ToolContext => ({
  name: 'alice',
  view: noView(home),
  shell: noShell,
  call: async () => fail('offline', 'no holder in this test'),
  signal: new AbortController().signal,
  park: () => {},
  task: () => null,
  compact: () => null,
  subagent: null,
  background: noBackground,
  memory: { own: join(home, 'memory.md'), team: join(home, 'team.md'), now: () => '', redact: text => text },
  todo: { get: () => session.todo, set: items => session.setTodo(items) },
  read: new Map(),
  limits: { commandSeconds: 1, outputBytes: 1000, outputMaxBytes: 1000 },
})

/** One turn against `baseURL`; `boundaries` are what each boundary brings, in order. */
export const turn = (
  o: {
    baseURL: string
    session: Session
    home: string
    tools: readonly Tool[]
    boundaries?: readonly (readonly Item[])[]
  } & Partial<Pick<TurnOptions, 'boundary' | 'endsHere' | 'limits' | 'signal' | 'compaction'>>,
) => {
  const left = [...(o.boundaries ?? [])]
  return runTurn({
    model: openaiModel({ config: { name: 'm', baseURL: o.baseURL }, apiKey: undefined, idleMs: 3_600_000 }),
    tools: o.tools,
    toolContext: toolContext(o.session, o.home),
    session: o.session,
    boundary: o.boundary ?? (async () => ({ items: left.shift() ?? [] })),
    mayCall: async () => null,
    ...(o.compaction && { compaction: o.compaction }),
    endsHere: o.endsHere ?? (() => null),
    limits: o.limits ?? { rounds: 50, retries: 6, window: null },
    backoff: { baseMs: 1, capMs: 5 },
    gate: localGate(clock),
    signal: o.signal ?? new AbortController().signal,
    on: {
      begins: () => undefined,
      content: () => undefined,
      text: () => undefined,
      waiting: () => undefined,
      progress: () => undefined,
      usage: () => undefined,
      answers: async () => undefined,
      called: () => undefined,
      tool: () => undefined,
      bug: () => undefined,
    },
  })
}
