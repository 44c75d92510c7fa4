import { readFileSync } from 'node:fs'
import * as z from 'zod'
import type { Clock } from '../../lib/clock.ts'
import { errnoOf, type Line, splitLines } from '../../lib/files.ts'
import { FaultError, fail, ok, type Result } from '../../lib/result.ts'
import { JournalEntry } from '../../protocol/event.ts'
import { State } from '../state.ts'
import { beginsFlush, cannotRead, epochPath, type Header, listJournal, readHeader } from './epochs.ts'
import { readSnapshot, type Snapshot } from './snapshot.ts'

/** What counts of one epoch file. */
export interface Segment {
  readonly epoch: number
  readonly path: string
  /** Sequence number of the last entry before it. */
  readonly seq: number
  /** Length of what counts, header included: it ends after a newline. */
  readonly bytes: number
}

/** A tail that was never completed, and so never acknowledged. */
export interface Cut {
  readonly file: string
  readonly offset: number
  readonly bytes: number
}

export interface Replay {
  readonly state: State
  /** Oldest first, as far back as files are there. */
  readonly segments: readonly Segment[]
  /** The newest epoch; null where nothing was ever written. */
  readonly head: Header | null
  readonly cut: Cut | null
  /** What lay behind that in the newest file when it was read: a tail that is cut, and what the file was filled with. */
  readonly rest: Buffer
  /** What was wrong without doing harm. */
  readonly warnings: readonly string[]
  /** Time of the last entry. */
  readonly lastAt: string | null
  /** Whether the last holder said goodbye. */
  readonly ended: boolean
  /** How much of the journal had to be read, beyond the snapshot. */
  readonly replayed: { readonly epochs: number; readonly bytes: number }
}

const flushMark = Buffer.from(beginsFlush)
const restore = 'restore the file from a backup'

const parseEntry = (line: Line): JournalEntry | Error => {
  try {
    return JournalEntry.parse(JSON.parse(line.bytes.toString('utf8')))
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

const reason = (error: unknown): string =>
  error instanceof z.ZodError
    ? z.prettifyError(error).replaceAll('\n', ' ')
    : error instanceof Error
      ? error.message
      : String(error)

/** The newest epoch below `below` whose header was completed, and those before it by `prev`, newest first. */
const readChain = (
  folder: string,
  epochs: readonly number[],
  warnings: string[],
): Result<{ chain: Header[]; missing: string | null }> => {
  const chain: Header[] = []
  for (const epoch of [...epochs].reverse()) {
    const read = readHeader(folder, epoch)
    if (!read.ok) return read
    if (read.value) {
      chain.push(read.value)
      break
    }
    warnings.push(`${epochPath(folder, epoch)} was begun and never used`)
  }
  for (let header = chain[0]; header?.prev; ) {
    const read = readHeader(folder, header.prev.epoch)
    if (!read.ok) return read.fault.code === 'unknown' ? ok({ chain, missing: read.fault.message }) : read
    if (!read.value || read.value.epoch >= header.epoch)
      return fail('invalid', `${epochPath(folder, header.prev.epoch)}:1: epoch ${header.epoch} does not follow from it`)
    header = read.value
    chain.push(header)
  }
  return ok({ chain, missing: null })
}

const findSnapshot = (
  folder: string,
  snapshots: readonly number[],
  chain: readonly Header[],
  warnings: string[],
): Result<Snapshot | null> => {
  for (const epoch of [...snapshots].reverse()) {
    if (!chain.some(header => header.epoch === epoch)) continue
    const read = readSnapshot(folder, epoch)
    if (read.ok) return read
    if (read.fault.code === 'refused') return read
    warnings.push(`${read.fault.message}; an older one is used`)
  }
  return ok(null)
}

/**
 * The entries of one epoch file. `limit` is how many of its bytes count, as its successor says; null for the newest one,
 * where what was never completed is left out and counted as `torn`.
 */
const readSegment = (
  path: string,
  limit: number | null,
): Result<{ entries: JournalEntry[]; bytes: number; torn: number; rest: Buffer }> => {
  let content: Buffer
  try {
    content = readFileSync(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return fail('invalid', `${path} is missing`, restore, error)
    return cannotRead(path, error)
  }
  const counts = content.subarray(0, limit ?? usedLength(content))
  const { lines, end } = splitLines(counts)
  if (limit !== null && end !== limit)
    return fail('invalid', `${path} has ${end} sound bytes, and ${limit} were acknowledged`, restore)
  const entries: JournalEntry[] = []
  for (const [index, line] of lines.entries()) {
    if (index === 0) continue
    const entry = parseEntry(line)
    if (!(entry instanceof Error)) {
      entries.push(entry)
      continue
    }
    // Only the last lines of the newest file can have been under way when the holder died.
    if (limit !== null || !isUnderWay(lines.slice(index)))
      return fail('invalid', `${path}:${index + 1} (byte ${line.offset}) is damaged: ${reason(entry)}`, restore, entry)
    return ok({
      entries,
      bytes: line.offset,
      torn: counts.length - line.offset,
      rest: Buffer.from(content.subarray(line.offset)),
    })
  }
  return ok({ entries, bytes: end, torn: counts.length - end, rest: Buffer.from(content.subarray(end)) })
}

/** The length without the newlines that the file was filled with ahead of its entries. */
const usedLength = (content: Buffer): number => {
  let end = content.length
  while (end > 0 && content[end - 1] === 0x0a) end--
  return Math.min(end + 1, content.length)
}

/**
 * Are these lines, the first of them damaged, of a flush that never came to its end? So when nothing sound follows; and
 * when what follows is of the same flush, of which a power cut left pieces with nothing between them.
 */
const isUnderWay = (lines: readonly Line[]): boolean => {
  const sound = lines.slice(1).filter(line => !(parseEntry(line) instanceof Error))
  if (sound.length === 0) return true
  const hasGap = lines.some(({ bytes }) => bytes.length === 0 || bytes.includes(0))
  return hasGap && !sound.some(({ bytes }) => bytes.subarray(-beginsFlush.length).equals(flushMark))
}

/**
 * Rebuilds the state from `folder`: the newest readable snapshot, then the chain of epochs from there on. Reads only.
 * `below` leaves out that epoch and newer ones. A tail that was never completed is cut; a damaged line with sound ones
 * after it is a fault that names file and line, since what was acknowledged is never skipped silently.
 */
export const replay = (folder: string, clock: Clock, below = Number.POSITIVE_INFINITY): Result<Replay> => {
  const warnings: string[] = []
  const { epochs, snapshots } = listJournal(folder)
  const found = readChain(
    folder,
    epochs.filter(epoch => epoch < below),
    warnings,
  )
  if (!found.ok) return found
  const { chain, missing } = found.value
  const snapshot = findSnapshot(folder, snapshots, chain, warnings)
  if (!snapshot.ok) return snapshot
  if (missing !== null && !snapshot.value) return fail('invalid', `${missing}, and no snapshot stands for it`, restore)

  const state = new State(clock)
  const covered = snapshot.value?.seq ?? 0
  if (snapshot.value) {
    try {
      state.load(snapshot.value.state)
    } catch (error) {
      return fail('invalid', `snapshot of epoch ${snapshot.value.epoch}: ${reason(error)}`, undefined, error)
    }
  }

  const segments: Segment[] = []
  let cut: Cut | null = null
  let rest: Buffer = Buffer.alloc(0)
  let last: JournalEntry | null = null
  let lastSegment = 0
  let seq: number | null = null
  const replayed = { epochs: 0, bytes: 0 }
  for (const [at, header] of [...chain.entries()].reverse()) {
    const path = epochPath(folder, header.epoch)
    const limit = chain[at - 1]?.prev?.bytes ?? null
    if (limit !== null && header.epoch < (snapshot.value?.epoch ?? 0)) {
      segments.push({ epoch: header.epoch, path, seq: header.seq, bytes: limit })
      continue
    }
    const read = readSegment(path, limit)
    if (!read.ok) return read
    seq ??= header.seq
    if (header.seq !== seq) return fail('invalid', `${path}:1: it follows entry ${header.seq}, not ${seq}`)
    for (const [index, entry] of read.value.entries.entries()) {
      if (entry.seq !== seq + 1) return fail('invalid', `${path}:${index + 2}: entry ${entry.seq} follows entry ${seq}`)
      seq = entry.seq
      if (seq <= covered) continue
      try {
        state.apply(entry)
      } catch (error) {
        if (!(error instanceof FaultError) && !(error instanceof z.ZodError)) throw error
        return fail('invalid', `${path}:${index + 2}: ${reason(error)}`, undefined, error)
      }
    }
    const { bytes } = read.value
    last = read.value.entries.at(-1) ?? last
    lastSegment = read.value.entries.length
    if (read.value.torn > 0) cut = { file: path, offset: bytes, bytes: read.value.torn }
    if (limit === null) rest = read.value.rest
    segments.push({ epoch: header.epoch, path, seq: header.seq, bytes })
    replayed.epochs++
    replayed.bytes += bytes
  }
  if ((seq ?? 0) < covered)
    return fail('invalid', `the journal ends at entry ${seq ?? 0}, and its snapshot at ${covered}`)
  return ok({
    state,
    segments,
    head: chain[0] ?? null,
    cut,
    rest,
    warnings,
    lastAt: last?.at ?? snapshot.value?.at ?? null,
    ended: lastSegment > 0 && last?.event === 'holder.stopped',
    replayed,
  })
}
