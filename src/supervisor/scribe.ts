import { Worker } from 'node:worker_threads'
import { armedAt } from '../lib/points.ts'
import type { WritePages, Written } from '../store/files/pages.ts'

interface Waiting {
  readonly resolve: (written: readonly Written[]) => void
  readonly reject: (error: unknown) => void
}

/**
 * A thread that writes the files which show what the journal holds. A rename over a file, or a new name, waits for the disk
 * while the journal is flushed; done here, the daemon's own thread does not wait with it.
 */
export class Scribe {
  readonly #worker: Worker
  /** Answers come in the order of the questions. */
  readonly #waiting: Waiting[] = []
  #end: Error | null = null

  /** `entry` is the built JavaScript file of scribe-main.ts. */
  constructor(entry: string) {
    this.#worker = new Worker(entry, { name: 'scribe', env: {}, argv: [], execArgv: [], workerData: armedAt })
    this.#worker.on('message', (written: readonly Written[]) => this.#waiting.shift()?.resolve(written))
    this.#worker.on('error', error => this.#ended(error))
    this.#worker.on('exit', () => this.#ended(new Error('the thread that writes the files ended')))
  }

  /** See `WritePages`. Rejects when the thread is gone: then no file shows anything new any more. */
  write(pages: Parameters<WritePages>[0]): Promise<readonly Written[]> {
    if (this.#end) return Promise.reject(this.#end)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#worker.postMessage(pages)
    })
  }

  /** Call when nothing is being written. */
  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #ended(error: unknown): void {
    this.#end ??= error instanceof Error ? error : new Error(String(error))
    for (const { reject } of this.#waiting.splice(0)) reject(this.#end)
  }
}
