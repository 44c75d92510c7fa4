import type { WhyShown } from '../../protocol/work.ts'
import { renderMerge } from './merge.ts'
import { renderRequests } from './status.ts'
import { indented, oneLine, type Paint, table, when } from './text.ts'

/** Whence a line is, as text: from the commit back to what was written about its task. */
export const renderWhy = (why: WhyShown, now: number, c: Paint): string => {
  const { commit, merge, task, requests, messages } = why
  const rows: [string, string][] = []
  if (commit) {
    const moved = commit.path !== why.path || commit.line !== why.line
    const from = moved ? `; it stood there at ${commit.path}:${commit.line}` : ''
    rows.push([
      'commit',
      oneLine(`${commit.id.slice(0, 10)} ${commit.subject}, by ${commit.author}, ${when(commit.at, now)}${from}`, 400),
    ])
  }
  if (merge && merge.id !== commit?.id) rows.push(['merge', oneLine(`${merge.id.slice(0, 10)} ${merge.subject}`, 400)])
  if (task) {
    const by = task.owner === null ? '' : `, by ${task.owner}`
    const back = task.returns > 0 ? `, sent back ${task.returns}` : ''
    rows.push(['task', oneLine(`${task.id} ${task.title}${by}: ${task.result?.outcome ?? task.status}${back}`, 400)])
    if (task.result?.summary) rows.push(['summary', oneLine(task.result.summary, 400)])
  }
  if (why.why !== null) rows.push(['no task', why.why])
  const parts = [
    `${c.bold(oneLine(`${why.path}:${why.line}`, 200))}\n${indented(oneLine(why.text, 400), '  ')}`,
    table(
      rows.map(([name, text]) => [c.dim(name), text]),
      '  ',
    ),
  ]
  if (task?.description.trim()) parts.push(`${c.bold('Task')}\n${indented(task.description.trim(), '  ')}`)
  if (requests.length > 0) {
    const reasons = requests.flatMap(({ id, reason }) => (reason === null ? [] : [`  ${id}: ${oneLine(reason, 400)}`]))
    parts.push([c.bold('Decided'), renderRequests(requests, now, c), ...reasons].join('\n'))
  }
  const proof = renderMerge(requests, c)
  if (proof !== null) parts.push(`${c.bold('Proof')}\n${proof}`)
  if (messages.length > 0)
    parts.push(
      [
        c.bold('Written meanwhile'),
        ...messages.map(
          each => `  ${c.dim(when(each.timestamp, now))} ${oneLine(`${each.from} → ${each.to}: ${each.content}`, 200)}`,
        ),
      ].join('\n'),
    )
  if (task) parts.push(c.dim(`team diff ${task.id} shows what it brought, team task show ${task.id} the rest of it`))
  return parts.join('\n\n')
}
