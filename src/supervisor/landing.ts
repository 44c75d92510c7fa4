import { fail, type Result } from '../lib/result.ts'
import type { LandReport } from '../protocol/rpc.ts'
import { rewrittenWords } from './base.ts'
import type { Core } from './core.ts'
import { noHub } from './diff.ts'

/**
 * `team land`. A base that was rewritten since it was last looked at, so that this would bring back what it has no more, is said
 * once in its place; landing again is the person's word for it.
 */
export const landTrunk = async (core: Core): Promise<Result<LandReport>> => {
  const { hub, store } = core
  if (!hub) return noHub(core, 'there is nothing to land: the work is in the workspace already')
  const seen = await hub.refreshBase()
  // What keeps the base from being read, landing says in its own words.
  if (seen.ok && seen.value.moved) {
    store.note({ event: 'base.moved', by: 'human', info: { ...seen.value } })
    const rewritten = rewrittenWords(hub, seen.value)
    if (seen.value.rewritten) await hub.toldBase()
    if (rewritten !== null) return fail('refused', rewritten, 'team land once more lands all the same')
  }
  const landed = await hub.land()
  if (!landed.ok) return landed
  store.note({ event: 'landed', by: 'human', info: { ...landed.value } })
  // The base stands where the trunk does now; what is left to land is counted from there.
  await hub.refreshBase()
  await store.flushed()
  return landed
}
