import type { Clock } from '../../lib/clock.ts'
import type { Result } from '../../lib/result.ts'
import type { Limits } from '../../protocol/config.ts'
import type { Task } from '../../protocol/task.ts'
import type { HandEdit } from '../../protocol/task-file.ts'
import type { Store } from '../store.ts'
import type { DropsOptions } from './drops.ts'
import type { WritePages } from './pages.ts'
import type { Problem } from './problem.ts'

/** What the folder of tasks is given. */
export interface TasksFolderOptions {
  readonly root: string
  /** Where a dropped link may lead, beside the team root: the workspace. */
  readonly workspace?: string
  readonly store: Store
  /** What of a task's edges is not completed yet. */
  readonly blockedBy: (task: Task) => readonly string[]
  /** See `DropsOptions`. Must not wait for this folder. */
  readonly onDrop: DropsOptions['onDrop']
  /** Adopts what a hand changed in a task's file, or says why not. Must not wait for this folder. */
  readonly onEdit: (id: string, edit: HandEdit) => Result<unknown> | Promise<Result<unknown>>
  readonly onProblem: (problem: Problem) => void
  /** A standing problem of this file is over. */
  readonly onMended?: (file: string) => void
  /** The folder cannot go on (a bug, or the journal failed). */
  readonly onFailure: (error: unknown) => void
  readonly limits: Pick<Limits, 'archiveAfter'>
  readonly clock: Clock
  readonly sweepMs?: number
  /** Puts texts into files; in this thread unless given. */
  readonly write?: WritePages | undefined
}
