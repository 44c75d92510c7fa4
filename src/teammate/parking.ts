import type { MailMark } from '../agent/entry.ts'
import { isParking } from '../protocol/request.ts'
import type { Call } from '../protocol/rpc.ts'
import { type Choice, comesFirst, type Intake } from './intake.ts'
import type { Voice } from './voice.ts'

export interface ParkingOptions {
  readonly name: string
  readonly call: Call
  readonly intake: Intake
  readonly voice: Voice
  readonly mail: () => MailMark
  /** There is a reason to do something else. */
  readonly isOver: () => boolean
  /** Agrees to end, where the whole team is asked to among what came: it goes on from there at the next start. */
  readonly agrees: (choice: Choice) => Promise<boolean>
  /** Resolves at the next word of the daemon after the call. */
  readonly woken: () => Promise<void>
}

/** What a teammate waits for: the decision on a request that it opened. No turn starts before, but for what is urgent. */
export class Parking {
  readonly #o: ParkingOptions
  #request: string | null = null
  /** A turn is due for something urgent; it waits on after that. */
  #isUrgent = false

  constructor(o: ParkingOptions) {
    this.#o = o
  }

  /** Is there a request to wait for? */
  get isDue(): boolean {
    return this.#request !== null
  }

  /** The turn ends, to wait for this request. */
  park(request: string): void {
    this.#request = request
    this.#isUrgent = false
  }

  leave(): void {
    this.#request = null
  }

  /** Why no round follows; null when one may. */
  reason(): string | null {
    return this.#isUrgent || this.#request === null ? null : `it waits for ${this.#request}`
  }

  /**
   * After a restart, and where a turn ended: takes up the wait for the request that was opened about this task (null: about
   * none), by the ledger's word. For the latest, where there are several; one that was asked about waits for its asker.
   */
  async resume(task: string | null): Promise<void> {
    const { call, name } = this.#o
    this.#request = null
    const listed = await call('request.list', {})
    if (!listed.ok) return
    for (const request of listed.value.requests)
      if (
        request.from === name &&
        isParking(request) &&
        request.status === 'pending' &&
        'task' in request.data &&
        request.data.task === task
      )
        this.#request = request.id
  }

  /**
   * Waits for the decision, and is back when it is there, when the request was asked about, or when something urgent came.
   * Costs nothing meanwhile.
   */
  async wait(): Promise<void> {
    const { call, intake, voice, mail, isOver, woken, agrees } = this.#o
    this.#isUrgent = false
    while (this.#request !== null && !isOver()) {
      // A word that comes while it looks must not be missed.
      const word = woken()
      const found = await call('request.get', { id: this.#request })
      const request = found.ok ? found.value.request : null
      // What took its place is what is decided now.
      if (request?.successor) {
        this.#request = request.successor
        continue
      }
      if (request === null || !isParking(request) || request.status === 'needs_info') {
        this.#request = null
        break
      }
      const choice = await intake.next(mail())
      if (choice && (await agrees(choice))) continue
      // Only looked at: it enters the context at the next boundary.
      if (choice) intake.due = true
      if (choice?.picked.some(comesFirst)) {
        this.#isUrgent = true
        break
      }
      voice.show('waiting', { what: `${request.id}: ${request.title}`, whom: request.to, request: request.id })
      await word
    }
    if (!isOver()) voice.show('working')
  }
}
