import { amount, usedOf, whose } from '../../protocol/amount.ts'
import type { Used, UsedFor } from '../../protocol/budget.ts'
import type { Request } from '../../protocol/request.ts'
import type { BudgetShown, Status, TaskShown, TeammateStatus } from '../../protocol/rpc.ts'
import type { Waiting } from '../../protocol/teammate.ts'
import { hasLeases, renderLeases } from './leases.ts'
import { count, fitted, oneLine, type Paint, plural, span, table, when } from './text.ts'

/** Columns of a line where no terminal says how wide it is. */
const piped = 160

/** The whole of `team status` as text. Times are told as seen from `now` (wall, ms), what is asked is cut to `columns`. */
export const renderStatus = (status: Status, now: number, c: Paint, columns = piped): string =>
  [
    head(status, now, c),
    `\n${c.bold('TEAMMATES')}\n${teammates(status.teammates, now, c)}`,
    ...usedLine(status.used).map(line => `\n${c.bold('TOKENS')} ${line}`),
    `\n${tasks(status, c)}`,
    ...renderBudget(status.budget, c),
    ...(hasLeases(status) ? [`\n${renderLeases(status.leases, now, c)}`] : []),
    ...(toDecide(status).length > 0 ? [`\n${waitingRequests(toDecide(status), now, c, columns)}`] : []),
    ...(status.pendingChanges.length > 0
      ? [`\n${c.bold('CHANGES THAT WAIT')}\n${status.pendingChanges.map(line => `  ${oneLine(line, 220)}`).join('\n')}`]
      : []),
    ...(status.problems.length > 0
      ? [
          `\n${c.bold(c.red('WRONG'))}\n${status.problems.map(problem => `  ${c.red('!')} ${oneLine(problem, 220)}`).join('\n')}`,
        ]
      : []),
  ].join('\n')

/** `work 1.2M in (80% cached), 20k out, 34 calls; coordination …`; nothing where nothing was used. */
export const usedLine = ({ work, coordination, cost }: UsedFor): string[] => {
  const one = ({ input, cachedInput, output, calls }: Used) =>
    `${count(input)} in${cachedInput === 0 ? '' : ` (${Math.round((cachedInput / input) * 100)}% cached)`}, ${count(output)} out, ${plural(calls, 'call')}`
  const parts = [
    ...(work.calls > 0 ? [`work ${one(work)}`] : []),
    ...(coordination.calls > 0 ? [`coordination ${one(coordination)}`] : []),
  ]
  if (parts.length > 0 && cost > 0) parts.push(amount('cost', cost))
  return parts.length === 0 ? [] : [parts.join('; ')]
}

/** On whom is left out where that is a command of its own. */
const waitsFor = (name: string, { what, whom, until }: Waiting, now: number): string =>
  `waits for ${oneLine(what, 60)}${whom === name ? '' : ` (${oneLine(whom, 40)})`}${until === undefined ? '' : ` until ${when(until, now)}`}`

/** Leases are granted in their turn, by nobody's decision: they have a table of their own. */
const toDecide = (status: Status): Request[] =>
  status.requests.filter(({ type, data }) => type !== 'resource_request' || ('kind' in data && data.kind === 'budget'))

const head = (status: Status, now: number, c: Paint): string => {
  const { holder, trunk, base, sandbox } = status
  const rows = [
    ['team', status.root],
    ...(status.workspace === status.root ? [] : [['workspace', status.workspace]]),
    [
      'daemon',
      holder?.kind === 'daemon'
        ? `running, pid ${holder.pid}, for ${span(now - Date.parse(holder.startedAt))}, version ${holder.version}`
        : `${c.yellow('not running')}${status.asOf === null ? '' : `; as of ${when(status.asOf, now)}`}. Start it with team up.`,
    ],
    ...(trunk
      ? [
          [
            'trunk',
            `${trunk.name} ${trunk.commit.slice(0, 10)}${trunk.ahead > 0 ? `, ${plural(trunk.ahead, 'commit')} to land` : ''}`,
          ],
        ]
      : []),
    ...(base ? [['base', `${base.name} ${base.commit.slice(0, 10)}`]] : []),
    ['mode', status.mode === 'git' ? 'git (a clone for each teammate)' : 'dir (one shared directory)'],
    [
      'sandbox',
      sandbox.kind === 'unknown'
        ? `${sandbox.mode} (whether one works here is known once a daemon runs; team doctor tries it)`
        : `${sandbox.kind === 'none' ? 'none' : sandbox.kind} (${sandbox.mode})${sandbox.defended ? '' : `: ${c.yellow('authority is not defended on this machine')}`}${sandbox.kind === 'none' && sandbox.detail !== '' ? `; ${oneLine(sandbox.detail, 120)}` : ''}`,
    ],
  ]
  return table(rows.map(([name = '', text = '']) => [c.bold(name), text]))
}

const stateColour = (state: string, c: Paint): string => {
  if (state === 'working') return c.green(state)
  if (state === 'waiting' || state === 'draining' || state === 'starting') return c.yellow(state)
  return state === 'failed' ? c.red(state) : c.dim(state)
}

const teammates = (list: readonly TeammateStatus[], now: number, c: Paint): string =>
  table(
    [
      ['NAME', 'STATE', 'FOR', 'TASK', 'MAIL', 'CONTEXT', 'TOKENS IN/OUT', 'MODEL', ''].map(c.dim),
      ...list.map(mate => [
        mate.name,
        stateColour(mate.state, c),
        span(now - Date.parse(mate.since)),
        mate.task ?? '-',
        mate.unread === 0 ? '-' : String(mate.unread),
        mate.context === null ? '-' : `${Math.round(mate.context * 100)}%`,
        mate.tokens.calls === 0 ? '-' : `${count(mate.tokens.input)}/${count(mate.tokens.output)}`,
        oneLine(mate.model.replace(/^(.+)\/\1$/, '$1'), 30),
        [
          ...(mate.waiting ? [waitsFor(mate.name, mate.waiting, now)] : []),
          ...running(mate, now),
          ...held(mate.heldUp, now, c),
          ...(mate.restarts > 0 ? [plural(mate.restarts, 'restart')] : []),
          ...(mate.reason === null ? [] : [oneLine(mate.reason, 100)]),
        ].join('; '),
      ]),
    ],
    '  ',
  )

/** Its background commands, the first by name, unless they are what it waits for. */
const running = ({ background: [first, ...more], waiting }: TeammateStatus, now: number): string[] =>
  first === undefined || waiting?.what.startsWith('background ')
    ? []
    : [
        `runs ${first.id} for ${span(now - Date.parse(first.since))}: ${oneLine(first.command, 60)}${more.length === 0 ? '' : ` and ${more.length} more`}`,
      ]

/** What it does in vain, or that it is dead, since when, and what ends that. What it waits for, and what it died of, is told beside it. */
const held = (heldUp: TeammateStatus['heldUp'], now: number, c: Paint): string[] => {
  if (heldUp === null || heldUp.how === 'waiting') return []
  const { how, what, since, remedy } = heldUp
  const said = how === 'dead' ? '' : `: ${oneLine(what, 100)}`
  return [`${c.yellow(`${how} for ${span(now - Date.parse(since))}${said}`)} (${oneLine(remedy, 140)})`]
}

const order = ['working', 'claimed', 'ready', 'blocked', 'waiting', 'failed', 'unverified', 'completed', 'cancelled']
/** Screens name so many of a kind; the rest is counted. */
const most = 25

const tasks = (status: Status, c: Paint): string => {
  const counts = new Map<string, number>()
  for (const task of status.tasks) counts.set(task.shown, (counts.get(task.shown) ?? 0) + 1)
  const summary = order.flatMap(word => (counts.has(word) ? [`${counts.get(word)} ${taskColour(word, c)}`] : []))
  if (status.archived > 0) summary.push(`${status.archived} archived`)
  const title = `${c.bold('TASKS')} ${summary.length > 0 ? summary.join(' · ') : 'none yet: team task add, or drop a file into .tasks/'}`
  const open = status.tasks
    .filter(task => !['completed', 'cancelled'].includes(task.shown))
    .toSorted((a, b) => order.indexOf(a.shown) - order.indexOf(b.shown))
  if (open.length === 0) return title
  const more = open.length > most ? [`  … and ${open.length - most} more: team task list`] : []
  return [title, renderTasks(open.slice(0, most), c), ...more].join('\n')
}

export const taskColour = (word: string, c: Paint): string => {
  if (word === 'working') return c.green(word)
  if (word === 'completed') return c.dim(word)
  if (word === 'failed') return c.red(word)
  return ['claimed', 'blocked', 'waiting', 'unverified'].includes(word) ? c.yellow(word) : word
}

/** One line a task: id, state, owner, title, and why it stands where it stands. */
export const renderTasks = (list: readonly TaskShown[], c: Paint): string =>
  table(
    list.map(task => [
      task.id,
      taskColour(task.shown, c),
      task.owner ?? task.assignee ?? '-',
      oneLine(task.title, 70),
      task.why === null || task.shown === 'working' ? '' : c.dim(oneLine(task.why, 100)),
    ]),
    '  ',
  )

/** What is used of each cap; tasks only where they come near theirs. */
export const renderBudget = (list: readonly BudgetShown[], c: Paint): string[] => {
  const share = ({ spent, cap }: BudgetShown) => spent / cap
  const near = list.filter(each => each.scope !== 'task' || share(each) >= 0.5)
  if (near.length === 0) return []
  const rows = near.slice(0, most).map(each => {
    const percent = `${Math.floor(share(each) * 100)}%`
    const colour = share(each) >= 1 ? c.red : share(each) >= 0.8 ? c.yellow : c.dim
    return [whose(each), usedOf(each), colour(percent)]
  })
  const rest = near.length - rows.length
  return [`\n${c.bold('BUDGET')}`, table(rows, '  '), ...(rest > 0 ? [`  … and ${rest} more: team status --json`] : [])]
}

/** Requests that wait, and the commands that decide them. */
const waitingRequests = (list: readonly Request[], now: number, c: Paint, columns: number): string =>
  [
    c.bold(c.yellow('WAITING FOR A DECISION')),
    renderRequests(list.slice(0, most), now, c, columns),
    ...(list.length > most ? [`  … and ${list.length - most} more: team requests`] : []),
    ...hints(list).map(hint => c.dim(`  ${hint}`)),
  ].join('\n')

/** How to decide what waits, of the types that do. */
const hints = (list: readonly Request[]): string[] => {
  const has = (type: Request['type']) => list.some(request => request.type === type)
  const isOfClaim = ({ type }: Request) => type === 'merge_request' || type === 'review_request'
  const isOther = list.some(request => !isOfClaim(request) && request.type !== 'question')
  const look = [...(list.some(isOfClaim) ? ['team diff <id>'] : []), ...(isOther ? ['team requests <id>'] : [])]
  return [
    ...(look.length > 0 ? [`${look.join(' or ')}, then team approve <id> or team reject <id> --reason …`] : []),
    ...(has('question') ? [`${look.length > 0 ? 'a question: ' : ''}team answer <id> …`] : []),
  ]
}

/** One line a request, cut to `columns`: who asks whom, since when, and what. */
export const renderRequests = (list: readonly Request[], now: number, c: Paint, columns = piped): string =>
  fitted(
    list.map(request => [
      request.id,
      requestState(request, c),
      request.type,
      `${request.from} → ${request.to}`,
      span(now - Date.parse(request.createdAt)),
      request.title,
    ]),
    '  ',
    columns,
  )

const requestState = (request: Request, c: Paint): string => {
  if (request.successor !== null) return c.dim('superseded')
  if (request.outcome === 'expired' || request.outcome === 'withdrawn') return c.dim(request.outcome)
  if (request.status === 'approved') return c.green('approved')
  return request.status === 'rejected' ? c.red('rejected') : c.yellow(request.status)
}
