import * as z from 'zod'
import { defineTool, error, said, type Tool, type ToolContext, type ToolResult } from '../agent/tool.ts'
import { requestTypeNames } from '../protocol/request.ts'
import { refused } from './paths.ts'

/** Grace that a teammate's own shutdown asks for when it names none. */
const graceMs = 30_000

/** What a call of each action must bring besides. */
const needs = { open: ['type'], decide: ['id', 'decision'], answer: ['id', 'body'], withdraw: ['id'] } as const

export const request: Tool = defineTool({
  name: 'request',
  description: 'Open, decide, answer or withdraw a request. A decision needs a reason when it is no.',
  input: z.strictObject({
    action: z.enum(['open', 'decide', 'answer', 'withdraw']),
    type: z.enum(requestTypeNames).optional(),
    id: z.string().optional(),
    title: z.string().optional(),
    body: z.string().optional().describe('text of the request or answer'),
    decision: z.enum(['approve', 'reject', 'ask']).optional(),
    reason: z.string().optional(),
    data: z.record(z.string(), z.unknown()).optional(),
  }),
  async run(args, context) {
    const missing = needs[args.action].filter(name => !args[name])
    if (missing.length > 0) return error(`request ${args.action} needs ${missing.join(' and ')}`)
    const { id = '', body = '', decision = 'ask', reason } = args
    switch (args.action) {
      case 'open':
        return open(
          args.type ?? 'shutdown_request',
          [args.title, body].filter(Boolean).join('\n\n'),
          args.data,
          context,
        )
      case 'decide': {
        if (decision !== 'approve' && !reason) return error(`say why in reason when you ${decision}`)
        const decided = await context.call('request.decide', { id, decision, ...(reason ? { reason } : {}) })
        if (!decided.ok) return refused(decided.fault)
        const { status } = decided.value.request
        return said(
          [`${id} is ${status === 'needs_info' ? 'waiting for an answer' : status}`, decided.value.note]
            .filter(Boolean)
            .join('\n'),
        )
      }
      case 'answer': {
        const answered = await context.call('request.answer', { id, text: body })
        return answered.ok
          ? said(`${id} is answered and waits for ${answered.value.request.to} again`)
          : refused(answered.fault)
      }
      case 'withdraw': {
        const gone = await context.call('request.withdraw', { id, ...(reason ? { reason } : {}) })
        return gone.ok ? said(`${id} is withdrawn`) : refused(gone.fault)
      }
    }
  },
})

const open = async (
  type: (typeof requestTypeNames)[number],
  body: string,
  data: Readonly<Record<string, unknown>> | undefined,
  { call, name }: ToolContext,
): Promise<ToolResult> => {
  if (type === 'merge_request') return error('merge requests are opened for you: end the task with task complete')
  const opened = await call('request.open', { type, body, data: { teammate: name, graceMs, ...data } })
  return opened.ok
    ? said(`opened ${opened.value.request.id}, ${opened.value.request.to} decides`)
    : refused(opened.fault)
}
