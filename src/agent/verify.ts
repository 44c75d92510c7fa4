import { Context } from './context.ts'
import type { Entry } from './entry.ts'

/** What came of holding a session's journal against itself. */
export interface Verified {
  /** Answers whose context came out byte for byte as it was sent. */
  readonly same: number
  /** Answers of a version that kept no digest. */
  readonly unknown: number
  /** Of the first answer that another context comes out for: its turn, and which model call of the session's journal it is, from 1. */
  readonly differs: { readonly turn: number; readonly call: number } | null
}

/**
 * Goes through a session offline: recorded mail, answers and tool results make the context anew, and before each answer it is
 * held against the digest of what was sent for it. Goes on behind a difference, since a context that begins anew or is put
 * together stands on its own. `entries`: the whole journal, its files in their order.
 */
export const verifySession = (entries: Iterable<Entry>): Verified => {
  const context = new Context()
  let same = 0
  let unknown = 0
  let call = 0
  let differs: Verified['differs'] = null
  for (const entry of entries) {
    // A summary's answer is a `blank` without a digest as well: its request is not a context.
    if (entry.k === 'assistant' || entry.k === 'blank') {
      call++
      if (entry.sent === undefined) unknown += entry.k === 'assistant' ? 1 : 0
      else if (entry.sent === context.digest()) same++
      else differs ??= { turn: context.turn, call }
    }
    context.apply(entry)
  }
  return { same, unknown, differs }
}
