import type { Task } from '../protocol/task.ts'
import type { Core } from './core.ts'
import type { Check } from './verify.ts'

/** What becomes of a claim that is not proven: each way in which it leaves the way to the trunk, on record and told. */
export class Verdicts {
  readonly #core: Core
  readonly #problem: (text: string) => void

  constructor(core: Core, onProblem: (text: string) => void) {
    this.#core = core
    this.#problem = onProblem
  }

  /** Something is wrong that no task is to blame for: said in `team status`. */
  problem(text: string): void {
    this.#problem(text)
  }

  /**
   * Back to the front of its owner's queue with the facts; failed when that happened too often. `takeIn`: the trunk against
   * which it failed, for its branch to take in. `toOther`: to anybody but its owner.
   */
  sendBack(id: string, reason: string, { takeIn, toOther }: { takeIn?: string; toOther?: boolean } = {}): void {
    const { tasks, config } = this.#core
    const task = tasks.get(id)?.value
    if (!task?.claimed) return
    if (task.returns >= config.limits.returns)
      tasks.move(id, 'supervisor', {
        move: 'fail',
        reason: `sent back ${count(task.returns, 'time')} already (limits.returns); now: ${reason}`,
        takeIn,
      })
    else tasks.move(id, 'supervisor', { move: 'return', reason, takeIn, ...(toOther ? { toOther } : {}) })
  }

  /** A check that could not run is no green; it is not the owner's fault either, so a person is told. */
  stuck(task: Task, result: Check): void {
    this.#core.tasks.move(task.id, 'supervisor', {
      move: 'fail',
      reason: `"${result.command}" could not run, so nothing proves the work: ${result.tail}`,
    })
    this.#problem(
      `task ${task.id}: "${result.command}" could not run: ${result.tail.split('\n')[0]}; mend that, then team task retry ${task.id}`,
    )
  }

  /** The task was cancelled after its merge had been approved. */
  drop(requestId: string, taskId: string): void {
    const status = this.#core.tasks.get(taskId)?.value.status ?? 'gone'
    this.#core.requests.effect(requestId, 'done', 'failed', `nothing was merged: task ${taskId} is ${status}`)
  }

  abandon(requestId: string, why: string): void {
    const request = this.#core.requests.get(requestId)?.value
    this.#core.requests.effect(requestId, 'done', 'failed', why)
    if (request?.type === 'merge_request') {
      this.#core.tasks.move(request.data.task, 'supervisor', { move: 'fail', reason: `the merge failed: ${why}` })
      this.#problem(
        `task ${request.data.task}: the merge failed: ${why} (to try again: team task retry ${request.data.task})`,
      )
    }
  }
}

/** `1 task`, `2 tasks`. */
export const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

/** A red check in words for who has to mend it. */
export const redText = (result: Check): string =>
  `verify failed on the merged result: \`${result.command}\` exited ${result.exitCode ?? 'by a signal'}\n${result.tail}`
