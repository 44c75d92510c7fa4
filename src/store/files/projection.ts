import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Lane } from './lane.ts'
import { type Page, type WritePages, writePages } from './pages.ts'
import type { Stamp } from './stamp.ts'

export interface ProjectionOptions {
  readonly dir: string
  readonly lane: Lane
  /** The name of a record's file. */
  readonly file: (id: string) => string
  /** What the file shows now; null when it shows nothing (any more). */
  readonly text: (id: string) => string | null
  /** What was decided so far is durable: only then may it be seen. */
  readonly durable: () => Promise<void>
  /** The file is not as it was written: take in what is new there. False: not to be written now. */
  readonly foreign: (id: string) => Promise<boolean>
  /** Puts the texts into the files; in this thread unless given. */
  readonly write?: WritePages | undefined
  readonly onWritten?: (id: string) => void
  /** The disk refused; tried again later. */
  readonly onTrouble: (file: string, error: unknown) => void
}

/** How long changes are gathered before they are written: a burst on one record is one write. */
const gatherMs = 40
const retryMs = 1000
/** Files written before others have their turn. */
const batchSize = 64

/** Records as files, one each, written behind: the last state within 100 ms, never a state that is not durable. */
export class Projection {
  readonly #options: ProjectionOptions
  readonly #dirty = new Set<string>()
  readonly #written = new Map<string, Stamp>()
  #writing: Promise<void> | undefined

  constructor(options: ProjectionOptions) {
    this.#options = options
  }

  /** The record changed, or its file is to be written again. */
  touch(id: string): void {
    this.#dirty.add(id)
    this.#writing ??= this.#write()
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
  }

  isDirty(id: string): boolean {
    return this.#dirty.has(id)
  }

  /** Resolves when everything that changed so far is out. */
  async settled(): Promise<void> {
    while (this.#writing) await this.#writing
  }

  async #write(): Promise<void> {
    const { lane } = this.#options
    while (this.#dirty.size > 0 && !lane.isOver) {
      await lane.wait(gatherMs)
      const ids = [...this.#dirty]
      for (let at = 0; at < ids.length && !lane.isOver; at += batchSize) {
        const batch = ids.slice(at, at + batchSize).filter(id => this.#dirty.delete(id))
        await lane.act(() => this.#writeAll(batch))
        await nextTurn()
      }
    }
    this.#writing = undefined
  }

  async #writeAll(ids: readonly string[]): Promise<void> {
    const { dir, file, text, foreign, durable, write, onWritten, onTrouble } = this.#options
    const pages: (Page & { readonly id: string })[] = []
    for (const id of ids) {
      const shown = text(id)
      if (shown !== null) pages.push({ id, path: join(dir, file(id)), text: shown, known: this.#written.get(id) })
    }
    await durable()
    const results = await (write ?? writePages)(pages.map(({ path, text, known }) => ({ path, text, known })))
    for (const [at, { id }] of pages.entries()) {
      const result = results[at]
      if (result?.kind === 'written') {
        this.#written.set(id, result.stamp)
        onWritten?.(id)
      } else if (result?.kind === 'refused') {
        onTrouble(file(id), Object.assign(new Error(result.message), { code: result.code }))
        this.#retry(id)
      } else if (await foreign(id)) this.#dirty.add(id)
    }
  }

  #retry(id: string): void {
    const { lane } = this.#options
    void lane.wait(retryMs).then(() => {
      if (!lane.isOver) this.touch(id)
    })
  }
}
