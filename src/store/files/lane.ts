import { delay } from '../../lib/clock.ts'

/**
 * One act at a time, in the order asked for. `look(file)` asks for a look at a file (null: at everything); a look asked
 * for while another waits is the same look. Nothing runs after `close`.
 */
export class Lane {
  readonly #look: (file: string | null) => Promise<void> | void
  readonly #stop = new AbortController()
  readonly #asked = new Set<string | null>()
  readonly #timed = new Map<string | null, Promise<void>>()
  #tail: Promise<void> = Promise.resolve()
  #failure: { readonly error: unknown } | undefined
  readonly #onFailure: (error: unknown) => void

  /** `onFailure` is called once, with what an act threw; the lane does nothing from then on. */
  constructor(look: (file: string | null) => Promise<void> | void, onFailure: (error: unknown) => void) {
    this.#look = look
    this.#onFailure = onFailure
  }

  look(file: string | null): void {
    if (this.#asked.has(file) || this.#asked.has(null)) return
    this.#asked.add(file)
    this.#run(() => {
      // A look at everything that was asked for meanwhile does for this one too.
      if (!this.#asked.delete(file)) return
      if (file === null) this.#asked.clear()
      return this.#look(file)
    })
  }

  /** Asks for the look after `ms`; while one waits so, it is the same. */
  lookLater(file: string | null, ms: number): void {
    if (this.#timed.has(file) || this.isOver) return
    this.#timed.set(
      file,
      this.wait(ms).then(() => {
        this.#timed.delete(file)
        this.look(file)
      }),
    )
  }

  /** Runs `act` after everything asked for before. */
  act(act: () => Promise<void> | void): Promise<void> {
    this.#run(act)
    return this.#tail
  }

  /** Resolves after `ms`, or at once when closed. */
  wait(ms: number): Promise<void> {
    return delay(ms, this.#stop.signal).catch(reason => {
      if (!this.#stop.signal.aborted) throw reason
    })
  }

  /** Resolves when nothing is asked for, timed or running; rejects with what an act threw. */
  async settled(): Promise<void> {
    do {
      await Promise.all(this.#timed.values())
      await this.#tail
    } while (!this.isOver && (this.#timed.size > 0 || this.#asked.size > 0))
    if (this.#failure) throw this.#failure.error
  }

  /** Resolves when what was asked for so far has run, timed looks left out; rejects with what an act threw. */
  async settledNow(): Promise<void> {
    await this.#tail
    if (this.#failure) throw this.#failure.error
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#tail
  }

  /** Closed or failed: nothing asked for runs any more. */
  get isOver(): boolean {
    return this.#stop.signal.aborted || this.#failure !== undefined
  }

  #run(act: () => Promise<void> | void): void {
    this.#tail = this.#tail.then(async () => {
      if (this.isOver) return
      try {
        await act()
      } catch (error) {
        this.#failure = { error }
        this.#onFailure(error)
      }
    })
  }
}
