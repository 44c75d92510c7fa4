/**
 * For how long each thread has been silent, counted only while this process itself ran: of the time between two looks at
 * most two ticks count. A machine that slept, a process group that was stopped or a main thread that was busy for a minute
 * is therefore no silence of the threads, whose signs of life wait unread in the meantime.
 */
export class Pulse {
  readonly #limitMs: number
  readonly #silence = new Map<string, { ms: number; readonly allowedMs: number }>()
  #looked: number | null = null
  /** How often to look, in milliseconds. */
  readonly tickMs: number

  constructor(limitMs: number) {
    this.#limitMs = limitMs
    this.tickMs = Math.max(10, Math.min(1_000, limitMs / 8))
  }

  /** A sign of life; the first one of a name begins the watch over it. It may be silent for `allowedMs` longer than the rest. */
  heard(name: string, allowedMs = 0): void {
    this.#silence.set(name, { ms: 0, allowedMs })
  }

  watches(name: string): boolean {
    return this.#silence.has(name)
  }

  /** Has it been silent for longer than is usual, half of what it is given? */
  isLate(name: string): boolean {
    const silence = this.#silence.get(name)
    return silence !== undefined && silence.ms > silence.allowedMs + this.#limitMs / 2
  }

  /** Watched no longer. */
  drop(name: string): void {
    this.#silence.delete(name)
  }

  /** The names that have been silent for too long, at `now` of the monotonic clock. */
  look(now: number): string[] {
    const ran = Math.min(now - (this.#looked ?? now), 2 * this.tickMs)
    this.#looked = now
    const silent: string[] = []
    for (const [name, silence] of this.#silence) {
      silence.ms += ran
      if (silence.ms > silence.allowedMs + this.#limitMs) silent.push(name)
    }
    return silent
  }
}
