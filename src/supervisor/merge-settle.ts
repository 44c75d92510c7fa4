import type { RequestOf } from '../protocol/request.ts'
import type { Core } from './core.ts'
import { isWanted } from './merge-facts.ts'

/**
 * Ends the merges that a crash cut between their intent and their end, and whose task was cancelled before anybody led them
 * on: nobody will now.
 */
export const settleMerges = async (core: Core): Promise<void> => {
  for (const request of core.requests.all('supervisor')) {
    if (request.type !== 'merge_request' || request.effect?.step !== 'intent') continue
    const task = core.tasks.get(request.data.task)?.value
    if (!task || !isWanted(task, request)) await settleMerge(core, request)
  }
}

/**
 * Ends a merge whose claim is none any more. What the trunk took in before a crash is on it, whatever became of the task, and
 * that is said.
 */
export const settleMerge = async (
  { hub, requests, tasks }: Core,
  { id, data, effect }: RequestOf<'merge_request'>,
): Promise<void> => {
  const status = tasks.get(data.task)?.value.status ?? 'gone'
  const found = effect === null ? { ok: true as const, value: null } : await hub?.mergeOf(data.head, id)
  if (found?.ok !== true)
    requests.effect(
      id,
      'done',
      'unknown',
      `task ${data.task} is ${status}; ${found?.fault.message ?? 'there is no hub'}`,
    )
  else if (found.value === null)
    requests.effect(id, 'done', 'failed', `nothing was merged: task ${data.task} is ${status}`)
  else {
    const detail = `the trunk took it in as ${found.value.slice(0, 12)}, and task ${data.task} is ${status} since`
    const merge = effect?.merge?.commit === found.value ? { merge: effect.merge } : {}
    requests.effect(id, 'done', 'ok', detail, merge)
  }
}
