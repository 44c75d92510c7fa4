import { dirname, join } from 'node:path'
import type { TodoItem, ToolContext, ToolResult } from '../../src/agent/tool.ts'
import { fail, ok, type Result } from '../../src/lib/result.ts'
import type { Call } from '../../src/protocol/rpc.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import type { View } from '../../src/sandbox/view.ts'
import { defaultTools } from '../../src/tools/index.ts'
import { noBackground } from './agent.ts'

/** A tool context over a view, without a sandbox; `answers` stand for the holder, `calls` are what it was asked. */
export const toolContext = (
  view: View,
  answers: Readonly<Record<string, (params: never) => unknown>> = {},
  more: Partial<ToolContext> = {},
): ToolContext & { calls: [string, unknown][] } => {
  let items: readonly TodoItem[] = []
  const calls: [string, unknown][] = []
  const call = (async (method: string, params: never): Promise<Result<unknown>> => {
    calls.push([method, params])
    // Every gate is open unless a test closes it.
    if (method === 'task.gate' && !answers[method]) return ok(null)
    const answer = answers[method]
    if (!answer) return fail('unknown', `nobody answers ${method}`)
    const value = answer(params)
    return typeof value === 'string' ? fail('refused', value, 'look again') : ok(value)
  }) as Call
  return {
    name: view.name,
    view,
    shell: makeShell({
      view,
      probe: { kind: 'none', detail: 'not probed', remedy: null },
      mode: 'off',
      permissions: { allow: ['*', '* *'], ask: [], deny: [] },
      marker: `${view.home}#tools`,
    }),
    call,
    signal: new AbortController().signal,
    park: () => {},
    task: () => null,
    compact: () => null,
    subagent: async () => ({ text: 'nobody is there', isError: true }),
    background: noBackground,
    memory: {
      own: join(view.home, 'memory.md'),
      team: join(dirname(view.home), 'memory.md'),
      now: () => '2026-05-14T10:00:00.000Z',
      redact: text => text.replaceAll('hunter2hunter2', '[redacted]'),
    },
    todo: {
      get: () => items,
      set: next => {
        items = next
      },
    },
    read: new Map(),
    limits: { commandSeconds: 20, outputBytes: 2000, outputMaxBytes: 1_000_000 },
    calls,
    ...more,
  }
}

/** Runs a default tool by name. */
export const use = (context: ToolContext, name: string, args: unknown): Promise<ToolResult> => {
  const tool = defaultTools.find(({ schema }) => schema.name === name)
  if (!tool) throw new Error(`no tool ${name}`)
  return tool.run(args, context)
}
