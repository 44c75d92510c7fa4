import { madeFor } from '../git/merge.ts'
import { cut } from '../lib/text.ts'
import { type MergeCheck, type MergeRecord, tailLength } from '../protocol/merge-record.ts'
import type { RequestOf } from '../protocol/request.ts'
import type { Task } from '../protocol/task.ts'
import type { Core } from './core.ts'
import { type Check, howEnded, nothingToRun, type Ran } from './verify.ts'

/** Is this still the claim that the request is to merge? */
export const isWanted = (task: Task, { data }: RequestOf<'merge_request'>): boolean =>
  task.status === 'in_progress' && task.claimed?.head === data.head && task.attempts === data.attempt

/** One approved merge in a chain of them, each made onto the one before it. */
export interface Link {
  readonly task: Task
  readonly request: RequestOf<'merge_request'>
  readonly onto: string
  readonly tree: string
  /** The merge commit; of what was there already, the commit that brought it. */
  readonly commit: string
  /** `onto` holds its head already: there is nothing to merge. */
  readonly upToDate: boolean
  /** What must pass on the merged result. */
  readonly commands: readonly string[]
  /** Its `accept`, run where the branch started: all red. */
  readonly base: readonly Ran[]
}

const checked = ({ command, ok, exitCode, ms, tests, tail }: Ran, where: MergeCheck['where']): MergeCheck => ({
  command,
  where,
  ok,
  exitCode,
  ms: Math.round(ms),
  tests,
  tail: tail.length > tailLength ? `…${tail.slice(-cut(tail, tailLength - 1).length)}` : tail,
})

/** What is kept of a merge, or of its refusal: its own checks, and the one that was red, whosever it is. */
export const recordOf = (
  { task, request, onto, tree, commit, commands, base }: Omit<Link, 'upToDate'>,
  o: {
    readonly isMerged: boolean
    readonly batch: readonly Link[]
    readonly check: Check
    /** The red check on the trunk alone. */
    readonly trunk?: Check | undefined
    readonly redBefore?: boolean | undefined
    readonly spared?: boolean
  },
): MergeRecord => ({
  onto,
  head: request.data.head,
  tree,
  commit: o.isMerged ? commit : null,
  checked: o.batch.at(-1)?.tree ?? tree,
  checks: [
    ...base.map(ran => checked(ran, 'base')),
    ...o.check.runs.filter(ran => !ran.ok || commands.includes(ran.command)).map(ran => checked(ran, 'merged')),
    ...(o.trunk?.runs ?? []).map(ran => checked(ran, 'trunk')),
  ],
  batch: o.batch.length === 0 ? [task.id] : o.batch.map(link => link.task.id),
  ...(o.redBefore === undefined ? {} : { redBefore: o.redBefore }),
  ...(o.spared ? { spared: true } : {}),
})

/** Of a merge that was not made, since what accepts the task was green before the work. */
export const unprovable = (task: Task, request: RequestOf<'merge_request'>, base: readonly Ran[]): MergeRecord => {
  const { head, trunk } = request.data
  return recordOf(
    { task, request, onto: trunk, tree: head, commit: head, commands: task.accept, base },
    { isMerged: false, batch: [], check: nothingToRun },
  )
}

/** How a red check of the merged result stands to the trunk that it was merged onto, for the owner. */
export const blame = (
  link: Link,
  red: Check,
  trunk: Check | undefined,
  o: { isOwn: boolean; spared: boolean; others: readonly string[] },
): string => {
  const at = link.onto.slice(0, 12)
  if (o.isOwn && trunk !== undefined && !trunk.ok && !trunk.couldNotRun)
    return `It is red on the trunk alone (${at}) too: it is this task's own check, for your work to turn green.`
  if (trunk === undefined) return ''
  if (trunk.couldNotRun)
    return `Whether it was red before could not be told: on the trunk alone (${at}) it could not run: ${trunk.tail}`
  if (trunk.ok)
    return `On the trunk alone (${at}) it is green: your work broke it.${o.others.length === 0 ? '' : ` It was merged onto that together with task ${o.others.join(', ')}.`}`
  return `On the trunk alone (${at}) it ${howEnded(trunk)} too: it was red before your work, which did not break it. Nothing is merged while it is red all the same: ${o.spared ? 'this time is not counted as sent back. M' : 'it was sent back for that once already, so this time counts. M'}end it in your branch if it is part of your task; else complete the task again once the trunk is mended. \`${red.command}\` there:\n${trunk.tail}`
}

/** Was this task's merge sent back uncounted already for what was red on this very trunk? */
export const wasSpared = ({ requests }: Core, task: string, trunk: string): boolean =>
  requests
    .all('supervisor')
    .some(
      each =>
        each.type === 'merge_request' &&
        each.data.task === task &&
        each.effect?.merge?.spared === true &&
        each.effect.merge.onto === trunk,
    )

export const messageOf = (task: Task, { id, data, decidedBy }: RequestOf<'merge_request'>): string =>
  `Merge task ${task.id}: ${task.title}\n\nOwner: ${data.owner}\n${madeFor(id)}, approved by ${decidedBy}`
