import * as z from 'zod'
import type { Result } from '../lib/result.ts'
import type { ToolSchema } from '../model/model.ts'
import type { Call } from '../protocol/rpc.ts'
import type { CommandResult, Refused, Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'

/** What a tool may touch. Everything shared goes through `call`, the holder's word. */
export interface ToolContext {
  readonly name: string
  readonly view: View
  readonly shell: Shell
  /** Asks the holder; a refusal comes back as a value. */
  readonly call: Call
  /** Aborted when the turn must end: the tool stops and returns what it has. */
  readonly signal: AbortSignal
  /** This waiting request is what the turn ends for: nothing more is done until it is decided. */
  readonly park: (request: string) => void
  /** The task in hand. */
  readonly task: () => { id: string; branch: string | null } | null
  readonly todo: TodoList
  readonly memory: Memory
  /** The conversation is put together before the next round, about this above all. Why not, or null. */
  readonly compact: (focus: string | null) => string | null
  /** Gives a piece of work to a subagent and returns what it ends with. Null in a subagent: it starts none, and asks nobody. */
  readonly subagent: ((prompt: string) => Promise<ToolResult>) | null
  readonly background: Background
  /** Revisions of files as last read, by absolute path (SHA-256), so that an edit of a changed file is refused. */
  readonly read: Map<string, string>
  readonly limits: { commandSeconds: number; outputBytes: number; outputMaxBytes: number }
}

/** Long-term memory: the files where it lies, and what an entry is made with. The team's is written by the holder alone. */
export interface Memory {
  readonly own: string
  readonly team: string
  readonly now: () => string
  /** The text without secrets. */
  readonly redact: (text: string) => string
}

export interface TodoItem {
  readonly id: string
  readonly text: string
  readonly status: 'pending' | 'in_progress' | 'completed'
}
export interface TodoList {
  get(): readonly TodoItem[]
  set(items: readonly TodoItem[]): void
}

/** A background command: how it stands, and what it said since the last look, where one was taken. */
export interface BackgroundCommand {
  readonly id: string
  readonly command: string
  /** Since it was started; null once it has ended. */
  readonly seconds: number | null
  /** How it ended, what it said last, and where all of it is: to be told. Null while it runs. */
  readonly end: string | null
}

/** Commands that run beside the conversation, of one teammate. They end with the task in hand. */
export interface Background {
  /**
   * Back when it runs, or with why it does not. `onEnd`: told how it ended. `trusted` as for a shell. A fault: there are
   * too many.
   */
  start(
    command: string,
    o: { readonly trusted: boolean; onEnd?(result: CommandResult | Refused): Promise<unknown> },
  ): Promise<Result<{ readonly id: string; readonly log: string | null }> | Refused>
  /** Those that run, and those of whose end nothing was told yet. */
  list(): readonly BackgroundCommand[]
  /** With the output since the last look; null: there is none by that id. */
  look(id: string): (BackgroundCommand & { readonly output: string }) | null
  /** Ends it, and is back when nothing of it lives. False: there is none by that id that runs. */
  stop(id: string): Promise<boolean>
  /** Ends all that run, for this reason, in words that follow "stopped"; answers what there is to be told. */
  stopAll(why: string): Promise<{ readonly text: string; readonly ended: readonly string[] } | null>
}

/** Plain text for a model: first line the outcome, then the content. */
export interface ToolResult {
  readonly text: string
  readonly isError: boolean
  /** Background commands whose end it tells, so that it is not told again. */
  readonly ended?: readonly string[]
}
export const said = (text: string): ToolResult => ({ text, isError: false })
/** An error that the model can act on: starts with `error:` and says what to do. */
export const error = (text: string): ToolResult => ({ text: `error: ${text}`, isError: true })

export interface Tool {
  readonly schema: ToolSchema
  /** Calls of it that stand one after the other in an answer run side by side. */
  readonly sideBySide?: boolean
  /** Validates and runs. Bad arguments are an error result; a throw is a bug, caught by the loop and told as one. */
  run(args: unknown, context: ToolContext): Promise<ToolResult>
}

/**
 * Makes a tool from a flat zod object. Its JSON Schema is what the model sees: names, types, choices, defaults and a few
 * words, since they stand in the prefix of every call. Bounds, and that there is no other argument, are left out of it: `run`
 * holds them, and its error says what was wrong.
 */
export const defineTool = <S extends z.ZodObject>(tool: {
  name: string
  description: string
  input: S
  sideBySide?: boolean
  run: (args: z.infer<S>, context: ToolContext) => Promise<ToolResult> | ToolResult
}): Tool => {
  const parameters = shown(z.toJSONSchema(tool.input, { io: 'input', target: 'draft-7' }))
  return {
    schema: { name: tool.name, description: tool.description, parameters: parameters as Record<string, unknown> },
    ...(tool.sideBySide && { sideBySide: true }),
    async run(args, context) {
      const parsed = tool.input.safeParse(args)
      if (!parsed.success) {
        const issues = parsed.error.issues.map(issue => `${issue.path.join('.') || 'arguments'}: ${issue.message}`)
        return error(`${tool.name}: ${issues.join('; ')}. Call it again with these mended.`)
      }
      return tool.run(parsed.data, context)
    },
  }
}

/** Keywords that tell a model nothing it needs before it calls. */
const unseen = new Set([
  '$schema',
  'minLength',
  'maxLength',
  'pattern',
  'format',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minItems',
  'maxItems',
  'propertyNames',
  'additionalProperties',
])
/** A JSON Schema without them. Names of properties are no keywords: a property may be called `pattern`. */
const shown = (schema: object): object =>
  Object.fromEntries(
    Object.entries(schema)
      .filter(([key]) => !unseen.has(key))
      .map(([key, value]) => [key, key === 'properties' ? mapValues(value, shown) : shownValue(value)]),
  )

const shownValue = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shownValue)
  return typeof value === 'object' && value !== null ? shown(value) : value
}

const mapValues = (object: object, map: (value: object) => object): object =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value)]))

export type { Result }
