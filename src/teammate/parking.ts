import type { MailMark } from '../agent/entry.ts'
import { isBudget, isParking, type Request } from '../protocol/request.ts'
import { requestTypes } from '../protocol/request-types.ts'
import type { Call, InboxItem } from '../protocol/rpc.ts'
import type { Waiting } from '../protocol/teammate.ts'
import type { Choice, Intake } from './intake.ts'
import type { Voice } from './voice.ts'

export interface ParkingOptions {
  readonly name: string
  readonly call: Call
  readonly intake: Intake
  readonly voice: Voice
  readonly mail: () => MailMark
  /** A turn is open: at the start, one that was broken off. */
  readonly inTurn: () => boolean
  /** There is a reason to do something else. */
  readonly isOver: () => boolean
  /** Agrees to end, where it is asked to among what came: with `onlyAll` if the whole team is, since it goes on from there then. */
  readonly agrees: (choice: Choice, onlyAll: boolean) => Promise<boolean>
  /** Resolves at the next word of the daemon after the call. */
  readonly woken: () => Promise<void>
}

/**
 * What a teammate waits for: the decisions on all requests that it opened. No turn starts before the last of them, but for what
 * is urgent and no news of these; after such a turn it waits on. A request for more of a budget is one that no turn can precede.
 */
export class Parking {
  readonly #o: ParkingOptions
  readonly #requests = new Set<string>()
  /** A turn is due for something urgent; it waits on after that. */
  #isUrgent = false
  /** The turn in which it was to answer what it was asked about was broken off. */
  #owes = false

  #asked: readonly string[] = []

  constructor(o: ParkingOptions) {
    this.#o = o
  }

  /** Is there a request to wait for? */
  get isDue(): boolean {
    return this.#requests.size > 0
  }

  /** What it was asked about and had not answered at the last `resume`. */
  get asked(): readonly string[] {
    return this.#asked
  }

  /** The turn ends, to wait for this request too. */
  park(request: string): void {
    this.#requests.add(request)
    this.#isUrgent = false
  }

  leave(): void {
    this.#requests.clear()
  }

  /** Why no round follows; null when one may. */
  reason(): string | null {
    return this.#isUrgent || !this.isDue ? null : `it waits for ${[...this.#requests].join(', ')}`
  }

  /**
   * After a restart, and where a turn ended: takes up the wait for what was opened about this task (null: about none), by the
   * ledger's word. What was asked about waits for its asker.
   */
  async resume(task: string | null): Promise<void> {
    const { call, name, inTurn } = this.#o
    this.#requests.clear()
    this.#asked = []
    const listed = await call('request.list', { from: name })
    if (!listed.ok) return
    const own = listed.value.requests.filter(
      request => isParking(request) && 'task' in request.data && request.data.task === task,
    )
    for (const { id, status } of own) if (status === 'pending') this.#requests.add(id)
    this.#asked = own.filter(({ status }) => status === 'needs_info').map(({ id }) => id)
    this.#owes = inTurn() && own.length > this.#requests.size
  }

  /**
   * Waits for the decisions, and is back when all are there, when one of the requests was asked about, or when something
   * urgent came. Costs nothing meanwhile.
   */
  async wait(): Promise<void> {
    const { intake, voice, mail, isOver, woken, agrees } = this.#o
    this.#isUrgent = false
    while (this.isDue && !isOver()) {
      // A word that comes while it looks must not be missed.
      const word = woken()
      const { waiting, isAsked } = await this.#look()
      const [first] = waiting
      if (!first) break
      if (isAsked) {
        this.#isUrgent = true
        break
      }
      // Without a budget nothing can be thought about, however urgent it is.
      const canThink = !waiting.some(isBudget)
      const choice = await intake.next(mail())
      if (choice && (await agrees(choice, canThink))) continue
      // Only looked at: it enters the context at the next boundary.
      if (choice) intake.due = true
      if (choice && canThink && (await this.#calls(choice.first))) {
        this.#isUrgent = true
        break
      }
      voice.show('waiting', shown(first, waiting))
      await word
    }
    if (!isOver()) voice.show('working')
  }

  /** What is not decided yet, by the ledger's word; what took the place of a request is what is decided now. */
  async #look(): Promise<{ waiting: Request[]; isAsked: boolean }> {
    const waiting: Request[] = []
    let isAsked = this.#owes
    this.#owes = false
    // What is added meanwhile is looked at too.
    for (const id of this.#requests) {
      const found = await this.#o.call('request.get', { id })
      const request = found.ok ? found.value.request : null
      if (request && isParking(request) && request.status === 'pending') {
        waiting.push(request)
        continue
      }
      this.#requests.delete(id)
      if (request?.successor) this.#requests.add(request.successor)
      else if (request?.status === 'needs_info') isAsked ||= isParking(request)
    }
    return { waiting, isAsked }
  }

  /** Is there a reason for a turn now among these? News of what it asked for itself comes with the last of it. */
  async #calls(first: readonly InboxItem[]): Promise<boolean> {
    for (const { stored } of first) {
      const { type, requestId } = stored.message
      if (type !== 'decision' || requestId === undefined || stored.origin !== 'daemon') return true
      const found = await this.#o.call('request.get', { id: requestId })
      const request = found.ok ? found.value.request : null
      const isOwn = request?.from === this.#o.name && requestTypes[request.type].parks && request.outcome !== null
      if (!isOwn) return true
    }
    return false
  }
}

/** For screens: the first by its title, the others counted. */
const shown = (first: Request, waiting: readonly Request[]): Waiting => {
  const also = waiting.slice(1).map(({ id }) => id)
  return {
    what: `${first.id}${also.length === 0 ? '' : ` and ${also.length} more`}: ${first.title}`,
    whom: [...new Set(waiting.map(({ to }) => to))].join(', '),
    request: first.id,
    ...(also.length === 0 ? {} : { also }),
  }
}
