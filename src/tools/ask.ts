import * as z from 'zod'
import { defineTool, type Tool } from '../agent/tool.ts'
import { openAndPark } from './request.ts'

export const askUser: Tool = defineTool({
  name: 'ask_user',
  description: 'Ask the human; you wait for the answer.',
  input: z.strictObject({ question: z.string().min(1) }),
  run: ({ question }, context) => openAndPark({ type: 'question', body: question }, context),
})
