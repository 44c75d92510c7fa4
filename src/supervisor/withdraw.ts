import { isEnded } from '../protocol/task.ts'
import type { Requests } from './requests.ts'
import type { Tasks } from './tasks.ts'

/** A task that was cancelled or failed, in whichever way, takes along what is still asked about it. */
export const withdrawStale = ({ tasks, requests }: { tasks: Tasks; requests: Requests }): void => {
  for (const request of requests.waiting()) {
    if (request.type !== 'merge_request') continue
    const task = tasks.get(request.data.task)?.value
    if (!task || !isEnded(task)) continue
    const why = task.error === null ? '' : `: ${task.error}`
    requests.end(request.id, 'withdrawn', 'supervisor', `task ${task.id} was ${task.status}${why}`)
  }
}
