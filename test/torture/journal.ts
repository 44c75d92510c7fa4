import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

// The checker's own reader of the journal: it shares no code with the program, so that a fault in the one is no fault in both.

export interface Entry {
  readonly seq: number
  readonly at: string
  readonly event: string
  readonly by: string
  readonly info?: Readonly<Record<string, unknown>>
  readonly put?: readonly [collection: string, id: string, rev: number, value: unknown]
  readonly append?: readonly [log: string, index: number, value: unknown]
  readonly ack?: readonly [log: string, reader: string, index: number, ...rest: unknown[]]
  readonly trim?: readonly [log: string, index: number]
}

export type Value = Readonly<Record<string, unknown>>
export interface State {
  readonly entries: readonly Entry[]
  readonly records: ReadonlyMap<string, ReadonlyMap<string, Value>>
  readonly faults: readonly string[]
}

interface Epoch {
  readonly epoch: number
  readonly prev: { readonly epoch: number; readonly bytes: number } | null
  readonly bytes: Buffer
}

/**
 * Everything that counts of the journal of a root, from its first entry on: epoch by epoch, of each as many bytes as its
 * successor says, of the last one its whole lines. Snapshots are not needed while no epoch file was deleted.
 */
export const readJournal = (root: string): State => {
  const folder = join(root, '.team', 'journal')
  const epochs = new Map<number, Epoch>()
  for (const name of readdirSync(folder)) {
    const number = /^(\d{8})\.jsonl$/.exec(name)?.[1]
    if (number === undefined) continue
    const bytes = readFileSync(join(folder, name))
    const end = bytes.indexOf(10)
    if (end < 0) continue
    const header = JSON.parse(bytes.toString('utf8', 0, end)) as Omit<Epoch, 'bytes'>
    epochs.set(header.epoch, { epoch: header.epoch, prev: header.prev, bytes })
  }
  const chain: { readonly bytes: Buffer }[] = []
  let epoch = epochs.get(Math.max(0, ...epochs.keys()))
  let length = epoch?.bytes.length ?? 0
  while (epoch) {
    chain.unshift({ bytes: epoch.bytes.subarray(0, length) })
    length = epoch.prev?.bytes ?? 0
    epoch = epoch.prev ? epochs.get(epoch.prev.epoch) : undefined
  }
  const faults = epochs.has(1) || epochs.size === 0 ? [] : ['the journal does not go back to its first epoch']
  const entries: Entry[] = []
  const records = new Map<string, Map<string, Value>>()
  const revs = new Map<string, number>()
  const lasts = new Map<string, number>()
  for (const [i, { bytes }] of chain.entries()) {
    const lines = bytes.toString('utf8').split('\n')
    // What follows the last newline was never finished, and nobody was told of it.
    lines.pop()
    for (const line of lines.slice(1)) {
      if (line === '') continue
      let entry: Entry
      try {
        entry = JSON.parse(line) as Entry
      } catch {
        if (i < chain.length - 1) faults.push(`a line of the journal that counts cannot be read: ${line.slice(0, 100)}`)
        continue
      }
      if (entry.seq !== entries.length + 1) faults.push(`entry ${entry.seq} of the journal follows ${entries.length}`)
      entries.push(entry)
      if (entry.put) {
        const [collection, id, rev, value] = entry.put
        const key = `${collection}/${id}`
        if (rev !== (revs.get(key) ?? 0) + 1) faults.push(`${key} goes from revision ${revs.get(key) ?? 0} to ${rev}`)
        revs.set(key, rev)
        const table = records.get(collection) ?? new Map<string, Value>()
        records.set(collection, table.set(id, { ...(value as Value), rev }))
      }
      if (entry.append) {
        const [log, index] = entry.append
        if (index !== (lasts.get(log) ?? 0) + 1) faults.push(`${log} goes from ${lasts.get(log) ?? 0} to ${index}`)
        lasts.set(log, index)
      }
    }
  }
  return { entries, records, faults }
}
