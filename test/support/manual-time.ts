import type { Clock } from '../../src/lib/clock.ts'

/** A time that moves only when told to, and the waits that hang on it. */
export class ManualTime {
  #now = 0
  readonly #waits = new Set<{ readonly due: number; readonly resolve: () => void }>()
  readonly clock: Clock = { wall: () => Date.UTC(2026, 0, 1) + this.#now, mono: () => this.#now }

  readonly wait = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const stop = () => {
        this.#waits.delete(entry)
        reject(signal.reason)
      }
      const entry = {
        due: this.#now + ms,
        resolve: () => {
          signal.removeEventListener('abort', stop)
          resolve()
        },
      }
      this.#waits.add(entry)
      signal.addEventListener('abort', stop, { once: true })
    })

  /** Lets `ms` pass; waits end in order, those that are begun on the way included. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      const next = [...this.#waits].filter(({ due }) => due <= end).sort((a, b) => a.due - b.due)[0]
      if (!next) break
      this.#now = Math.max(this.#now, next.due)
      this.#waits.delete(next)
      next.resolve()
      await new Promise(setImmediate)
    }
    this.#now = end
  }
}
