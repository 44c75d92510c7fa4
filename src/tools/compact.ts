import * as z from 'zod'
import { defineTool, error, said, type Tool } from '../agent/tool.ts'

export const compact: Tool = defineTool({
  name: 'compact',
  description: 'Put this conversation together into a summary before your next step.',
  input: z.strictObject({ focus: z.string().max(2000).optional().describe('what to keep above all') }),
  run({ focus }, context) {
    const no = context.compact(focus?.trim() || null)
    return no === null ? said('your next step begins with the summary that you are asked for now') : error(no)
  },
})
