import { isLease, isWaiting, type Request } from '../protocol/request.ts'
import { circle, circleText, reasonOf, type Wait } from '../protocol/wait-graph.ts'
import { type Core, isLive, leadInbox } from './core.ts'
import { humanInbox } from './mail.ts'
import type { Notices } from './notices.ts'
import { stranded } from './stranded.ts'
import { type EndedTurn, WaitGraph } from './wait-graph.ts'

/**
 * Looks after the wait graph, so that nobody waits for ever:
 *
 * - A circle in which every wait is firm is broken: of the requests in it the one opened last is ended (a lease rejected, what
 *   a teammate should decide withdrawn), with the circle spelled out as the reason. Its asker goes on with that, and whoever
 *   leads is told once. A circle that one of its members may still end by deciding is named on the status screen.
 * - Whoever ends a turn without deciding what it was asked is asked once more. After that it stands on the status screen, and
 *   the human is told: a decision is never made by silence.
 * - A request to somebody who does not run is named too, and a task that nobody can be given is told when it becomes ready.
 */
export class Waits {
  readonly #core: Core
  readonly #notices: Notices
  readonly #hasEnded: EndedTurn
  readonly #failed: (error: unknown) => void
  readonly #waiting = new Map<string, Request>()
  #isDue = false
  #isOver = false

  constructor(o: { core: Core; notices: Notices; hasEnded: EndedTurn; onFailure: (error: unknown) => void }) {
    this.#core = o.core
    this.#notices = o.notices
    this.#hasEnded = o.hasEnded
    this.#failed = o.onFailure
    const { store, leases, tasks } = o.core
    const follow = (request: Request) => {
      if (isWaiting(request)) this.#waiting.set(request.id, request)
      else this.#waiting.delete(request.id)
      this.look()
    }
    for (const [, { value }] of store.requests.list()) follow(value)
    store.requests.watch((_id, { value }) => follow(value))
    tasks.onFreed(ids => {
      for (const id of ids) this.#freed(id)
    })
    store.tasks.watch(() => {
      if (leases.queued().length > 0) this.look()
    })
  }

  close(): void {
    this.#isOver = true
  }

  /** Looks once what is being changed now has settled. To be called when a teammate's turn ended, too. */
  look(): void {
    if (this.#isDue || this.#waiting.size === 0) return
    this.#isDue = true
    setImmediate(() => {
      this.#isDue = false
      try {
        if (!this.#isOver) this.#look()
      } catch (error) {
        this.#failed(error)
      }
    })
  }

  /** Circles that nobody has ended yet, and requests that nobody but the human will ever decide. */
  problems(): string[] {
    const graph = this.#graph()
    const problems: string[] = []
    const named = new Set<string>()
    for (const start of graph.starts()) {
      const found = circle(start, who => graph.waitsOf(who))
      if (!found || found.some(({ from }) => named.has(from))) continue
      for (const { from } of found) named.add(from)
      problems.push(`a circle: ${circleText(found)}; any decision in it ends it (${remedy(found)})`)
    }
    for (const request of this.#waiting.values()) {
      const why = this.#orphaned(graph, request)
      if (why !== null)
        problems.push(
          `${request.id} (${request.title}) waits for ${request.to}, ${why}: decide it yourself (team approve ${request.id})`,
        )
    }
    return problems
  }

  /** A task that became ready and can be given to nobody is told to whoever leads. */
  #freed(id: string): void {
    const task = this.#core.tasks.get(id)?.value
    const why = task ? stranded(this.#core, task) : null
    if (task && why !== null)
      this.#notices.tell(leadInbox(this.#core), `msg_stranded_${id}_${task.attempts}`, `${why}.`)
  }

  #graph(): WaitGraph {
    return new WaitGraph(this.#core, this.#waiting.values(), this.#hasEnded)
  }

  #look(): void {
    const graph = this.#graph()
    for (const start of graph.starts()) {
      const found = circle(start, who => graph.waitsOf(who).filter(({ isFirm }) => isFirm))
      if (!found) continue
      this.#break(found)
      this.look()
      return
    }
    for (const request of this.#waiting.values()) this.#remind(graph, request)
  }

  #break(found: readonly Wait[]): void {
    const { requests } = this.#core
    const text = circleText(found)
    const [last] = found
      .flatMap(({ by }) => (by === null ? [] : (requests.get(by)?.value ?? [])))
      // The claim would only be read by the same one later: what it waits for itself is what ends.
      .filter(({ type }) => type !== 'review_request')
      .sort((a, b) => number(b) - number(a))
    if (!last) throw new Error(`a circle without a request: ${text}`)
    const reason = reasonOf(text)
    const ended = isLease(last)
      ? requests.decide(last.id, 'supervisor', 'reject', reason)
      : requests.end(last.id, 'withdrawn', 'supervisor', reason)
    if (!ended.ok) throw new Error(`${last.id} could not be ended: ${ended.fault.message}`)
    this.#notices.circleEnded(ended.value.request)
  }

  #remind(graph: WaitGraph, request: Request): void {
    const { mail, roster } = this.#core
    const { id, to, title, from, type } = request
    // What has a deadline ends by itself; an idle teammate agrees to a shutdown right after it has read of it.
    if (request.deadline !== null) return
    if (request.status !== 'pending' || !roster.has(to) || !graph.wasLeft(request)) return
    const again = reminder(request)
    if (!mail.find(to, again))
      mail.send({
        from: 'supervisor',
        to,
        id: again,
        type: 'request',
        requestId: id,
        data: { type },
        content: `${id} (${title}), a ${type} of ${from}, still waits for your decision: use the request tool (approve, reject, or ask), or it stays undecided until a person decides.`,
      })
    else if (graph.wasLeft(request, again))
      this.#notices.tell(
        humanInbox,
        `${again}_human`,
        `${id} (${title}) of ${from} waits for ${to}, who was asked twice and has not decided: team approve ${id}, or team reject ${id}.`,
      )
  }

  /** Why its decider will not decide it; null where it may. */
  #orphaned(graph: WaitGraph, request: Request): string | null {
    const { roster, mail } = this.#core
    const { to, status } = request
    if (to === 'human' || to === 'supervisor') return null
    if (!roster.has(to) || !isLive(this.#core, to)) return 'who does not run'
    const again = reminder(request)
    return status === 'pending' && mail.find(to, again) && graph.wasLeft(request, again)
      ? 'who was asked twice and has not decided'
      : null
  }
}

const reminder = ({ id, history }: Request): string => `msg_${id}_again_${history.length}`

const number = ({ id }: Request): number => Number(id.replace(/\D/g, ''))

const remedy = (found: readonly Wait[]): string => {
  const id = found.findLast(({ by }) => by !== null)?.by
  return `team reject ${id}`
}
