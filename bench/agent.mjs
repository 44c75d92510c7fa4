// The product's loop in the measuring process, with its session journal on the disk: each answer and each result is flushed before
// what follows from it, as in a teammate's thread. What a teammate has besides (its inbox, the holder) is not in it.
import { join } from 'node:path'
import { product } from './lib.mjs'
import { must } from './team.mjs'

export const loadLoop = () => product('bench/product-loop.mjs')

const nothing = () => undefined
const on = {
  begins: nothing,
  content: nothing,
  text: nothing,
  waiting: nothing,
  progress: nothing,
  usage: nothing,
  answers: async () => undefined,
  called: nothing,
  tool: nothing,
  bug: (_name, thrown) => {
    throw thrown
  },
}

/** A new session in `folder`. */
export const openSession = (loop, folder, system) => {
  const session = must(loop.Session.open(join(folder, 'session.jsonl'), loop.clock))
  session.begin(system, false)
  return session
}

/** One turn of `session` to its end, begun with `text`. */
export const runLoop = async (loop, { session, baseURL, tools, text, compaction, window = null }) => {
  const opening = [{ k: 'note', text }]
  const end = await loop.runTurn({
    model: loop.openaiModel({ config: { name: 'm', baseURL }, apiKey: undefined, idleMs: 60_000 }),
    tools,
    toolContext: {},
    session,
    boundary: async () => ({ items: opening.splice(0) }),
    mayCall: async () => null,
    endsHere: () => null,
    ...(compaction ? { compaction } : {}),
    limits: { rounds: 1_000_000, retries: 0, window },
    backoff: { baseMs: 1, capMs: 5 },
    gate: loop.localGate(loop.clock),
    signal: new AbortController().signal,
    on,
  })
  if (end.how !== 'ended') throw new Error(`the turn ended by ${end.how}: ${end.fault?.message ?? ''}`)
}
