import { mkdirSync } from 'node:fs'
import { relative } from 'node:path'
import * as z from 'zod'
import { defineTool, error, said, type Tool, type ToolContext, type ToolResult } from '../agent/tool.ts'
import type { CommandResult, Refused } from '../sandbox/shell.ts'
import { gate } from './gate.ts'
import { count, refused } from './paths.ts'
import { openAndPark } from './request.ts'
import { strayNote } from './strays.ts'

const maxSeconds = 3600

/** A command, as a model gives it. */
export const commandText = z
  .string()
  .min(1)
  .refine(command => !command.includes('\0'), 'a command holds no NUL byte')

export const bash: Tool = defineTool({
  name: 'bash',
  description: 'Run a shell command in repo/.',
  input: z.strictObject({
    command: commandText,
    timeout_s: z.number().positive().max(maxSeconds).optional(),
  }),
  async run({ command, timeout_s }, context) {
    const { view, shell, signal, limits } = context
    const closed = await gate(context)
    if (closed) return closed
    const seconds = timeout_s ?? limits.commandSeconds
    const out = view.mounts.find(mount => mount.at === 'out')?.real
    if (out !== undefined) mkdirSync(out, { recursive: true })
    const options = {
      command,
      timeoutMs: seconds * 1000,
      signal,
      outputBytes: limits.outputBytes,
      outputMaxBytes: limits.outputMaxBytes,
      outDir: out,
    }
    let result = await shell.run(options)
    if ('refused' in result && result.refused === 'not allowed') {
      const how = await permitted(command, context)
      if ('text' in how) return how
      result = await shell.run({ ...options, trusted: true })
      await how.done(result)
    }
    if ('refused' in result) return error(`${result.refused}: ${result.reason}`)
    const file = result.file !== null && out !== undefined ? `out/${relative(out, result.file)}` : null
    const text = [outcome(result, seconds, limits.outputMaxBytes, file), ...left(result), result.output].join('\n')
    const strays = await strayNote(context)
    return said(strays === null ? text.trimEnd() : `${text.trimEnd()}\n${strays}`)
  },
})

/**
 * A command that the rules of the configuration do not allow: a person permitted it, by the holder's word (`done` tells how it
 * ended), else it is asked for, and the turn ends until that is decided.
 */
export const permitted = async (
  command: string,
  context: ToolContext,
): Promise<{ done(result: CommandResult | Refused): Promise<void> } | ToolResult> => {
  const { call } = context
  const use = await call('permission.use', { command })
  if (!use.ok) return refused(use.fault)
  // Nobody would be there any more for the decision.
  if (use.value.how === 'ask' && context.subagent === null)
    return error(
      `not allowed in a subagent: ${use.value.why}. Only the teammate itself can ask for it: end, and say that it is to run this command`,
    )
  if (use.value.how === 'ask') {
    const asked = await openAndPark({ type: 'permission_request', data: { command } }, context)
    return asked.isError ? asked : said(`${asked.text}\nIt did not run: ${use.value.why}.`)
  }
  const request = use.value.how === 'once' ? use.value.request : null
  return {
    async done(result) {
      // The result is worth more than this record: an end that could not be told is found, later, as not known.
      if (request !== null) await call('permission.done', { request, ...ending(result) })
    },
  }
}

const ending = (result: CommandResult | Refused): { exit: number | null; detail: string } =>
  'refused' in result
    ? { exit: null, detail: `it did not run: ${result.reason}` }
    : {
        exit: result.endedBy === 'itself' ? result.exitCode : null,
        detail:
          result.endedBy !== 'itself'
            ? `ended by ${endedBy[result.endedBy]}`
            : `exit ${result.exitCode ?? result.signal}`,
      }
const endedBy = { time: 'its time limit', output: 'its output limit', abort: 'the team' } as const

const outcome = (result: CommandResult, seconds: number, most: number, file: string | null): string => {
  const took = `${(result.ms / 1000).toFixed(1)} s`
  const size = result.truncated
    ? `${result.bytes} bytes of output`
    : result.bytes === 0
      ? 'no output'
      : file === null
        ? null
        : `${count(linesOf(result.output), 'line')} of output`
  const whole = size === null ? '' : `, ${size}${file === null ? '' : `, all of it in ${file}`}`
  switch (result.endedBy) {
    case 'time':
      return `ended after ${seconds} s, its time limit (timeout_s)${whole}`
    case 'output':
      return `ended for its output, more than ${most} bytes${file === null ? '' : `, the first of them in ${file}`}`
    case 'abort':
      return `ended by the team after ${took}${whole}`
    case 'itself':
      return result.exitCode === null
        ? `ended by ${result.signal ?? 'a signal'} after ${took}${whole}`
        : `exit ${result.exitCode} in ${took}${whole}`
  }
}

const linesOf = (output: string): number => output.replace(/\n$/, '').split('\n').length

/** What lives on, so that nothing runs unseen. Its output is not heard any more. */
const left = (result: CommandResult): string[] =>
  result.left.length === 0
    ? []
    : [
        `still running (ended when you stop; redirect output to a file to see it): ${result.left
          .slice(0, 10)
          .map(({ pid, command }) => `${command} (${pid})`)
          .join(', ')}${result.left.length > 10 ? ` and ${result.left.length - 10} more` : ''}`,
      ]
