import { readFileSync } from 'node:fs'
import * as z from 'zod'
import { replaceFile } from '../../lib/files.ts'
import { fail, ok, type Result } from '../../lib/result.ts'
import { Dump } from '../state.ts'
import { formatVersion, newerFormat, snapshotPath } from './epochs.ts'

/** The state after entry `seq`, taken while `epoch` was written: replay starts there. */
export const Snapshot = z.object({
  v: z.literal(formatVersion),
  epoch: z.number().int().min(1),
  seq: z.number().int().min(0),
  at: z.string(),
  state: Dump,
})
export type Snapshot = z.infer<typeof Snapshot>

/** Reads a snapshot; `refused` when it is of a newer format, `invalid` when it cannot be read. */
export const readSnapshot = (folder: string, epoch: number): Result<Snapshot> => {
  const path = snapshotPath(folder, epoch)
  let value: unknown
  try {
    value = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    return fail(
      'invalid',
      `${path} cannot be read: ${error instanceof Error ? error.message : error}`,
      undefined,
      error,
    )
  }
  const newer = newerFormat(value, path)
  if (newer) return newer
  const snapshot = Snapshot.safeParse(value)
  if (!snapshot.success || snapshot.data.epoch !== epoch || snapshot.data.state.seq !== snapshot.data.seq)
    return fail('invalid', `${path} is no snapshot of epoch ${epoch}`, undefined, snapshot.error)
  return ok(snapshot.data)
}

/** Writes a snapshot that is already text, so that the state may change meanwhile. */
export const writeSnapshot = (folder: string, epoch: number, text: string): Promise<void> =>
  replaceFile(snapshotPath(folder, epoch), text)
