import { isEnded, type Task } from '../../protocol/task.ts'
import { demoTasks } from './tasks.ts'

/**
 * What the demo's human says yes to now: the keys of tasks whose merge may be approved. Approving in this order makes the
 * two troubles that the demo is to show happen every time, however the threads race:
 *
 * - Nothing of a fan-out is merged before all of it was claimed done, so that all of it starts from the same trunk.
 * - `table` waits for `totals`, `spread` for `strict-numbers`: the one behind meets a trunk that has moved.
 */
export const mayMerge = (tasks: ReadonlyMap<string, Task>): string[] => {
  const ended = (key: string): boolean => {
    const task = tasks.get(key)
    return task !== undefined && isEnded(task)
  }
  const claimedOnce = (key: string): boolean => {
    const task = tasks.get(key)
    return task !== undefined && (task.claimed !== null || task.returns > 0 || isEnded(task))
  }
  return demoTasks
    .filter(task => {
      const siblings = demoTasks.filter(other => other.after.join() === task.after.join())
      return siblings.every(other => claimedOnce(other.key)) && (task.behind === null || ended(task.behind.key))
    })
    .map(task => task.key)
}

/** The demo's name for a task: the file it was dropped as. */
export const keyOf = (task: Task): string => (task.file ?? task.title).replace(/\.md$/, '')
