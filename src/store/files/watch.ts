import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FSWatcher } from 'chokidar'
import { type Clock, delay } from '../../lib/clock.ts'

export interface WatchOptions {
  /**
   * Look again: at this file, or at the whole folder when null. Only a hint: several changes may be one hint, and a hint
   * may tell of nothing new. Must be cheap; called between other work.
   */
  readonly onHint: (file: string | null) => void
  /** Was this change made by the holder itself? Asked once for each that is heard of; nothing is told of one that was. */
  readonly isOwn?: (file: string) => boolean
  readonly clock: Clock
  /** The watch itself does not work (out of watches or handles): the sweep goes on alone. Told once. */
  readonly onDeaf?: (error: Error) => void
  /** Milliseconds between looks at the whole folder that nothing told to make. */
  readonly sweepMs?: number
  /** false: a folder that is missing is not made. */
  readonly make?: boolean
}

export interface Watch {
  /** Resolves when changes are told from now on; a look at the whole folder has then been asked for. */
  readonly ready: Promise<void>
  close(): Promise<void>
}

/** How long after the last hint of a file it is looked at once more. */
const relookMs = 60
/** Hints of one file closer together than this are one. */
const coalesceMs = 4
/** How often a removed folder is looked for. */
const missingMs = 200

/**
 * Tells of changes in one folder (not below it), which is made when it is missing (unless `make` is false). One watch for the folder, none for its
 * files. The `raw` event is the hint, since `change` is throttled without a trailing event and so misses the end of a
 * burst; a second look follows the last hint, and a slow sweep finds what no event told. A folder that was removed and
 * made again is watched again.
 */
export const watchFolder = (dir: string, options: WatchOptions): Watch => new FolderWatch(dir, options)

class FolderWatch implements Watch {
  readonly ready: Promise<void>
  readonly #dir: string
  readonly #options: WatchOptions
  readonly #stop = new AbortController()
  readonly #sweeps: Promise<void>
  #watcher: FSWatcher | undefined
  /** Device and inode of the folder that is watched. */
  #watched = ''
  #isDeafTold = false
  /** Files hinted at since the last flush. */
  readonly #fresh = new Set<string>()
  /** File → when it was last hinted at (monotonic). */
  readonly #hot = new Map<string, number>()
  #flushing: Promise<void> | undefined
  #relooking: Promise<void> | undefined

  constructor(dir: string, options: WatchOptions) {
    this.#dir = dir
    this.#options = options
    this.ready = this.#listen()
    // A watch that cannot start is told by `ready`.
    this.#sweeps = this.ready.then(
      () => this.#sweep(),
      () => undefined,
    )
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.allSettled([this.ready, this.#sweeps, this.#flushing, this.#relooking])
    await this.#watcher?.close()
  }

  async #listen(): Promise<void> {
    await this.#watcher?.close()
    if (this.#options.make !== false) mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    this.#watched = identity(this.#dir)
    const watcher = new RawWatcher({ depth: 0, ignoreInitial: true })
    this.#watcher = watcher
    watcher.on('raw', (_event, name) => this.#hint(name))
    await new Promise<void>(resolve => {
      watcher.on('error', error => {
        this.#deaf(error)
        resolve()
      })
      watcher.on('ready', resolve)
      watcher.add(this.#dir)
    })
    if (!this.#stop.signal.aborted) this.#options.onHint(null)
  }

  #deaf(error: unknown): void {
    if (this.#isDeafTold) return
    this.#isDeafTold = true
    this.#options.onDeaf?.(error instanceof Error ? error : new Error(String(error)))
  }

  #hint(name: unknown): void {
    if (this.#stop.signal.aborted) return
    // Some systems name no file: then every file may have changed.
    const file = typeof name === 'string' ? name : ''
    if (this.#options.isOwn?.(file)) return
    this.#hot.set(file, this.#options.clock.mono())
    this.#fresh.add(file)
    this.#flushing ??= this.#flush()
    this.#relooking ??= this.#relook()
  }

  /** The first hint is told at once, those that follow closely together. */
  async #flush(): Promise<void> {
    while (this.#fresh.size > 0) {
      await nextTurn()
      const files = [...this.#fresh]
      this.#fresh.clear()
      for (const file of files) this.#tell(file)
      await this.#wait(coalesceMs)
    }
    this.#flushing = undefined
  }

  async #relook(): Promise<void> {
    while (this.#hot.size > 0 && !this.#stop.signal.aborted) {
      await this.#wait(relookMs / 2)
      const now = this.#options.clock.mono()
      for (const [file, at] of this.#hot)
        if (now - at >= relookMs) {
          this.#hot.delete(file)
          this.#tell(file)
        }
    }
    this.#relooking = undefined
  }

  #tell(file: string): void {
    if (!this.#stop.signal.aborted) this.#options.onHint(file === '' ? null : file)
  }

  async #sweep(): Promise<void> {
    let since = 0
    while (!this.#stop.signal.aborted) {
      await this.#wait(missingMs)
      if (this.#stop.signal.aborted) return
      since += missingMs
      const now = identity(this.#dir)
      if (now !== this.#watched) {
        since = 0
        // Without its parent the whole root is gone, and is not to be brought back by a watch.
        if (existsSync(this.#options.make === false ? this.#dir : dirname(this.#dir)))
          // What the disk refuses is told by the look that the sweep asks for; it is tried again when that is over.
          await this.#listen().catch(() => {
            this.#watched = ''
          })
        else if (this.#options.make === false) {
          this.#watched = now
          this.#options.onHint(null)
        }
      } else if (since >= (this.#options.sweepMs ?? 2000)) {
        since = 0
        this.#options.onHint(null)
      }
    }
  }

  /** Resolves after `ms`, or at once when closed. */
  #wait(ms: number): Promise<void> {
    return delay(ms, this.#stop.signal).catch(reason => {
      if (!this.#stop.signal.aborted) throw reason
    })
  }
}

/**
 * Watches the folder and nothing in it. chokidar would read the whole folder at each change of a file to find what to
 * watch for its own events, of which none is listened to: of a folder of thousands that costs more than all other work.
 */
class RawWatcher extends FSWatcher {
  override _throttle(...args: Parameters<FSWatcher['_throttle']>): ReturnType<FSWatcher['_throttle']> {
    // False means "not now": the reading is left out, the watch is made all the same.
    return args[0] === 'readdir' ? false : super._throttle(...args)
  }
}

/** Empty when it is not there, or may not be looked at. */
const identity = (dir: string): string => {
  try {
    const { dev, ino, birthtimeNs } = statSync(dir, { bigint: true })
    return `${dev}:${ino}:${birthtimeNs}`
  } catch {
    return ''
  }
}
