import { delay } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { RpcResults } from '../protocol/rpc.ts'
import type { FromThread } from '../protocol/thread.ts'
import type { Threads } from './threads.ts'

/** How long a thread may take to say whether it will. It answers between two acts, at once in general. */
const patienceMs = 10_000

/** Asks a teammate's thread to put its conversation together, and hears whether it will. */
export class CompactAsks {
  readonly #threads: Threads
  readonly #open = new Map<number, (no: string | null) => void>()
  #last = 0

  constructor(threads: Threads) {
    this.#threads = threads
  }

  heard({ id, no }: Extract<FromThread, { t: 'compact' }>): void {
    this.#open.get(id)?.(no)
  }

  async ask(name: string, focus: string | null): Promise<Result<RpcResults['teammate.compact']>> {
    const id = ++this.#last
    const heard = new Promise<string | null>(resolve => this.#open.set(id, resolve))
    const heardOf = new AbortController()
    try {
      if (!this.#threads.send(name, { t: 'compact', id, focus }))
        return fail('refused', `${name} is not running`, `team restart ${name} starts it`)
      const late = delay(patienceMs, heardOf.signal).then(
        () => `it has not said within ${patienceMs / 1000} s whether it will; team logs ${name} shows whether it does`,
        () => null,
      )
      const no = await Promise.race([heard, late])
      if (no !== null) return fail('refused', `${name}: ${no}`)
      const status = this.#threads.status(name)
      return ok({ name, state: status?.state ?? 'stopped', when: when(status?.state, status?.waiting?.what) })
    } finally {
      heardOf.abort()
      this.#open.delete(id)
    }
  }
}

const when = (state: string | undefined, waiting: string | undefined): string =>
  state === 'working'
    ? 'before its next step, when what it does now has ended'
    : state === 'waiting'
      ? `before its next step, when it goes on${waiting === undefined ? '' : `: it waits for ${waiting}`}`
      : state === 'draining'
        ? 'before its next step, if there is one: it is about to end'
        : 'before its next turn: it has nothing to do now'
