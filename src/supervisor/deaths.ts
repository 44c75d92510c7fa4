import { iso } from '../lib/clock.ts'
import { type Death, deathsText, isOfTheMachine, isOwnDeath, TaskDeaths } from '../protocol/death.ts'
import { isOpen, type Task } from '../protocol/task.ts'
import type { Store } from '../store/store.ts'
import type { Core } from './core.ts'
import type { Suspicion } from './suspicion.ts'
import { isParked } from './withdraw.ts'

const markOf = (task: string): string => `deaths/${task}`
const none: TaskDeaths = { deaths: [], suspected: 0 }

/** What is counted against a task since it was retried last. */
export const deathsOf = (store: Store, task: string): TaskDeaths => {
  const mark = store.marks.get(markOf(task))
  return mark ? TaskDeaths.parse(mark.value) : none
}

const put = (store: Store, task: string, value: TaskDeaths, info: Record<string, unknown>): void => {
  const mark = store.marks.get(markOf(task))
  const why = { event: 'task.death', by: 'supervisor', info: { task, ...info } } as const
  if (mark) store.marks.update(markOf(task), mark.rev, value, why)
  else store.marks.create(markOf(task), value, why)
}

/** The count begins anew: the task is tried again by a person's word, or the lead's. */
export const forgiveDeaths = (store: Store, task: string): void => {
  if (store.marks.get(markOf(task))) put(store, task, none, { forgiven: true })
}

/** Was it failed for the deaths that it was in hand at? */
export const isDeadly = (store: Store, { id, status, error }: Task): boolean => {
  const { deaths } = deathsOf(store, id)
  return status === 'failed' && deaths.length > 0 && error === deathsText(deaths)
}

/**
 * Counts, in the journal, who died with which task in hand. A task that is in hand at `limits.deaths` of them is failed, so that it
 * does not end one teammate after the other, or the daemon again and again.
 *
 * - A thread's death counts against the task that this very thread had been told of; and so does one at its start right
 *   after, since what ended it may stand in its session. Not one that the machine made (a full disk).
 * - The daemon's counts where its parent saw that it died of something in it. With one task in hand it counts against that
 *   one; with several nobody can tell, so each becomes a suspect, to be tried alone (see `Suspicion`).
 */
export class Deaths {
  readonly #core: Core
  readonly #suspicion: Suspicion
  /** The task that the last death of a thread was counted against, until it is ready again. */
  readonly #blamed = new Map<string, string>()

  constructor(core: Core, suspicion: Suspicion) {
    this.#core = core
    this.#suspicion = suspicion
  }

  /** The thread of `who` died. True: the task was failed for it. `isTold`: that thread knew of the task. */
  ofThread(who: string, why: string, isTold: (task: string) => boolean): boolean {
    const task = this.#core.tasks.inHand(who)?.value
    if (!task || isOfTheMachine(why)) return false
    if (!isTold(task.id) && this.#blamed.get(who) !== task.id) return false
    this.#blamed.set(who, task.id)
    return this.#count(task, who, why)
  }

  /** The thread of `who` came up. */
  ready(who: string): void {
    this.#blamed.delete(who)
  }

  /**
   * The daemon before this one died, in the words of its parent. True: it is known which task that is counted against. To be
   * called before anything is given out.
   */
  ofDaemon(how: string): boolean {
    if (!isOwnDeath(how)) return false
    const { tasks, store, roster } = this.#core
    const alone = this.#suspicion.alone
    const inHand = [...store.tasks.list()].flatMap(([, { value }]) => {
      const { owner, id } = value
      const isHeld = owner !== null && tasks.inHand(owner)?.value.id === id && roster.has(owner)
      // Who waits for a decision does nothing.
      return isHeld && !isParked(this.#core, owner) ? [value] : []
    })
    const [only] = alone === null ? (inHand.length === 1 ? inHand : []) : inHand.filter(({ id }) => id === alone)
    if (only?.owner) {
      this.#count(only, only.owner, `the daemon died (${how})`)
      return true
    }
    // One that was tried alone and has left its hands since has told nothing; neither have others that had not begun.
    if (alone !== null || this.#suspicion.isOpen) return false
    for (const { id } of inHand) {
      const before = deathsOf(store, id)
      put(store, id, { ...before, suspected: before.suspected + 1 }, { how, suspected: before.suspected + 1 })
    }
    this.#suspicion.begin(inHand.map(({ id }) => id))
    return false
  }

  /** Finishes what a crash cut short: a task whose deaths are on record, and that is still open. */
  recover(): void {
    for (const [, { value }] of [...this.#core.store.tasks.list()])
      if (isOpen(value)) this.#judge(value, deathsOf(this.#core.store, value.id).deaths)
  }

  #count(task: Task, who: string, why: string): boolean {
    const { store, clock } = this.#core
    const before = deathsOf(store, task.id)
    const deaths = [...before.deaths, { at: iso(clock.wall()), who, why }]
    put(store, task.id, { ...before, deaths }, { name: who, why, deaths: deaths.length })
    return this.#judge(task, deaths)
  }

  #judge(task: Task, deaths: readonly Death[]): boolean {
    const { tasks, config } = this.#core
    if (deaths.length < config.limits.deaths) return false
    return tasks.move(task.id, 'supervisor', { move: 'fail', reason: deathsText(deaths) }).ok
  }
}
