import * as z from 'zod'
import {
  type BackgroundCommand,
  defineTool,
  error,
  said,
  type Tool,
  type ToolContext,
  type ToolResult,
} from '../agent/tool.ts'
import { commandText, permitted } from './bash.ts'
import { gate } from './gate.ts'
import { refused } from './paths.ts'

export const background: Tool = defineTool({
  name: 'background',
  description: 'Run a shell command in repo/ beside your work; its end is told.',
  input: z.strictObject({
    action: z.enum(['start', 'check', 'stop', 'list']),
    command: commandText.optional(),
    id: z.string().optional(),
  }),
  async run({ action, command, id }, context) {
    if (action === 'list') return listed(context)
    if (action === 'start') return command === undefined ? error('start needs command') : start(command, context)
    // Where there is but one, it is meant.
    const all = context.background.list()
    const [only] = all.length === 1 ? all : []
    const meant = id ?? only?.id
    if (meant === undefined) return listed(context)
    if (action === 'stop') {
      const isStopped = await context.background.stop(meant)
      const ended = context.background.look(meant)
      if (ended?.end) return { ...said(ended.end), ended: [meant] }
      return isStopped ? said(`${meant} is stopped`) : unknown(meant, context)
    }
    const found = context.background.look(meant)
    if (!found) return unknown(meant, context)
    if (found.end !== null) return { ...said(found.end), ended: [meant] }
    const head = `${row(found)}, ${found.output === '' ? 'nothing new. To wait for it, end your turn' : 'new:'}`
    return said(found.output === '' ? head : `${head}\n${found.output}`)
  },
})

/** By the rules, the gate and the sandbox of every command. */
const start = async (command: string, context: ToolContext): Promise<ToolResult> => {
  const closed = await gate(context)
  if (closed) return closed
  const { background: commands } = context
  let begun = await commands.start(command, { trusted: false })
  if ('refused' in begun && begun.refused === 'not allowed') {
    const how = await permitted(command, context)
    if ('text' in how) return how
    begun = await commands.start(command, { trusted: true, onEnd: how.done })
  }
  if ('refused' in begun) return error(`${begun.refused}: ${begun.reason}`)
  if (!begun.ok) return refused(begun.fault)
  const { id, log } = begun.value
  const where = log === null ? '' : ` Output: ${log}.`
  return said(
    `started ${id}. You are told when it ends; with nothing else to do, end your turn to wait for it.${where}`,
  )
}

const row = ({ id, command, seconds, end }: BackgroundCommand): string =>
  end === null ? `${id} runs for ${seconds} s: ${command}` : end

const listed = ({ background: commands }: ToolContext): ToolResult => {
  const all = commands.list()
  if (all.length === 0) return said('no background command runs')
  return { ...said(all.map(row).join('\n')), ended: all.filter(({ end }) => end !== null).map(({ id }) => id) }
}

const unknown = (id: string, { background: commands }: ToolContext): ToolResult => {
  const ids = commands.list().map(each => each.id)
  return error(
    `no background command ${id} runs, and its end was told if there was one; ${ids.length === 0 ? 'none runs' : `there are ${ids.join(', ')}`}`,
  )
}
