import { delay } from '../lib/clock.ts'
import { Suspects } from '../protocol/death.ts'
import type { Core } from './core.ts'
import { deathsOf } from './deaths.ts'

const key = 'suspects'
/** Tried alone for so long, it is let go for now; twice as long each time that it is a suspect again. */
const aloneMs = 30_000

/** How long a task is tried alone, when it is one of several suspects for the `times`th time. */
export const triedFor = (times: number): number => Math.min(3600_000, aloneMs * 2 ** Math.max(0, times - 1))

/**
 * The daemon died with several tasks in hand, and nobody can tell which of them it was: so each is tried alone. While there
 * is a suspect, nothing else is given out, and its owner is the only one at work on a task.
 *
 *   suspect ──given to its owner──▶ alone ──left its hands, or waits for a decision, or worked on for long enough──▶ let go
 *                                     └──the daemon died──▶ counted against this one (`Deaths`); the next one is tried
 *
 * One that needs longer than that to be deadly makes them suspects again, and is then tried for twice as long.
 */
export class Suspicion {
  readonly #core: Core
  readonly #onLetGo: () => void
  readonly #failed: (error: unknown) => void
  readonly #closing = new AbortController()
  readonly #wait: (ms: number, signal: AbortSignal) => Promise<void>
  /** Of the one that is tried: ends the wait for its time. */
  #trial: AbortController | null = null

  constructor(o: {
    core: Core
    /** One may be given out that might not before. */
    onLetGo: () => void
    /** A bug, or the journal cannot be written. */
    onFailure: (error: unknown) => void
    /** For tests with a time of their own. */
    wait?: (ms: number, signal: AbortSignal) => Promise<void>
  }) {
    this.#core = o.core
    this.#onLetGo = o.onLetGo
    this.#failed = o.onFailure
    this.#wait = o.wait ?? delay
  }

  /** Follows the suspects out of the hands they are in. Before: what is on record is of the daemon before. */
  start(): void {
    const { store, tasks, roster } = this.#core
    const isHeld = (id: string): boolean => {
      const owner = tasks.get(id)?.value.owner ?? null
      return owner !== null && roster.has(owner) && tasks.inHand(owner)?.value.id === id
    }
    const { tasks: all, alone } = this.#now
    const left = all.filter(isHeld)
    if (alone !== null || left.length < all.length) this.#put({ tasks: left, alone: null })
    store.tasks.watch(id => {
      if (this.#now.tasks.includes(id) && !isHeld(id)) this.letGo(id)
    })
  }

  close(): void {
    this.#closing.abort()
  }

  /** Are there tasks still to be tried? */
  get isOpen(): boolean {
    return this.#now.tasks.length > 0
  }

  /** The one that was being tried, by the record. */
  get alone(): string | null {
    return this.#now.alone
  }

  begin(tasks: readonly string[]): void {
    if (tasks.length > 1) this.#put({ tasks: [...tasks], alone: null })
  }

  /** May this task be given out, or told to its owner again, as things stand? */
  allows(task: string): boolean {
    const { tasks, alone } = this.#now
    return tasks.length === 0 || (alone === null ? tasks.includes(task) : alone === task)
  }

  /**
   * It is given to its owner now: if it is a suspect, the record says so before the owner hears of it. Be it none: it may have
   * been started a moment ago, and its thread have died since.
   */
  given(task: string): Promise<void> {
    const { tasks, alone } = this.#now
    if (!tasks.includes(task)) return this.#core.store.flushed()
    if (alone !== task) this.#put({ tasks, alone: task })
    this.#trial?.abort()
    const trial = new AbortController()
    this.#trial = trial
    const signal = AbortSignal.any([trial.signal, this.#closing.signal])
    void this.#wait(triedFor(deathsOf(this.#core.store, task).suspected), signal).then(
      () => this.letGo(task),
      () => undefined,
    )
    return this.#core.store.flushed()
  }

  /** Its owner waits for a decision, so nothing is done for it. */
  parked(owner: string): void {
    const id = this.#core.tasks.inHand(owner)?.value.id
    if (id !== undefined && id === this.#now.alone) this.letGo(id)
  }

  /** It is a suspect no longer. */
  letGo(task: string): void {
    try {
      const { tasks, alone } = this.#now
      if (!tasks.includes(task)) return
      if (alone === task) this.#trial?.abort()
      this.#put({ tasks: tasks.filter(id => id !== task), alone: alone === task ? null : alone })
      this.#onLetGo()
    } catch (error) {
      this.#failed(error)
    }
  }

  /** What stands wrong, for the status screen. */
  problems(): string[] {
    const { tasks, alone } = this.#now
    if (tasks.length === 0) return []
    const now = alone === null ? 'the next is begun soon' : `now task ${alone}`
    return [
      `the daemon died with tasks in hand (still to be tried alone: ${tasks.map(id => `task ${id}`).join(', ')}; ${now}); no other task is given out until then`,
    ]
  }

  get #now(): Suspects {
    const mark = this.#core.store.marks.get(key)
    return mark ? Suspects.parse(mark.value) : { tasks: [], alone: null }
  }

  #put(value: Suspects): void {
    const { marks } = this.#core.store
    const mark = marks.get(key)
    const why = { event: 'task.suspected', by: 'supervisor', info: { ...value } } as const
    if (mark) marks.update(key, mark.rev, value, why)
    else marks.create(key, value, why)
  }
}
