import { mkdirSync, renameSync } from 'node:fs'
import { dirname } from 'node:path'
import { errnoOf } from '../../lib/files.ts'
import { type Stamp, sameStamp, stamp, swapFile } from './stamp.ts'

/** A file as it is to be: `known` is the state of it that may be written over (undefined: none was ever seen). */
export interface Page {
  readonly path: string
  readonly text: string
  readonly known: Stamp | undefined
  /** A folder of the same file system to write it in first; where it goes to unless given. Who watches sees less of it. */
  readonly by?: string | undefined
}

/** A file that goes to another folder, in the state `known` and in no other. */
export interface Move {
  readonly path: string
  readonly to: string
  readonly known: Stamp | undefined
}

/** `foreign`: there is a state of the file that nobody looked at, and it was left as it is. */
export type Written =
  | { readonly kind: 'written'; readonly stamp: Stamp }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'refused'; readonly code: string | undefined; readonly message: string }

/** Writes or moves one after the other, and answers for each in their order. Never rejects for what the disk refuses. */
export type WritePages = (pages: readonly (Page | Move)[]) => readonly Written[] | Promise<readonly Written[]>

/** Writes in the thread that calls it. A folder that is missing is made. */
export const writePages = (pages: readonly (Page | Move)[]): Written[] => pages.map(page => writePage(page))

const writePage = (page: Page | Move): Written => {
  const { path, known } = page
  try {
    // A hand may have been faster: what it wrote is looked at before it is written over or put away.
    const now = stamp(path)
    if (now && !sameStamp(now, known)) return { kind: 'foreign' }
    if ('text' in page) {
      const written = write(page)
      return written ? { kind: 'written', stamp: written } : { kind: 'foreign' }
    }
    if (!now) return { kind: 'foreign' }
    renameSync(path, page.to)
    return { kind: 'written', stamp: now }
  } catch (error) {
    if (!(error instanceof Error)) throw error
    return { kind: 'refused', code: (error as NodeJS.ErrnoException).code, message: error.message }
  }
}

const write = ({ path, text, known, by }: Page): Stamp | null => {
  // Again, as the text took its time to be written beside it.
  const mayReplace = (): boolean => {
    const now = stamp(path)
    return !now || sameStamp(now, known)
  }
  try {
    return swapFile(path, text, mayReplace, by)
  } catch (error) {
    const code = errnoOf(error)
    if (code !== 'ENOENT' && (code !== 'EXDEV' || by === undefined)) throw error
    // A folder was removed meanwhile, or the other one leads to another disk.
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    return swapFile(path, text, mayReplace)
  }
}
