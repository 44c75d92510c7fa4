import * as z from 'zod'
import { defineTool, error, said, type Tool, type ToolContext, type ToolResult } from '../agent/tool.ts'
import { isParking, isWaiting } from '../protocol/request.ts'
import { requestTypeNames, requestTypes } from '../protocol/request-types.ts'
import type { RpcParams } from '../protocol/rpc.ts'
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
      case 'open': {
        const type = args.type ?? 'question'
        const data = { ...(type === 'shutdown_request' ? { teammate: context.name, graceMs } : {}), ...args.data }
        return openAndPark({ type, body, data, ...(args.title ? { title: args.title } : {}) }, context)
      }
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
        if (!answered.ok) return refused(answered.fault)
        const { request } = answered.value
        if (isParking(request) && request.from === context.name) context.park(request.id)
        return said(`${id} is answered${isWaiting(request) ? ` and waits for ${request.to} again` : ''}`)
      }
      case 'withdraw': {
        const gone = await context.call('request.withdraw', { id, ...(reason ? { reason } : {}) })
        return gone.ok ? said(`${id} is withdrawn`) : refused(gone.fault)
      }
    }
  },
})

/** Opens a request. One that its asker waits for ends the turn: the decision comes as a message, and the work goes on then. */
export const openAndPark = async (
  asked: RpcParams<'request.open'>,
  { call, park, task }: ToolContext,
): Promise<ToolResult> => {
  const during = task()?.id
  const opened = await call('request.open', { ...asked, ...(during === undefined ? {} : { during }) })
  if (!opened.ok) return refused(opened.fault)
  const { request } = opened.value
  const { id, to, type, outcome } = request
  if (!requestTypes[type].parks) return said(`opened ${id}, ${to} decides`)
  if (outcome === null) {
    park(id)
    return said(`opened ${id}, ${to} decides. Your turn ends here; the decision comes as a message.`)
  }
  const why = request.effect?.detail ?? request.reason
  const how = outcome === 'decided' ? request.status : outcome
  return said(`opened ${id}, which is ${how} already${why ? `: ${why}` : ''}`)
}
