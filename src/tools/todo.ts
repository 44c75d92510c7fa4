import * as z from 'zod'
import { todoRows } from '../agent/todo.ts'
import { defineTool, error, said, type Tool } from '../agent/tool.ts'
import { wellFormed } from '../lib/text.ts'

const maxItems = 20

export const todo: Tool = defineTool({
  name: 'todo',
  description: 'Replace your list of steps: at most 20, one in_progress.',
  input: z.strictObject({
    items: z.array(
      z.strictObject({
        id: z.string().min(1),
        text: z.string().min(1).max(500),
        status: z.enum(['pending', 'in_progress', 'completed']),
      }),
    ),
  }),
  run({ items }, { todo: list }) {
    if (items.length > maxItems)
      return error(`${items.length} steps are too many: at most ${maxItems}, put together what belongs together`)
    const twice = items.find((item, i) => items.findIndex(({ id }) => id === item.id) !== i)
    if (twice) return error(`two steps have the id ${twice.id}`)
    const going = items.filter(({ status }) => status === 'in_progress')
    if (going.length > 1)
      return error(`only one step is in_progress at a time, not ${going.map(({ id }) => id).join(', ')}`)
    list.set(items.map(item => ({ ...item, id: wellFormed(item.id), text: wellFormed(item.text) })))
    const done = items.filter(({ status }) => status === 'completed').length
    return said([`${done} of ${items.length} done`, todoRows(list.get())].join('\n').trimEnd())
  },
})
