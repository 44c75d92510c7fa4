import { sep } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../lib/clock.ts'
import type { Lane } from './lane.ts'
import { type Look, type Page, pageWriter, type WritePages } from './pages.ts'
import type { LateSave } from './replaced.ts'
import type { Stamp } from './stamp.ts'

export interface ProjectionOptions {
  readonly dir: string
  readonly lane: Lane
  readonly clock: Clock
  /** The name of a record's file. */
  readonly file: (id: string) => string
  /** What the file shows now; null when it shows nothing (any more). */
  readonly text: (id: string) => string | null
  /** What was decided so far is durable: only then may it be seen. */
  readonly durable: () => Promise<void>
  /** The file is not as it was written: take in what is new there. False: not to be written now. */
  readonly foreign: (id: string) => Promise<boolean>
  /** See `Page`. */
  readonly by?: string | undefined
  /** Puts the texts into the files; in this thread unless given. */
  readonly write?: WritePages | undefined
  readonly onWritten?: (id: string) => void
  /** A hand saved into a file just after it was written over; only with this is it looked for. */
  readonly onLate?: (save: LateSave) => Promise<void>
  /** The disk refused; tried again later. */
  readonly onTrouble: (file: string, error: unknown) => void
}

/** How long changes of a record are gathered before it is written: a burst on one record is one write. */
const gatherMs = 30
/** The same for what follows from another record: mostly the record itself changes soon too, and one write does for both. */
const followMs = 80
/** How long after it was begun a write may be heard of. */
const echoMs = 1000
/** How often it is looked for what is due. */
const lookMs = 10
const retryMs = 1000
/** How often what was written over is looked at again. */
const relookMs = 250
/** Files written before others have their turn. */
const batchSize = 96

/** Records as files, one each, written behind: the last state within 100 ms, never a state that is not durable. */
export class Projection {
  readonly #options: ProjectionOptions
  /** Record → when it is to be written (monotonic). */
  readonly #dirty = new Map<string, number>()
  readonly #written = new Map<string, Stamp>()
  readonly #write: WritePages
  #writing: Promise<void> | undefined
  #relooking: Promise<void> | undefined
  /** File → until when its own writing may still be heard of (monotonic). */
  readonly #echoes = new Map<string, number>()
  /** How many wait for everything to be out: nothing is gathered meanwhile. */
  #hurried = 0

  constructor(options: ProjectionOptions) {
    this.#options = options
    this.#write = options.write ?? pageWriter(options.clock)
  }

  /** The record changed, or its file is to be written again; `follows`: what it shows changed with another record. */
  touch(id: string, follows = false): void {
    const due = this.#options.clock.mono() + (follows ? followMs : gatherMs)
    if (due < (this.#dirty.get(id) ?? Number.POSITIVE_INFINITY)) this.#dirty.set(id, due)
    this.#writing ??= this.#writeDue()
  }

  /** The state of the file that was last written, or last looked at. */
  known(id: string): Stamp | undefined {
    return this.#written.get(id)
  }

  /** This foreign state of the file was looked at and may be written over. */
  seen(id: string, stamp: Stamp): void {
    this.#written.set(id, stamp)
  }

  forget(id: string): void {
    this.#written.delete(id)
    this.#dirty.delete(id)
    this.#echoes.delete(this.#options.file(id))
  }

  /**
   * Is what was heard of this file our own writing? Yes once for each time, since that is heard of once; what is heard besides
   * is not ours. Where both came so closely together that they were heard of as one, the watch's sweep finds the other.
   */
  isEcho(file: string): boolean {
    const until = this.#echoes.get(file)
    return until !== undefined && this.#echoes.delete(file) && this.#options.clock.mono() < until
  }

  isDirty(id: string): boolean {
    return this.#dirty.has(id)
  }

  /** Resolves when everything that changed so far is out. */
  async settled(): Promise<void> {
    this.#hurried++
    while (this.#writing) await this.#writing
    this.#hurried--
  }

  /** One last look for what was saved into files that were written over; nothing may be written after. */
  async finish(): Promise<void> {
    if (this.#relooking) await this.#options.lane.act(async () => void (await this.#lookBack({ isLast: true })))
  }

  async #writeDue(): Promise<void> {
    const { lane } = this.#options
    await nextTurn()
    while (this.#dirty.size > 0 && !lane.isOver) {
      const ids = this.#due()
      for (const id of ids) this.#dirty.delete(id)
      if (ids.length === 0) await lane.wait(lookMs)
      else {
        await lane.act(() => this.#writeAll(ids))
        await nextTurn()
      }
    }
    this.#writing = undefined
  }

  /** What is to be written now. Files that people may be looking at come before those that are not there yet. */
  #due(): string[] {
    const now = this.#hurried > 0 ? Number.POSITIVE_INFINITY : this.#options.clock.mono()
    const there: string[] = []
    const fresh: string[] = []
    for (const [id, due] of this.#dirty) if (due <= now) (this.#written.has(id) ? there : fresh).push(id)
    return [...there, ...fresh].slice(0, batchSize)
  }

  async #writeAll(ids: readonly string[]): Promise<void> {
    const { dir, by, file, text, foreign, durable, onWritten, onLate, onTrouble } = this.#options
    const isEdited = onLate !== undefined
    const pages: (Page & { readonly id: string })[] = []
    for (const id of ids) {
      const shown = text(id)
      if (shown === null) continue
      pages.push({ id, path: dir + sep + file(id), text: shown, known: this.#written.get(id), by, isEdited })
    }
    await durable()
    const until = this.#options.clock.mono() + echoMs
    for (const { id } of pages) this.#echoes.set(file(id), until)
    const results = await this.#write(pages)
    for (const [at, { id }] of pages.entries()) {
      const result = results[at]
      if (result?.kind !== 'written') this.#echoes.delete(file(id))
      if (result?.kind === 'written') {
        this.#written.set(id, result.stamp)
        onWritten?.(id)
      } else if (result?.kind === 'refused') {
        onTrouble(file(id), Object.assign(new Error(result.message), { code: result.code }))
        this.#retry(id)
      } else if (await foreign(id)) this.touch(id)
    }
    if (isEdited) this.#relooking ??= this.#relook()
  }

  async #relook(): Promise<void> {
    const { lane } = this.#options
    for (let left = 1; left > 0 && !lane.isOver; ) {
      await lane.wait(relookMs)
      await lane.act(async () => {
        left = await this.#lookBack({ isLast: false })
        if (left === 0) this.#relooking = undefined
      })
    }
  }

  /** Takes in what was saved too late; how many files are still looked at. */
  async #lookBack(look: Look): Promise<number> {
    const [answer] = await this.#write([look])
    if (answer?.kind !== 'looked') throw new Error(`a look was answered with ${answer?.kind}`)
    for (const save of answer.saves) await this.#options.onLate?.(save)
    return answer.left
  }

  #retry(id: string): void {
    const { lane } = this.#options
    void lane.wait(retryMs).then(() => {
      if (!lane.isOver) this.touch(id)
    })
  }
}
