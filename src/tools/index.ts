import type { Tool } from '../agent/tool.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import { askUser } from './ask.ts'
import { background } from './background.ts'
import { bash } from './bash.ts'
import { compact } from './compact.ts'
import { editFile } from './edit.ts'
import { ls, readFile, writeFile } from './files.ts'
import { grep } from './grep.ts'
import { memory } from './memory.ts'
import { message } from './message.ts'
import { request } from './request.ts'
import { subagent } from './subagent.ts'
import { task } from './task.ts'
import { todo } from './todo.ts'

/** Every tool a teammate has unless its `tools` say otherwise, sorted by name: a new one is one line here. */
export const defaultTools: readonly Tool[] = [
  askUser,
  background,
  bash,
  compact,
  editFile,
  grep,
  ls,
  memory,
  message,
  readFile,
  request,
  subagent,
  task,
  todo,
  writeFile,
].sort((a, b) => (a.schema.name < b.schema.name ? -1 : 1))

/** What of a teammate's own tools its subagents have. */
const ofSubagents: ReadonlySet<string> = new Set(['bash', 'edit_file', 'grep', 'ls', 'read_file', 'write_file'])
export const subagentTools = (own: readonly Tool[]): Tool[] => own.filter(({ schema }) => ofSubagents.has(schema.name))

/** The tools of these names, sorted by name and each once; all for null. A name that there is none of is a `config` fault. */
export const pickTools = (names: readonly string[] | null): Result<Tool[]> => {
  if (names === null) return ok([...defaultTools])
  const all = defaultTools.map(tool => tool.schema.name)
  for (const name of names)
    if (!all.includes(name)) {
      const near = nearest(name, all)
      return fail('config', `there is no tool ${name}`, near ? `did you mean ${near}?` : `there are ${all.join(', ')}`)
    }
  return ok(defaultTools.filter(tool => names.includes(tool.schema.name)))
}
