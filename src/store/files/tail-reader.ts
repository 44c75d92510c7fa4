import { closeSync, constants, fstatSync, readSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { openPlain, splitLines } from '../../lib/files.ts'

/** A place in a file that others append to, and enough to tell whether it is still the same file up to there. */
export interface Place {
  /** Device, inode and birth: a removed file's inode number is soon used again. */
  readonly identity: string
  /** The first byte not read yet. */
  readonly offset: number
  /** The last bytes before `offset`, base64. */
  readonly tail: string
  /** The line at `offset` is the rest of one that was given up: it ends at the next newline. */
  readonly isSkipping: boolean
}

export const startPlace: Place = { identity: '', offset: 0, tail: '', isSkipping: false }

/** A line longer than this is given up, in bytes. */
export const maxLineBytes = 16 * 1024 * 1024
const chunkBytes = 1024 * 1024
const tailBytes = 64

export type ReadOn =
  | { readonly kind: 'missing' }
  /** Another file has this name now, or what was read is not there any more. Nothing was read. */
  | { readonly kind: 'replaced' }
  | {
      readonly kind: 'read'
      readonly place: Place
      /** What follows the last newline: unfinished, or empty. */
      readonly rest: Buffer
      readonly size: number
    }

/**
 * Reads from `place` on to the last newline, calling `onLine` for each line with its offset, in order. Lets others have
 * their turn in between. `onTooLong` is called once for a line that is given up.
 */
export const readOn = async (
  path: string,
  place: Place,
  onLine: (bytes: Buffer, offset: number) => void,
  onTooLong: (head: Buffer, offset: number) => void,
): Promise<ReadOn> => {
  const fd = openIfThere(path)
  if (fd === undefined) return { kind: 'missing' }
  try {
    const stat = fstatSync(fd, { bigint: true })
    const identity = identityOf(stat)
    const before = Buffer.from(place.tail, 'base64')
    const isSame =
      (place.identity === '' || place.identity === identity) &&
      Number(stat.size) >= place.offset &&
      bytesAt(fd, place.offset - before.length, before.length).equals(before)
    if (!isSame) return { kind: 'replaced' }
    let { offset, isSkipping } = place
    let tail: Buffer = before
    let rest: Buffer = Buffer.alloc(0)
    for (;;) {
      const chunk = bytesAt(fd, offset + rest.length, chunkBytes)
      if (chunk.length === 0) break
      const read = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      const { lines, rest: left, end } = splitLines(read, offset)
      for (const line of lines) {
        if (isSkipping) isSkipping = false
        else if (line.bytes.length > maxLineBytes) onTooLong(line.bytes.subarray(0, 4096), line.offset)
        else onLine(line.bytes, line.offset)
      }
      if (end > offset) tail = lastBytes(tail, read.subarray(0, end - offset))
      offset = end
      rest = left
      if (isSkipping || rest.length > maxLineBytes) {
        if (!isSkipping) onTooLong(rest.subarray(0, 4096), offset)
        isSkipping = rest.length > 0 || isSkipping
        tail = lastBytes(tail, rest)
        offset += rest.length
        rest = Buffer.alloc(0)
      }
      await nextTurn()
    }
    return {
      kind: 'read',
      place: { identity, offset, tail: tail.toString('base64'), isSkipping },
      rest,
      size: offset + rest.length,
    }
  } finally {
    closeSync(fd)
  }
}

/** The place after `bytes` that lie at `place`. */
export const placeAfter = (place: Place, bytes: Buffer): Place => ({
  ...place,
  offset: place.offset + bytes.length,
  tail: lastBytes(Buffer.from(place.tail, 'base64'), bytes).toString('base64'),
})

export const identityOf = (stat: { dev: bigint; ino: bigint; birthtimeNs: bigint }): string =>
  `${stat.dev}:${stat.ino}:${stat.birthtimeNs}`

export const bytesAt = (fd: number, offset: number, length: number): Buffer => {
  const buffer = Buffer.allocUnsafe(length)
  return buffer.subarray(0, readSync(fd, buffer, 0, length, offset))
}

const lastBytes = (before: Buffer, read: Buffer): Buffer =>
  read.length >= tailBytes ? Buffer.from(read.subarray(-tailBytes)) : Buffer.concat([before, read]).subarray(-tailBytes)

const openIfThere = (path: string): number | undefined => {
  try {
    return openPlain(path, constants.O_RDONLY)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
