import { isDeepStrictEqual } from 'node:util'
import { type Config, type Limits, type Member, members } from './config.ts'

/**
 * When an edit of a key takes effect in a team that runs.
 *
 * now: the daemon reads it each time.   told: the teammate's system message says it from its next task on.
 * anew: the teammate's thread is started anew, once it has nothing in hand.   later: at the next `team up`.
 */
export type When = 'now' | 'told' | 'anew' | 'later'

/** Of a teammate, its name aside. `as`: how config.json calls it. */
const memberKeys: { readonly [K in Exclude<keyof Member, 'name'>]: { readonly as: string; readonly when: When } } = {
  role: { as: 'role', when: 'told' },
  systemPrompt: { as: 'system_prompt', when: 'told' },
  lead: { as: 'lead', when: 'told' },
  model: { as: 'model', when: 'anew' },
  // The cheaper model stands with them.
  fallbacks: { as: 'model.fallbacks or cheaper', when: 'anew' },
  price: { as: 'price', when: 'now' },
  budget: { as: 'budget', when: 'now' },
  capsCost: { as: 'budget', when: 'now' },
  tools: { as: 'tools', when: 'anew' },
  permissions: { as: 'permissions', when: 'anew' },
  skills: { as: 'skills', when: 'now' },
  autoClaim: { as: 'autoClaim', when: 'now' },
  needsPlan: { as: 'needsPlan', when: 'now' },
  // `tools` and `needs`: what it can do decides which task it is given next.
  can: { as: 'needs', when: 'now' },
}

const limitKeys: { readonly [K in keyof Limits]-?: When } = {
  verifySeconds: 'now',
  setupSeconds: 'now',
  graceSeconds: 'now',
  returns: 'now',
  mergeBatch: 'now',
  deaths: 'now',
  mailRounds: 'now',
  modelCalls: 'now',
  modelIdleSeconds: 'anew',
  modelRetries: 'anew',
  rounds: 'anew',
  subagentRounds: 'anew',
  sameCalls: 'anew',
  callsWithoutEffect: 'anew',
  stuckSeconds: 'later',
  commandSeconds: 'anew',
  backgroundSeconds: 'anew',
  backgroundCommands: 'anew',
  outputBytes: 'anew',
  outputMaxBytes: 'anew',
  messageBatch: 'anew',
  messageBytes: 'later',
  restarts: 'later',
  heapMb: 'later',
  heartbeatSeconds: 'later',
  archiveAfter: 'later',
  inboxBytes: 'later',
  journalBytes: 'later',
}

/** `members`: what it means shows in the teammates. */
const teamKeys: { readonly [K in Exclude<keyof Config, 'limits'>]: When | 'members' } = {
  $schema: 'now',
  teammates: 'members',
  model: 'members',
  lead: 'now',
  approvals: 'now',
  needsPlan: 'now',
  review: 'now',
  verify: 'now',
  permissions: 'now',
  budget: 'now',
  data: 'anew',
  setup: 'anew',
  copy: 'anew',
  caches: 'now',
  workspace: 'later',
  mode: 'later',
  trunk: 'later',
  base: 'later',
  sandbox: 'later',
}

/** A teammate that was there and is another now. Keys as config.json calls them. */
export interface Changed {
  readonly name: string
  readonly keys: readonly string[]
  /** Those of the keys that wait until it has nothing in hand. */
  readonly due: readonly string[]
  /** Its thread is to be started anew for them. */
  readonly anew: boolean
}

export interface ConfigChanges {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly Changed[]
  /** Keys of the whole team that hold from now on. */
  readonly now: readonly string[]
  /** Keys of the whole team for which every thread is started anew. */
  readonly anew: readonly string[]
  /** Keys of the whole team that the next `team up` takes. */
  readonly later: readonly string[]
  /** What holds from now on: `to`, its later keys as they were. */
  readonly config: Config
}

/** What an edit from one valid config.json to another means for a team that runs. */
export const configChanges = (from: Config, to: Config): ConfigChanges => {
  const before = new Map(members(from).map(member => [member.name, member]))
  const after = members(to)
  const names = new Set(after.map(member => member.name))
  const keys: Record<When, string[]> = { now: [], told: [], anew: [], later: [] }
  const later: Record<string, unknown> = {}
  for (const key of keysOf(teamKeys)) {
    const when = teamKeys[key]
    if (when === 'members' || isDeepStrictEqual(from[key], to[key])) continue
    keys[when].push(key)
    if (when === 'later') later[key] = from[key]
  }
  const limits: Record<string, unknown> = {}
  for (const key of keysOf(limitKeys)) {
    if (from.limits[key] === to.limits[key]) continue
    keys[limitKeys[key]].push(`limits.${key}`)
    if (limitKeys[key] === 'later') limits[key] = from.limits[key]
  }
  return {
    added: after.map(member => member.name).filter(name => !before.has(name)),
    removed: [...before.keys()].filter(name => !names.has(name)),
    changed: after.flatMap(member => {
      const old = before.get(member.name)
      const what = old ? keysOf(memberKeys).filter(key => !isDeepStrictEqual(old[key], member[key])) : []
      if (what.length === 0) return []
      const named = (list: typeof what) => [...new Set(list.map(key => memberKeys[key].as))]
      const due = named(what.filter(key => memberKeys[key].when !== 'now'))
      const anew = what.some(key => memberKeys[key].when === 'anew')
      return [{ name: member.name, keys: named(what), due, anew }]
    }),
    now: keys.now,
    anew: keys.anew,
    later: keys.later,
    config: { ...to, ...later, limits: { ...to.limits, ...limits } },
  }
}

/** Nothing in it for anybody. */
export const isSame = (changes: ConfigChanges): boolean =>
  [changes.added, changes.removed, changes.changed, changes.now, changes.anew, changes.later].every(
    list => list.length === 0,
  )

const keysOf = <T extends object>(table: T) => Object.keys(table) as (keyof T)[]
