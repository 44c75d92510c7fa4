import { cut } from '../lib/text.ts'
import type { RequestOf } from '../protocol/request.ts'
import type { Stray } from '../protocol/rpc.ts'
import { countedReturns, type Task } from '../protocol/task.ts'
import { conflictText } from './conflict.ts'
import { type Core, leadInbox, verifyCommands } from './core.ts'
import { humanInbox } from './mail.ts'
import type { Notices } from './notices.ts'
import { strayText } from './touched.ts'
import { type Check, howEnded } from './verify.ts'

/** What becomes of a claim that is not proven: each way in which it leaves the way to the trunk, on record and told. */
export class Verdicts {
  readonly #core: Core
  readonly #notices: Pick<Notices, 'problem' | 'tell'>

  constructor(core: Core, notices: Pick<Notices, 'problem' | 'tell'>) {
    this.#core = core
    this.#notices = notices
  }

  /** Something went wrong on the way: said in `team status`. */
  problem(text: string): void {
    this.#notices.problem('proof', text)
  }

  /** The trunk itself is red (or, with null, is not that any more): said in `team status`, and once for each commit to who can mend it. */
  trunkRed(red: { trunk: string; result: Pick<Check, 'command' | 'ok' | 'exitCode' | 'tail'> } | null): void {
    if (red === null) {
      this.#notices.problem('trunk', null)
      return
    }
    const { trunk, result } = red
    const what = `the trunk itself is red at ${trunk.slice(0, 12)}: \`${result.command}\` ${howEnded(result)} on it alone`
    this.#notices.problem('trunk', `${what}; nothing is merged that does not mend it`)
    for (const to of new Set([humanInbox, leadInbox(this.#core)]))
      this.#notices.tell(
        to,
        `msg_red_${trunk}`,
        `${what}, so it was red before the work that waits to be merged. Nothing is merged that does not mend it: give a task for that, or mend it on the base.\n${result.tail}`,
      )
  }

  /**
   * Back to the front of its owner's queue with the facts; failed when that happened too often. `takeIn`: the trunk against
   * which it failed, for its branch to take in. `spared`: it is not counted, since what was red had been so before. `toOther`:
   * to anybody but its owner.
   */
  sendBack(
    id: string,
    reason: string,
    o: { readonly takeIn?: string; readonly spared?: boolean; readonly toOther?: boolean } = {},
  ): void {
    const { tasks, config } = this.#core
    const task = tasks.get(id)?.value
    if (!task?.claimed) return
    if (!o.spared && countedReturns(task) >= config.limits.returns)
      tasks.move(id, 'supervisor', {
        move: 'fail',
        reason: `sent back ${count(countedReturns(task), 'time')} already (limits.returns); now: ${reason}`,
        takeIn: o.takeIn,
      })
    else tasks.move(id, 'supervisor', { move: 'return', reason, ...o })
  }

  /** It changes what it may not: back, to go on from the trunk as it is. */
  strayed(taskId: string, requestId: string, found: readonly Stray[], trunk: string): void {
    const paths = found.map(({ path }) => path).join(', ')
    this.#core.requests.effect(requestId, 'done', 'returned', `it may not change ${cut(paths, 400)}`)
    this.sendBack(taskId, `your branch cannot be merged: ${strayText(found)}`, { takeIn: trunk })
  }

  /** A check that could not run is no green; it is not the owner's fault either, so a person is told. */
  stuck(tasks: readonly Task[], result: Check): void {
    const ids = tasks.map(({ id }) => id)
    for (const id of ids)
      this.#core.tasks.move(id, 'supervisor', {
        move: 'fail',
        reason: `"${result.command}" could not run, so nothing proves the work: ${result.tail}`,
      })
    if (ids.length > 0)
      this.problem(
        `task ${ids.join(', ')}: "${result.command}" could not run: ${result.tail.split('\n')[0]}; mend that, then team task retry ${ids.join(' ')}`,
      )
  }

  /** What was to prove the task cannot: a person's words are wrong, which is no fault of the owner. */
  unprovable(id: string, reason: string): void {
    this.#core.tasks.move(id, 'supervisor', { move: 'fail', reason })
    const attempts = this.#core.tasks.get(id)?.value.attempts ?? 0
    this.#notices.tell(humanInbox, `msg_accept_${id}_${attempts}`, `Task ${id} was not completed: ${reason}`)
  }

  /** It is on the trunk. */
  merged(task: Task, request: string, o: { commit: string; trunk: string; isVerified: boolean }): void {
    const { commit, trunk } = o
    const summary = task.claimed?.summary ?? ''
    const outcome = o.isVerified ? 'merged' : 'unverified'
    const done = this.#core.tasks.move(
      task.id,
      'supervisor',
      { move: 'complete', result: { outcome, summary, commit, trunk } },
      { commit, request },
    )
    if (!done.ok)
      this.problem(`the trunk took task ${task.id} in as ${commit.slice(0, 12)} just before: ${done.fault.message}`)
  }

  /**
   * The trunk took it in by exactly this request, and a crash (or the end of a git) came before that was on record. What proves
   * it was green before the trunk moved, so nothing is run again: whatever a check says now, it is merged.
   */
  takenIn(task: Task, { id, effect }: RequestOf<'merge_request'>, commit: string): void {
    // Of an earlier try, or of a version that did not keep it: then it says nothing of this commit.
    const merge = effect?.merge?.commit === commit ? effect.merge : undefined
    this.#core.requests.effect(id, 'done', 'ok', `trunk at ${commit.slice(0, 12)}`, merge ? { merge } : {})
    const isVerified = merge
      ? merge.checks.some(({ where }) => where === 'merged')
      : verifyCommands(this.#core, task).length + task.accept.length > 0
    this.merged(task, id, { commit, trunk: commit, isVerified })
  }

  /**
   * What a crash cut off from an effect that is on record as ended. False where the record does not say enough. What the record
   * says in short is told in full: where a conflict lies is looked up again, in the trunk as it is by now.
   */
  async follow(task: Task, { id, effect }: RequestOf<'merge_request'>): Promise<boolean> {
    const { outcome, detail = 'no reason given', merge } = effect ?? {}
    const red = merge?.checks.find(({ where, ok }) => where === 'merged' && !ok)
    const facts = red === undefined ? detail : `${detail}\n${red.tail}`
    if (outcome === 'ok') {
      if (merge?.commit == null) return false
      const isVerified = merge.checks.some(({ where }) => where === 'merged')
      this.merged(task, id, { commit: merge.commit, trunk: merge.commit, isVerified })
    } else if (outcome === 'returned') {
      const takeIn = merge?.onto ?? (await this.#core.hub?.trunk())
      const spared = merge?.spared ?? false
      const met = merge === undefined ? await this.#metAgain(task) : null
      this.sendBack(task.id, met ?? facts, { spared, ...(takeIn === undefined ? {} : { takeIn }) })
    } else if (merge?.checks.some(({ where, ok }) => where === 'base' && ok)) this.unprovable(task.id, detail)
    else this.failMerge(task.id, facts)
    return true
  }

  /** Where its claim meets the trunk as it is now, in full; null where it does not, or that cannot be told. */
  async #metAgain(task: Task): Promise<string | null> {
    const { hub } = this.#core
    const head = task.claimed?.head
    if (!hub || head == null) return null
    const preview = await hub.preview(head, await hub.trunk())
    return preview.ok && !preview.value.clean ? conflictText(this.#core, task, { head, ...preview.value }) : null
  }

  /** A fault of the program stopped its proof, and again when it was tried once more: a person is told, and may try again. */
  broken(id: string, why: string): void {
    const { tasks, requests } = this.#core
    const task = tasks.get(id)?.value
    if (!task?.claimed) return
    const { head } = task.claimed
    const request = head === null ? undefined : requests.mergeOf(id, task.attempts, head)
    // One that is begun may have reached the trunk: what became of it is looked up at the next start.
    if (request?.status === 'approved' && request.effect === null) requests.effect(request.id, 'done', 'failed', why)
    tasks.move(id, 'supervisor', { move: 'fail', reason: `its proof stopped: ${why}` })
    this.problem(`task ${id}: its proof stopped: ${why} (to try again: team task retry ${id})`)
  }

  /** The task was cancelled after its merge had been approved. */
  drop(requestId: string, taskId: string): void {
    const status = this.#core.tasks.get(taskId)?.value.status ?? 'gone'
    this.#core.requests.effect(requestId, 'done', 'failed', `nothing was merged: task ${taskId} is ${status}`)
  }

  abandon({ id, data }: RequestOf<'merge_request'>, why: string): void {
    this.#core.requests.effect(id, 'done', 'failed', why)
    this.failMerge(data.task, why)
  }

  failMerge(id: string, why: string): void {
    this.#core.tasks.move(id, 'supervisor', { move: 'fail', reason: `the merge failed: ${why}` })
    this.problem(`task ${id}: the merge failed: ${why} (to try again: team task retry ${id})`)
  }
}

/** `1 task`, `2 tasks`. */
export const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

/** A red check in words for who has to mend it. */
export const redText = (result: Check): string =>
  `verify failed on the merged result: \`${result.command}\` ${howEnded(result)}\n${result.tail}`
