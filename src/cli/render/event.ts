import type { UsedFor } from '../../protocol/budget.ts'
import type { EventType, JournalEntry } from '../../protocol/event.ts'
import { usedLine } from './status.ts'
import { oneLine, type Paint, when } from './text.ts'

/** Steps too small for a screen that tells what happened; `--all` shows them. */
const small: ReadonlySet<EventType> = new Set<EventType>([
  'message.taken',
  'inbox.read',
  'task.edited',
  'task.resolved',
  'task.archived',
  'drop.taken',
  'effect.intent',
  'teammate.turn',
  'teammate.tool',
  'subagent.started',
  'teammate.spawned',
  'teammate.state',
  'model.call',
  'command.started',
  'command.ended',
  'branch.fetched',
  'inbox.rotated',
])

type Info = Readonly<Record<string, unknown>>
type Say = (info: Info, entry: JournalEntry) => string

const text = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)
const hash = (value: unknown): string => text(value).slice(0, 10)
const because = (value: unknown): string =>
  value === undefined || value === null || value === '' ? '' : `: ${text(value)}`

const ordinal = (n: unknown): string => (n === 1 ? 'first' : n === 2 ? 'second' : n === 3 ? 'third' : `${text(n)}th`)

/** What a check is about. */
const proven = (info: Info): string => {
  if (info.trunk !== undefined) return `the trunk alone at ${hash(info.trunk)}`
  if (info.task === undefined) return `the base at ${hash(info.base)}, merged with the trunk`
  return info.base === undefined
    ? tasksOf(info)
    : `what ${tasksOf(info)} accepts, where it started (${hash(info.base)}),`
}
const tasksOf = ({ task, tasks }: Info): string =>
  Array.isArray(tasks) ? `tasks ${tasks.map(text).join(', ')} together` : `task ${text(task)}`

/** The record that this entry changed, as far as a screen needs it. */
const record = (entry: JournalEntry): Info => {
  const value = entry.put?.[3]
  return typeof value === 'object' && value !== null ? (value as Info) : {}
}
const taskName = (entry: JournalEntry, info: Info): string => {
  const { title } = record(entry)
  const id = text(info.task ?? entry.put?.[1])
  return `task ${id}${typeof title === 'string' ? ` "${title}"` : ''}`
}
const requestName = (entry: JournalEntry, info: Info): string => {
  const { title } = record(entry)
  return `${text(info.request ?? entry.put?.[1])}${typeof title === 'string' ? ` "${title}"` : ''}`
}
const error = (entry: JournalEntry): string => because(record(entry).error)
/** The teammate that gave a lease back, or `human` who took it; empty where it ended otherwise, and for anything else. */
const freer = (entry: JournalEntry): string => {
  const effect = record(entry).effect as { outcome?: unknown; by?: unknown } | null | undefined
  const by = entry.event === 'effect.done' && effect?.outcome === 'released' ? text(effect.by) : ''
  return by === 'supervisor' ? '' : by
}

/** The message that this entry stored, as far as a screen needs it. */
const mail = (entry: JournalEntry): { from?: unknown; content?: unknown; origin?: unknown } => {
  const stored = entry.append?.[2] as { message?: { from?: unknown; content?: unknown }; origin?: unknown } | undefined
  return { ...stored?.message, origin: stored?.origin }
}
/** What models used for the task that has ended. */
const cost = (info: Info): string => {
  const used = info.used as UsedFor | undefined
  return used?.work && used.coordination ? `; tokens: ${usedLine(used).join('')}` : ''
}
const task =
  (verb: string, more: (entry: JournalEntry) => string = () => ''): Say =>
  (info, entry) =>
    `${verb} ${taskName(entry, info)}${more(entry)}`

/** What each event says after the name of who made it. One that has no line here is told in the raw. */
const words: Partial<Record<EventType, Say>> = {
  'holder.started': () => 'took the team root in hand',
  'holder.stopped': info => `let the team root go${because(info.reason)}`,
  'journal.cut': info => `cut a torn end off the journal (${text(info.bytes) || 'some'} bytes, never acknowledged)`,
  'task.created': task('added'),
  'task.started': (info, entry) => `gave ${taskName(entry, info)} to ${text(record(entry).owner) || text(info.owner)}`,
  'task.claimed': task('says done:'),
  'task.returned': task('sent back', error),
  'task.released': task('released', error),
  'task.completed': (info, entry) => {
    const result = record(entry).result as { outcome?: unknown } | undefined
    return `completed ${taskName(entry, info)}${result?.outcome ? ` (${text(result.outcome)})` : ''}${cost(info)}`
  },
  'task.failed': (info, entry) => `failed ${taskName(entry, info)}${error(entry)}${cost(info)}`,
  'task.cancelled': task('cancelled', entry => (record(entry).error === 'cancelled' ? '' : error(entry))),
  'task.retried': task('made pending again:'),
  'task.edited': task('edited'),
  'task.stuck': (info, entry) => `${taskName(entry, info)} cannot go on${because(info.by ?? info.reason)}`,
  'task.death': info =>
    info.forgiven === true
      ? `counts the deaths with task ${text(info.task)} in hand from the start`
      : info.deaths === undefined
        ? `task ${text(info.task)} was one of several in hand when the daemon died (${text(info.how)})`
        : `${text(info.name)} died with task ${text(info.task)} in hand, the ${ordinal(info.deaths)} time${because(info.why)}`,
  'task.suspected': info =>
    Array.isArray(info.tasks) && info.tasks.length > 0
      ? `tries tasks one at a time, since the daemon died with them in hand: ${text(info.alone) ? `${text(info.alone)} now, of ` : ''}${info.tasks.join(', ')}`
      : 'gives out tasks as before',
  'teammate.stalled': info =>
    info.text === null
      ? `gets on with task ${text(info.task)} again`
      : `gets nowhere with task ${text(info.task)}${because(info.text)}`,
  'drop.refused': info => `refused ${text(info.file)}${because(info.reason ?? info.text)}`,
  'edit.refused': info => `put back an edit of ${text(info.file ?? info.task)}${because(info.reason ?? info.text)}`,
  'message.stored': (info, entry) => `→ ${text(info.to ?? info.inbox)}: ${text(mail(entry).content)}`,
  'message.held': info =>
    info.held === 0
      ? `→ ${text(info.to)}: what was held is delivered`
      : `→ ${text(info.to)}: held, nothing but mail happens`,
  'message.dead': info => `could not deliver a line of ${text(info.file)}${because(info.reason)}`,
  'request.opened': (info, entry) =>
    `asks ${text(info.to) || text(record(entry).to)} for a decision: ${requestName(entry, info)} (${text(info.type) || text(record(entry).type)})`,
  'request.decided': (info, entry) => {
    const { status, reason, type } = record(entry)
    const isAnswer = type === 'question' && status === 'approved'
    return `${isAnswer ? 'answered' : text(status ?? info.status)} ${requestName(entry, info)}${because(reason)}`
  },
  'request.asked': (info, entry) => `asks back about ${requestName(entry, info)}`,
  'request.answered': (info, entry) => `answered about ${requestName(entry, info)}`,
  'request.expired': (info, entry) => `${requestName(entry, info)} expired without a decision`,
  'request.withdrawn': (info, entry) => `withdrew ${requestName(entry, info)}${because(record(entry).reason)}`,
  'plan.outdated': info => `takes task ${text(info.task)} for a new attempt: a plan of before counts no more`,
  'effect.done': (info, entry) => {
    const by = freer(entry)
    const name = requestName(entry, info)
    const said =
      by !== ''
        ? `${by === 'human' ? 'took' : 'gave'} back ${name}`
        : info.outcome === 'released'
          ? `${name} is not held any more`
          : `${name} carried out: ${text(info.outcome)}`
    return `${said}${because(info.detail)}`
  },
  'teammate.ready': () => 'is ready',
  'teammate.died': info => `died${because(info.why ?? info.reason)}`,
  'teammate.restarted': info => `was started again${because(info.reason)}`,
  'teammate.stopped': (info, entry) => `stopped${because(info.reason ?? record(entry).reason)}`,
  'teammate.failed': (info, entry) => `was given up${because(info.why ?? info.reason ?? record(entry).reason)}`,
  'teammate.revived': () => 'may start again',
  'teammate.joined': () => 'joined the team',
  'teammate.left': () => 'left the team',
  'teammate.renewed': info => `starts anew with what changed in config.json: ${text(info.keys)}`,
  'context.compacted': info =>
    `put its conversation together, ${text(info.before)} tokens to ${text(info.after)}; all of it is in ${text(info.transcript)}`,
  'model.fallback': info =>
    info.back === true
      ? `calls ${text(info.to)} again, and ${text(info.from)} no more`
      : `calls ${text(info.to)} from now on: ${info.kind === 'budget' ? `little of the budget is left for ${text(info.from)}` : `${text(info.from)} failed${because(info.why)}`}`,
  'model.learned': info =>
    `learned how ${text(info.model)} wants its requests (${text(info.what)})${because(info.why)}`,
  'subagent.started': info => `gives work to its subagent ${text(info.sub)}: ${text(info.prompt)}`,
  'subagent.ended': info =>
    `had work done by its subagent ${text(info.sub)} (${text(info.how)}): all of it is in ${text(info.transcript)}`,
  'memory.saved': info => `told the team's memory (${text(info.category)}): ${text(info.text)}`,
  'model.failed': info => `model call failed${because(info.message ?? info.kind)}`,
  'work.rescued': info => `kept uncommitted work of ${text(info.name)}${because([info.refs].flat().join(', '))}`,
  'work.restored': info =>
    `put what was saved aside (${text(info.ref)}) into ${text(info.folder ?? `branch ${text(info.branch)}`)}`,
  'verify.started': info => `verifies ${proven(info)}`,
  'verify.ended': info =>
    `verify of ${proven(info)} ${info.ok === true ? 'passed' : info.ok === false ? 'failed' : 'ended'}${because(info.reason)}`,
  'trunk.moved': info =>
    `moved the trunk${info.task === undefined && info.tasks === undefined ? '' : ` by ${tasksOf(info)}`} to ${hash(info.to ?? info.commit)}`,
  'base.moved': info => `took the moved base into the trunk (${text(info.how)}, ${hash(info.to)})`,
  landed: info => `landed ${text(info.commits)} commits in ${text(info.branch)} (${text(info.how)})`,
  'clone.made': info => `made the clone of ${text(info.name)}`,
  'clone.mended': info => `mended the clone of ${text(info.name)}${because(info.text ?? info.reason)}`,
  'setup.started': info => `runs setup in the clone of ${text(info.name)}: ${text(info.command)}`,
  'clone.ready': info => `set up the clone of ${text(info.name)}`,
  'command.orphan': info => `${text(info.name)} left a command behind, pid ${text(info.pid)}${because(info.command)}`,
  'background.started': info => `runs ${text(info.id)} beside its work: ${text(info.command)}`,
  'background.ended': info => `${text(info.id)} ${text(info.how)}`,
  'outside.changed': info =>
    `ran ${text(info.command)}, and outside of its view something changed meanwhile${because([info.changes].flat().join('; '))}`,
  'config.changed': info => `took config.json in hand as it is now: ${text(info.text)}`,
  'config.refused': info => `goes on without the edit${because(info.text)}`,
  'config.warning': info => `warns${because(info.text)}`,
  warning: info => `warns${because(info.text ?? info.reason)}`,
}

/** A message that announces what an event of its own tells already. */
const isEcho = (event: EventType, info: Info): boolean =>
  event === 'message.stored' && (info.type === 'request' || info.type === 'decision')

/** Of these the one who matters is named in the entry, not the one who wrote it down, or whose file it was. */
const subject = (entry: JournalEntry): string => {
  if (entry.event === 'drop.refused' || entry.event === 'edit.refused') return 'supervisor'
  const { from, origin } = mail(entry)
  if (entry.event === 'message.stored' && origin === 'file') return `"${oneLine(text(from), 50)}" (by file)`
  const by = freer(entry)
  if (by !== '') return by
  const name = entry.event.startsWith('teammate.') ? (entry.info?.name ?? entry.put?.[1]) : undefined
  return text(name) || entry.by
}

/** One line for one entry, or null where it is too small a step for this screen. */
export const renderEvent = (entry: JournalEntry, o: { now: number; paint: Paint; all: boolean }): string | null => {
  const info = entry.info ?? {}
  if (!o.all && (small.has(entry.event) || isEcho(entry.event, info))) return null
  const say = words[entry.event]
  const said = say
    ? say(info, entry)
    : `${entry.event}${Object.keys(info).length > 0 ? ` ${JSON.stringify(info)}` : ''}`
  const line = oneLine(said, 300)
  const { paint } = o
  const bad = /\.(?:failed|died|dead|refused|returned|cut|orphan|death)$|^warning$/.test(entry.event)
  const good = /^(?:task\.completed|trunk\.moved|landed)$/.test(entry.event)
  const coloured = bad ? paint.red(line) : good ? paint.green(line) : line
  return `${paint.dim(when(entry.at, o.now))}  ${paint.bold(oneLine(subject(entry), 64))} ${coloured}`
}
