import type { Core } from './core.ts'
import { isWanted } from './merge-facts.ts'

/**
 * Ends the merges that a crash cut between their intent and their end, and whose task was cancelled before anybody led them
 * on: nobody will now. What the trunk took in before the crash is on it, whatever became of the task, and that is said.
 */
export const settleMerges = async (core: Core): Promise<void> => {
  const { hub, requests, tasks } = core
  for (const request of requests.all('supervisor')) {
    if (request.type !== 'merge_request' || request.effect?.step !== 'intent') continue
    const { task: id, head } = request.data
    const task = tasks.get(id)?.value
    if (task && isWanted(task, request)) continue
    const found = hub ? await hub.mergeOf(head) : null
    const status = task?.status ?? 'gone'
    if (found === null || !found.ok)
      requests.effect(
        request.id,
        'done',
        'unknown',
        `task ${id} is ${status}; ${found?.fault.message ?? 'there is no hub'}`,
      )
    else if (found.value === null)
      requests.effect(request.id, 'done', 'failed', `nothing was merged: task ${id} is ${status}`)
    else {
      const detail = `the trunk took it in as ${found.value.slice(0, 12)}, and task ${id} is ${status} since`
      requests.effect(request.id, 'done', 'ok', detail)
    }
  }
}
