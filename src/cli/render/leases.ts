import type { HeldLease, QueuedLease, Status } from '../../protocol/rpc.ts'
import { oneLine, type Paint, span, table } from './text.ts'

/** Screens name so many waiting ones; the rest is counted. */
const most = 25

export const hasLeases = ({ leases }: Status): boolean => leases.held.length + leases.queued.length > 0

/** Who holds what, and who waits behind whom. */
export const renderLeases = ({ held, queued }: Status['leases'], now: number, c: Paint): string => {
  const waiting = queued.length === 0 ? '' : ` · ${queued.length} ${c.yellow('waiting')}`
  const title = `${c.bold('LEASES')} ${held.length} held${waiting}`
  const more = queued.length > most ? [`  … and ${queued.length - most} more: team requests`] : []
  const rows = [
    ...held.map(lease => holding(lease, now)),
    ...queued.slice(0, most).map(lease => queueing(lease, now, c)),
  ]
  // A person can do something about a holder only where there is one whom somebody waits for.
  const isInTheWay = queued.some(lease => lease.behind.some(each => held.some(({ id }) => id === each.id)))
  const remedy = isInTheWay ? [c.dim('  team reject <id> takes a lease from its holder')] : []
  return [title, table(rows, '  '), ...more, ...remedy].join('\n')
}

const holding = ({ id, holder, task, kind, what, fence, until }: HeldLease, now: number): string[] => [
  id ?? `task ${task}`,
  'held',
  holder,
  `${kind} ${oneLine(what.join(', '), 60)}`,
  fence === null || until === null
    ? 'its paths, until the task is done'
    : `fence ${fence}, ${Date.parse(until) > now ? `for ${span(Date.parse(until) - now)} more` : 'its time is over'}`,
]

const queueing = ({ id, from, kind, what, since, behind }: QueuedLease, now: number, c: Paint): string[] => [
  id,
  c.yellow('waits'),
  from,
  `${kind} ${oneLine(what.join(', '), 60)}`,
  `for ${span(now - Date.parse(since))}${behind.length === 0 ? '' : `, behind ${oneLine(behind.map(each => `${each.who} (${each.id})`).join(', '), 80)}`}`,
]
