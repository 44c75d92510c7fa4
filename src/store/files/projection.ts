import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Lane } from './lane.ts'
import { type Stamp, sameStamp, stamp, swapFile } from './stamp.ts'

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
  readonly onWritten?: (id: string) => void
  /** The disk refused; tried again later. */
  readonly onTrouble: (file: string, error: unknown) => void
}

/** How long changes are gathered before they are written: a burst on one record is one write. */
const gatherMs = 15
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
    await lane.wait(gatherMs)
    while (this.#dirty.size > 0 && !lane.isOver) {
      const ids = [...this.#dirty].slice(0, batchSize)
      for (const id of ids) this.#dirty.delete(id)
      await lane.act(() => this.#writeAll(ids))
      await nextTurn()
    }
    this.#writing = undefined
  }

  async #writeAll(ids: readonly string[]): Promise<void> {
    const { dir, file, text, foreign, durable, onWritten, onTrouble } = this.#options
    const clear: string[] = []
    for (const id of ids) {
      const path = join(dir, file(id))
      // A hand may have been faster: what it wrote is looked at before it is written over.
      const now = stamp(path)
      if (now && !sameStamp(now, this.#written.get(id)) && !(await foreign(id))) continue
      clear.push(id)
    }
    // What the look at the foreign state asked for is written now.
    for (const id of clear) this.#dirty.delete(id)
    const texts = clear.map(id => [id, text(id)] as const)
    await durable()
    for (const [id, shown] of texts) {
      if (shown === null) continue
      const path = join(dir, file(id))
      const now = stamp(path)
      if (now && !sameStamp(now, this.#written.get(id))) {
        this.#dirty.add(id)
        continue
      }
      try {
        this.#written.set(id, write(dir, path, shown))
      } catch (error) {
        onTrouble(file(id), error)
        this.#retry(id)
        continue
      }
      onWritten?.(id)
    }
  }

  #retry(id: string): void {
    const { lane } = this.#options
    void lane.wait(retryMs).then(() => {
      if (!lane.isOver) this.touch(id)
    })
  }
}

const write = (dir: string, path: string, text: string): Stamp => {
  try {
    return swapFile(path, text)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    // The folder was removed meanwhile.
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    return swapFile(path, text)
  }
}
