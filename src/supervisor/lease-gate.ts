import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import { type Claim, clash, covers } from '../protocol/lease.ts'
import { isLease, isWaiting } from '../protocol/request.ts'
import { isWithin, realOrSame, realPath } from '../sandbox/path.ts'
import { type Core, clonePath } from './core.ts'
import { claim } from './leases.ts'

/**
 * May this teammate write at this path of the workspace, by the word of the ledger? No: where another holds a lease on it or,
 * in dir mode, works on a task that may touch it; outside of its own task's paths, unless it holds a lease there; and where
 * it had a lease and lost it, since another may have been there meanwhile.
 */
export const leased = (core: Core, actor: string, path: string): Result<null> => {
  const { leases, tasks } = core
  const mine = tasks.inHand(actor)?.value
  const ask = `wait for it: request open, type resource_request, data {"kind":"path","what":[${JSON.stringify(path)}]}`
  let holds = false
  for (const held of leases.held()) {
    if (held.data.kind !== 'path' || !covers(held.data.what, path)) continue
    if (held.from !== actor)
      return fail(
        'refused',
        `${held.from} holds ${path} until ${held.effect?.until} (lease ${held.id}, fence ${held.effect?.fence})`,
        ask,
      )
    holds = true
  }
  for (const task of leases.writers())
    if (task.id !== mine?.id && task.owner !== actor && covers(task.paths, path))
      return fail('refused', `${task.owner} works on task ${task.id}, which may touch ${path}`, ask)
  if (holds) return ok(null)
  const last = leases.lastOf(actor, path)
  if (last?.effect?.lost)
    return fail(
      'refused',
      `you lost your lease ${last.id} on ${path}: ${last.effect.detail}`,
      `open a new one and ${ask}`,
    )
  if (mine && !covers(mine.paths, path))
    return fail(
      'refused',
      `task ${mine.id} is about ${mine.paths.join(', ')}, not about ${path}`,
      `get a lease first, and ${ask}`,
    )
  return ok(null)
}

/** What of a lease that is asked for cannot be meant, or would keep its asker waiting for itself. */
export const asking = (core: Core, actor: string, asked: Claim): Result<null> => {
  const { leases } = core
  for (const path of asked.kind === 'path' ? asked.what : []) {
    const meant = astray(core, actor, path)
    if (meant !== null) return fail('invalid', meant)
  }
  const own = leases.held().find(held => held.from === actor && clash(claim(held), asked))
  const other = leases.queued().find(each => each.from !== actor && clash(claim(each), asked))
  return own && other
    ? fail(
        'refused',
        `${other.from} waits for this (${other.id}), and you hold ${own.id}`,
        `request withdraw ${own.id} gives it back; then ask for your next turn`,
      )
    : ok(null)
}

/**
 * Why this glob would guard nothing of what is written, with the one that does; null where it is as it should be. Writes are
 * judged by real paths from the top of the workspace.
 */
const astray = (core: Core, actor: string, path: string): string | null => {
  const top = realOrSame(core.mode === 'git' ? clonePath(core, actor) : core.workspace)
  const from = (meant: string) => `paths start at the top of the workspace: ${meant || '**'}, not ${path}`
  if (/^repo(\/|$)/.test(path) && !existsSync(join(core.workspace, 'repo'))) return from(path.slice('repo/'.length))
  const whole = [top, realOrSame(core.workspace)].find(folder => isWithin(folder, `/${path}`))
  if (whole !== undefined) return from(relative(whole, `/${path}`))
  const names = path.split('/')
  const wild = names.findIndex(name => /[*?[{]/.test(name))
  const plain = names.slice(0, wild < 0 ? names.length : wild).join('/')
  const real = realPath(top, plain)
  if (!real.ok) return `${path}: ${real.fault.message}`
  if (real.value === join(top, plain)) return null
  if (!isWithin(top, real.value)) return `${plain} leads out of the workspace`
  const meant = join(relative(top, real.value), ...names.slice(wild < 0 ? names.length : wild))
  return `${plain} is a link: ask for ${meant}, which it leads to`
}

/** A person may reject what waits for a lease, but nobody can give what another holds: null where that is not what is tried. */
export const granting = ({ requests, leases }: Core, id: string, actor: string): Result<never> | null => {
  const request = requests.find(id)?.value
  if (!request || !isLease(request) || !isWaiting(request) || actor !== 'human') return null
  const behind = leases.behind(request).map(({ who, id }) => `${id} of ${who}`)
  return fail(
    'refused',
    `${request.id} is granted in its turn, by the supervisor alone${behind.length > 0 ? `: it waits for ${behind.join(', ')}` : ''}`,
    'team status shows who holds what',
  )
}
