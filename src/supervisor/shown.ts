import type { Graph } from '../protocol/graph.ts'
import { isOfClaim } from '../protocol/request.ts'
import type { TaskShown } from '../protocol/rpc.ts'
import type { Task } from '../protocol/task.ts'
import type { Requests } from './requests.ts'
import type { Tasks } from './tasks.ts'

/** A task as a screen shows it: everything derived is derived here, nothing of it is stored. */
export const shown = (task: Task, rev: number, graph: Graph): TaskShown => {
  const blockedBy = graph.blockedBy(task)
  const base = { v: 1 as const, rev, ...task, blockedBy }
  const say = (word: string, why: string | null): TaskShown => ({ ...base, shown: word, why })
  switch (task.status) {
    case 'in_progress':
      return task.claimed
        ? say('claimed', `${task.owner} says it is done; not proven yet`)
        : say('working', `by ${task.owner}`)
    case 'completed':
      return task.result?.outcome === 'unverified'
        ? say('unverified', 'completed, but nothing proved it')
        : say('completed', task.result?.outcome === 'merged' ? 'verified and merged' : 'verified')
    case 'failed':
    case 'cancelled':
      // Cancelled without a reason, the word alone says it.
      return say(task.status, task.error === task.status ? null : task.error)
    case 'pending': {
      if (blockedBy.length === 0)
        return say(
          'ready',
          task.error === null || task.owner === null ? task.error : `sent back to ${task.owner}: ${task.error}`,
        )
      const missing = blockedBy.filter(id => !graph.get(id))
      if (missing.length > 0)
        return say(
          'waiting',
          `for ${missing.map(id => `"${id}"`).join(', ')}, which ${missing.length === 1 ? 'does' : 'do'} not exist yet`,
        )
      const why = blockedBy.map(id => {
        const other = graph.get(id)
        if (other?.status === 'failed' || other?.status === 'cancelled') return `${id} (${other.status})`
        return other?.claimed ? `${id} (claimed done, not proven yet)` : id
      })
      return say('blocked', `by ${why.join(', ')}`)
    }
  }
}

/** One that is there, as a screen shows it: with the request that it waits for, and on whom. */
export const shownOf = (
  { tasks, requests }: { readonly tasks: Tasks; readonly requests: Requests },
  id: string,
): TaskShown => {
  const rec = tasks.get(id)
  if (!rec) throw new Error(`task ${id} vanished`)
  const task = shown(rec.value, rec.rev, tasks.graph)
  const asked = requests.waitingAbout(id).at(-1)
  if (asked === undefined) return task
  const whom = asked.status !== 'needs_info' ? asked.to : isOfClaim(asked) ? asked.data.owner : asked.from
  return { ...task, why: [task.why, `${asked.id} waits for ${whom}`].filter(Boolean).join('; ') }
}
