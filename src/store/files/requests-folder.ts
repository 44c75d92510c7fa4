import { mkdirSync, readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../lib/clock.ts'
import { makeFolderIn } from '../../lib/files.ts'
import type { Store } from '../store.ts'
import { Calm, calmMs } from './calm.ts'
import { freeName } from './drops.ts'
import { Lane } from './lane.ts'
import { readObject } from './past-tasks.ts'
import { type Problem, Troubles } from './problem.ts'
import { Projection } from './projection.ts'
import { readStamped, sameStamp, stamp } from './stamp.ts'
import { type Watch, watchFolder } from './watch.ts'

export interface RequestsFolderOptions {
  readonly root: string
  readonly store: Store
  readonly clock: Clock
  readonly onProblem: (problem: Problem) => void
  readonly onMended?: (file: string) => void
  /** The folder cannot go on (a bug, or the journal failed). */
  readonly onFailure: (error: unknown) => void
  readonly sweepMs?: number
}

const label = '.messages/requests'
const fileOf = (id: string): string => `${id}.json`
const idIn = (file: string): string | null => /^(req_[A-Za-z0-9_-]{1,64})\.json$/.exec(file)?.[1] ?? null

/**
 * `.messages/requests/`: each request as people may read it. Nothing that is written here decides anything: a changed
 * file is put back, a file of no request is set aside.
 */
export class RequestsFolder {
  readonly #options: RequestsFolderOptions
  readonly #dir: string
  readonly #lane: Lane
  readonly #projection: Projection
  readonly #calm: Calm
  readonly #troubles: Troubles
  #isStarting = true
  #watch: Watch | undefined
  #unwatch: (() => void) | undefined

  constructor(options: RequestsFolderOptions) {
    this.#options = options
    this.#dir = join(options.root, label)
    this.#calm = new Calm(options.clock)
    this.#troubles = new Troubles(options.onProblem, options.onMended)
    this.#lane = new Lane(file => this.#troubles.look(label, file === null, () => this.#look(file)), options.onFailure)
    this.#projection = new Projection({
      dir: this.#dir,
      lane: this.#lane,
      clock: options.clock,
      file: fileOf,
      text: id => this.#text(id),
      durable: () => options.store.flushed(),
      foreign: async id => this.#inspect(id),
      onWritten: id => this.#troubles.over(`${label}/${fileOf(id)}`),
      onTrouble: (file, error) => this.#troubles.tell(`${label}/${file}`, error),
    })
  }

  async start(): Promise<void> {
    const { store, clock, sweepMs } = this.#options
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    this.#unwatch = store.requests.watch(id => this.#projection.touch(id))
    this.#lane.look(null)
    await this.#lane.settledNow()
    this.#isStarting = false
    this.#watch = watchFolder(this.#dir, {
      clock,
      onHint: file => {
        if (file === null || !file.startsWith('.')) this.#lane.look(file === null || idIn(file) === null ? null : file)
      },
      onDeaf: error => this.#troubles.tell(label, error),
      ...(sweepMs === undefined ? {} : { sweepMs }),
    })
    await this.#watch.ready
    await this.#lane.settledNow()
  }

  /** What stands wrong in the folder now. */
  problems(): readonly Problem[] {
    return this.#troubles.list()
  }

  /** Resolves when every change of a request so far stands in its file. */
  projected(): Promise<void> {
    return this.#projection.settled()
  }

  /** Looks at everything, and resolves when foreign changes are put back and the files show the records. */
  async settled(): Promise<void> {
    this.#lane.look(null)
    await this.#lane.settled()
    await this.#projection.settled()
    await this.#lane.settled()
  }

  /** Stops looking; what changed so far is still shown. */
  async close(): Promise<void> {
    await this.#watch?.close()
    this.#unwatch?.()
    await this.#projection.settled()
    await this.#lane.close()
  }

  #look(file: string | null): void {
    if (file !== null) {
      this.#lookAt(file)
      return
    }
    makeFolderIn(this.#options.root, this.#dir)
    const names = new Set(readdirSync(this.#dir))
    for (const name of names) if (!name.startsWith('.')) this.#lookAt(name)
    for (const [id] of this.#options.store.requests.list()) if (!names.has(fileOf(id))) this.#lookAt(fileOf(id))
  }

  #lookAt(file: string): void {
    try {
      this.#lookAtFile(file)
    } catch (error) {
      this.#troubles.tell(`${label}/${file}`, error)
    }
  }

  #lookAtFile(file: string): void {
    const id = idIn(file)
    const isKnown = id !== null && this.#options.store.requests.get(id) !== undefined
    const at = stamp(join(this.#dir, file))
    if (id !== null && isKnown) {
      if (at) this.#inspect(id)
      else {
        if (this.#projection.known(id) && !this.#projection.isDirty(id)) this.#report(file, 'deleted, and put back')
        this.#projection.forget(id)
        this.#projection.touch(id)
      }
    } else if (at) this.#setAside(file)
  }

  /** A file that no request has, an earlier run's perhaps. */
  #setAside(file: string): void {
    const aside = join(this.#options.root, '.messages', 'archive', 'requests')
    mkdirSync(aside, { recursive: true, mode: 0o700 })
    const name = freeName(aside, file)
    renameSync(join(this.#dir, file), join(aside, name))
    this.#report(
      file,
      `no request has this file: requests are not made or decided by files (it is in .messages/archive/requests/${name})`,
    )
  }

  /** True: the file may be written now. */
  #inspect(id: string): boolean {
    const path = join(this.#dir, fileOf(id))
    const at = stamp(path)
    if (!at || sameStamp(at, this.#projection.known(id))) return true
    const read = readStamped(path)
    const found = read && readObject(read.bytes)
    if (!read || (typeof found === 'string' && !this.#calm.isCalm(fileOf(id), read.stamp))) {
      this.#lane.lookLater(fileOf(id), read ? calmMs + 10 : 50)
      return false
    }
    this.#calm.forget(fileOf(id))
    this.#projection.seen(id, read.stamp)
    const rec = this.#options.store.requests.get(id)
    if (rec && typeof found === 'object') {
      if (isDeepStrictEqual(found, { ...rec.value, rev: rec.rev, v: 1 })) return true
      // After a crash a file may be older than its record: that is nobody's edit.
      const isBehind = this.#isStarting && typeof found.rev === 'number' && found.rev < rec.rev
      if (!isBehind)
        this.#report(fileOf(id), `changed, and put back: decide by \`team approve ${id}\` or \`team reject ${id}\``)
    } else if (read.bytes.some(byte => byte !== 0)) this.#report(fileOf(id), `${found}; put back`)
    this.#projection.touch(id)
    return true
  }

  #text(id: string): string | null {
    const rec = this.#options.store.requests.get(id)
    return rec ? `${JSON.stringify({ ...rec.value, rev: rec.rev, v: 1 }, null, 2)}\n` : null
  }

  #report(file: string, reason: string): void {
    this.#options.onProblem({ kind: 'request', file: `${label}/${file}`, reason, standing: false, known: false })
  }
}
