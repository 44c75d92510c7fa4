import { circle, circleText, type Wait } from '../protocol/wait-graph.ts'
import { type Core, isLive, leadInbox } from './core.ts'
import type { LeaseRequest } from './leases.ts'
import type { Notices } from './notices.ts'

/**
 * Looks whether teammates wait for one another in a circle, and breaks it. Tasks cannot (such edges are refused), who is asked
 * to decide is woken for it, and the human is never part of one: what can close a circle is leases, those of tasks begun in
 * dir mode too.
 *
 * The rule: of the requests in the circle the one opened last is rejected, with the circle spelled out as the reason. Its asker
 * goes on with that, and whoever leads is told once.
 */
export class Waits {
  readonly #core: Core
  readonly #notices: Notices
  readonly #failed: (error: unknown) => void
  #isDue = false
  #isOver = false

  constructor(o: { core: Core; notices: Notices; onFailure: (error: unknown) => void }) {
    this.#core = o.core
    this.#notices = o.notices
    this.#failed = o.onFailure
    o.core.store.requests.watch((_id, { value }) => {
      if (value.type === 'resource_request') this.look()
    })
    o.core.store.tasks.watch(() => this.look())
  }

  close(): void {
    this.#isOver = true
  }

  /** Looks once what is being changed now, and granted for it, has settled. */
  look(): void {
    if (this.#isDue || this.#core.leases.queued().length === 0) return
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

  #look(): void {
    const { leases, requests } = this.#core
    const queue = leases.queued()
    const holders = new Set([...leases.held().map(({ from }) => from), ...leases.writers().map(({ owner }) => owner)])
    // Somebody in a circle holds something: who merely waits in a queue is waited for by nobody but those behind.
    for (const { from } of queue)
      if (holders.has(from)) {
        const found = circle(from, who => waitsOf(this.#core, queue, who))
        if (!found) continue
        const last = found.reduce((late, wait) => (order(wait.by) > order(late.by) ? wait : late))
        const text = circleText(found)
        const rejected = requests.decide(
          last.by,
          'supervisor',
          'reject',
          `it closes a circle: ${text}. Give back what you hold, or go on without it`,
        )
        if (!rejected.ok) throw new Error(`${last.by} could not be rejected: ${rejected.fault.message}`)
        this.#notices.tell(
          leadInbox(this.#core),
          `msg_circle_${last.by}`,
          `Teammates waited for one another: ${text}. ${last.by} of ${last.from} was rejected to end that.`,
        )
        this.look()
        return
      }
  }
}

const order = (id: string): number => Number(id.replace(/\D/g, ''))

/** Whom this teammate waits for, by the leases that it asked for. */
const waitsOf = (core: Core, queue: readonly LeaseRequest[], who: string): Wait[] =>
  queue
    .filter(({ from, status }) => from === who && status === 'pending')
    .flatMap(request =>
      core.leases
        .behind(request)
        // A task that is claimed done waits for its proof, not for its owner.
        .filter(({ id, who: other }) => !id.startsWith('task ') || core.tasks.inHand(other)?.value.id === id.slice(5))
        .map(({ who: other }) => ({ from: who, to: other, by: request.id })),
    )

/** Requests that nobody but the human will ever decide, since who should does not run. */
export const orphans = (core: Core): string[] =>
  core.requests.waiting().flatMap(({ id, title, to }) => {
    if (to === 'human' || to === 'supervisor' || (core.roster.has(to) && isLive(core, to))) return []
    return [`${id} (${title}) waits for ${to}, who does not run: decide it yourself (team approve ${id})`]
  })
