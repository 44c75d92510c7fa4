import type { UsedFor } from '../../protocol/budget.ts'
import type { Request } from '../../protocol/request.ts'
import type { TaskShown } from '../../protocol/rpc.ts'
import type { SavedShown } from '../../protocol/work.ts'
import { renderMerge } from './merge.ts'
import { savedTable } from './saved.ts'
import { renderRequests, taskColour, usedLine } from './status.ts'
import { indented, oneLine, type Paint, table, when } from './text.ts'

/** Everything about one task, as text. */
export const renderTask = (
  task: TaskShown,
  requests: readonly Request[],
  saved: readonly SavedShown[],
  used: UsedFor,
  now: number,
  c: Paint,
): string => {
  const at = (stamp: string) => when(stamp, now)
  const rows: [string, string][] = [
    ['state', `${taskColour(task.shown, c)}${task.why === null ? '' : `: ${oneLine(task.why, 400)}`}`],
  ]
  const add = (name: string, text: string | null | undefined) => {
    if (text) rows.push([name, oneLine(text, 400)])
  }
  add('owner', task.owner)
  add('assignee', task.assignee)
  add('depends on', task.dependsOn.join(', '))
  add('needs', task.needs.join(', '))
  add('skills', task.skills.join(', '))
  add('tags', task.tags.join(', '))
  add('paths', task.paths.join(', '))
  add('priority', task.priority === 0 ? null : String(task.priority))
  add('verify', task.verify)
  add('accept', task.accept.join('; '))
  add('branch', task.branch)
  add(
    'attempts',
    task.attempts > 1 || task.returns > 0
      ? `${task.attempts}, sent back ${task.returns}${task.spared === undefined ? '' : `, ${task.spared} of them not counted`}`
      : null,
  )
  add('created', at(task.createdAt))
  add('started', task.startedAt && at(task.startedAt))
  add('completed', task.completedAt && at(task.completedAt))
  if (task.claimed)
    add('claimed', `${at(task.claimed.at)}${task.claimed.head ? ` at ${task.claimed.head.slice(0, 10)}` : ''}`)
  add(
    'result',
    task.result && `${task.result.outcome}${task.result.commit ? ` ${task.result.commit.slice(0, 10)}` : ''}`,
  )
  add('tokens', usedLine(used)[0])
  const parts = [
    `${c.bold(`${task.id} ${oneLine(task.title, 200)}`)}\n${table(
      rows.map(([name, text]) => [c.dim(name), text]),
      '  ',
    )}`,
  ]
  const block = (title: string, text: string | null | undefined) => {
    if (text?.trim()) parts.push(`${c.bold(title)}\n${indented(text.trim(), '  ')}`)
  }
  block('Description', task.description)
  block('Summary', task.result?.summary || task.claimed?.summary)
  block(
    task.status === 'pending' || task.status === 'in_progress' ? 'Last error' : 'Error',
    task.error === task.status ? null : task.error,
  )
  const merge = renderMerge(requests, c)
  if (merge !== null) parts.push(`${c.bold('Merge')}\n${merge}`)
  if (requests.length > 0) parts.push(`${c.bold('Requests')}\n${renderRequests(requests, now, c)}`)
  if (saved.length > 0)
    parts.push(`${c.bold('Saved aside (team rescue restore <id>)')}\n${indented(savedTable(saved, now), '  ')}`)
  return parts.join('\n\n')
}
