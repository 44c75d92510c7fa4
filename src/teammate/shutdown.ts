import type { Session } from '../agent/session.ts'
import { isWaiting } from '../protocol/request.ts'
import type { Call, InboxItem } from '../protocol/rpc.ts'
import { type Choice, type Intake, lookAhead } from './intake.ts'
import type { Voice } from './voice.ts'

const find = async (call: Call, name: string, { stored }: InboxItem, type: 'request' | 'decision') => {
  const { message, origin } = stored
  if (message.type !== type || message.requestId === undefined || origin !== 'daemon') return null
  const found = await call('request.get', { id: message.requestId })
  const request = found.ok ? found.value.request : null
  return request?.type === 'shutdown_request' && request.data.teammate === name ? request : null
}

/** Among what came, the request to shut `name` down that still waits for a decision. The ledger's word, not the message's. */
const askedToStop = async (
  call: Call,
  name: string,
  picked: readonly InboxItem[],
): Promise<{ readonly item: InboxItem; readonly id: string; readonly wholeTeam: boolean } | null> => {
  for (const item of picked) {
    const request = await find(call, name, item, 'request')
    if (request && isWaiting(request)) return { item, id: request.id, wholeTeam: request.data.wholeTeam === true }
  }
  return null
}

/** What a teammate must be reached by to be asked to end. */
export interface StoppingOptions {
  /** Whose decisions that end it are told. */
  readonly call: Call
  readonly name: string
  readonly session: Session
  readonly intake: Intake
  readonly voice: Voice
}

/** How a teammate is asked to end, agrees, and hears that a person agreed in its place. */
export class Stopping {
  readonly #o: StoppingOptions
  /** Shown to the model while it worked. */
  #shown: string | null = null

  constructor(o: StoppingOptions) {
    this.#o = o
  }

  /**
   * To what enters the context now: why the teammate is to end, where it is the news that a person approved its shutdown in its
   * place; else null. One that it had already, before it was started again, is only news.
   */
  async told({ picked, first }: Choice): Promise<string | null> {
    const { call, name } = this.#o
    this.#shown = (await askedToStop(call, name, first))?.id ?? this.#shown
    return this.#grant(picked)
  }

  /** Why it is to end, where a person approved its shutdown in its place and it has not read of that yet; only looks. */
  async approved(): Promise<string | null> {
    const { call, name, session } = this.#o
    const page = await call('inbox.read', { name, after: session.mail.upTo, limit: lookAhead })
    return page.ok ? this.#grant(page.value.items) : null
  }

  /** The approval of its shutdown among these, by the ledger's word, that has not been carried out. */
  async #grant(items: readonly InboxItem[]): Promise<string | null> {
    const { call, name } = this.#o
    for (const item of items) {
      const request = await find(call, name, item, 'decision')
      if (request?.status === 'approved' && request.effect?.step !== 'done') return request.reason ?? 'approved'
    }
    return null
  }

  /**
   * Agrees to end without asking the model, where the teammate is asked to among what came (`onlyAll`: only with the whole
   * team). False where it is not asked to.
   */
  async agrees(choice: Choice, reason: string, onlyAll: boolean): Promise<boolean> {
    const { call, name, session, intake } = this.#o
    const asked = await askedToStop(call, name, choice.first)
    if (!asked || (onlyAll && !asked.wholeTeam)) return false
    const one = intake.only(asked.item, session.mail)
    // A note, not the request itself: a model must not find something to decide later that was decided here.
    session.take(
      [
        {
          k: 'note',
          text: `You were asked to shut down (${asked.id}), and it was agreed to in your place: ${reason}.`,
        },
      ],
      one.mark,
    )
    await intake.acknowledge(one.mark.upTo)
    await this.#agree(asked.id, reason)
    return true
  }

  /** With nothing to do any more, to what the model was shown while it worked and left undecided: false where there is none. */
  async agreesAfterAll(): Promise<boolean> {
    const id = this.#shown
    this.#shown = null
    if (id === null) return false
    const found = await this.#o.call('request.get', { id })
    const stillAsks = found.ok && found.value.request.outcome === null && found.value.request.status === 'pending'
    return stillAsks && (await this.#agree(id, 'nothing in hand'))
  }

  async #agree(id: string, reason: string): Promise<boolean> {
    const decided = await this.#o.call('request.decide', { id, decision: 'approve', reason })
    if (!decided.ok) this.#o.voice.event('warning', { text: `${id} could not be approved: ${decided.fault.message}` })
    return decided.ok
  }
}
