import type { Request } from '../protocol/request.ts'
import type { Task } from '../protocol/task.ts'
import { circleIn } from '../protocol/wait-graph.ts'
import { type Core, leadInbox } from './core.ts'
import { isDeadly } from './deaths.ts'
import type { DaemonLog } from './log.ts'
import { humanInbox } from './mail.ts'
import { isCutOff } from './news.ts'

/** What stands wrong, and who is told of what, once: the ids of notices derive from what happened, so a crash in between makes no second. */
export class Notices {
  readonly #core: Core
  readonly #log: DaemonLog
  readonly #problems = new Map<string, string>()
  readonly #pending = new Map<string, string>()

  /** Of whom and at what a change outside of the view was told in this run. */
  readonly #outside = new Set<string>()

  constructor(core: Core, log: DaemonLog) {
    this.#core = core
    this.#log = log
  }

  /** What stands wrong now, a line each. */
  problems(): string[] {
    return [...this.#problems.values()]
  }

  /** Puts a standing problem up, or (null) takes it away. Said in the log when it changes. */
  problem(key: string, text: string | null): void {
    const isNew = text !== null && this.#problems.get(key) !== text
    this.stands(key, text)
    if (isNew) this.#core.store.note({ event: 'warning', by: 'supervisor', info: { text } })
  }

  /** The same for what the log tells by an event of its own. */
  stands(key: string, text: string | null): void {
    if (text === null) this.#problems.delete(key)
    else this.#problems.set(key, text)
  }

  /** Changes of config.json that have not taken effect yet, a line each. */
  pending(): string[] {
    return [...this.#pending.values()]
  }

  /** Says of a change when it will take effect, or (null) that it has. Nothing is wrong with it. True: it was not said so before. */
  waits(key: string, text: string | null): boolean {
    const isNew = this.#pending.get(key) !== (text ?? undefined)
    if (text === null) this.#pending.delete(key)
    else this.#pending.set(key, text)
    return isNew
  }

  tell(to: string, id: string, text: string): void {
    const sent = this.#core.mail.send({ from: 'supervisor', to, id, type: 'system', content: text.slice(0, 4000) })
    if (!sent.ok && sent.fault.code !== 'conflict')
      this.#log.error(`a notice to ${to} could not be stored: ${sent.fault.message}`)
  }

  /** Tells whoever leads what a crash cut off from the record that it is the news of. */
  recover(): void {
    const { store, requests } = this.#core
    for (const [id, { value }] of store.tasks.list())
      if (value.status === 'failed' || value.status === 'cancelled')
        if (this.#isUntold(['tasks', id, `task.${value.status}`], endedId(value))) this.taskEnded(value)
    for (const [name, { value, rev }] of store.teammates.list())
      if (value.standing === 'failed' && this.#isUntold(['teammates', name, 'teammate.state'], gaveUpId(name, rev)))
        this.gaveUp(name, value.reason ?? 'no reason given')
    for (const request of requests.all())
      if (request.type === 'shutdown_request' && request.effect?.outcome === 'forced')
        if (this.#isUntold(['requests', request.id, 'effect.done'], forcedId(request)))
          this.stoppedByForce(request.data.teammate, request)
    for (const request of requests.all())
      if (circleIn(request.reason) !== null && request.history.at(-1)?.by === 'supervisor') {
        const event = request.outcome === 'decided' ? 'request.decided' : 'request.withdrawn'
        if (this.#isUntold(['requests', request.id, event], circleId(request))) this.circleEnded(request)
      }
  }

  /** Whoever led then may not be who leads now. */
  #isUntold(change: Parameters<typeof isCutOff>[1], id: string): boolean {
    const { store, mail, roster } = this.#core
    return [humanInbox, ...roster.names].every(
      name => isCutOff(store, change, name) && mail.find(name, id) === undefined,
    )
  }

  /** A task that ended without success is told to whoever leads, with what it keeps waiting. */
  taskEnded(task: Task): void {
    const { tasks } = this.#core
    const waiting = tasks.graph.dependants(task.id).filter(other => tasks.get(other)?.value.status === 'pending')
    if (task.status !== 'failed' && waiting.length === 0) return
    const lead = leadInbox(this.#core)
    const text = endedText(task, waiting)
    // A task that ends teammates is the human's to know of, whoever leads.
    if (lead !== humanInbox && isDeadly(this.#core.store, task)) this.tell(humanInbox, endedId(task), text)
    this.tell(lead, endedId(task), text)
  }

  /** Once from its first death until it gets on again. The next one, and its end, are told by what follows from them. */
  died(name: string, why: string): void {
    const { tasks, store } = this.#core
    const task = tasks.inHand(name)?.value
    const work = task === undefined ? '' : ` Task ${task.id} "${task.title}" stays with it.`
    const lead = leadInbox(this.#core)
    this.tell(
      lead === name ? humanInbox : lead,
      `msg_died_${name}_${store.seq}`,
      `${name} died: ${why}. It is started again by itself.${work}`,
    )
  }

  /** `request` with its effect on record. What the teammate had in hand is back with the others, its commits kept. */
  stoppedByForce(name: string, request: Request): void {
    const task = this.#core.tasks.get(request.effect?.task ?? '')?.value
    const why = request.outcome === 'expired' ? `${request.reason}` : 'it agreed, and did not end in time'
    const work = task === undefined ? '' : ` It had task ${task.id} "${task.title}" in hand, which is pending again.`
    this.tell(
      leadInbox(this.#core),
      forcedId(request),
      `${name} was stopped by force (${request.id}: ${why}).${work} What it had not committed is still where it worked.`,
    )
  }

  /** The request that was ended for a circle says in its reason for which. */
  circleEnded(request: Request): void {
    const how = request.outcome === 'decided' ? 'rejected' : 'withdrawn'
    this.tell(
      leadInbox(this.#core),
      circleId(request),
      `Teammates waited for one another: ${circleIn(request.reason)}. ${request.id} of ${request.from} was ${how} to end that.`,
    )
  }

  /** Once for each attempt at a task. It works on for a while: what to do about it is for whoever leads to say. */
  stalled(name: string, id: string, text: string): void {
    const task = this.#core.tasks.get(id)?.value
    const lead = leadInbox(this.#core)
    if (task)
      this.tell(
        lead === name ? humanInbox : lead,
        `msg_stalled_${id}_${task.attempts}`,
        `${name} works on task ${id} "${task.title}" and gets nowhere: ${text}. It was told so, and goes on; at three times as much the task fails. A message to it may help; team task cancel ${id} or team down ${name} ends it.`,
      )
  }

  /** Once for each attempt at a task, or in a run outside of one: the journal has all. */
  outside(name: string, { changes, command }: Readonly<Record<string, unknown>>): void {
    const { tasks, store } = this.#core
    const task = tasks.inHand(name)?.value
    const about = `${name}_${task === undefined ? 'none' : `${task.id}_${task.attempts}`}`
    if (this.#outside.has(about)) return
    this.#outside.add(about)
    this.tell(
      humanInbox,
      `msg_outside_${task === undefined ? `${name}_${store.seq}` : about}`,
      `While ${name} ran \`${command}\`, something changed outside of its view: ${[changes].flat().join('; ')}. There is no sandbox that would keep it from that; it may have been you, or another program. ${name} was told to put back what it changed itself. team logs has every such command; of this ${task === undefined ? 'run' : 'attempt'} you are told once.`,
    )
  }

  /** Once for each start that tried. */
  notReady(name: string, unready: string): void {
    const core = this.#core
    const text = `${unready}. Once that is mended, team restart ${name} starts it.`
    this.tell(leadInbox(core), `msg_unready_${name}_${core.store.seq}`, text)
  }

  gaveUp(name: string, why: string): void {
    const { config, store } = this.#core
    this.tell(
      leadInbox(this.#core),
      gaveUpId(name, store.teammates.get(name)?.rev ?? 0),
      `${name} was given up after ${config.limits.restarts} restarts: ${why}. team restart ${name} starts it again.`,
    )
  }
}

const endedId = (task: Task): string => `msg_ended_${task.id}_${task.attempts}_${task.status}`
const circleId = (request: Request): string => `msg_circle_${request.id}`
const forcedId = (request: Request): string => `msg_forced_${request.id}`
/** `rev`: of the record that says so. */
const gaveUpId = (name: string, rev: number): string => `msg_gaveup_${name}_${rev}`

/** A line each, since a reason is often what a program said last. */
export const endedText = ({ id, title, status, error }: Task, waiting: readonly string[]): string => {
  const retry = `team task retry ${id}`
  return [
    `Task ${id} "${title}" ${status === 'failed' ? 'failed' : 'was cancelled'}: ${error === null || error === status ? 'no reason given' : error}`,
    ...(waiting.length > 0 ? [`Blocked by it: ${waiting.join(', ')}`] : []),
    ...(error?.includes(retry) ? [] : [`To try again: ${retry}`]),
  ].join('\n')
}
