import { fail, ok, type Result } from '../lib/result.ts'
import type { Request } from '../protocol/request.ts'
import type { TaskDrop } from '../protocol/task.ts'
import type { Write } from '../store/store.ts'
import type { Core } from './core.ts'
import { changedTasks } from './requests.ts'

/** Gives the lead the task of proposing tasks for `goal`. Refused where no teammate leads. */
export const askForPlan = (core: Core, goal: string): Result<{ id: string } & Pick<Write, 'durable'>> => {
  const { lead } = core.config
  if (lead === undefined)
    return fail(
      'refused',
      'no teammate leads this team',
      'name one as "lead" in config.json, or drop the tasks yourself',
    )
  const title = goal.split('\n')[0]?.slice(0, 120) ?? goal
  const added = core.tasks.add(
    [{ title: `Plan: ${title}`, description: `${goal}\n\n${howToPropose}`, assignee: lead, needs: [], tags: ['plan'] }],
    { by: 'human' },
  )
  if (!added.ok) return added
  const [id = ''] = added.value.ids
  return ok({ id, durable: added.value.durable })
}

const howToPropose = `Look at the repository and propose the tasks that reach this goal; do not do them. Open a plan_request with the
request tool: body says why it is cut so, data is {"tasks": [{"title": "…", "description": "…", "dependsOn": ["title of another"],
"assignee": "…", "verify": "command"}]}. The human edits and approves it; then the tasks exist, and you complete this one.`

/**
 * The human's version of the tasks that a waiting plan proposes: a request of its own in the place of the one that its asker
 * waits for, since what was shown never changes. The same tasks again are the same request.
 */
export const revisePlan = (
  { requests, tasks }: Core,
  id: string,
  changed: readonly TaskDrop[],
): Result<{ request: Request } & Pick<Write, 'durable'>> => {
  const old = requests.find(id)?.value
  if (!old) return fail('unknown', `there is no request ${id}`, 'team requests --all lists them')
  if (old.type !== 'plan_request' || old.data.tasks === undefined) return fail('refused', `${old.id} proposes no tasks`)
  if (old.outcome !== null)
    return fail(
      'refused',
      `${old.id} does not wait any more: it is ${old.outcome === 'decided' ? old.status : old.outcome}`,
    )
  const can = tasks.check(changed)
  if (!can.ok) return can
  const { type, from, to, title, body } = old
  const opened = requests.open({
    type,
    from,
    to,
    title,
    body,
    data: { ...old.data, tasks: [...changed] },
    replaces: old.id,
  })
  if (!opened.ok || opened.value.request.id === old.id) return opened
  const ended = requests.end(old.id, 'withdrawn', 'human', changedTasks, opened.value.request.id)
  return ended.ok ? opened : ended
}
