import { readdirSync, rmSync, statSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolder } from '../../lib/files.ts'
import type { State } from '../state.ts'
import { draftOf, epochPath, formatVersion, listJournal, snapshotPath } from './epochs.ts'
import type { FileJournal } from './journal.ts'
import { type Snapshot, writeSnapshot } from './snapshot.ts'

/** How much of the journal is kept behind the snapshots, for `entries()`. */
export interface Keep {
  readonly bytes: number
  readonly epochs: number
}

/**
 * Writes a snapshot of the state as it is now, once all of it is durable, and deletes what is old: snapshots but the
 * last two, and epochs that none of the two needs, oldest first, past what is to be kept; and drafts
 * of epochs.
 */
export const fold = async (
  folder: string,
  state: State,
  journal: FileJournal,
  at: string,
  keep: Keep,
): Promise<void> => {
  const { epoch } = journal
  const dump = state.dump()
  const snapshot: Snapshot = { v: formatVersion, epoch, seq: dump.seq, at, state: dump }
  const text = JSON.stringify(snapshot)
  await journal.flushed()
  await writeSnapshot(folder, epoch, text)
  journal.forget(deleteOld(folder, epoch, keep))
}

/** Returns the numbers of the epochs that it deleted. */
const deleteOld = (folder: string, current: number, keep: Keep): Set<number> => {
  const { epochs, snapshots } = listJournal(folder)
  for (const old of snapshots.slice(0, -2)) unlinkSync(snapshotPath(folder, old))
  const needed = snapshots.length < 2 ? 0 : (snapshots.at(-2) ?? 0)
  const behind = epochs.filter(epoch => epoch < needed)
  const doomed = new Set<number>()
  let bytes = 0
  for (const [age, epoch] of behind.reverse().entries()) {
    bytes += statSync(epochPath(folder, epoch)).size
    if (bytes > keep.bytes || age >= keep.epochs) doomed.add(epoch)
  }
  for (const epoch of [...doomed].sort((a, b) => a - b)) unlinkSync(epochPath(folder, epoch))
  // Contenders that died at it left drafts of epochs that others have begun since.
  for (const name of readdirSync(folder))
    if ((draftOf(name) ?? current) < current) rmSync(join(folder, name), { force: true })
  syncFolder(folder)
  return doomed
}
