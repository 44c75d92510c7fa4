import { join } from 'node:path'
import type { Clock } from '../../lib/clock.ts'
import type { Result } from '../../lib/result.ts'
import { type LoadedConfig, loadConfig } from '../config-file.ts'
import { calmMs } from './calm.ts'
import { Lane } from './lane.ts'
import { type Stamp, sameStamp, stamp } from './stamp.ts'
import { type Watch, watchFolder } from './watch.ts'

const file = 'config.json'

/**
 * Tells of `config.json` once it has stayed as it is for a while, so that a half-written save, an editor's rename or a burst
 * of saves is one edit: the last. It is told at the start too, as it may have changed since it was loaded, and when it is
 * gone or does not hold.
 */
export class ConfigWatch {
  readonly #root: string
  readonly #clock: Clock
  readonly #onEdit: (loaded: Result<LoadedConfig>) => Promise<void>
  readonly #lane: Lane
  #watch: Watch | undefined
  /** As it was told last; `stamp` undefined: there was no such file. */
  #told: { readonly stamp: Stamp | undefined } | undefined
  /** Seen since then, and since when it is so. */
  #seen: { readonly stamp: Stamp | undefined; readonly at: number } | undefined

  constructor(o: {
    root: string
    clock: Clock
    /** The next edit is told when this one is done with. */
    onEdit: (loaded: Result<LoadedConfig>) => Promise<void>
    /** A bug, or the journal cannot be written. */
    onFailure: (error: unknown) => void
  }) {
    this.#root = o.root
    this.#clock = o.clock
    this.#onEdit = o.onEdit
    this.#lane = new Lane(() => this.#look(), o.onFailure)
  }

  /** Resolves when edits are noticed from now on. */
  async start(onDeaf: (error: Error) => void): Promise<void> {
    this.#watch = watchFolder(this.#root, {
      clock: this.#clock,
      make: false,
      onHint: name => {
        if (name === null || name === file) this.#lane.look(null)
      },
      onDeaf,
    })
    await this.#watch.ready
  }

  /** Tells of the file again, changed or not. */
  again(): void {
    this.#told = undefined
    this.#lane.look(null)
  }

  /** An edit was seen and is not told yet, or is being acted on. */
  get isBusy(): boolean {
    return this.#told !== undefined && this.#seen !== undefined
  }

  async close(): Promise<void> {
    await this.#watch?.close()
    await this.#lane.close()
  }

  async #look(): Promise<void> {
    const now = stamp(join(this.#root, file))
    if (this.#told && sameStamp(this.#told.stamp, now)) {
      this.#seen = undefined
      return
    }
    if (!this.#seen || !sameStamp(this.#seen.stamp, now)) this.#seen = { stamp: now, at: this.#clock.mono() }
    const left = calmMs - (this.#clock.mono() - this.#seen.at)
    if (left > 0) return this.#lane.lookLater(null, left)
    const loaded = loadConfig(this.#root)
    // Written to while it was read: it is not calm yet.
    if (!sameStamp(stamp(join(this.#root, file)), now)) return this.#lane.look(null)
    this.#told = { stamp: now }
    await this.#onEdit(loaded)
    this.#lane.look(null)
  }
}
