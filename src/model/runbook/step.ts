import { cut } from '../../lib/text.ts'
import type { Made } from './conversation.ts'
import type { Step } from './parse.ts'
import { isError, isInterrupted, missingLines, readRun, tail } from './results.ts'

/** A tool call still without an id. */
export interface Want {
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

/** Where a step stands: the next call it needs, or how it ended, in words for the summary. */
export type Progress =
  | { readonly at: 'call'; readonly call: Want }
  /** For the decision on a request that it opened. */
  | { readonly at: 'waiting'; readonly request: string }
  | { readonly at: 'done'; readonly fact: string }
  | { readonly at: 'failed'; readonly reason: string }

/** A command whose run was cut by a crash is run again, but not for ever: it may be what brings the daemon down. */
const maxRuns = 3

/** Judges a step by the calls made for it so far, oldest first, and by what was decided since. Pure. */
export const progress = (step: Step, calls: readonly Made[], decisions: ReadonlyMap<string, string>): Progress => {
  const last = calls.at(-1)
  if (!last) return { at: 'call', call: first(step) }
  if (isInterrupted(last.result)) return again(step, calls)
  const result = last.result ?? ''
  const opened = openedBy(result)
  if (opened !== null) return decided(step, opened, decisions)
  const how = settledAs(result)
  if (how !== null) return settled(step, how, result)
  switch (step.kind) {
    case 'ask':
    case 'plan':
    case 'lease':
      return isError(result) ? failed(name(step), result) : done(`${name(step)}: ${result.split('\n')[0]}`)
    case 'run':
      return ran(step, result, 1 + calls.filter(call => isInterrupted(call.result)).length)
    case 'write':
      return written(step, last, result, calls)
    case 'message':
      return isError(result) ? failed(`sending to ${step.to}`, result) : done(`told ${step.to}`)
    case 'note':
      return isError(result) ? failed('adding to NOTES.md', result) : done('noted')
    case 'commit':
      return committed(step.message, result)
  }
}

/** The request that a result says was opened and is not decided yet; null where it says nothing like that. */
export const openedBy = (result: string): string | null =>
  /^(?:error: )?opened (req_\w+), \w[\w-]* decides/.exec(result)?.[1] ?? null

/** How a request ended that was over when it was opened; null where the result says nothing like that. */
const settledAs = (result: string): string | null =>
  /^(?:error: )?opened req_\w+, which is (\w+) already/.exec(result)?.[1] ?? null

const decided = (step: Step, id: string, decisions: ReadonlyMap<string, string>): Progress => {
  const said = decisions.get(id)
  if (said === undefined) return { at: 'waiting', request: id }
  // The first such words are the supervisor's: those of a reason or an answer come after them.
  const [, how = '', by = ''] = /^req_\w+ \([\s\S]*?\) (?:was )?(\w+) by ([\w-]+)/.exec(said) ?? []
  if (how === 'superseded') return decided(step, by, decisions)
  return settled(step, how, said)
}

/** An approval lets a command run that was asked for, and is the end of any other step. */
const settled = (step: Step, how: string, said: string): Progress => {
  if (how !== 'approved' && how !== 'answered') return { at: 'failed', reason: `${name(step)}: ${said}` }
  return step.kind === 'ask' || step.kind === 'plan' || step.kind === 'lease'
    ? done(`${name(step)}: ${tail(said)}`)
    : { at: 'call', call: first(step) }
}

const done = (fact: string): Progress => ({ at: 'done', fact })
const failed = (what: string, result: string): Progress => ({ at: 'failed', reason: `${what} failed: ${tail(result)}` })
const want = (name: string, args: Record<string, unknown>): Progress => ({ at: 'call', call: { name, args } })

const first = (step: Step): Want => {
  switch (step.kind) {
    case 'run': {
      // Without -e a failing line in the middle would be hidden by the lines after it.
      const strict = !step.mayFail && step.command.includes('\n')
      const command = strict ? `set -e\n${step.command}` : step.command
      return { name: 'bash', args: { command, ...(step.timeoutS === null ? {} : { timeout_s: step.timeoutS }) } }
    }
    case 'write':
      return { name: 'write_file', args: { path: `repo/${step.path}`, content: step.content } }
    case 'message':
      return { name: 'message', args: { to: step.to, content: step.text } }
    case 'note':
      return { name: 'write_file', args: { path: 'NOTES.md', content: `${step.text}\n` } }
    case 'commit':
      return { name: 'bash', args: { command: commitCommand(step.message) } }
    case 'ask':
      return { name: 'ask_user', args: { question: step.question } }
    case 'plan':
      return {
        name: 'request',
        args: {
          action: 'open',
          type: 'plan_request',
          body: step.plan,
          ...(step.tasks === null ? {} : { data: { tasks: step.tasks } }),
        },
      }
    case 'lease': {
      const data = { kind: step.of, what: step.what }
      return { name: 'request', args: { action: 'open', type: 'resource_request', data } }
    }
  }
}

export const commitCommand = (message: string): string => `git add -A && git commit -m ${quoted(message)}`
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The outcome of the last call is unknown: what may be repeated is repeated, what may not is said. */
const again = (step: Step, calls: readonly Made[]): Progress => {
  if (step.kind === 'message') return done(`told ${step.to}, or not: that call was interrupted`)
  if (step.kind === 'note') return done('noted, or not: that call was interrupted')
  if (calls.length >= maxRuns)
    return { at: 'failed', reason: `${name(step)} was interrupted ${calls.length} times, its outcome is unknown` }
  const last = calls.at(-1)
  return last ? want(last.name, { ...last.args }) : { at: 'call', call: first(step) }
}

/** A step in few words. */
export const name = (step: Step): string => {
  switch (step.kind) {
    case 'run': {
      const [line = '', ...more] = step.command.split('\n')
      return `\`${line}${more.length > 0 ? ' …' : ''}\``
    }
    case 'write':
      return `writing ${step.path}`
    case 'message':
      return `the message to ${step.to}`
    case 'note':
      return 'the note'
    case 'commit':
      return `the commit "${step.message}"`
    case 'ask':
      return `the question "${cut(step.question, 80)}"`
    case 'plan':
      return `the plan "${cut(step.plan, 80)}"`
    case 'lease':
      return `the lease on ${step.of} ${step.what.join(' ')}`
  }
}

const ran = (step: Extract<Step, { kind: 'run' }>, result: string, runs: number): Progress => {
  const run = readRun(result)
  if (!run) return { at: 'failed', reason: `${name(step)} did not run: ${tail(result)}` }
  if (run.exit !== 0 && !step.mayFail)
    return { at: 'failed', reason: `${name(step)} failed, ${run.outcome}\n${tail(run.output)}`.trimEnd() }
  const missing = missingLines(step.expect ?? [], run.output)
  if (missing.length > 0)
    return {
      at: 'failed',
      reason: `${name(step)} did not print what was expected:\n${missing.join('\n')}\nIts output ends:\n${tail(run.output)}`,
    }
  const expected = step.expect ? ', printed what was expected' : ''
  const how = run.exit === null ? run.outcome : `exit ${run.exit}`
  return done(`${name(step)} ${how}${expected}${runs > 1 ? `, run ${runs} times since it was interrupted` : ''}`)
}

const written = (
  step: Extract<Step, { kind: 'write' }>,
  last: Made,
  result: string,
  calls: readonly Made[],
): Progress => {
  const folder = step.path.includes('/') ? step.path.slice(0, step.path.lastIndexOf('/')) : null
  if (last.name === 'bash' && readRun(result)?.exit !== 0) return failed(`making the folder ${folder ?? ''}`, result)
  if (last.name === 'bash' || last.name === 'read_file') return { at: 'call', call: first(step) }
  if (!isError(result)) return done(`wrote ${step.path}`)
  const tried = (tool: string) => calls.some(call => call.name === tool)
  // A merge or a command changed the file since: the runbook's text is meant to replace it all the same.
  if (/\bread_file\b/.test(result) && !tried('read_file')) return want('read_file', { path: `repo/${step.path}` })
  return folder !== null && !tried('bash') && /no such|not exist|no folder|not found|parent|ENOENT/i.test(result)
    ? want('bash', { command: `mkdir -p ${quoted(folder)}` })
    : failed(name(step), result)
}

/** How a commit went: to have nothing to commit is no failure, when an earlier attempt did it already. */
const committed = (message: string, result: string): Progress => {
  const run = readRun(result)
  if (run?.exit === 0) return done(`committed "${message}"`)
  if (run && /nothing to commit|nothing added to commit/.test(run.output)) return done('nothing left to commit')
  return failed(`the commit "${message}"`, result)
}
