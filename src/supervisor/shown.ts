import type { Graph } from '../protocol/graph.ts'
import type { TaskShown } from '../protocol/rpc.ts'
import type { Task } from '../protocol/task.ts'
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
        : say('completed', null)
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
        const status = graph.get(id)?.status
        return status === 'failed' || status === 'cancelled' ? `${id} (${status})` : id
      })
      return say('blocked', `by ${why.join(', ')}`)
    }
  }
}

/** One that is there, as a screen shows it. */
export const shownOf = ({ tasks }: { readonly tasks: Tasks }, id: string): TaskShown => {
  const rec = tasks.get(id)
  if (!rec) throw new Error(`task ${id} vanished`)
  return shown(rec.value, rec.rev, tasks.graph)
}
