import { ok, type Result } from '../lib/result.ts'
import { covers } from '../protocol/lease.ts'
import { isLease, type LeaseRequest } from '../protocol/request.ts'
import type { Stray } from '../protocol/rpc.ts'
import type { Task } from '../protocol/task.ts'
import type { Core } from './core.ts'

/** Is there any path that the task must not touch, as things stand? */
export const isGuarded = (core: Core, owner: string, task: Task): boolean =>
  task.paths.length > 0 || foreign(core, owner).length > 0

/** Leases on paths that others hold now. */
const foreign = ({ leases }: Core, owner: string): LeaseRequest[] =>
  leases.held().filter(held => held.data.kind === 'path' && held.from !== owner)

/** The leases on this path that were granted for the task, whoever had it in hand. */
const granted = (own: readonly LeaseRequest[], path: string): LeaseRequest[] =>
  own.filter(
    ({ data, effect }) => data.kind === 'path' && effect?.fence !== undefined && covers(effect.what ?? data.what, path),
  )

/**
 * Which of these paths the work on the task may not change, by the word of the ledger, as the file tools are held to it: those
 * outside of its paths, and those that another holds; unless a lease was had on them for it and not lost.
 */
export const strays = (core: Core, task: Task, owner: string, paths: readonly string[]): Stray[] => {
  const own = core.requests.about.all('resource_request', task.id).filter(isLease)
  const others = foreign(core, owner)
  return paths.flatMap((path): Stray[] => {
    if (granted(own, path).some(({ effect }) => !effect?.lost)) return []
    const held = others.find(({ data, effect }) => covers(effect?.what ?? data.what, path))
    if (held)
      return [
        {
          path,
          why: `${held.from} holds it until ${held.effect?.until}, lease ${held.id}, fence ${held.effect?.fence}`,
        },
      ]
    return covers(task.paths, path) ? [] : [{ path, why: `task ${task.id} is about ${task.paths.join(', ')}` }]
  })
}

/** A merge that is on the trunk, or (of one in the same batch) about to be. */
interface Ahead {
  readonly link: { readonly task: Task; readonly commit: string }
}

/**
 * Which of these paths come to the trunk under a later number, in work that this head does not hold: whoever changed them had
 * a lease after the one they were changed under here (without one: after the claim), and did not see this work.
 */
const outrun = async (
  core: Core,
  task: Task,
  head: string,
  paths: readonly string[],
  ahead: readonly Ahead[],
): Promise<Result<Stray[]>> => {
  const { requests, tasks, hub } = core
  const out: Stray[] = []
  if (!hub || paths.length === 0) return ok(out)
  const own = requests.about.all('resource_request', task.id).filter(isLease)
  const held = new Map<string, boolean>()
  const others = requests
    .all()
    .filter(isLease)
    .filter(({ data }) => data.kind === 'path' && data.task !== null && data.task !== task.id)
  for (const path of others.length === 0 ? [] : paths) {
    const mine = granted(own, path).map(({ effect }) => effect?.fence ?? 0)
    const since = mine.length > 0 ? Math.max(...mine) : (task.claimed?.fence ?? core.leases.fence)
    for (const { id, from, data, effect } of granted(others, path)) {
      const other = data.task ?? ''
      const commit =
        tasks.get(other)?.value.result?.commit ?? ahead.find(({ link }) => link.task.id === other)?.link.commit
      const fence = effect?.fence ?? 0
      if (commit === undefined || fence <= since) continue
      if (!requests.about.latest('merge_request', other)?.data.files.includes(path)) continue
      let isHeld = held.get(commit)
      if (isHeld === undefined) {
        const holds = await hub.holds(head, commit)
        if (!holds.ok) return holds
        isHeld = holds.value
        held.set(commit, isHeld)
      }
      if (isHeld) continue
      const why = `changed on the trunk since, by task ${other} under a later lease of ${from}, ${id}, fence ${fence}`
      out.push({ path, why })
      break
    }
  }
  return ok(out)
}

/** What a claim of a head touches and may not, as things stand; nothing: it may go to the trunk. */
export interface Touched {
  readonly strays: readonly Stray[]
  /** One `ahead` of it may come to the trunk first, and then it may not: to be looked at again when that is known. */
  readonly isBehind: boolean
}

/** `ahead`: those that are to come to the trunk right before it. */
export const touchedWrongly = async (
  core: Core,
  task: Task,
  head: string,
  ahead: readonly Ahead[] = [],
): Promise<Result<Touched>> => {
  const { hub } = core
  if (!hub || task.owner === null) return ok({ strays: [], isBehind: false })
  const brings = await hub.brings(head)
  if (!brings.ok) return brings
  const { files } = brings.value
  const late = await outrun(core, task, head, files, [])
  if (!late.ok) return late
  const wrong = strays(core, task, task.owner, files)
  const found = [...wrong, ...late.value.filter(({ path }) => !wrong.some(each => each.path === path))]
  const behind = ahead.length > 0 && found.length === 0 ? await outrun(core, task, head, files, ahead) : ok([])
  return behind.ok ? ok({ strays: found, isBehind: behind.value.length > 0 }) : behind
}

/** So many of them are named. */
const most = 20

/** In words for whoever has to mend it. */
export const strayText = (found: readonly Stray[]): string =>
  [
    'it changes what it may not:',
    ...found.slice(0, most).map(({ path, why }) => `- ${path} (${why})`),
    ...(found.length > most ? [`- and ${found.length - most} more`] : []),
    'Put these back as the trunk has them (git merge hub/trunk, then git checkout hub/trunk -- <path>, or git rm what is new), or get a lease on them first (request open, type resource_request); commit, and complete the task again.',
  ].join('\n')
