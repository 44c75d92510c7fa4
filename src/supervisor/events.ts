import { ok, type Result } from '../lib/result.ts'
import type { JournalEntry, Words } from '../protocol/event.ts'
import type { Store } from '../store/store.ts'

/** Where entries go as they happen, until the signal aborts. */
export interface Stream {
  readonly entry: (entry: JournalEntry) => void
  readonly words: (words: Words) => void
  readonly signal: AbortSignal
}

/**
 * The last `limit` journal entries after `after`, of one teammate where `name` is given. With a stream they go there instead,
 * and those that become durable later follow, each once and in order; the answer comes when the stream's signal aborts.
 */
export const readEvents = async (
  store: Store,
  o: {
    after: number
    limit: number
    name: string | undefined
    stream: Stream | undefined
    /** Listens to what it writes, until the answer to this is called. */
    listen: (() => () => void) | undefined
  },
): Promise<Result<{ entries: JournalEntry[]; last: number }>> => {
  const { stream } = o
  const wanted = (entry: JournalEntry) => o.name === undefined || concerns(entry, o.name)
  const ahead: JournalEntry[] = []
  let pass = (entry: JournalEntry): void => void ahead.push(entry)
  const stop = stream ? store.onEntry(entry => pass(entry)) : undefined
  let entries: JournalEntry[] = []
  // Past the end there is nothing yet: that is how one asks for what is to come alone.
  let last = Math.min(o.after, store.seq)
  for await (const entry of store.entries(last)) {
    last = entry.seq
    if (wanted(entry)) entries.push(entry)
    if (entries.length > 2 * o.limit) entries = entries.slice(-o.limit)
  }
  entries = entries.slice(-o.limit)
  if (!stream || !stop) return ok({ entries, last })
  for (const entry of entries) stream.entry(entry)
  const give = (entry: JournalEntry) => {
    if (entry.seq > last && wanted(entry)) stream.entry(entry)
  }
  for (const entry of ahead) give(entry)
  pass = give
  const deaf = o.listen?.()
  if (!stream.signal.aborted)
    await new Promise(resolve => stream.signal.addEventListener('abort', resolve, { once: true }))
  deaf?.()
  stop()
  return ok({ entries: [], last })
}

/** Does the entry concern this teammate: as the one who acted, or named in it. */
const concerns = (entry: JournalEntry, name: string): boolean =>
  entry.by === name ||
  entry.info?.to === name ||
  entry.info?.name === name ||
  entry.info?.inbox === name ||
  entry.info?.owner === name
