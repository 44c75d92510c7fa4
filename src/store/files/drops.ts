import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { Clock } from '../../lib/clock.ts'
import { errnoOf } from '../../lib/files.ts'
import { reach } from '../../lib/points.ts'
import type { Result } from '../../lib/result.ts'
import { dropKind, maxDropBytes, type Drops as Parsed, parseDrops } from '../../protocol/drop.ts'
import type { TaskDrop } from '../../protocol/task.ts'
import { Calm, calmMs } from './calm.ts'
import { type DroppedEntry, droppedEntry } from './dropped-entry.ts'
import type { Problem } from './problem.ts'
import { readStamped, type Stamp, sameStamp, stamp } from './stamp.ts'

/** Numbers in names count as numbers, so that ids follow the order that a person sees. */
export const byName = new Intl.Collator('en', { numeric: true }).compare

/** The tasks of a drop; `isKnown`: they were there already. */
export interface Taken {
  readonly ids: readonly string[]
  readonly isKnown: boolean
}

export interface DropsOptions {
  readonly dir: string
  /** `dir` relative to the team root, for people. */
  readonly label: string
  /** Folders that a link may lead into. */
  readonly within: readonly string[]
  readonly clock: Clock
  /**
   * Takes the tasks of one file in, all or none, and resolves when that is durable. The same `key` again (after a crash
   * before the file was moved away) must add nothing. Called in order of the files' names, without waiting between.
   */
  readonly onDrop: (
    drops: readonly TaskDrop[],
    from: { readonly file: string; readonly key: string },
  ) => Promise<Result<Taken>>
  /** The first look after a start: a file that was taken in before was only not moved away. */
  readonly isStarting: () => boolean
  readonly onProblem: (problem: Problem) => void
  /** What was told of this file stands no more. */
  readonly onMended: (file: string) => void
  /** The disk refuses to read, note or move this file (its name in the folder). */
  readonly onTrouble: (file: string, error: unknown) => void
  readonly onFine: (file: string) => void
  /** Look at this file again after so many milliseconds. */
  readonly lookLater: (file: string, ms: number) => void
}

interface Found {
  /** What was read, behind a link too. */
  readonly path: string
  /** Of what was read, behind a link too. */
  readonly stamp: Stamp
  /** Of the name in the folder. */
  readonly own: Stamp
  readonly bytes: Buffer
  readonly drops: Parsed
}

/** Files dropped into the tasks folder: read, taken in and moved to `dropped/`, or refused with a note beside them. */
export class Drops {
  readonly #options: DropsOptions
  readonly #calm: Calm
  readonly #refused = new Map<string, { readonly stamp: Stamp; readonly problem: Problem }>()
  /** Taken in, and the disk did not let them be moved away. */
  readonly #stuck = new Set<string>()

  constructor(options: DropsOptions) {
    this.#options = options
    this.#calm = new Calm(options.clock)
  }

  problems(): Problem[] {
    return [...this.#refused.values()].map(each => each.problem)
  }

  /**
   * Looks at the files (names in the folder), in this order. Those that may still be being written are looked at again
   * later. Resolves when every other one is taken in or refused; with the names that were taken in.
   */
  async look(files: readonly string[]): Promise<string[]> {
    const taken: string[] = []
    const submitted: Promise<void>[] = []
    const found = files.map(file => this.#readOrTell(file))
    const isFlushed = await Promise.all(found.map((each, at) => each?.drops.ok && this.#flush(files[at] ?? '', each)))
    for (const [at, file] of files.entries()) {
      const each = found[at]
      if (!each) continue
      const { drops } = each
      if (drops.ok && !isFlushed[at]) continue
      if (drops.ok)
        submitted.push(this.#take(file, each, drops.drops).then(isTaken => void (isTaken && taken.push(file))))
      else this.#refuse(file, each.stamp, drops.reasons)
    }
    await Promise.all(submitted)
    return taken
  }

  /**
   * A file that may have been taken in before a crash, and not moved away: true when it was (it is moved now). Otherwise
   * nothing is done, and nothing told.
   */
  async finish(file: string): Promise<boolean> {
    const entry = this.#entry(file)
    const read = entry.kind === 'file' ? readStamped(entry.path) : undefined
    const drops = read && parseDrops(file, read.bytes)
    if (entry.kind !== 'file' || !read || !drops?.ok) return false
    const result = await this.#submit(file, { ...read, own: entry.own }, drops.drops)
    if (result.ok) this.#setAside(file, undefined)
    return result.ok
  }

  /** This name belongs to a task now: what was told of it as a drop stands no more. */
  leave(file: string): void {
    if (this.#refused.has(file)) this.#mended(file)
  }

  /** Clears notes whose file is gone; `names` is what stands in the folder. */
  sweep(names: ReadonlySet<string>): void {
    for (const file of this.#refused.keys()) if (!names.has(file)) this.#mended(file)
    for (const name of names) {
      if (!name.endsWith(noteSuffix)) continue
      const file = name.slice(0, -noteSuffix.length)
      if (!names.has(file) && isNote(this.#text(name), file)) rmSync(this.#path(name), { force: true })
    }
  }

  #readOrTell(file: string): Found | undefined {
    try {
      return this.#read(file)
    } catch (error) {
      this.#options.onTrouble(file, error)
      return undefined
    }
  }

  /**
   * Whoever dropped the file need not have flushed it, and a power cut may undo its move to `dropped/`: half of its text,
   * found again, would be another drop. Who moved it away meanwhile gets its text as a task all the same.
   */
  async #flush(file: string, { path }: Found): Promise<boolean> {
    try {
      const handle = await open(path, 'r')
      try {
        await handle.datasync()
      } finally {
        await handle.close()
      }
      return true
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return true
      this.#options.onTrouble(file, error)
      return false
    }
  }

  #read(file: string): Found | undefined {
    const { lookLater } = this.#options
    const entry = this.#entry(file)
    const now = entry.kind === 'file' ? stamp(entry.path) : entry.kind === 'unread' ? entry.own : undefined
    if (!now) {
      this.#calm.forget(file)
      if (this.#refused.has(file)) this.#mended(file)
      return undefined
    }
    if (entry.kind !== 'file') {
      // Many a program writes under such a name first, and renames.
      if (entry.kind === 'unread' && this.#refused.get(file)?.problem.reason !== entry.reason) {
        if (this.#calm.isCalm(file, now)) this.#refuse(file, now, [entry.reason])
        else lookLater(file, calmMs + 10)
      }
      return undefined
    }
    if (sameStamp(this.#refused.get(file)?.stamp, now)) return undefined
    if (now.size > BigInt(maxDropBytes)) {
      if (this.#calm.isCalm(file, now)) this.#refuse(file, now, [`larger than ${maxDropBytes} bytes (${now.size})`])
      else lookLater(file, calmMs + 10)
      return undefined
    }
    const read = readStamped(entry.path)
    if (!read) {
      lookLater(file, 50)
      return undefined
    }
    const drops = parseDrops(file, read.bytes)
    // Half of a JSON text never reads as a whole one; half of the others may.
    const maybeHalf = drops.ok ? dropKind(file) !== 'json' : drops.torn || dropKind(file) !== 'json'
    if (maybeHalf && !this.#calm.isCalm(file, read.stamp)) {
      lookLater(file, calmMs + 10)
      return undefined
    }
    this.#calm.forget(file)
    return { ...read, path: entry.path, own: entry.own, drops }
  }

  async #take(file: string, found: Found, drops: readonly TaskDrop[]): Promise<boolean> {
    const result = await this.#submit(file, found, drops)
    if (!result.ok) {
      const { message, hint } = result.fault
      this.#refuse(file, found.stamp, [hint === undefined ? message : `${message} (${hint})`])
      return false
    }
    try {
      const { ids, isKnown } = result.value
      reach('drop.taken')
      const now = stamp(this.#path(file))
      if (now) this.#setAside(file, sameStamp(now, found.stamp) ? undefined : ids)
      if (isKnown && !this.#stuck.delete(file) && !this.#options.isStarting()) this.#tell(file, again(ids))
    } catch (error) {
      // It stays where it is, and is known by its key at the next look.
      this.#stuck.add(file)
      this.#options.onTrouble(file, error)
      return false
    }
    this.#options.onFine(file)
    this.#mended(file)
    return true
  }

  #submit(file: string, found: Pick<Found, 'own' | 'bytes'>, drops: readonly TaskDrop[]): Promise<Result<Taken>> {
    return this.#options.onDrop(drops, { file, key: dropKey(file, found.own, found.bytes) })
  }

  /** Moves the original to `dropped/`; `lateFor` names the tasks that a text saved in the last moment did not get into. */
  #setAside(file: string, lateFor: readonly string[] | undefined): void {
    const { dir, label } = this.#options
    const to = join(dir, 'dropped')
    mkdirSync(to, { recursive: true, mode: 0o700 })
    const name = freeName(to, file)
    const entry = this.#entry(file)
    if (entry.kind === 'file' && entry.path !== this.#path(file)) {
      // A link that is moved may lead nowhere; what it leads to is not ours to move.
      copyFileSync(entry.path, join(to, name))
      rmSync(this.#path(file))
    } else renameSync(this.#path(file), join(to, name))
    reach('drop.moved')
    if (lateFor)
      this.#tell(
        file,
        `saved again while it was being taken in: the later text is in ${label}/dropped/${name}, edit the file of task ${lateFor.join(', ')} instead`,
      )
  }

  /** Says it once. */
  #tell(file: string, reason: string): void {
    const { label, onProblem } = this.#options
    onProblem({ kind: 'drop', file: `${label}/${file}`, reason, standing: false, known: false })
  }

  #refuse(file: string, at: Stamp, reasons: readonly string[]): void {
    const { label, onProblem } = this.#options
    const note = noteText(file, reasons)
    const noteFile = file + noteSuffix
    const known = this.#text(noteFile) === note
    try {
      if (!known) writeFileSync(this.#path(noteFile), note, { mode: 0o600 })
    } catch (error) {
      this.#options.onTrouble(noteFile, error)
    }
    const problem: Problem = {
      kind: 'drop',
      file: `${label}/${file}`,
      reason: reasons.join('; '),
      standing: true,
      known,
    }
    const before = this.#refused.get(file)
    this.#refused.set(file, { stamp: at, problem })
    if (before?.problem.reason !== problem.reason) onProblem(problem)
  }

  #mended(file: string): void {
    const { label, onMended } = this.#options
    const wasRefused = this.#refused.delete(file)
    if (isNote(this.#text(file + noteSuffix), file)) rmSync(this.#path(file + noteSuffix), { force: true })
    if (wasRefused) onMended(`${label}/${file}`)
  }

  #entry(file: string): DroppedEntry {
    return droppedEntry(this.#path(file), this.#options.within)
  }

  #path(file: string): string {
    return join(this.#options.dir, file)
  }

  #text(file: string): string | undefined {
    return stamp(this.#path(file)) ? readFileSync(this.#path(file), 'utf8') : undefined
  }
}

const again = (ids: readonly string[]): string =>
  `taken in before as task ${ids.join(', ')}, so nothing is added and the file goes back to dropped/: edit the file of the task, \`team task retry\` it, or drop a copy (cp) for a new task`

const noteSuffix = '.error.txt'

const noteText = (file: string, reasons: readonly string[]): string =>
  [
    `${file} was not taken in:`,
    ...reasons.map(reason => `  ${reason}`),
    'Mend it and save it, or remove it: this note then goes away.',
    '',
  ].join('\n')

/** Only the program's own notes are ever removed. */
const isNote = (text: string | undefined, file: string): boolean =>
  text?.startsWith(`${file} was not taken in:\n`) ?? false

/** The same for one file as long as nobody touches it, over crashes; another for a new copy of the same text. */
const dropKey = (file: string, at: Stamp, bytes: Buffer): string =>
  createHash('sha256')
    .update(JSON.stringify([file, String(at.dev), String(at.ino), String(at.size), String(at.mtimeNs)]))
    .update(bytes)
    .digest('hex')

/** `name`, or the first of `name` numbered before its extension that is not taken in `dir`. */
export const freeName = (dir: string, name: string): string => {
  if (!existsSync(join(dir, name))) return name
  const extension = extname(name)
  const stem = name.slice(0, name.length - extension.length)
  const taken = new Set(readdirSync(dir))
  let n = 2
  while (taken.has(`${stem}.${n}${extension}`)) n++
  return `${stem}.${n}${extension}`
}
