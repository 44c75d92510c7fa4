import { fail, ok, type Result } from '../lib/result.ts'
import { isBudget, isLease, isOfClaim, type Request } from '../protocol/request.ts'
import type { RpcResults } from '../protocol/rpc.ts'
import type { Task } from '../protocol/task.ts'
import type { Core } from './core.ts'

/** Why there is no trunk here: by the mode, or since no daemon made the hub. `inDir` says it of dir mode. */
export const noHub = ({ mode }: Pick<Core, 'mode'>, inDir: string): Result<never> =>
  mode === 'dir'
    ? fail('refused', `in dir mode ${inDir}`)
    : fail('refused', 'there is no hub here, so nothing was merged and nothing is there to land', 'team up makes it')

/** Of a request that is opened for no merge: what it is instead. */
const kind = (request: Request): string => {
  if (isLease(request)) return 'for a lease'
  return isBudget(request) ? 'for more of a budget' : `a ${request.type.replace('_', ' ')}`
}

/** Who approved its last merge, and by which request; nothing where none was approved. */
const approvedBy = ({ requests }: Core, task: Task): string => {
  const merge = requests
    .all()
    .findLast(each => each.type === 'merge_request' && each.data.task === task.id && each.status === 'approved')
  return merge ? `, approved by ${merge.decidedBy} (${merge.id})` : ''
}

/** What a merge would bring, of a request or a task; of a merged task, what it brought. */
export const showDiff = async (core: Core, id: string): Promise<Result<RpcResults['diff']>> => {
  const { hub, requests, tasks } = core
  const asked = requests.find(id)?.value
  // A bare number is a task first: `team diff 7` means what `team task show 7` does.
  const task = tasks.get(id)?.value ?? (asked && isOfClaim(asked) ? tasks.get(asked.data.task)?.value : undefined)
  if (!task && asked && !isOfClaim(asked))
    return fail(
      'refused',
      `${asked.id} is ${kind(asked)}, no merge: there is nothing to compare`,
      `team requests ${asked.id} shows it`,
    )
  if (!hub) return noHub(core, 'nothing is merged: the workspace itself shows what changed')
  if (!task)
    return fail('unknown', `there is no request or task ${id}`, 'team task list and team requests --all show them')
  const { result } = task
  if (result?.commit !== undefined) {
    const brought = await hub.show(result.commit)
    return brought.ok
      ? ok({
          title: `task ${task.id} "${task.title}", merged as ${result.commit.slice(0, 12)}${approvedBy(core, task)}`,
          ...brought.value,
        })
      : brought
  }
  let head: string | null =
    asked && isOfClaim(asked) && asked.data.task === task.id ? asked.data.head : (task.claimed?.head ?? null)
  if (head === null && task.branch !== null) {
    const found = await hub.branchHead(task.branch)
    if (!found.ok) return found
    head = found.value
  }
  if (head === null) return fail('refused', `task ${task.id} has no commits yet`)
  const diff = await hub.diff(head)
  return diff.ok ? ok({ title: `task ${task.id} "${task.title}" at ${head.slice(0, 12)}`, ...diff.value }) : diff
}
