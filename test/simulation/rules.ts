import { clash } from '../../src/protocol/lease.ts'
import type { Request } from '../../src/protocol/request.ts'
import type { Task } from '../../src/protocol/task.ts'
import { claim } from '../../src/supervisor/leases.ts'
import type { SimHolder } from './holder.ts'

/** What must never be: thrown, with the schedule that led to it. */
export class Violation extends Error {}

export const must = (isSo: boolean, what: () => string): void => {
  if (!isSo) throw new Violation(what())
}

const standing = ({ status, claimed }: Task): string =>
  claimed && status === 'in_progress' ? `${status}, claimed` : status

/** Where a task may go from where it stands, as CONTRACT's picture of it has it. */
const moves: Readonly<Record<string, readonly string[]>> = {
  pending: ['in_progress', 'cancelled', 'failed'],
  in_progress: ['in_progress, claimed', 'pending', 'failed', 'cancelled', 'completed'],
  'in_progress, claimed': ['completed', 'pending', 'failed', 'cancelled'],
  failed: ['pending', 'cancelled'],
  cancelled: ['pending'],
  completed: [],
}

/** One task record after another. */
export const taskMoved = (task: Task, old: Task | undefined): void => {
  const [from, to] = [old && standing(old), standing(task)]
  if (from === undefined) must(to === 'pending', () => `task ${task.id} was made ${to}`)
  else if (from !== to) must(moves[from]?.includes(to) === true, () => `task ${task.id} went from ${from} to ${to}`)
  if (old && from === to && old.status === 'in_progress')
    must(old.owner === task.owner, () => `task ${task.id} went from ${old.owner} to ${task.owner} in one step`)
  if (task.status === 'in_progress') must(task.owner !== null, () => `task ${task.id} is in progress with nobody`)
}

/** One request record after another: decided once, its effect begun once and done once, nothing of what was shown changed. */
export const requestMoved = (request: Request, old: Request | undefined): void => {
  const { id } = request
  if (!old) {
    must(request.outcome === null && request.effect === null, () => `${id} was made decided`)
    return
  }
  must(request.bodyHash === old.bodyHash, () => `${id}: what was shown changed`)
  if (old.outcome !== null)
    must(
      request.outcome === old.outcome && request.status === old.status && request.decidedBy === old.decidedBy,
      () => `${id} was ended twice: ${old.outcome} ${old.status}, then ${request.outcome} ${request.status}`,
    )
  must(
    request.history.length - old.history.length === (request.effect === old.effect ? 1 : 0) ||
      (request.history.length - old.history.length === 1 && old.effect === null),
    () => `${id}: its history went from ${old.history.length} to ${request.history.length}`,
  )
  if (request.effect === old.effect) return
  const [from, to] = [old.effect?.step ?? null, request.effect?.step ?? null]
  must(request.outcome !== null, () => `${id}: an effect before it was decided`)
  must(to !== null && from !== 'done', () => `${id}: its effect went from ${from} to ${to}`)
  must(!(from === 'intent' && to === 'intent'), () => `${id}: its effect was begun twice`)
  // What runs something outside of the record has its intent on the record first.
  if (from === null && to === 'done' && request.type === 'merge_request')
    must(request.effect?.outcome !== 'ok', () => `${id}: an effect without intent`)
}

/** What must hold whenever nothing is in the middle of being done. */
export const look = ({ core, store }: SimHolder): void => {
  const hands = new Map<string, string>()
  for (const [id, { value }] of store.tasks.list()) {
    const blockers = value.dependsOn.filter(dep => store.tasks.get(dep)?.value.status !== 'completed')
    const told = core.tasks.graph.blockedBy(value)
    must(told.join() === [...new Set(blockers)].join(), () => `task ${id} is blocked by ${blockers}, told is ${told}`)
    must(
      core.tasks.graph.isReady(id) === (value.status === 'pending' && blockers.length === 0),
      () => `task ${id}: ready is told as ${core.tasks.graph.isReady(id)}`,
    )
    if (value.status !== 'in_progress' || value.claimed || value.owner === null) continue
    must(!hands.has(value.owner), () => `${value.owner} has ${hands.get(value.owner ?? '')} and ${id} in hand`)
    hands.set(value.owner, id)
    must(core.tasks.inHand(value.owner)?.value.id === id, () => `task ${id} is not known to be in hand`)
  }
  const held = core.leases.held()
  for (const [i, a] of held.entries())
    for (const b of held.slice(i + 1))
      must(
        a.from === b.from || !clash(claim(a), claim(b)),
        () => `leases ${a.id} of ${a.from} and ${b.id} of ${b.from} overlap`,
      )
  if (core.mode === 'dir') {
    const writers = core.leases.writers()
    for (const [i, a] of writers.entries())
      for (const b of writers.slice(i + 1))
        must(
          !clash({ kind: 'path', what: a.paths }, { kind: 'path', what: b.paths }),
          () => `tasks ${a.id} and ${b.id} write the same`,
        )
  }
}
