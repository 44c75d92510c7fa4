import { closeSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { errnoOf, unreadable } from '../../lib/files.ts'
import { type Fault, fail, ok, type Result } from '../../lib/result.ts'

/**
 * The journal is a chain of epochs, one file each. An epoch is begun by creating its file, which fails where it exists:
 * that is how one of several contenders becomes the holder. Its header names the epoch before it and how many of that
 * one's bytes count; whatever a superseded holder adds later is void.
 */
export const formatVersion = 1

const Host = z.object({
  pid: z.number().int(),
  host: z.string(),
  kind: z.enum(['daemon', 'cli']),
  startedAt: z.string(),
  /** Where the holder listens: who can connect there knows that it is alive. */
  socket: z.string(),
})
export type Host = z.infer<typeof Host>

/** The first line of an epoch file. */
export const Header = z.object({
  v: z.literal(formatVersion),
  epoch: z.number().int().min(1),
  ...Host.shape,
  /** Sequence number of the last entry before this epoch. */
  seq: z.number().int().min(0),
  prev: z.object({ epoch: z.number().int().min(1), bytes: z.number().int().min(0) }).nullable(),
})
export type Header = z.infer<typeof Header>

/**
 * How the first line of each flush ends. It was written when everything before it was durable, so that of a flush which a
 * power cut left in pieces it is known that nobody was told of it.
 */
export const beginsFlush = ',"first":true}'

const digits = (epoch: number): string => String(epoch).padStart(8, '0')
export const epochPath = (folder: string, epoch: number): string => join(folder, `${digits(epoch)}.jsonl`)
export const snapshotPath = (folder: string, epoch: number): string => join(folder, `snapshot-${digits(epoch)}.json`)

/** Where an epoch file is written before it gets its name. */
export const draftPath = (folder: string, epoch: number, tag: string): string => join(folder, `.epoch-${epoch}-${tag}`)
/** The epoch that a file name is a draft of, or null. */
export const draftOf = (name: string): number | null => {
  const digits = /^\.epoch-(\d+)-/.exec(name)?.[1]
  return digits === undefined ? null : Number(digits)
}

/** Numbers of the epoch files and of the snapshots in `folder`, ascending; none where there is no folder. */
export const listJournal = (folder: string): { epochs: number[]; snapshots: number[] } => {
  let names: string[]
  try {
    names = readdirSync(folder)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return { epochs: [], snapshots: [] }
    throw error
  }
  const numbers = (pattern: RegExp) =>
    names.flatMap(name => pattern.exec(name)?.[1] ?? []).flatMap(number => Number(number) || [])
  const ascending = (a: number, b: number) => a - b
  return {
    epochs: numbers(/^(\d{8,})\.jsonl$/).sort(ascending),
    snapshots: numbers(/^snapshot-(\d{8,})\.json$/).sort(ascending),
  }
}

/** The fault of a file that a newer version of this program wrote; null where `value` is not one. */
export const newerFormat = (value: unknown, file: string): { ok: false; fault: Fault } | null => {
  const v = typeof value === 'object' && value !== null && 'v' in value ? value.v : undefined
  return typeof v === 'number' && v > formatVersion
    ? fail(
        'refused',
        `${file} was written by a newer version of this program (format ${v}, known here: ${formatVersion})`,
        'use that version; nothing was changed',
      )
    : null
}

/** The longest header line that is looked for. */
const headerBytes = 16_384

/** A folder in the place of a journal file means that the file is gone: moved away it would be missing. */
export const cannotRead = (path: string, error: unknown): Result<never> => {
  const fault = unreadable(path, error)
  if (fault === undefined) throw error
  return {
    ok: false,
    fault: errnoOf(error) === 'EISDIR' ? { ...fault, hint: 'restore the file from a backup' } : fault,
  }
}

/**
 * The header of an epoch file. null for a file whose first line was never completed: nothing can have been acknowledged
 * under it. A file that is gone is a fault of code `unknown`.
 */
export const readHeader = (folder: string, epoch: number): Result<Header | null> => {
  const path = epochPath(folder, epoch)
  const buffer = Buffer.alloc(headerBytes)
  let length = 0
  try {
    const fd = openSync(path, 'r')
    try {
      length = readSync(fd, buffer, 0, headerBytes, 0)
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return fail('unknown', `${path} is missing`, undefined, error)
    return cannotRead(path, error)
  }
  const end = buffer.subarray(0, length).indexOf(0x0a)
  if (end === -1) return ok(null)
  const damaged = (cause: unknown) =>
    fail('invalid', `${path}:1: the header of the journal file is damaged`, 'restore the file from a backup', cause)
  let value: unknown
  try {
    value = JSON.parse(buffer.toString('utf8', 0, end))
  } catch (error) {
    return damaged(error)
  }
  const newer = newerFormat(value, path)
  if (newer) return newer
  const header = Header.safeParse(value)
  if (!header.success) return damaged(header.error)
  if (header.data.epoch !== epoch) return damaged(new Error(`it says epoch ${header.data.epoch}`))
  return ok(header.data)
}
