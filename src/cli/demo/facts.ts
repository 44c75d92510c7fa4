import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseRunbook } from '../../model/runbook/parse.ts'
import { Message } from '../../protocol/message.ts'
import { Request } from '../../protocol/request.ts'
import { isEnded, Task } from '../../protocol/task.ts'
import { layout } from '../../store/root.ts'
import { keyOf } from './policy.ts'
import { demoTasks, demoTeam } from './tasks.ts'

/** What the files of the team root say happened. Nothing here comes from the daemon, which has ended. */
export interface Facts {
  readonly tasks: ReadonlyMap<string, Task>
  readonly messages: readonly Message[]
  readonly requests: readonly Request[]
  readonly deadLetters: number
  /** Files that could not be read as what they should be. */
  readonly unreadable: readonly string[]
}

/** Reads the files of a team root whose daemon has ended. */
export const readFacts = (root: string): Facts => {
  const at = layout(root)
  const unreadable: string[] = []
  const parsed = <T>(
    schema: { safeParse(value: unknown): { success: true; data: T } | { success: false } },
    file: string,
    text: string,
  ): T[] => {
    const result = schema.safeParse(json(text))
    if (!result.success) unreadable.push(file)
    return result.success ? [result.data] : []
  }
  const each = <T>(schema: Parameters<typeof parsed<T>>[0], folder: string, pattern: RegExp): T[] =>
    names(folder, pattern).flatMap(name => parsed(schema, join(folder, name), readFileSync(join(folder, name), 'utf8')))
  const tasks = [at.tasks, at.taskArchive].flatMap(folder => each<Task>(Task, folder, /^task_.*\.json$/))
  const inboxes = names(at.messages, /\.inbox\.jsonl$/).map(name => join(at.messages, name))
  return {
    tasks: new Map(tasks.map(task => [keyOf(task), task])),
    messages: inboxes.flatMap(file => lines(file).flatMap(line => parsed<Message>(Message, file, line))),
    requests: each<Request>(Request, at.requests, /\.json$/),
    deadLetters: names(at.messages, /^dead-letter\.jsonl$/).flatMap(name => lines(join(at.messages, name))).length,
    unreadable,
  }
}

const names = (folder: string, pattern: RegExp): string[] => {
  try {
    return readdirSync(folder)
      .filter(name => pattern.test(name))
      .sort()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

const lines = (file: string): string[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter(line => line !== '')

const json = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // No schema accepts it, so it is counted as unreadable.
  }
}

export interface Summary {
  readonly tasks: { readonly dropped: number; readonly completed: number; readonly merged: number }
  /** What did not end well, and why: it failed, was cancelled, or waited for one of those. */
  readonly notDone: readonly { readonly task: string; readonly why: string }[]
  readonly merges: {
    readonly approved: number
    /** Sent back: for a conflict, a red check, or the human's reason. */
    readonly returned: readonly { task: string; why: string }[]
    readonly rejected: readonly { task: string; why: string }[]
  }
  readonly plans: { readonly approved: number }
  readonly questions: { readonly answered: number }
  readonly permissions: { readonly granted: number }
  /** `waited`: how many had to wait until somebody else's ended. */
  readonly leases: { readonly held: number; readonly waited: number }
  readonly messages: { readonly all: number; readonly betweenTeammates: number }
  readonly shutdowns: { readonly approved: number; readonly rejected: number }
  readonly deadLetters: number
}

const mates = new Set<string>(demoTeam.map(mate => mate.name))

export const summarize = (facts: Facts): Summary => {
  const merges = facts.requests.filter(request => request.type === 'merge_request')
  const keys = new Map([...facts.tasks].map(([key, task]) => [task.id, key]))
  const tasks = [...facts.tasks.values()]
  const nameOf = (task: string): string => keys.get(task) ?? task
  const of = (type: Request['type'], status: Request['status']): Request[] =>
    facts.requests.filter(request => request.type === type && request.status === status)
  const leases = of('resource_request', 'approved')
  return {
    tasks: {
      dropped: tasks.length,
      completed: tasks.filter(task => task.status === 'completed').length,
      merged: tasks.filter(task => task.result?.outcome === 'merged').length,
    },
    notDone: tasks
      .filter(task => task.status !== 'completed')
      .toSorted((a, b) => place(keyOf(a)) - place(keyOf(b)))
      .map(task => ({ task: nameOf(task.id), why: unfinished(task, facts) })),
    merges: {
      approved: merges.filter(request => request.status === 'approved').length,
      returned: merges
        .filter(request => request.effect?.outcome === 'returned')
        .map(request => ({
          task: nameOf(request.data.task),
          why: request.effect?.detail ?? '',
        })),
      rejected: merges
        .filter(request => request.status === 'rejected')
        .map(request => ({ task: nameOf(request.data.task), why: request.reason ?? '' })),
    },
    plans: { approved: of('plan_request', 'approved').length },
    questions: { answered: of('question', 'approved').length },
    permissions: { granted: of('permission_request', 'approved').length },
    leases: {
      held: leases.length,
      waited: leases.filter(one => leases.some(other => waitedFor(one, other))).length,
    },
    messages: {
      all: facts.messages.length,
      betweenTeammates: facts.messages.filter(message => mates.has(message.from) && mates.has(message.to)).length,
    },
    shutdowns: {
      approved: facts.requests.filter(
        request =>
          request.type === 'shutdown_request' && request.status === 'approved' && request.effect?.outcome === 'ok',
      ).length,
      rejected: of('shutdown_request', 'rejected').length,
    },
    deadLetters: facts.deadLetters,
  }
}

const place = (key: string): number => demoTasks.findIndex(task => task.key === key)

/** Why a task is not completed, at the end. */
const unfinished = (task: Task, { tasks }: Facts): string => {
  if (isEnded(task)) return `${task.status}${why(task)}`
  const before = [...tasks].filter(([, { id, status }]) => task.dependsOn.includes(id) && status !== 'completed')
  return before.length > 0 ? `waited for ${before.map(([key]) => key).join(', ')}` : `was not finished${why(task)}`
}

/** Was it asked for while the other was held, and given when that had ended? */
const waitedFor = (one: Request, other: Request): boolean =>
  other.effect?.step === 'done' && one.createdAt < other.effect.at && (one.decidedAt ?? '') >= other.effect.at

/** Every way in which what the files say differs from what this demo is to show; empty when it all came true. */
export const differences = (facts: Facts): string[] => {
  const found = facts.unreadable.map(file => `${file} cannot be read`)
  const summary = summarize(facts)
  for (const { key, behind, rejected } of demoTasks) {
    const task = facts.tasks.get(key)
    if (task?.result?.outcome !== 'merged') found.push(`${key}: ${task?.status ?? 'not there'}, not merged${why(task)}`)
    const returned = summary.merges.returned.filter(each => each.task === key)
    const kinds = returned.map(each => (/conflict/.test(each.why) ? 'conflict' : 'verify')).join(', ')
    const wanted = behind?.returned ?? ''
    if (kinds !== wanted) found.push(`${key}: sent back for ${kinds || 'nothing'}, not for ${wanted || 'nothing'}`)
    const reasons = summary.merges.rejected.filter(each => each.task === key).map(({ why }) => why)
    if (reasons.join() !== (rejected ?? ''))
      found.push(`${key}: rejected for ${reasons.join() || 'nothing'}, not for ${rejected ?? 'nothing'}`)
  }
  for (const mail of expectedMail()) {
    const copies = facts.messages.filter(
      each => each.from === mail.from && each.to === mail.to && each.content === mail.text,
    ).length
    if (copies !== 1) found.push(`the message of ${mail.from} to ${mail.to} is there ${copies} times: ${mail.text}`)
  }
  if (summary.shutdowns.approved !== mates.size)
    found.push(`${summary.shutdowns.approved} of ${mates.size} teammates agreed to shut down`)
  const { plans, questions, permissions, leases, shutdowns } = summary
  for (const [what, is, wanted] of [
    ['plans approved', plans.approved, 1],
    ['questions answered', questions.answered, 2],
    ['permissions granted', permissions.granted, 1],
    ['leases held', leases.held, 2],
    ['leases waited for', leases.waited, 1],
    ['shutdowns rejected', shutdowns.rejected, 1],
  ] as const)
    if (is !== wanted) found.push(`${what}: ${is}, not ${wanted}`)
  if (facts.deadLetters > 0) found.push(`${facts.deadLetters} dead letters`)
  return found
}

const why = (task: Task | undefined): string => (task?.error ? ` (${task.error.split('\n')[0]})` : '')

/** The messages that the runbooks send, those of the parts for a task sent back included. */
export const expectedMail = (): { from: string; to: string; text: string }[] =>
  demoTasks.flatMap(task => {
    const book = parseRunbook(task.text)
    return [...book.steps, ...(book.mend ?? [])].flatMap(step =>
      step.kind === 'message' ? [{ from: task.assignee, to: step.to, text: step.text }] : [],
    )
  })
