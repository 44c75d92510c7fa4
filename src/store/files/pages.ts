import { closeSync, constants, fstatSync, mkdirSync, openSync, renameSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Clock } from '../../lib/clock.ts'
import { errnoOf, flushFile } from '../../lib/files.ts'
import { reach } from '../../lib/points.ts'
import { type LateSave, Replaced } from './replaced.ts'
import { type Stamp, sameStamp, stamp, stampOf, stampOrOther, swapFile } from './stamp.ts'

/** A file as it is to be: `known` is the state of it that may be written over (undefined: none was ever seen). */
export interface Page {
  readonly path: string
  readonly text: string
  readonly known: Stamp | undefined
  /** A folder of the same file system to write it in first; where it goes to unless given. Who watches sees less of it. */
  readonly by?: string | undefined
  /** Hands write into this file: what was written over is looked at for a while longer (see `Look`), and what is no file is `foreign`. */
  readonly isEdited?: boolean
}

/** A file that goes to another folder, in the state `known` and in no other. */
export interface Move {
  readonly path: string
  readonly to: string
  readonly known: Stamp | undefined
}

/** A look at what was written over: did a hand save into it since? `isLast`: and no further one. */
export interface Look {
  readonly isLast: boolean
}

/**
 * `foreign`: there is a state of the file that nobody looked at, and it was left as it is. `looked`: what was saved into files
 * after they had been written over, and how many of these are still looked at.
 */
export type Written =
  | { readonly kind: 'written'; readonly stamp: Stamp }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'looked'; readonly saves: readonly LateSave[]; readonly left: number }
  | { readonly kind: 'refused'; readonly code: string | undefined; readonly message: string }

/** Writes, moves or looks one after the other, and answers for each in their order. Never rejects for what the disk refuses. */
export type WritePages = (asked: readonly (Page | Move | Look)[]) => readonly Written[] | Promise<readonly Written[]>

/** Writes in the thread that calls it. A folder that is missing is made. */
export const pageWriter = (clock: Clock): ((asked: readonly (Page | Move | Look)[]) => Written[]) => {
  const replaced = new Replaced(clock)
  return asked =>
    asked.map(one => {
      try {
        if ('isLast' in one) return { kind: 'looked', saves: replaced.look(one.isLast), left: replaced.size }
        return 'text' in one ? write(one, replaced) : move(one)
      } catch (error) {
        if (!(error instanceof Error)) throw error
        return { kind: 'refused', code: (error as NodeJS.ErrnoException).code, message: error.message }
      }
    })
}

const move = ({ path, to, known }: Move): Written => {
  const now = stamp(path)
  if (!now || !sameStamp(now, known)) return { kind: 'foreign' }
  // Where it goes to nobody compares it with its record any more: what a power cut leaves there is to be whole.
  flushFile(path)
  reach('page.move')
  renameSync(path, to)
  reach('page.moved')
  return { kind: 'written', stamp: now }
}

const write = (page: Page, replaced: Replaced): Written => {
  const { path, by } = page
  try {
    return swap(page, by, replaced)
  } catch (error) {
    const code = errnoOf(error)
    if (code !== 'ENOENT' && (code !== 'EXDEV' || by === undefined)) throw error
    // A folder was removed meanwhile, or the other one leads to another disk.
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    return swap(page, undefined, replaced)
  }
}

const swap = ({ path, text, known, isEdited = false }: Page, by: string | undefined, replaced: Replaced): Written => {
  let old: number | null = null
  try {
    // A hand may have been faster, and the text took its time to be written beside: what it wrote is looked at first.
    const mayReplace = (): boolean => {
      old = isEdited && known ? openOld(path) : null
      const now = old === null ? stampOrOther(path) : stampOf(fstatSync(old, { bigint: true }))
      if (now === 'other') return !isEdited
      return !now || sameStamp(now, known)
    }
    reach('page.write')
    const written = swapFile(path, text, mayReplace, by)
    if (!written) return { kind: 'foreign' }
    reach('page.written')
    if (old !== null && known) {
      replaced.hold(path, old, known)
      old = null
    }
    return { kind: 'written', stamp: written }
  } finally {
    if (old !== null) closeSync(old)
  }
}

/** The file that is about to be written over; null where it cannot be opened, as when handles are out: it is not looked at then. */
const openOld = (path: string): number | null => {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return null
  }
}
