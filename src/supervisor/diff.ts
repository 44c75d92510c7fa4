import { fail, ok, type Result } from '../lib/result.ts'
import type { RpcResults } from '../protocol/rpc.ts'
import type { Core } from './core.ts'

/** What a merge would bring, of a request or a task; of a merged task, what it brought. */
export const showDiff = async ({ hub, requests, tasks }: Core, id: string): Promise<Result<RpcResults['diff']>> => {
  if (!hub) return fail('refused', 'in dir mode nothing is merged: the workspace itself shows what changed')
  const asked = requests.find(id)?.value
  // A bare number is a task first: `team diff 7` means what `team task show 7` does.
  const task = tasks.get(id)?.value ?? (asked?.type === 'merge_request' ? tasks.get(asked.data.task)?.value : undefined)
  if (!task)
    return fail('unknown', `there is no request or task ${id}`, 'team task list and team requests --all show them')
  const { result } = task
  if (result?.commit !== undefined) {
    const brought = await hub.show(result.commit)
    return brought.ok
      ? ok({ title: `task ${task.id} "${task.title}", merged as ${result.commit.slice(0, 12)}`, ...brought.value })
      : brought
  }
  let head: string | null =
    asked?.type === 'merge_request' && asked.data.task === task.id ? asked.data.head : (task.claimed?.head ?? null)
  if (head === null && task.branch !== null) {
    const found = await hub.branchHead(task.branch)
    if (!found.ok) return found
    head = found.value
  }
  if (head === null) return fail('refused', `task ${task.id} has no commits yet`)
  const diff = await hub.diff(head)
  return diff.ok ? ok({ title: `task ${task.id} "${task.title}" at ${head.slice(0, 12)}`, ...diff.value }) : diff
}
