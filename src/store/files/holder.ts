import { existsSync, linkSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname } from 'node:path'
import { type Clock, iso } from '../../lib/clock.ts'
import { errnoOf, makeFolder, removeTemporaries, replaceFile } from '../../lib/files.ts'
import { reach } from '../../lib/points.ts'
import { asFault, type Fault, fail, ok, type Result } from '../../lib/result.ts'
import type { Hello } from '../../protocol/rpc.ts'
import type { RpcHandler } from '../rpc/server.ts'
import { holderFile, prepareSocketFolder, readHolderFile, socketPlace } from '../rpc/socket-path.ts'
import { StateStore } from '../state.ts'
import type { Store } from '../store.ts'
import { writeAnew } from './anew.ts'
import { contend, journalFolder, quietly, removeOldLock, type Taken, teamFolder } from './contend.ts'
import { fold, type Keep } from './fold.ts'
import { FileJournal } from './journal.ts'
import type { Cut } from './replay.ts'
import { type Watch, watchFolder } from './watch.ts'

export interface HoldOptions {
  readonly version: string
  readonly clock: Clock
  /** How long to wait for a command that holds the root now; 10 s by default. A daemon is never waited for. */
  readonly waitMs?: number
  /** A person's word that the holder on another host is gone. */
  readonly takeover?: boolean
  /** Called once, when the journal cannot be written any more: the store refuses changes from then on. */
  readonly onFailure?: (fault: Fault) => void
  readonly limits?: Partial<JournalLimits>
}

export interface JournalLimits {
  /** A longer epoch file is followed by a new one, with a snapshot. */
  readonly segmentBytes: number
  /** A snapshot is made at the start when more epochs or bytes than these had to be read. */
  readonly replayEpochs: number
  readonly replayBytes: number
  readonly keep: Keep
}

const defaults: JournalLimits = {
  segmentBytes: 8 << 20,
  replayEpochs: 4,
  replayBytes: 8 << 20,
  keep: { bytes: 64 << 20, epochs: 256 },
}

export interface HoldReport {
  /** No journal was there: a new root, or one whose `.team` is gone. */
  readonly isNew: boolean
  /** The end of the journal that was never completed, and is left out. */
  readonly cut: Cut | null
  readonly warnings: readonly string[]
  /** The holder before this one, and whether it said goodbye. */
  readonly last: { readonly pid: number; readonly host: string; readonly kind: string; readonly ended: boolean } | null
}

/** The one writer of a root. */
export interface Holder {
  readonly store: Store
  readonly hello: Hello
  readonly report: HoldReport
  /** Answers requests on the socket from now on. Without it a daemon's askers wait, and a command's are told `offline`. */
  serve(handler: RpcHandler): void
  /** Flushes, says goodbye in the journal, and lets the root go. Never rejects for what `onFailure` told already. */
  release(): Promise<void>
}

/**
 * Becomes the one writer of `root`, or says who is. The store holds everything that was ever acknowledged. Faults: `held`
 * (by whom), `config` (no such folder), `invalid` (a damaged journal: file and line), `refused` (a newer format), `io`.
 */
export const hold = async (root: string, kind: 'daemon' | 'cli', options: HoldOptions): Promise<Result<Holder>> => {
  let real: string
  try {
    real = realpathSync(root)
  } catch (error) {
    return fail('config', `there is no folder ${root}`, undefined, error)
  }
  try {
    return await holdReal(real, kind, options)
  } catch (error) {
    const fault = asFault(error)
    if (fault.code === 'internal') throw error
    return { ok: false, fault: { ...fault, message: `${real} cannot be held: ${fault.message}` } }
  }
}

const holdReal = async (root: string, kind: 'daemon' | 'cli', options: HoldOptions): Promise<Result<Holder>> => {
  const { clock, version } = options
  makeFolder(journalFolder(root))
  const place = socketPlace(root)
  const prepared = prepareSocketFolder(place)
  if (!prepared.ok) return prepared
  const me = { pid: process.pid, host: hostname(), kind, startedAt: iso(clock.wall()) }
  const contended = await contend(
    { root, place, me, clock, takeover: options.takeover === true },
    options.waitMs ?? 10_000,
  )
  if (!contended.ok) return contended
  return ok(await FileHolder.start(root, place.known, contended.value, version, options))
}

const identityOf = (folder: string): string | null => {
  const there = statSync(folder, { bigint: true, throwIfNoEntry: false })
  return there === undefined ? null : `${there.dev}:${there.ino}`
}

class FileHolder implements Holder {
  readonly store: Store
  readonly report: HoldReport
  readonly #root: string
  readonly #known: string
  readonly #taken: Taken
  readonly #version: string
  readonly #clock: Clock
  readonly #limits: JournalLimits
  readonly #journal: FileJournal
  readonly #inode: bigint
  /** The very folder that is held. */
  readonly #rootAt: string | null
  #folding: Promise<void> | null = null
  #watch: Watch | null = null
  #finding: Promise<void> = Promise.resolve()
  #hasFailed = false
  #released: Promise<void> | null = null

  private constructor(root: string, known: string, taken: Taken, version: string, options: HoldOptions) {
    this.#root = root
    this.#known = known
    this.#taken = taken
    this.#version = version
    this.#clock = options.clock
    this.#limits = { ...defaults, ...options.limits }
    const { replay, header, fd, bytes, server } = taken
    this.#journal = new FileJournal({
      folder: journalFolder(root),
      header,
      fd,
      bytes,
      segments: replay.segments,
      segmentBytes: this.#limits.segmentBytes,
      onFailure: fault => {
        this.#hasFailed = true
        options.onFailure?.(fault)
      },
      onRoll: () => this.#fold(),
    })
    this.store = new StateStore(replay.state, this.#journal)
    this.#inode = statSync(server.path, { bigint: true }).ino
    this.#rootAt = identityOf(root)
    const { head, ended } = replay
    this.report = {
      isNew: head === null,
      cut: replay.cut,
      warnings: replay.warnings,
      last: head && { pid: head.pid, host: head.host, kind: head.kind, ended },
    }
  }

  static async start(
    root: string,
    known: string,
    taken: Taken,
    version: string,
    options: HoldOptions,
  ): Promise<Holder> {
    const holder = new FileHolder(root, known, taken, version, options)
    try {
      await holder.#begin()
    } catch (error) {
      await holder.release()
      throw error
    }
    return holder
  }

  get hello(): Hello {
    const { pid, kind, host, startedAt } = this.#taken.header
    return { pid, kind, root: this.#root, epoch: this.#journal.epoch, version: this.#version, host, startedAt }
  }

  serve(handler: RpcHandler): void {
    this.#taken.server.serve(handler)
  }

  release(): Promise<void> {
    this.#released ??= this.#end()
    return this.#released
  }

  async #begin(): Promise<void> {
    const { server, header, replay } = this.#taken
    const { pid, host, kind, epoch } = header
    for (const folder of [teamFolder(this.#root), journalFolder(this.#root)]) removeTemporaries(folder)
    server.introduce(() => this.hello)
    // The well-known name is given to the socket in one step, over whatever a dead holder left there.
    const spare = `${server.path}+`
    linkSync(server.path, spare)
    reach('holder.named')
    renameSync(spare, this.#known)
    await this.#tellPeople()
    // Without that name nobody finds a daemon: removed by hand, it is there again soon, and so is its word for people.
    if (kind === 'daemon')
      this.#watch = watchFolder(dirname(this.#known), {
        clock: this.#clock,
        make: false,
        onHint: name => {
          const ours = [this.#known, holderFile(this.#root), journalFolder(this.#root)]
          if (name !== null && !ours.some(path => basename(path) === name)) return
          this.#finding = this.#finding.then(() => this.#findAgain())
        },
      })
    const by = 'supervisor'
    const began = { epoch, kind, pid, host, version: this.#version }
    if (replay.cut) this.store.note({ event: 'journal.cut', by, info: { ...replay.cut } })
    await this.store.note({ event: 'holder.started', by, info: began }).durable
    const { epochs, bytes } = replay.replayed
    if (epochs > this.#limits.replayEpochs || bytes > this.#limits.replayBytes) this.#fold()
  }

  #tellPeople(): Promise<void> {
    const { pid, host, kind, startedAt, epoch } = this.#taken.header
    const file = { v: 1, pid, host, kind, startedAt, epoch, version: this.#version, socket: this.#known }
    return replaceFile(holderFile(this.#root), `${JSON.stringify(file, null, 2)}\n`)
  }

  async #findAgain(): Promise<void> {
    const { path } = this.#taken.server
    if (this.#released || this.#hasFailed) return
    // The next write would find that out; until then another one might begin here, without what is in memory.
    if (this.#journal.isGone) {
      this.store.note({ event: 'warning', by: 'supervisor', info: { text: 'the journal was removed' } })
      return
    }
    try {
      const own = statSync(path, { bigint: true, throwIfNoEntry: false })
      // Where its own name is gone too it holds the root no longer: whoever comes next finds nobody listening.
      if (own?.ino !== this.#inode) return
      // Fails where another has taken that name in between.
      if (!existsSync(this.#known)) linkSync(path, this.#known)
      if (!existsSync(holderFile(this.#root))) await this.#tellPeople()
    } catch (error) {
      if (errnoOf(error) === undefined) throw error
      const text = `${this.#known} is gone and cannot be made again: ${(error as Error).message}`
      if (!this.#released && !this.#hasFailed) this.store.note({ event: 'warning', by: 'supervisor', info: { text } })
    }
  }

  #fold(): void {
    if (this.#folding || this.#released) return
    const { keep } = this.#limits
    const { state } = this.#taken.replay
    this.#folding = fold(journalFolder(this.#root), state, this.#journal, iso(this.#clock.wall()), keep)
      .catch(error => {
        // Without a snapshot the next start reads more, nothing is lost. A journal that failed has told so itself.
        if (this.#hasFailed) return
        if (errnoOf(error) === undefined) throw error
        const text = `no snapshot of the journal could be made: ${(error as Error).message}`
        if (!this.#released) this.store.note({ event: 'warning', by: 'supervisor', info: { text } })
      })
      .finally(() => {
        this.#folding = null
      })
  }

  async #writeAnew(): Promise<void> {
    const { state } = this.#taken.replay
    const at = iso(this.#clock.wall())
    try {
      await quietly(teamFolder(this.#root), this.#clock, () =>
        writeAnew(journalFolder(this.#root), this.#journal.header, state, at),
      )
    } catch (error) {
      // The disk takes nothing there: it failed for that, which was told.
      if (errnoOf(error) === undefined) throw error
    }
  }

  async #end(): Promise<void> {
    const { header, server } = this.#taken
    // Its goodbye comes first: who knocks from now on is to wait, not to be refused.
    const watching = this.#watch?.close()
    await this.#folding
    // A root that is gone as a whole was moved or given up: it is not to be brought back.
    if (this.#hasFailed && this.#journal.isGone && this.#rootAt === identityOf(this.#root)) await this.#writeAnew()
    if (!this.#hasFailed && !this.#journal.isClosed)
      this.store.note({
        event: 'holder.stopped',
        by: 'supervisor',
        info: { epoch: this.#journal.epoch, kind: header.kind },
      })
    try {
      await this.store.close()
    } catch (error) {
      if (!this.#hasFailed) throw error
    }
    await watching
    await this.#finding
    // Nothing is written any more. While the socket listens nobody else can begin, so what is removed here is ours,
    // unless another holder superseded this one.
    try {
      removeOldLock(teamFolder(this.#root), this.#clock)
      const file = readHolderFile(this.#root)
      if (file?.startedAt === header.startedAt && file.pid === header.pid)
        rmSync(holderFile(this.#root), { force: true })
      const known = statSync(this.#known, { bigint: true, throwIfNoEntry: false })
      if (known?.ino === this.#inode) rmSync(this.#known, { force: true })
    } catch (error) {
      // What the disk does not let go of stays; who comes next finds nobody listening there.
      if (errnoOf(error) === undefined) throw error
    }
    await server.close()
  }
}
