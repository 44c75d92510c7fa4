import type { EventType } from '../protocol/event.ts'
import { isOpen, type Task, type TaskMove } from '../protocol/task.ts'

/** What the journal calls each move of a task. */
export const events: Record<TaskMove['move'], EventType> = {
  start: 'task.started',
  claim: 'task.claimed',
  return: 'task.returned',
  release: 'task.released',
  complete: 'task.completed',
  fail: 'task.failed',
  cancel: 'task.cancelled',
  retry: 'task.retried',
}

/** What a task cannot, where the move is not legal. */
export const verb: Record<TaskMove['move'], string> = {
  start: 'be started',
  claim: 'be claimed done',
  return: 'be sent back',
  release: 'be released',
  complete: 'be completed',
  fail: 'fail',
  cancel: 'be cancelled',
  retry: 'be retried (only a failed or cancelled task can)',
}

/** A task's standing in words: `in progress with alice`. */
export const describe = (task: Task): string => {
  if (task.status === 'in_progress')
    return task.claimed ? `claimed done by ${task.owner}` : `in progress with ${task.owner}`
  return isOpen(task) ? 'pending' : task.status
}
