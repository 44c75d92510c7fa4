import * as z from 'zod'
import { defineTool, error, type Tool } from '../agent/tool.ts'

export const subagent: Tool = defineTool({
  name: 'subagent',
  description: 'Give work to a subagent that knows only the prompt and your files; its last text returns.',
  input: z.strictObject({ prompt: z.string().min(1) }),
  sideBySide: true,
  run: ({ prompt }, context) =>
    context.subagent === null ? error('a subagent starts none') : context.subagent(prompt),
})
