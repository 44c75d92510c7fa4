import type { Message } from './message.ts'
import type { Request } from './request.ts'
import type { TaskShown } from './rpc.ts'

/** Something that was saved before a branch or a work tree moved on without it. */
export interface SavedShown {
  /** The beginning of its commit: how it is asked for. */
  readonly id: string
  readonly ref: string
  readonly commit: string
  /**
   * `uncommitted`: what a teammate had not committed when it changed task. `commits`: commits of its own that no branch held any
   * more. `replaced`: a head that its branch in the hub did not contain any more.
   */
  readonly kind: 'uncommitted' | 'commits' | 'replaced'
  /** Whose clone it is from; null of what was replaced in the hub. */
  readonly teammate: string | null
  /** The branch it was on; null where it was on none. */
  readonly branch: string | null
  /** ISO time; null where it is not known. */
  readonly at: string | null
  /** It lies in the teammate's clone alone; `restore` takes it into the hub first. */
  readonly isInCloneAlone: boolean
}

/** Whence a line is, as far back as there is something on record. */
export interface WhyShown {
  /** From the repository's top. */
  readonly path: string
  readonly line: number
  readonly text: string
  /** Looked at in the person's repository as it lies; else on the trunk. */
  readonly isHere: boolean
  /** What wrote it, and where it stood there; null where it is not committed. */
  readonly commit: {
    readonly id: string
    readonly author: string
    readonly at: string
    readonly subject: string
    readonly path: string
    readonly line: number
  } | null
  /** The commit of the trunk that brought it. */
  readonly merge: { readonly id: string; readonly subject: string } | null
  readonly task: TaskShown | null
  /** What was asked and decided for the task, the plan that made it too; oldest first. */
  readonly requests: readonly Request[]
  /** What was written about it: about its requests, and by or to its owner while it had it in hand; oldest first. */
  readonly messages: readonly Message[]
  /** Why the way ends before a task; null where it does not. */
  readonly why: string | null
}

/** Where what was saved stands now: one of the two. */
export interface Restored {
  readonly commit: string
  /** The branch of the person's repository that holds it now. */
  readonly branch: string | null
  /** The folder that its files are in now. */
  readonly folder: string | null
}
