import type { Scope, Unit } from './amount.ts'

/** What of a budget is used. `cap` counts what was approved on top of what config.json says. */
export interface BudgetShown {
  readonly scope: Scope
  readonly of: string
  readonly unit: Unit
  readonly spent: number
  readonly cap: number
}

/** Why no call may be made: the request that asks for more, or (null) what the human has to change first. */
export interface OverBudget {
  readonly request: string | null
  readonly scope: Scope
  readonly why: string
}

/** Who or what keeps a lease waiting. `id`: of a request, or `task 3`. */
export interface Blocker {
  readonly who: string
  readonly id: string
  readonly what: 'holds it' | 'was there before'
}
/** A path that a task may not touch, and why. */
export interface Stray {
  readonly path: string
  readonly why: string
}

/** `id`: of its request; null where a task that was begun in dir mode holds its paths. */
export interface HeldLease {
  readonly id: string | null
  readonly holder: string
  readonly task: string | null
  readonly kind: 'path' | 'port' | 'name'
  readonly what: readonly string[]
  /** Higher than that of every lease before it. */
  readonly fence: number | null
  readonly until: string | null
}
/** One that waits, in the order in which they were opened. */
export interface QueuedLease {
  readonly id: string
  readonly from: string
  readonly task: string | null
  readonly kind: 'path' | 'port' | 'name'
  readonly what: readonly string[]
  readonly since: string
  /** Everybody who holds it, and of those who were there before the three nearest. */
  readonly behind: readonly Blocker[]
}
