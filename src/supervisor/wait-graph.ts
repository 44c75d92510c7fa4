import { isLease, isParking, type Request } from '../protocol/request.ts'
import { isInHand, type Task } from '../protocol/task.ts'
import type { Wait } from '../protocol/wait-graph.ts'
import type { Core } from './core.ts'

/** What of a teammate's thread matters here: has it ended its turn, to wait or to be idle? */
export type EndedTurn = (name: string) => boolean

/**
 * Who waits for whom, as the records have it now: teammates, by what they asked (a decision, or a lease that others hold or were
 * before), and tasks, by the tasks they depend on, by who has them in hand, and by the merge that is not decided yet.
 *
 *   alice ──lease──▶ bob, who holds it          task 3 ──depends on──▶ task 2 ──in hand──▶ bob
 *     └──question, plan, permission──▶ lead      task 2, claimed ──merge──▶ lead
 *
 * Whoever is asked to decide is woken for it, also while it waits itself: such a wait is firm only once it has had a turn
 * with the request and ended that without deciding. The human and the supervisor wait for nobody.
 */
export class WaitGraph {
  readonly #core: Core
  readonly #hasEnded: EndedTurn
  readonly #asked = new Map<string, Request[]>()

  /** `requests`: those that wait. */
  constructor(core: Core, requests: Iterable<Request>, hasEnded: EndedTurn) {
    this.#core = core
    this.#hasEnded = hasEnded
    for (const request of requests)
      if (isParking(request) && request.status === 'pending') {
        const asked = this.#asked.get(request.from)
        if (asked) asked.push(request)
        else this.#asked.set(request.from, [request])
      }
  }

  /** Teammates that wait and are waited for: every circle runs through some of them. */
  starts(): string[] {
    const { leases } = this.#core
    const waitedFor = new Set([...leases.held().map(({ from }) => from), ...leases.writers().map(({ owner }) => owner)])
    for (const asked of this.#asked.values()) for (const { to } of asked) waitedFor.add(to)
    return [...this.#asked.keys()].filter(name => waitedFor.has(name))
  }

  waitsOf(who: string): Wait[] {
    if (!who.startsWith('task ')) return (this.#asked.get(who) ?? []).flatMap(request => this.#waits(who, request))
    const task = this.#core.tasks.get(who.slice('task '.length))?.value
    return task ? this.#waitsOfTask(who, task) : []
  }

  /** It had a turn in which it could have decided this, as it stands now, and ended that without. */
  wasLeft(request: Request, messageId = lastWord(request)): boolean {
    return this.#hasEnded(request.to) && this.#core.mail.wasRead(request.to, messageId)
  }

  #waits(from: string, request: Request): Wait[] {
    const { leases } = this.#core
    const by = request.id
    if (isLease(request))
      return leases
        .behind(request)
        .map(({ id, who }) => ({ from, to: id.startsWith('task ') ? id : who, by, isFirm: true }))
    return this.#decides(from, request)
  }

  #decides(from: string, request: Request): Wait[] {
    const { to, id } = request
    return this.#core.roster.has(to)
      ? [{ from, to, by: id, isFirm: this.wasLeft(request) || this.#isHeldBack(request) }]
      : []
  }

  /** A review is read with nothing in hand: who waits with its own task does not come to it. */
  #isHeldBack({ type, to }: Request): boolean {
    return type === 'review_request' && this.#core.tasks.inHand(to) !== undefined && this.#hasEnded(to)
  }

  #waitsOfTask(from: string, task: Task): Wait[] {
    const { tasks, requests } = this.#core
    if (task.status === 'pending') {
      const before = tasks.graph.blockedBy(task)
      const whom = before.length === 0 ? (task.owner ?? task.assignee) : null
      return [...before.map(id => `task ${id}`), ...(whom === null ? [] : [whom])].map(to => edge(from, to))
    }
    if (isInHand(task)) return task.owner === null ? [] : [edge(from, task.owner)]
    if (task.status !== 'in_progress') return []
    return requests.waitingAbout(task.id).flatMap(request => this.#decides(from, request))
  }
}

const edge = (from: string, to: string): Wait => ({ from, to, by: null, isFirm: true })

/** The id of the message by which its decider heard of it last. */
export const lastWord = ({ id, history }: Request): string =>
  history.at(-1)?.act === 'answer' ? `msg_${id}_${history.length}` : `msg_${id}`
