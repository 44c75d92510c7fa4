import type { Request } from '../../protocol/request.ts'
import type { TaskDrop } from '../../protocol/task.ts'
import { renderMerge } from './merge.ts'
import { indented, oneLine, type Paint, table, when } from './text.ts'

const proposed = ({ title, dependsOn = [], blockedBy = [], assignee, verify, accept = [], review }: TaskDrop): string =>
  [
    title,
    ...(assignee ? [`for ${assignee}`] : []),
    ...(dependsOn.length + blockedBy.length > 0 ? [`after ${[...dependsOn, ...blockedBy].join(', ')}`] : []),
    ...(verify ? [`verified by ${verify}`] : []),
    ...(accept.length > 0 ? [`accepted by ${accept.join(' and ')}`] : []),
    ...(review ? ['to be reviewed'] : []),
  ].join('; ')

/** Everything about one request, as text; while it waits also what comes of an approval. */
export const renderRequest = (request: Request, now: number, c: Paint, ifApproved?: string): string => {
  const rows: [string, string][] = [
    ['type', request.type],
    ['state', state(request)],
    ['from → to', `${request.from} → ${request.to}`],
    ['opened', when(request.createdAt, now)],
  ]
  if (request.deadline !== null) rows.push(['deadline', when(request.deadline, now)])
  if (request.decidedBy !== null)
    rows.push(['decided by', `${request.decidedBy} ${when(request.decidedAt ?? '', now)}`])
  if (request.reason !== null) rows.push(['reason', oneLine(request.reason, 400)])
  if (request.successor !== null) rows.push(['superseded by', request.successor])
  if (request.effect) {
    const { step, outcome, by, detail } = request.effect
    const ended = outcome !== undefined && by !== undefined ? `${outcome} by ${by}` : outcome
    rows.push(['effect', oneLine([step, ended, detail].filter(Boolean).join(', '), 400)])
  }
  if (request.type === 'merge_request' || request.type === 'review_request') {
    const { type, data } = request
    rows.push(['task', `${data.task}, by ${data.owner}`])
    const at = `${data.head?.slice(0, 10)}, ${data.commits} commit${data.commits === 1 ? '' : 's'}`
    if (type === 'merge_request') rows.push(['branch', `${data.branch} at ${at}`])
    else if (data.head !== null) rows.push(['head', at])
    rows.push(['files', oneLine(data.files.join(', '), 400)])
    if (data.verify.length > 0) rows.push(['verify', oneLine(data.verify.join('; '), 400)])
  }
  if (request.type === 'plan_request' && request.data.tasks !== undefined)
    rows.push(...request.data.tasks.map((task, i): [string, string] => [`task ${i + 1}`, oneLine(proposed(task), 400)]))
  if (request.type === 'permission_request') {
    const { rule } = request.data
    rows.push(['task', request.data.task ?? 'none'])
    rows.push(['rule', rule === null ? 'none would be narrow' : `${oneLine(rule, 400)} (with --always)`])
  }
  const merge = renderMerge([request], c)
  const hash = request.bodyHash.slice(0, 12)
  rows.push(['shown', request.outcome === null ? `${hash} (team approve ${request.id} --shown ${hash})` : hash])
  if (ifApproved !== undefined && request.outcome === null) rows.push(['if approved', oneLine(ifApproved, 400)])
  const history = [...request.history, ...freed(request)].map(item => [
    `  ${when(item.at, now)}`,
    oneLine(item.by, 64),
    oneLine(`${item.act}${item.text === undefined ? '' : `: ${item.text}`}`, 400),
  ])
  return [
    c.bold(`${request.id} ${oneLine(request.title, 200)}`),
    table(
      rows.map(([name, text]) => [c.dim(name), text]),
      '  ',
    ),
    ...(request.body.trim() === '' ? [] : [`\n${indented(request.body.trim(), '  ')}`]),
    ...(merge === null ? [] : [`\n${c.bold('Merge')}\n${merge}`]),
    `\n${c.bold('History')}\n${table(history)}`,
  ].join('\n')
}

/** What became of a lease after its history: who gave it back, took it or let it end. */
const freed = ({ from, effect }: Request): Request['history'] => {
  if (effect?.step !== 'done' || effect.outcome !== 'released' || effect.by === undefined) return []
  const { at, by, detail } = effect
  const act = by === 'supervisor' ? 'end' : by === from ? 'give back' : 'take back'
  return [{ at, by, act, ...(detail === undefined ? {} : { text: detail }) }]
}

/** One word: how it ended where nobody decided it, else what was decided or is waited for. */
const state = ({ status, outcome, successor }: Request): string =>
  successor !== null ? 'superseded' : outcome === null || outcome === 'decided' ? status : outcome
