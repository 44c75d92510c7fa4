import { isBudget, isParking, type Request } from '../protocol/request.ts'
import { isEnded } from '../protocol/task.ts'
import type { Requests } from './requests.ts'
import type { Roster } from './roster.ts'
import type { Tasks } from './tasks.ts'

interface Ledger {
  readonly tasks: Tasks
  readonly requests: Requests
}

/**
 * Ends what is still asked about a task that moved on: a merge of one that was cancelled or failed, and whatever its owner
 * asked for it once it is not in that owner's hands any more. About `task`, or about any.
 */
export const withdrawStale = (ledger: Ledger, task?: string): void => {
  const { requests } = ledger
  for (const request of task === undefined ? requests.waiting() : requests.waitingAbout(task)) {
    const why = stale(ledger, request)
    if (why !== null) requests.end(request.id, 'withdrawn', 'supervisor', why)
  }
}

const stale = ({ tasks }: Ledger, request: Request): string | null => {
  if (!('task' in request.data) || request.data.task === null) return null
  const task = tasks.get(request.data.task)?.value
  if (!task) return null
  if (request.type === 'review_request') {
    const { attempt, head } = request.data
    const isSame = !isEnded(task) && task.attempts === attempt && task.claimed !== null && task.claimed.head === head
    return isSame ? null : `task ${task.id} moved on`
  }
  if (request.type !== 'merge_request')
    return tasks.inHand(request.from)?.value.id === task.id
      ? null
      : `task ${task.id} is not in the hands of ${request.from} any more`
  return isEnded(task) ? `task ${task.id} was ${task.status}${task.error === null ? '' : `: ${task.error}`}` : null
}

/**
 * Does this teammate wait for what somebody still has to decide about its task (a lease is no such thing: it goes with its
 * asker)? More of a budget it may have asked for before it had this task: it waits for that all the same.
 */
export const isParked = ({ requests, tasks }: Ledger, name: string): boolean => {
  const task = tasks.inHand(name)?.value.id ?? null
  return requests
    .waiting()
    .some(
      each =>
        each.from === name &&
        isParking(each) &&
        each.to !== 'supervisor' &&
        'task' in each.data &&
        (each.data.task === task || isBudget(each)),
    )
}

/** Ends what is still asked by those who left the team while no daemon ran: nobody is there to hear of it. */
export const withdrawGone = ({ requests, roster }: Pick<Ledger, 'requests'> & { readonly roster: Roster }): void => {
  for (const { id, from } of requests.waiting())
    if (from !== 'human' && from !== 'supervisor' && !roster.has(from))
      requests.end(id, 'withdrawn', 'supervisor', `${from} is not on the team any more`)
}

/** Ends what a teammate that does not run any more waited for. */
export const withdrawOf = ({ requests }: Pick<Ledger, 'requests'>, name: string): void => {
  for (const request of requests.waiting())
    if (request.from === name && isParking(request))
      requests.end(request.id, 'withdrawn', 'supervisor', `${name} has ended`)
}

/** What waits for a teammate that left the team, for a person to decide. A review is ended: somebody else is asked for it. */
export const leftBehind = ({ requests }: Pick<Ledger, 'requests'>, name: string): Request[] =>
  requests.waiting().filter(({ id, to, type }) => {
    if (to !== name) return false
    if (type !== 'review_request') return true
    requests.end(id, 'withdrawn', 'supervisor', `${name} is not on the team any more`)
    return false
  })
