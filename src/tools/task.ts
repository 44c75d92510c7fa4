import * as z from 'zod'
import { defineTool, error, said, type Tool, type ToolContext, type ToolResult } from '../agent/tool.ts'
import { type CloneStatus, readStatus, statusScript } from '../git/branch.ts'
import { cut } from '../lib/text.ts'
import type { TaskShown } from '../protocol/rpc.ts'
import { gate } from './gate.ts'
import { count, refused } from './paths.ts'

const maxListed = 100

/** What a call of each action must bring besides. */
const needs = {
  list: [],
  get: ['id'],
  create: ['title'],
  claim: [],
  complete: ['summary'],
  release: [],
  fail: ['summary'],
} as const

export const task: Tool = defineTool({
  name: 'task',
  description:
    'The task board. complete, release and fail end the task in hand; summary says how it went, or why it failed.',
  input: z.strictObject({
    action: z.enum(['list', 'get', 'create', 'claim', 'complete', 'release', 'fail']),
    id: z.string().optional(),
    title: z.string().optional(),
    description: z.string().optional(),
    depends_on: z.array(z.string()).optional().describe('task ids'),
    summary: z.string().optional(),
  }),
  async run(args, context) {
    const missing = needs[args.action].filter(name => !args[name]?.trim())
    if (missing.length > 0) return error(`task ${args.action} needs ${missing.join(' and ')}`)
    const { call } = context
    const { id = '', summary = '' } = args
    // The holder may have given it one that it has not been told of yet: what it says of its work is not about that.
    const isEnd = args.action === 'complete' || args.action === 'release' || args.action === 'fail'
    const task = context.task()
    const during = task === null ? {} : { during: task.id }
    if (isEnd && task === null)
      return error(
        'you have no task in hand: what you claimed done, released or failed has left your hands, and nothing more is to be done for it. End your turn with a sentence; a task that is given to you begins after that',
      )
    switch (args.action) {
      case 'list': {
        const listed = await call('task.list', {})
        if (!listed.ok) return refused(listed.fault)
        const { tasks } = listed.value
        const more = tasks.length > maxListed ? [`[${tasks.length - maxListed} more left out]`] : []
        return said([count(tasks.length, 'task'), ...tasks.slice(0, maxListed).map(row), ...more].join('\n'))
      }
      case 'get': {
        const found = await call('task.get', { id })
        return found.ok ? said(whole(found.value.task)) : refused(found.fault)
      }
      case 'create': {
        const { title = '', description, depends_on } = args
        const drop = {
          title,
          ...(description ? { description } : {}),
          ...(depends_on?.length ? { dependsOn: depends_on } : {}),
        }
        const made = await call('task.add', { tasks: [drop] })
        return made.ok ? said(`created ${made.value.tasks.map(row).join('\n')}`) : refused(made.fault)
      }
      case 'claim': {
        const claimed = await call('task.claim', id ? { id } : {})
        return claimed.ok ? said(`claimed\n${whole(claimed.value.task)}`) : refused(claimed.fault)
      }
      case 'complete':
        return complete(summary, id, context)
      case 'release': {
        const given = await call('task.release', { ...(summary ? { reason: summary } : {}), ...during })
        return given.ok ? left(given.value.task.id, 'is released; its branch is kept', context) : refused(given.fault)
      }
      case 'fail': {
        const failed = await call('task.fail', { reason: summary, ...during })
        return failed.ok ? left(failed.value.task.id, 'is failed', context) : refused(failed.fault)
      }
    }
  },
})

/** The claim to be done. In git mode nothing uncommitted may be left behind by it, and a claim without commits is told as one. */
const complete = async (summary: string, id: string, context: ToolContext): Promise<ToolResult> => {
  const inHand = context.task()
  if (inHand && id && id !== inHand.id) return error(`your task in hand is ${inHand.id}, not ${id}`)
  let note = ''
  if (inHand && inHand.branch !== null) {
    const status = await cloneStatus(context)
    if ('text' in status) return status
    const wrong = unfit(status, inHand.branch)
    if (wrong !== null) return error(wrong)
    if (status.commits === 0) note = 'The branch has no commits beyond the trunk: nothing of this will be merged.'
    else note = `${count(status.commits, 'commit')} on ${inHand.branch}.`
  }
  const done = await context.call('task.complete', { summary, ...(inHand ? { during: inHand.id } : {}) })
  if (!done.ok) return refused(done.fault)
  return left(done.value.id, ['is claimed done', note, done.value.note].filter(Boolean).join('\n'), context)
}

/** The task has left the hand: what runs beside it ends, and that is told with the rest. */
const left = async (id: string, how: string, { background }: ToolContext): Promise<ToolResult> => {
  const stopped = await background.stopAll(`with task ${id}`)
  if (stopped === null) return said(`task ${id} ${how}`)
  return { ...said(`task ${id} ${how}\n${stopped.text}`), ended: stopped.ended }
}

const cloneStatus = async (context: ToolContext): Promise<CloneStatus | ToolResult> => {
  const { shell, signal, limits } = context
  const ran = await shell.run({
    command: statusScript(),
    timeoutMs: limits.commandSeconds * 1000,
    signal,
    trusted: true,
    outputBytes: 65_536,
    outputMaxBytes: 1_048_576,
  })
  if ('refused' in ran) return error(`the state of repo/ cannot be looked at: ${ran.refused}: ${ran.reason}`)
  const status = readStatus(ran.output)
  if (status.ok) return status.value
  // A clone that is gone or damaged is not for its teammate to mend: the holder takes the task back for a new one.
  return (await gate(context)) ?? refused(status.fault, 'repo')
}

/** Why a clone's state is no state to claim a task done in. */
const unfit = (status: CloneStatus, branch: string): string | null => {
  if (status.operation !== null)
    return `a ${status.operation} in repo/ is not finished: finish or abort it, then complete again`
  if (status.branch !== branch)
    return `repo/ is on ${status.branch ?? 'no branch'}, and the task's branch is ${branch}: git switch ${branch} (bring your commits along), then complete again`
  if (status.uncommittedCount === 0)
    return status.marks.length === 0
      ? null
      : `marks of a conflict are committed at ${status.marks.join(', ')}: settle it, commit, then complete again (where they are meant, set conflict-marker-size for that path in .gitattributes)`
  const listed = status.uncommitted.slice(0, 20).join('\n')
  const more = status.uncommittedCount > 20 ? `\n[${status.uncommittedCount - 20} more]` : ''
  return `uncommitted files in repo/ (${status.uncommittedCount}): commit them, or remove or ignore what does not belong, then complete again\n${listed}${more}`
}

const row = (shown: TaskShown): string => {
  const who = shown.owner ? `, ${shown.owner}` : shown.assignee ? `, for ${shown.assignee}` : ''
  const blocked =
    shown.blockedBy.length > 0 && shown.status === 'pending' ? `, blocked by ${shown.blockedBy.join(' ')}` : ''
  // Said to be done is not done, and done without a proof is told as that.
  const state = shown.shown === 'claimed' || shown.shown === 'unverified' ? shown.shown : shown.status
  return `${shown.id} [${state}${who}${blocked}] ${cut(shown.title, 200)}`
}

const whole = (shown: TaskShown): string =>
  [
    row(shown),
    ...(shown.dependsOn.length > 0 ? [`depends on: ${shown.dependsOn.join(', ')}`] : []),
    ...(shown.branch ? [`branch: ${shown.branch}`] : []),
    ...(shown.verify ? [`verify: ${shown.verify}`] : []),
    ...(shown.accept.length > 0 ? [`accept: ${shown.accept.join('; ')}`] : []),
    ...(shown.error ? [`last: ${shown.error}`] : []),
    ...(shown.result
      ? [`result: ${shown.result.outcome}${shown.result.summary ? `, ${shown.result.summary}` : ''}`]
      : []),
    '',
    cut(shown.description, 20_000),
  ]
    .join('\n')
    .trimEnd()
