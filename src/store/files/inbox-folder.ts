import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, iso } from '../../lib/clock.ts'
import { makeFolderIn } from '../../lib/files.ts'
import { nearest } from '../../lib/text.ts'
import type { Limits } from '../../protocol/config.ts'
import type { Stored } from '../../protocol/message.ts'
import type { Store } from '../store.ts'
import { DeadLetters } from './dead-letters.ts'
import { InboxFile, isReadUp } from './inbox-file.ts'
import { Lane } from './lane.ts'
import { type Problem, Troubles } from './problem.ts'
import { type Watch, watchFolder } from './watch.ts'

export interface InboxFolderOptions {
  readonly root: string
  readonly store: Store
  /** Everybody who has an inbox at the start: the teammates, `user` and `supervisor`. */
  readonly names: readonly string[]
  readonly limits: Pick<Limits, 'messageBytes' | 'inboxBytes'>
  readonly clock: Clock
  readonly onProblem: (problem: Problem) => void
  readonly onMended?: (file: string) => void
  /** A foreign message of type `task` stands in the log; told again after some crashes, so make one task of each id. */
  readonly onTask: (stored: Stored) => void
  /** The folder cannot go on (a bug, or the journal failed). */
  readonly onFailure: (error: unknown) => void
  readonly sweepMs?: number
  /** After how long an unfinished last line is judged as it is; 30 s. */
  readonly unfinishedMs?: number
  /** How long an inbox is quiet before it is rotated; 1 s. */
  readonly quietMs?: number
  /** How long a rotated file is looked at for late writers; ten minutes. */
  readonly oldMs?: number
}

const label = '.messages'
const suffix = '.inbox.jsonl'
/** How late the mark of what was read is written: what is read again meanwhile is known again. */
const markMs = 1000
const retryMs = 1000

/**
 * `.messages/`: one inbox file for each name. What the daemon sends is appended when it is durable; what others append is
 * taken into the logs, each line once, whatever crashed in between.
 */
export class InboxFolder {
  readonly #options: InboxFolderOptions
  readonly #dir: string
  readonly #lane: Lane
  readonly #files = new Map<string, InboxFile>()
  readonly #letters: DeadLetters
  readonly #troubles: Troubles
  readonly #standing = new Map<string, Problem>()
  #watch: Watch | undefined
  #sending: Promise<void> | undefined
  #retrying: Promise<void> | undefined
  #marking: Promise<void> | undefined

  constructor(options: InboxFolderOptions) {
    const { root, store, names } = options
    this.#options = options
    this.#dir = join(root, label)
    this.#lane = new Lane(file => this.#troubles.look(label, file === null, () => this.#look(file)), options.onFailure)
    this.#troubles = new Troubles(options.onProblem, options.onMended)
    this.#letters = new DeadLetters(root, store, this.#troubles)
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    for (const name of names) this.#open(name)
  }

  #open(name: string): InboxFile {
    const { root, store, clock, limits, onTask, unfinishedMs, quietMs, oldMs } = this.#options
    const file = new InboxFile(
      {
        root,
        name,
        store,
        limits,
        clock,
        onTask,
        onDead: letter => this.#dead({ at: iso(clock.wall()), ...letter }),
        unfinishedMs: unfinishedMs ?? 30_000,
        quietMs: quietMs ?? 1000,
        oldMs: oldMs ?? 600_000,
      },
      () => this.#sendSoon(),
    )
    this.#files.set(name + suffix, file)
    return file
  }

  /** Somebody joined: an inbox that was there already is taken up where it was left. Resolves when it is read. */
  async join(name: string): Promise<void> {
    if (this.#files.has(name + suffix)) return
    const file = this.#open(name)
    await this.#lane.act(() => this.#scan(file))
    this.#lane.look(null)
  }

  /** Somebody left: the file stays, and what was sent and is not in it yet follows should they join again. What is written there from now on reaches nobody. */
  async leave(name: string): Promise<void> {
    await this.#lane.act(async () => {
      const file = this.#files.get(name + suffix)
      if (!file) return
      await this.#scan(file)
      await this.#saveMark(file)
      file.close()
      this.#files.delete(name + suffix)
    })
    this.#lane.look(null)
  }

  /** Takes in what was appended while nobody looked, appends what a crash kept from the files, and watches from then on. */
  async start(): Promise<void> {
    const { clock, sweepMs } = this.#options
    this.#letters.start()
    await this.#lane.act(async () => {
      for (const file of this.#files.values()) await this.#scan(file)
      this.#letters.caughtUp()
    })
    this.#sendSoon()
    this.#watch = watchFolder(this.#dir, {
      clock,
      onHint: file => {
        if (file === null || this.#files.has(file) || file.endsWith(suffix) || file === label) this.#lane.look(file)
      },
      onDeaf: error => this.#troubles.tell(label, error),
      ...(sweepMs === undefined ? {} : { sweepMs }),
    })
    await this.#watch.ready
    await this.#lane.settledNow()
  }

  /** What stands wrong in the folder now. */
  problems(): readonly Problem[] {
    return [...this.#standing.values(), ...this.#troubles.list()]
  }

  /** Resolves when everything the daemon sent so far stands in the files, but for those that the disk refuses. */
  async projected(): Promise<void> {
    while (this.#sending) await this.#sending
  }

  /** Looks at every file, and resolves when every complete line is taken in durably and everything sent is in the files (see `projected`). */
  async settled(): Promise<void> {
    this.#lane.look(null)
    await this.#lane.settled()
    await this.projected()
    await this.#lane.settled()
    await this.#lane.act(() => this.#saveMarks())
    await this.#options.store.flushed()
  }

  /** Stops looking; what was sent so far is still appended. */
  async close(): Promise<void> {
    await this.#watch?.close()
    await this.projected()
    await this.#lane.act(() => this.#saveMarks())
    await this.#lane.close()
    await this.#marking
    for (const file of this.#files.values()) file.close()
  }

  async #look(file: string | null): Promise<void> {
    const one = file === null ? undefined : this.#files.get(file)
    if (one) {
      await this.#scan(one)
      return
    }
    makeFolderIn(this.#options.root, this.#dir)
    this.#lookForStrangers()
    for (const each of this.#files.values()) {
      await this.#scan(each)
      this.#rotate(each)
    }
  }

  #rotate(file: InboxFile): void {
    const archive = `${label}/archive`
    try {
      if (file.rotate()) this.#troubles.over(archive)
    } catch (error) {
      this.#troubles.tell(archive, error)
    }
  }

  async #scan(file: InboxFile): Promise<void> {
    try {
      await file.scan()
      this.#troubles.over(file.label)
    } catch (error) {
      this.#troubles.tell(file.label, error)
    }
    if (file.hasOutgoing) this.#sendSoon()
    this.#markSoon()
  }

  #sendSoon(): void {
    this.#sending ??= this.#send()
  }

  async #send(): Promise<void> {
    // What is sent in one turn of the event loop goes out together.
    await Promise.resolve()
    const refused = new Set<InboxFile>()
    const due = () => [...this.#files.values()].filter(file => file.hasOutgoing && !refused.has(file))
    while (!this.#lane.isOver && due().length > 0) {
      let againMs = 0
      await this.#lane.act(async () => {
        await this.#options.store.flushed()
        for (const file of due()) {
          const again = await this.#append(file)
          if (again === null) refused.add(file)
          else againMs = Math.max(againMs, again)
        }
      })
      if (againMs > 0) await this.#lane.wait(againMs)
    }
    this.#sending = undefined
    if (refused.size > 0) this.#retry()
    this.#markSoon()
  }

  /** In how many milliseconds to try again; null where the disk refuses. */
  async #append(file: InboxFile): Promise<number | null> {
    try {
      const { againMs, scan } = file.append()
      if (scan) await file.scan()
      return againMs
    } catch (error) {
      this.#troubles.tell(file.label, error)
      return null
    }
  }

  /** What the disk refuses holds up nobody who waits for what was sent: it stands in the log, and is tried again. */
  #retry(): void {
    this.#retrying ??= this.#lane.wait(retryMs).then(() => {
      this.#retrying = undefined
      if (!this.#lane.isOver) this.#sendSoon()
    })
  }

  #markSoon(): void {
    this.#marking ??= this.#lane.wait(markMs).then(() => {
      this.#marking = undefined
      if (!this.#lane.isOver) return this.#lane.act(() => this.#saveMarks())
    })
  }

  async #saveMarks(): Promise<void> {
    const files = [...this.#files.values()]
    await Promise.all(files.map(file => this.#saveMark(file)))
  }

  async #saveMark(file: InboxFile): Promise<void> {
    try {
      await file.flush()
    } catch (error) {
      // The mark stays behind the file: what is read again is known again.
      this.#troubles.tell(file.label, error)
      return
    }
    file.saveMark()
  }

  /** Inboxes of nobody: what is written there reaches nobody, and that is told once. */
  #lookForStrangers(): void {
    const { store, onProblem, onMended } = this.#options
    const names = [...this.#files.keys()].map(file => file.slice(0, -suffix.length))
    const found = new Set(
      readdirSync(this.#dir).filter(
        file =>
          file.endsWith(suffix) &&
          !this.#files.has(file) &&
          !isReadUp(store, file.slice(0, -suffix.length), join(this.#dir, file)),
      ),
    )
    for (const file of this.#standing.keys())
      if (!found.has(file)) {
        this.#standing.delete(file)
        onMended?.(`${label}/${file}`)
      }
    for (const file of found) {
      if (this.#standing.has(file)) continue
      const near = nearest(file.slice(0, -suffix.length), names)
      const problem: Problem = {
        kind: 'inbox',
        file: `${label}/${file}`,
        reason: `nobody on the team has this inbox${near === undefined ? `: there are ${names.join(', ')}` : ` (did you mean ${near}?)`}`,
        standing: true,
        known: false,
      }
      this.#standing.set(file, problem)
      onProblem(problem)
    }
  }

  #dead(letter: { at: string; file: string; offset: number; reason: string; line: string }): void {
    if (!this.#letters.add(letter)) return
    const reason = `at byte ${letter.offset}: ${letter.reason}`
    this.#options.onProblem({ kind: 'letter', file: letter.file, reason, standing: false, known: false })
  }
}
