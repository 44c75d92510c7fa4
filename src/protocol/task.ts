import * as z from 'zod'
import { asOneLine } from '../lib/text.ts'
import { Name, TaskId } from './ids.ts'
import { taskStatuses } from './task-status.ts'

/**
 *   pending ──claim──▶ in_progress ──claimed, then verified──▶ completed
 *      ▲  ◀──release──      │ └──────fail──▶ failed ──retry──▶ pending
 *      └──── returned ──────┘      cancel (from pending, in_progress, failed) ──▶ cancelled
 *
 * "ready", "blocked" and "verified" are derived, never stored. `claimed` set means: said to be done, awaiting proof; the
 * owner is free for other work meanwhile. A returned task keeps its owner and goes to the front of the owner's queue.
 */
export const TaskStatus = z.enum(taskStatuses)
export type TaskStatus = z.infer<typeof TaskStatus>

const stamp = z.string()
const text = z.string()
const command = text.refine(one => !one.includes('\0'), 'a command holds no NUL byte')

export const TaskClaim = z.object({
  head: text.nullable(),
  summary: text,
  at: stamp,
  /** The number of the last lease that was granted by then: what has a later one came after this work. */
  fence: z.number().int().optional(),
})
export const TaskResult = z.object({
  /** merged: on the trunk, verified. verified: `verify` passed, nothing to merge. unverified: nobody proved it. */
  outcome: z.enum(['merged', 'verified', 'unverified']),
  summary: text.default(''),
  commit: text.optional(),
  trunk: text.optional(),
})

/** What the store holds of a task. `blockedBy` and `rev` are added by the projection to the file. */
export const Task = z.object({
  id: TaskId,
  title: text,
  description: text.default(''),
  status: TaskStatus.default('pending'),
  /** Every edge: ids, or (not yet resolved) the title or drop file name of a task still to come. */
  dependsOn: z.array(text).default([]),
  /** Who has it in hand or claimed it done; null while pending (a returned task keeps its owner in `assignee`-like `owner`). */
  owner: Name.nullable().default(null),
  /** Exclusive: nobody else is given it. */
  assignee: Name.nullable().default(null),
  /** What the owner must be able to do: `write`, `exec`, or a tool's name. */
  needs: z.array(text).default(['write']),
  skills: z.array(text).default([]),
  /** Higher first. */
  priority: z.number().int().min(-1000).max(1000).default(0),
  verify: text.nullable().default(null),
  accept: z.array(text).default([]),
  review: z.boolean().default(false),
  /** Globs of what it may touch, relative to the workspace; empty is everything. */
  paths: z.array(text).default([]),
  claimed: TaskClaim.nullable().default(null),
  /** How often it was started. */
  attempts: z.number().int().min(0).default(0),
  /** How often its claim to be done was sent back. */
  returns: z.number().int().min(0).default(0),
  /** How many of these do not count against `limits.returns`: what was red had been so on the trunk before. */
  spared: z.number().int().min(1).optional(),
  createdAt: stamp,
  startedAt: stamp.nullable().default(null),
  updatedAt: stamp,
  completedAt: stamp.nullable().default(null),
  branch: text.nullable().default(null),
  result: TaskResult.nullable().default(null),
  /** Why it failed, was cancelled or was sent back: the facts its owner needs. */
  error: text.nullable().default(null),
  /**
   * A commit of the trunk that its branch takes in before it goes on, since its proof failed against it; null where the branch
   * goes on as it is.
   */
  takeIn: text.nullable().default(null),
  needsPlan: z.boolean().default(false),
  parent: TaskId.nullable().default(null),
  tags: z.array(text).default([]),
  /** Name of the file it was dropped as, so that later drops may name it. */
  file: text.nullable().default(null),
  /** Everybody who was given it: none of them reviews it. */
  givenTo: z.array(Name).optional(),
  /** Whose work on it was rejected too often in review: it is not given to them any more, until a retry. */
  notFor: z.array(Name).optional(),
})
export type Task = z.infer<typeof Task>

/** What a person may write in a drop. Run-state fields are refused by name, see `runState`. */
export const TaskDrop = z.strictObject({
  id: z.union([TaskId, z.number().int().min(0).transform(String)]).optional(),
  /** A heading, so always one line. */
  title: z
    .string()
    .transform(asOneLine)
    .pipe(z.string().min(1, 'must not be empty').max(500, 'is longer than 500 characters')),
  description: text.optional(),
  status: z.literal('pending').optional(),
  blockedBy: z.array(z.union([text, z.number().transform(String)])).optional(),
  dependsOn: z.array(z.union([text, z.number().transform(String)])).optional(),
  assignee: Name.nullable().optional(),
  needs: z.array(text).optional(),
  skills: z.array(text).optional(),
  priority: z.number().int().min(-1000).max(1000).optional(),
  verify: command.nullable().optional(),
  /** Each is a command, and one alone may stand without the list. */
  accept: z
    .union([text.transform(one => [one]), z.array(text)])
    .pipe(z.array(command.refine(one => one.trim() !== '', 'must not be empty')))
    .optional(),
  review: z.boolean().optional(),
  paths: z.array(text).optional(),
  needsPlan: z.boolean().optional(),
  parent: z
    .union([TaskId, z.number().int().min(0).transform(String)])
    .nullable()
    .optional(),
  tags: z.array(text).optional(),
  /** Taken over from a hand-made file, as the tutorials write it. */
  createdAt: z.union([stamp, z.number()]).optional(),
})
export type TaskDrop = z.infer<typeof TaskDrop>

/** The task that a drop asks for, with what the holder gives it. */
export const newTask = (
  drop: TaskDrop,
  given: Pick<Task, 'id' | 'dependsOn' | 'createdAt' | 'updatedAt' | 'file'>,
): Task => ({
  id: given.id,
  title: drop.title,
  description: drop.description ?? '',
  status: 'pending',
  dependsOn: given.dependsOn,
  owner: null,
  assignee: drop.assignee ?? null,
  needs: drop.needs ?? ['write'],
  skills: drop.skills ?? [],
  priority: drop.priority ?? 0,
  verify: drop.verify ?? null,
  accept: drop.accept ?? [],
  review: drop.review ?? false,
  paths: drop.paths ?? [],
  claimed: null,
  attempts: 0,
  returns: 0,
  createdAt: given.createdAt,
  startedAt: null,
  updatedAt: given.updatedAt,
  completedAt: null,
  branch: null,
  result: null,
  error: null,
  takeIn: null,
  needsPlan: drop.needsPlan ?? false,
  parent: drop.parent ?? null,
  tags: drop.tags ?? [],
  file: given.file,
})

/** Fields that only the holder sets; in a drop (with a value other than null, "" or []) they are refused. */
export const runState = [
  'owner',
  'claimed',
  'attempts',
  'returns',
  'spared',
  'startedAt',
  'updatedAt',
  'completedAt',
  'branch',
  'result',
  'error',
  'takeIn',
  'givenTo',
  'notFor',
  'rev',
] as const

/** Fields of a task file that a person may edit by hand; `status` only to `cancelled`. */
export const editable = [
  'title',
  'description',
  'priority',
  'dependsOn',
  'blockedBy',
  'verify',
  'accept',
  'status',
] as const

/** A task as its file shows it. */
export interface TaskFile extends Task {
  readonly v: 1
  readonly rev: number
  readonly blockedBy: readonly string[]
}

export const isOpen = (task: Task): boolean => task.status === 'pending' || task.status === 'in_progress'
export const isEnded = (task: Task): boolean => !isOpen(task)
/** Its owner works on it: it is neither claimed done nor given back. */
export const isInHand = (task: Task): boolean => task.status === 'in_progress' && task.claimed === null

type Move = { readonly at: string } & (
  | { readonly move: 'start'; readonly owner: string; readonly branch: string | null }
  | { readonly move: 'claim'; readonly head: string | null; readonly summary: string; readonly fence?: number }
  /**
   * `takeIn`: the trunk that its proof failed against, where it is that which the branch lacks. `spared`: what was red had been
   * so before.
   */
  | {
      readonly move: 'return'
      readonly reason: string
      readonly takeIn?: string | undefined
      /** It is not given to its owner any more. */
      readonly toOther?: boolean
      readonly spared?: boolean
    }
  | { readonly move: 'release'; readonly reason: string | null }
  | { readonly move: 'complete'; readonly result: z.infer<typeof TaskResult> }
  | { readonly move: 'fail'; readonly reason: string; readonly takeIn?: string | undefined }
  | { readonly move: 'cancel'; readonly reason: string }
  | { readonly move: 'retry' }
)
export type TaskMove = Move

/** The next state of a task, or null where the move is not legal from here. Pure; the one setter of `status`. */
export const move = (task: Task, m: Move): Task | null => {
  const next = (change: Partial<Task>): Task => ({ ...task, ...change, updatedAt: m.at })
  const working = task.status === 'in_progress'
  switch (m.move) {
    case 'start':
      if (task.status !== 'pending') return null
      return next({
        status: 'in_progress',
        owner: m.owner,
        branch: task.branch ?? m.branch,
        attempts: task.attempts + 1,
        startedAt: task.startedAt ?? m.at,
        claimed: null,
        givenTo: [...(task.givenTo ?? []).filter(name => name !== m.owner), m.owner],
      })
    case 'claim':
      return working && !task.claimed
        ? next({
            claimed: {
              head: m.head,
              summary: m.summary,
              at: m.at,
              ...(m.fence === undefined ? {} : { fence: m.fence }),
            },
            error: null,
            takeIn: null,
          })
        : null
    case 'return':
      // Back to its owner, who alone may take it up again; pending so that the owner is given it when free. Or to anybody else.
      return working && task.claimed
        ? next({
            status: 'pending',
            claimed: null,
            error: m.reason,
            returns: task.returns + 1,
            ...(m.spared ? { spared: (task.spared ?? 0) + 1 } : {}),
            takeIn: m.takeIn ?? null,
            ...(m.toOther && task.owner !== null ? { owner: null, notFor: [...(task.notFor ?? []), task.owner] } : {}),
          })
        : null
    case 'release':
      // What it was sent back with is what the next owner must know.
      return working && !task.claimed
        ? next({
            status: 'pending',
            owner: null,
            error: task.returns > 0 && task.error !== null ? task.error : m.reason,
          })
        : null
    case 'complete':
      return working && task.claimed
        ? next({ status: 'completed', result: m.result, completedAt: m.at, error: null })
        : null
    case 'fail':
      return isOpen(task)
        ? next({ status: 'failed', error: m.reason, claimed: null, takeIn: m.takeIn ?? task.takeIn })
        : null
    case 'cancel':
      return task.status === 'completed' || task.status === 'cancelled'
        ? null
        : next({ status: 'cancelled', error: m.reason, claimed: null })
    case 'retry':
      return task.status === 'failed' || task.status === 'cancelled'
        ? // Why it ended stays on the screen until it is claimed done again.
          unspared(
            next({ status: 'pending', owner: null, claimed: null, returns: 0, ...(task.notFor ? { notFor: [] } : {}) }),
          )
        : null
  }
}

/** How often it was sent back by its own fault. */
export const countedReturns = ({ returns, spared = 0 }: Task): number => returns - spared

const unspared = ({ spared: _, ...task }: Task): Task => task
