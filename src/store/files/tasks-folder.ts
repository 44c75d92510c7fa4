import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { makeFolderIn } from '../../lib/files.ts'
import { idInName, isSideFile } from '../../protocol/drop.ts'
import type { TaskFile } from '../../protocol/task.ts'
import { isStale, renderTask } from '../../protocol/task-file.ts'
import { Calm, calmMs } from './calm.ts'
import { misplacedEntry } from './dropped-entry.ts'
import { byName, Drops } from './drops.ts'
import { HandEdits } from './hand-edits.ts'
import { Lane } from './lane.ts'
import { pageWriter, type WritePages } from './pages.ts'
import { importTasks, oldRevisions, readObject } from './past-tasks.ts'
import { type Problem, Troubles } from './problem.ts'
import { Projection } from './projection.ts'
import { PutBacks } from './put-backs.ts'
import type { LateSave } from './replaced.ts'
import { ShownTasks } from './shown-tasks.ts'
import { readStamped, type Stamp, sameStamp, stamp } from './stamp.ts'
import { TaskArchive } from './task-archive.ts'
import type { TasksFolderOptions } from './tasks-folder-options.ts'
import { type Watch, watchFolder } from './watch.ts'

const label = '.tasks'
const fileOf = (id: string): string => `task_${id}.json`
/** Also one that is not read: that is told. */
const mayBeDrop = (name: string): boolean => !isSideFile(name) && name !== 'archive' && name !== 'dropped'
/** How long tasks that are to be archived are gathered. */
const archiveMs = 200

/**
 * `.tasks/`: what people see of the tasks and what they leave there. The store is the truth: each task is shown in its
 * file, drops become tasks, hand edits are compared field by field and adopted or put back, ended tasks move to `archive/`.
 */
export class TasksFolder {
  readonly #options: TasksFolderOptions
  readonly #dir: string
  readonly #archive: TaskArchive
  readonly #lane: Lane
  readonly #projection: Projection
  readonly #drops: Drops
  readonly #calm: Calm
  readonly #troubles: Troubles
  readonly #putBacks: PutBacks
  readonly #shown: ShownTasks
  readonly #edits: HandEdits
  readonly #write: WritePages
  readonly #pending = new Map<string, TaskFile>()
  /** Tasks that came back from their files, which thus hold nothing new. */
  #imported = new Set<string>()
  #isStarting = true
  #archiving: Promise<void> | undefined
  #watch: Watch | undefined
  #unwatch: (() => void) | undefined

  constructor(options: TasksFolderOptions) {
    this.#options = options
    this.#dir = join(options.root, label)
    this.#archive = new TaskArchive(this.#dir, options.store, options.limits.archiveAfter)
    this.#putBacks = new PutBacks({ dir: this.#dir, label, clock: options.clock, file: fileOf })
    this.#shown = new ShownTasks(options.store, options.blockedBy)
    this.#edits = new HandEdits({
      store: options.store,
      shown: this.#shown,
      putBacks: this.#putBacks,
      onEdit: options.onEdit,
      onProblem: problem => this.#report(problem),
    })
    this.#write = options.write ?? pageWriter(options.clock)
    this.#calm = new Calm(options.clock)
    this.#troubles = new Troubles(options.onProblem, options.onMended)
    this.#lane = new Lane(file => this.#troubles.look(label, file === null, () => this.#look(file)), options.onFailure)
    this.#drops = new Drops({
      dir: this.#dir,
      label,
      within: [options.root, this.#dir, ...(options.workspace === undefined ? [] : [options.workspace])],
      clock: options.clock,
      onDrop: options.onDrop,
      isStarting: () => this.#isStarting,
      onProblem: problem => this.#report(problem),
      onMended: file => options.onMended?.(file),
      onTrouble: (file, error) => this.#troubles.tell(`${label}/${file}`, error),
      onFine: file => this.#troubles.over(`${label}/${file}`),
      lookLater: (file, ms) => this.#lane.lookLater(file, ms),
    })
    this.#projection = new Projection({
      dir: this.#dir,
      by: this.#archive.dir,
      lane: this.#lane,
      clock: options.clock,
      file: fileOf,
      text: id => this.#text(id),
      durable: () => options.store.flushed(),
      foreign: id => this.#inspect(id),
      write: this.#write,
      onWritten: id => this.#wrote(id),
      onLate: save => this.#late(save),
      onTrouble: (file, error) => this.#troubles.tell(`${label}/${file}`, error),
    })
  }

  /**
   * Compares every file with its record, shows what is missing or stale, and watches from then on. Returns the ids of
   * tasks that came back from files because the run state was gone.
   */
  async start(): Promise<{ readonly imported: readonly string[] }> {
    const { store, clock, sweepMs } = this.#options
    for (const dir of [this.#dir, this.#archive.dir]) mkdirSync(dir, { recursive: true, mode: 0o700 })
    const imported = store.tasks.size === 0 ? importTasks(store, [this.#dir, this.#archive.dir]) : []
    this.#imported = new Set(imported)
    this.#archive.start()
    this.#unwatch = store.tasks.watch((id, { value }) => {
      this.#archive.follow(value)
      this.touch(id)
    })
    await this.#shown.prepare(oldRevisions(store, this.#dir))
    this.#watch = watchFolder(this.#dir, {
      clock,
      onHint: file => this.#hint(file),
      isOwn: file => this.#projection.isEcho(file),
      onDeaf: error => this.#troubles.tell(label, error),
      ...(sweepMs === undefined ? {} : { sweepMs }),
    })
    // It has asked for a look at everything by then.
    await this.#watch.ready
    await this.#lane.settledNow()
    this.#isStarting = false
    this.#shown.prepared()
    this.#imported.clear()
    return { imported }
  }

  /** What the file of this task shows changed; `follows`: as another task moved (its `blockedBy`), which may wait a little. */
  touch(id: string, follows = false): void {
    if (!this.#archive.has(id)) this.#projection.touch(id, follows)
  }

  /** Is the task's file in `archive/`? */
  archived(id: string): boolean {
    return this.#archive.has(id)
  }

  get archivedCount(): number {
    return this.#archive.size
  }

  /** What stands wrong in the folder now. */
  problems(): readonly Problem[] {
    return [...this.#drops.problems(), ...this.#putBacks.problems(), ...this.#troubles.list()]
  }

  /** Resolves when every change of a record so far stands in its file. */
  projected(): Promise<void> {
    return this.#projection.settled()
  }

  /** Looks at everything, and resolves when it is taken in, half-written files are judged, and the files show it. */
  async settled(): Promise<void> {
    this.#lane.look(null)
    await this.#lane.settled()
    await this.#projection.settled()
    await this.#archiving
    await this.#lane.settled()
    await this.#options.store.flushed()
  }

  /** Stops looking; what changed so far is still shown. */
  async close(): Promise<void> {
    await this.#watch?.close()
    this.#unwatch?.()
    await this.#projection.settled()
    await this.#projection.finish()
    await this.#lane.close()
    await this.#archiving
  }

  #hint(file: string | null): void {
    // The folder's own notes are frequent changes, and nothing is to be seen in them.
    if (file === null || mayBeDrop(file) || file.endsWith('.error.txt') || file === label) this.#lane.look(file)
  }

  async #look(file: string | null): Promise<void> {
    if (file === null || file === label || file.endsWith('.error.txt')) return this.#lookAtAll()
    const id = this.#idOf(file)
    if (id === null) this.#settle(await this.#drops.look([file]))
    else if (stamp(join(this.#dir, file))) {
      this.#archive.leave(id)
      await this.#inspect(id)
    } else if (!this.#archive.has(id)) {
      // More may be gone with it: they are put back, and told of, together.
      this.#lane.lookLater(null, 30)
    }
  }

  async #lookAtAll(): Promise<void> {
    makeFolderIn(this.#options.root, this.#dir)
    const names = new Set(readdirSync(this.#dir))
    const drops: string[] = []
    for (const name of names) {
      if (!mayBeDrop(name)) continue
      const id = this.#idOf(name)
      if (id === null) drops.push(name)
      else {
        this.#drops.leave(name)
        this.#archive.leave(id)
        await this.#inspect(id)
      }
    }
    const missing = [...this.#options.store.tasks.list()]
      .map(([id]) => id)
      .filter(id => !this.#archive.has(id) && !names.has(fileOf(id)))
    this.#restore(missing)
    this.#settle(await this.#drops.look(drops.sort(byName)))
    this.#drops.sweep(names)
    this.#putBacks.sweep(names)
    this.#archiveSoon()
  }

  /** The id of the known task that a file of this name belongs to. */
  #idOf(file: string): string | null {
    const id = idInName(file)
    return id !== null && this.#options.store.tasks.get(id) ? id : null
  }

  /** A drop that had the name of a task's file is out of the way: the task's own may be written. */
  #settle(taken: readonly string[]): void {
    for (const id of taken.map(file => this.#idOf(file))) if (id !== null) this.touch(id)
  }

  #restore(ids: readonly string[]): void {
    const deleted = ids.filter(id => this.#projection.known(id) && !this.#projection.isDirty(id))
    const [first, ...more] = deleted
    if (first !== undefined) this.#report(this.#putBacks.deleted([first, ...more]))
    for (const id of ids) {
      this.#projection.forget(id)
      this.touch(id)
    }
  }

  /** Takes in what a hand or another program wrote over a task's file. True: the file may be written now. */
  async #inspect(id: string): Promise<boolean> {
    try {
      return await this.#inspectFile(id)
    } catch (error) {
      this.#troubles.tell(`${label}/${fileOf(id)}`, error)
      return false
    }
  }

  async #inspectFile(id: string): Promise<boolean> {
    const { store } = this.#options
    const file = fileOf(id)
    const path = join(this.#dir, file)
    const rec = store.tasks.get(id)
    const other = rec ? misplacedEntry(path) : null
    if (other?.kind === 'folder') {
      this.#projection.forget(id)
      this.#troubles.stands(this.#putBacks.blocked(id))
      return false
    }
    if (other) {
      if (other.kind === 'link' && rec?.value.file === file && (await this.#finish(file)))
        return this.#seen(id, undefined)
      rmSync(path)
      this.#edits.refused(id, this.#putBacks.removed(id, other.what), null)
      return this.#seen(id, undefined)
    }
    const at = stamp(path)
    if (!rec || !at || sameStamp(at, this.#projection.known(id))) return true
    const read = readStamped(path)
    if (!read) {
      this.#lane.lookLater(file, 50)
      return false
    }
    const found = readObject(read.bytes)
    if (typeof found === 'string') {
      // May be half of a text that is still being written; the record is the last good state meanwhile.
      if (!this.#calm.isCalm(file, read.stamp)) {
        this.#lane.lookLater(file, calmMs + 10)
        return false
      }
      // Nothing but zeros is what a power cut leaves.
      if (read.bytes.some(byte => byte !== 0)) this.#edits.putBack(id, read.bytes, [found])
      return this.#seen(id, read.stamp)
    }
    this.#calm.forget(file)
    if (this.#imported.has(id)) return this.#seen(id, read.stamp)
    if (found.rev === undefined && rec.value.file === file && (await this.#finish(file)))
      return this.#seen(id, undefined)
    const past = this.#shown.past(id)
    if (past && found.rev !== rec.rev && isStale(past, found)) return this.#seen(id, read.stamp)
    if (await this.#edits.take(id, found, read.bytes)) {
      // Only spaces or the order of keys changed: that is a person's taste.
      this.#projection.seen(id, read.stamp)
      return true
    }
    return this.#seen(id, read.stamp)
  }

  /** A save into the file that was just written over: a hand edit like any other, only that the file shows the record already. */
  async #late({ path, bytes }: LateSave): Promise<void> {
    const id = this.#idOf(basename(path))
    if (id === null) return
    const found = readObject(bytes)
    // What was only emptied says nothing.
    if (typeof found !== 'string') await this.#edits.take(id, found, bytes)
    else if (bytes.some(byte => byte !== 0)) this.#edits.putBack(id, bytes, [found])
  }

  /** Dropped under this name, taken in, and then a crash before it was moved away: the same drop makes no second task. */
  async #finish(file: string): Promise<boolean> {
    return this.#isStarting && (await this.#drops.finish(file))
  }

  /** This state of the file was dealt with; what the record says is to be shown in its place. */
  #seen(id: string, at: Stamp | undefined): boolean {
    if (at) this.#projection.seen(id, at)
    else this.#projection.forget(id)
    this.touch(id)
    return true
  }

  #report(problem: Problem): void {
    const { store, onProblem } = this.#options
    if (problem.kind === 'drop' && !problem.known)
      store.note({ event: 'drop.refused', by: 'human', info: { file: problem.file, reason: problem.reason } })
    onProblem(problem)
  }

  #text(id: string): string | null {
    const rec = this.#options.store.tasks.get(id)
    if (!rec || this.#archive.has(id)) return null
    const shown = this.#shown.now(id, rec.value, rec.rev)
    this.#pending.set(id, shown)
    return renderTask(shown)
  }

  #wrote(id: string): void {
    const shown = this.#pending.get(id)
    this.#pending.delete(id)
    if (shown) this.#shown.keep(id, shown)
    this.#troubles.over(`${label}/${fileOf(id)}`)
    if (this.#archive.isCandidate(id)) this.#archiveSoon()
  }

  #archiveSoon(): void {
    if (!this.#archive.isDue || this.#lane.isOver) return
    this.#archiving ??= this.#lane.wait(archiveMs).then(() => {
      this.#archiving = undefined
      return this.#lane.act(() => this.#archiveNow())
    })
  }

  async #archiveNow(): Promise<void> {
    // Not before a task's last state stands in its file; an edit nobody has looked at yet comes first.
    const ids = this.#archive.oldest(id => this.#projection.known(id) !== undefined && !this.#projection.isDirty(id))
    if (ids.length === 0) return
    makeFolderIn(this.#options.root, this.#archive.dir)
    const answers = await this.#write(
      ids.map(id => {
        const file = fileOf(id)
        return { path: join(this.#dir, file), to: join(this.#archive.dir, file), known: this.#projection.known(id) }
      }),
    )
    const moved: string[] = []
    for (const [at, id] of ids.entries()) {
      const answer = answers[at]
      if (answer?.kind === 'refused')
        this.#troubles.tell(`${label}/${fileOf(id)}`, Object.assign(new Error(answer.message), { code: answer.code }))
      if (answer?.kind !== 'written') continue
      this.#projection.forget(id)
      this.#shown.forget(id)
      if (this.#archive.moved(id)) moved.push(id)
      else this.touch(id)
    }
    if (moved.length === 0) return
    await this.#options.store.note({ event: 'task.archived', by: 'supervisor', info: { tasks: moved } }).durable
  }
}
