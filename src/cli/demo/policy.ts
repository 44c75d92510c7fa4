import { isWaiting, type Request, type RequestOf } from '../../protocol/request.ts'
import type { RpcParams } from '../../protocol/rpc.ts'
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

/** What the demo's human does now. */
export type Act =
  | { readonly act: 'decide'; readonly params: RpcParams<'request.decide'> }
  | { readonly act: 'answer'; readonly params: RpcParams<'request.answer'> }
  | { readonly act: 'shut down'; readonly params: RpcParams<'request.open'> }

/** The words with which the demo's human answers, by the task that is asked about. */
const answers: Readonly<Record<string, string>> = { totals: 'Not a number.', 'how-to-use': 'The one that is sold.' }
const reason = 'the policy of the demo'

/**
 * What to do about what waits, so that the demo shows the same every time:
 *
 * - `totals` and `table` want one lease: the one that has it goes on (its question answered, its plan approved) only when the
 *   other waits for it.
 * - Before the last question is answered, its asker is asked to shut down, and says no.
 * - A merge that is to be rejected is, once; the others are approved in the order of `mayMerge`.
 */
export const nextActs = (tasks: ReadonlyMap<string, Task>, requests: readonly Request[]): Act[] => {
  const keys = new Map([...tasks].map(([key, task]) => [task.id, key]))
  const keyFor = (request: Request): string =>
    'task' in request.data && request.data.task !== null ? (keys.get(request.data.task) ?? '') : ''
  const contended = new Set(requests.filter(({ type }) => type === 'resource_request').map(keyFor)).size > 1
  const leases = new Set(['totals', 'table'])
  const merges = new Set(mayMerge(tasks))
  const approve = ({ id, bodyHash }: Request): Act => ({
    act: 'decide',
    params: { id, decision: 'approve', reason, shown: bodyHash },
  })
  return requests.filter(isWaiting).flatMap((request): Act[] => {
    const key = keyFor(request)
    if (request.to !== 'human' || (leases.has(key) && !contended && request.type !== 'merge_request')) return []
    switch (request.type) {
      case 'plan_request':
      case 'permission_request':
        return [approve(request)]
      case 'question':
        return asked(request, key, requests)
      case 'merge_request': {
        const no = demoTasks.find(task => task.key === key)?.rejected ?? null
        if (!merges.has(key)) return []
        if (no === null || tasks.get(key)?.returns !== 0) return [approve(request)]
        return [{ act: 'decide', params: { id: request.id, decision: 'reject', reason: no, shown: request.bodyHash } }]
      }
      default:
        return []
    }
  })
}

const asked = (request: RequestOf<'question'>, key: string, requests: readonly Request[]): Act[] => {
  const text = answers[key] ?? 'Yes.'
  const answer: Act = { act: 'answer', params: { id: request.id, text } }
  if (key !== 'how-to-use') return [answer]
  const stop = requests.find(each => each.type === 'shutdown_request' && each.to === request.from)
  if (stop) return isWaiting(stop) ? [] : [answer]
  const data = { teammate: request.from, graceMs: 30_000 }
  return [{ act: 'shut down', params: { type: 'shutdown_request', body: 'Enough for today?', data } }]
}

/** The demo's name for a task: the file it was dropped as. */
export const keyOf = (task: Task): string => (task.file ?? task.title).replace(/\.md$/, '')
