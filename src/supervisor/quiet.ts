import { isParking } from '../protocol/request.ts'
import type { Core } from './core.ts'
import type { Crew } from './crew.ts'
import type { Folders } from './folders.ts'
import type { LiveConfig } from './live-config.ts'
import type { Proof } from './proof.ts'

/** So long nothing must have changed before the team counts as quiet. */
const calmMs = 150

export interface QuietOptions {
  readonly core: Core
  readonly crew: Crew
  readonly proof: Proof
  readonly folders: Folders
  readonly changes: LiveConfig
  /** Called when it is quiet, with what waits for a person (null: nothing, every task is completed or cancelled); false: look on. */
  readonly onQuiet: (open: string | null) => Promise<boolean>
  /** A bug, or the journal cannot be written. */
  readonly onFailure: (error: unknown) => void
}

/**
 * Tells, for `team up --once`, when nothing can go on without a person: nobody works, nothing can be given out, nothing is
 * being proven, nothing unread, and every file is taken in. Looked at after each change, once it is calm.
 */
export class Quiet {
  readonly #o: QuietOptions
  #timer: NodeJS.Timeout | undefined
  #looking = false
  #closed = false

  constructor(o: QuietOptions) {
    this.#o = o
  }

  look(): void {
    if (this.#closed || this.#looking) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#lookNow().catch(this.#o.onFailure), calmMs)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  async #lookNow(): Promise<void> {
    const { core, crew, proof, folders, changes, onQuiet } = this.#o
    const { store } = core
    this.#looking = true
    const { seq } = store
    await folders.settled()
    await store.flushed()
    const quiet =
      !crew.dispatch.busy &&
      !crew.dispatch.canGive() &&
      !proof.busy &&
      !core.leases.willMove &&
      !changes.isBusy &&
      core.members.every(member => crew.isResting(member.name))
    this.#looking = false
    if (this.#closed) return
    if (!quiet || store.seq !== seq) return this.look()
    if (await onQuiet(waiting(core))) this.close()
    else this.look()
  }
}

/** What is left for a person: tasks that did not end well, and what was asked about none. */
const waiting = ({ store, requests }: Core): string | null => {
  const open = [...store.tasks.list()].filter(
    ([, { value }]) => value.status !== 'completed' && value.status !== 'cancelled',
  )
  const asked = requests
    .waiting()
    .filter(request => isParking(request) && request.to === 'human' && 'task' in request.data && !request.data.task)
  const counted = [counts(open.length, 'task'), counts(asked.length, 'request')].filter(text => text !== null)
  const verb = open.length + asked.length === 1 ? 'waits' : 'wait'
  return counted.length === 0 ? null : `${counted.join(' and ')} ${verb} for a person`
}

const counts = (n: number, what: string): string | null => (n === 0 ? null : `${n} ${what}${n === 1 ? '' : 's'}`)
