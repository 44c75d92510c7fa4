import { isDeepStrictEqual } from 'node:util'
import type { Result } from '../../lib/result.ts'
import { compareTask, type HandEdit } from '../../protocol/task-file.ts'
import type { Store } from '../store.ts'
import type { Problem } from './problem.ts'
import type { PutBacks } from './put-backs.ts'
import type { ShownTasks } from './shown-tasks.ts'

export interface HandEditsOptions {
  readonly store: Store
  readonly shown: ShownTasks
  readonly putBacks: PutBacks
  /** Adopts what a hand changed in a task's file, or says why not. */
  readonly onEdit: (id: string, edit: HandEdit) => Result<unknown> | Promise<Result<unknown>>
  readonly onProblem: (problem: Problem) => void
}

/** What hands wrote over the files of tasks: adopted field by field, or put back and told. */
export class HandEdits {
  readonly #o: HandEditsOptions

  constructor(o: HandEditsOptions) {
    this.#o = o
  }

  /** Takes in the text `bytes`, which reads as `found`. True: it says just what the task's file shows, in another layout at most. */
  async take(id: string, found: Readonly<Record<string, unknown>>, bytes: Uint8Array): Promise<boolean> {
    const { store, shown, onEdit } = this.#o
    const known = store.tasks.get(id)
    if (!known) return false
    const base = await shown.base(id, found, known.rev)
    // Only now: the task may have moved on while that was looked up.
    const rec = store.tasks.get(id) ?? known
    const now = shown.now(id, rec.value, rec.rev)
    const { edit, held, refused } = compareTask(base ?? now, now, found, shown.byHand(id, found.rev))
    shown.setByHand(id, found.rev, held)
    const reasons = [...refused]
    if (edit) {
      const result = await onEdit(id, edit)
      if (!result.ok) reasons.push(result.fault.message)
      else shown.setByHand(id, found.rev, edit)
    }
    if (reasons.length > 0) this.putBack(id, bytes, reasons)
    if (reasons.length > 0 || edit || !isDeepStrictEqual(found, { ...now })) return false
    shown.keep(id, now)
    return true
  }

  /** Keeps the text beside the task's file, and tells why it is not adopted. */
  putBack(id: string, bytes: Uint8Array, reasons: readonly string[]): void {
    const { problem, name } = this.#o.putBacks.keep(id, bytes, reasons)
    this.refused(id, problem, name, reasons.join('; '))
  }

  /** Tells that what a hand did to the task's file was undone; `kept`: the name that its text is kept under. */
  refused(id: string, problem: Problem, kept: string | null, reason = problem.reason): void {
    this.#o.store.note({ event: 'edit.refused', by: 'human', info: { task: id, reason, kept } })
    this.#o.onProblem(problem)
  }
}
