import { rmSync } from 'node:fs'
import { makeFolder } from '../../lib/files.ts'
import type { State } from '../state.ts'
import { epochPath, formatVersion, type Header, listJournal, snapshotPath } from './epochs.ts'
import { beginEpoch } from './journal.ts'
import { type Snapshot, writeSnapshot } from './snapshot.ts'

/**
 * Writes a journal whose files were all removed under its holder anew: a snapshot of the state in memory, and an epoch that
 * goes on from it, so that the next holder has everything. Of what was under way its askers were told that its outcome is
 * unknown; it stands in it. Does nothing where anything is left or another holder began a journal meanwhile: that one counts.
 */
export const writeAnew = async (folder: string, header: Header, state: State, at: string): Promise<void> => {
  makeFolder(folder)
  const isOurs = (epoch: number) => epoch === header.epoch + 1
  const before = listJournal(folder)
  if (before.epochs.length > 0 || before.snapshots.length > 0) return
  const dump = state.dump()
  const epoch = header.epoch + 1
  const snapshot: Snapshot = { v: formatVersion, epoch, seq: dump.seq, at, state: dump }
  // The epoch comes last: without it a snapshot counts for nothing, and it must never stand without its snapshot.
  await writeSnapshot(folder, epoch, JSON.stringify(snapshot))
  const begun = beginEpoch(folder, { ...header, epoch, seq: dump.seq, prev: null })
  const { epochs } = listJournal(folder)
  if (begun && epochs.every(isOurs)) return
  if (begun) rmSync(epochPath(folder, epoch))
  rmSync(snapshotPath(folder, epoch))
}
