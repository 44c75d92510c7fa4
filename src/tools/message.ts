import { ulid } from 'ulid'
import * as z from 'zod'
import { defineTool, error, said, type Tool } from '../agent/tool.ts'
import { wellFormed } from '../lib/text.ts'
import { refused } from './paths.ts'

export const message: Tool = defineTool({
  name: 'message',
  description: 'Send a message to a teammate, `user`, or `all`.',
  input: z.strictObject({
    to: z.string(),
    content: z.string(),
    urgent: z.boolean().optional(),
    reply_to: z.string().optional().describe('message id'),
  }),
  async run({ to, content, urgent, reply_to }, { call }) {
    if (content.trim() === '') return error('content is empty: say something')
    const result = await call('message.send', {
      to,
      content: wellFormed(content),
      // Ours, so that asking again after a lost answer makes no second message.
      id: `msg_${ulid().toLowerCase()}`,
      ...(urgent === undefined ? {} : { urgent }),
      ...(reply_to ? { replyTo: reply_to, type: 'reply' as const } : {}),
    })
    if (!result.ok) return refused(result.fault)
    const { sent } = result.value
    const rows = sent.map(({ to: name, id, how, note }) => `${name}: ${how} as ${id}${note ? `, ${note}` : ''}`)
    const [only] = rows
    return said(rows.length === 1 && only !== undefined ? only : [`sent to ${rows.length}`, ...rows].join('\n'))
  },
})
