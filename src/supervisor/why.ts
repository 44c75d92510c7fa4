import { ok, type Result } from '../lib/result.ts'
import type { Message } from '../protocol/message.ts'
import type { Request } from '../protocol/request.ts'
import type { RpcParsed } from '../protocol/rpc.ts'
import type { Task } from '../protocol/task.ts'
import type { WhyShown } from '../protocol/work.ts'
import { taskMergedAs } from './conflict.ts'
import type { Core } from './core.ts'
import { noHub } from './diff.ts'
import { shownOf } from './shown.ts'

/** From a line back to the commit that wrote it, the merge that brought it, and all that is on record about the task behind that. */
export const whyLine = async (core: Core, asked: RpcParsed<'why'>): Promise<Result<WhyShown>> => {
  const { hub } = core
  if (!hub) return noHub(core, 'there is no trunk: your own history tells, where the workspace has one')
  const { file, line, cwd, here: isHere } = asked
  const blamed = await hub.blame({ file, line, cwd, isHere })
  if (!blamed.ok) return blamed
  const { commit } = blamed.value
  const nothing = { ...blamed.value, isHere, merge: null, task: null, requests: [], messages: [] }
  if (commit === null) return ok({ ...nothing, why: 'it is not committed yet' })
  const merge = await hub.broughtBy(commit.id)
  if (!merge.ok) return merge
  if (merge.value === null)
    return ok({
      ...nothing,
      why: `${hub.trunkName} does not have that commit: it is of no task, or a task's work that was squashed or rebased by hand`,
    })
  const task = taskMergedAs(core, merge.value.id)
  if (task === null)
    return ok({
      ...nothing,
      merge: merge.value,
      why: `it came with ${hub.baseName}, or from a task that is not on record any more; a task's work that was squashed or rebased by hand came so too`,
    })
  const requests = requestsOf(core, task)
  return ok({
    ...nothing,
    merge: merge.value,
    task: shownOf(core, task.id),
    requests,
    messages: messagesOf(core, task, requests),
    why: null,
  })
}

/** All that was asked and decided for a task, oldest first; the plan that it was made by too. */
export const requestsOf = (core: Core, { id }: Pick<Task, 'id'>): Request[] => {
  const isMadeBy = (request: Request) =>
    request.type === 'plan_request' &&
    ((core.store.marks.get(`drop/plan/${request.id}`)?.value.ids as readonly string[] | undefined) ?? []).includes(id)
  return core.requests
    .all()
    .filter(request => ('task' in request.data && request.data.task === id) || isMadeBy(request))
}

const mostMessages = 30

/**
 * What was written about it, oldest first: mail about its requests, the message that made it, and what its owner wrote and was
 * written between its beginning and its claim; the last so many of them.
 */
const messagesOf = ({ store }: Core, task: Task, requests: readonly Request[]): Message[] => {
  const ids = new Set(requests.map(({ id }) => id))
  const from = task.startedAt ?? ''
  const to = task.claimed?.at ?? task.completedAt ?? ''
  const found = new Map<string, Message>()
  for (const inbox of store.inboxNames)
    for (const { value } of store.inbox(inbox).read(0)) {
      const { message } = value
      const isOfOwner = [message.from, message.to].includes(task.owner ?? '')
      const made = store.marks.get(`drop/message/${message.to}/${message.id}`)?.value.ids as string[] | undefined
      if (
        (message.requestId !== undefined && ids.has(message.requestId)) ||
        made?.includes(task.id) ||
        (isOfOwner && message.requestId === undefined && message.timestamp >= from && message.timestamp <= to)
      )
        found.set(message.id, message)
    }
  return [...found.values()].sort((a, b) => a.timestamp.localeCompare(b.timestamp)).slice(-mostMessages)
}
