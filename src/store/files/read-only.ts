import { realpathSync } from 'node:fs'
import type { Clock } from '../../lib/clock.ts'
import { asFault, FaultError, fail, ok, type Result } from '../../lib/result.ts'
import type { JournalEntry } from '../../protocol/event.ts'
import { type Journal, StateStore } from '../state.ts'
import type { Store } from '../store.ts'
import { journalFolder } from './contend.ts'
import { readSegments } from './journal.ts'
import { type Replay, replay } from './replay.ts'

class ReadOnlyJournal implements Journal {
  readonly #replay: Replay

  constructor(past: Replay) {
    this.#replay = past
  }

  push(): Promise<void> {
    throw new FaultError({ code: 'refused', message: 'the store was opened for reading' })
  }

  flushed(): Promise<void> {
    return Promise.resolve()
  }

  entries(after: number): AsyncIterable<JournalEntry> {
    return readSegments(this.#replay.segments, after)
  }

  onEntry(): () => void {
    return () => {}
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

/** How often the journal is read again when its holder deleted old files meanwhile. */
const attempts = 3

/**
 * The state of `root` as it stands on the disk, for reading: nothing is held, written or waited for, and later changes do
 * not show. `asOf` is the time of the last entry, null where there never was one.
 */
export const openReadOnly = (root: string, clock: Clock): Result<{ store: Store; asOf: string | null }> => {
  let folder: string
  try {
    folder = journalFolder(realpathSync(root))
  } catch (error) {
    return fail('config', `there is no folder ${root}`, undefined, error)
  }
  try {
    let past = replay(folder, clock)
    for (let attempt = 1; attempt < attempts && !past.ok && past.fault.code === 'invalid'; attempt++)
      past = replay(folder, clock)
    if (!past.ok) return past
    return ok({ store: new StateStore(past.value.state, new ReadOnlyJournal(past.value)), asOf: past.value.lastAt })
  } catch (error) {
    const fault = asFault(error)
    if (fault.code !== 'io') throw error
    return { ok: false, fault }
  }
}
