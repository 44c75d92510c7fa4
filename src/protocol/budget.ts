import * as z from 'zod'
import { scopes, units } from './amount.ts'
import { TaskId } from './ids.ts'

/** The most that may be used. A unit that is not named has no cap. */
export const Caps = z.strictObject({
  tokens: z.number().int().positive().optional(),
  /** In the currency of the model's `price`. */
  cost: z.number().positive().optional(),
})
export type Caps = z.infer<typeof Caps>

/** What a million tokens cost. */
export const Price = z.strictObject({
  in: z.number().min(0),
  out: z.number().min(0),
  /** Of those read from the endpoint's cache; without it they cost as the others. */
  cachedIn: z.number().min(0).optional(),
})
export type Price = z.infer<typeof Price>

const count = z.number().int().min(0)
/** Tokens and calls of a session, from its beginning on. */
export const Used = z.object({ input: count, cachedInput: count, output: count, calls: count })
export type Used = z.infer<typeof Used>

/**
 * What was used to get work done, and what to speak of it: calls for mail with no task in hand, and those in a task that did nothing
 * but write messages, ask, decide, or move tasks.
 */
export const UsedFor = z.object({ work: Used, coordination: Used, cost: z.number().min(0) })
export type UsedFor = z.infer<typeof UsedFor>

/** What one teammate used for one task (null: for what came by mail, all of it coordination). */
export const Spending = Used.extend({
  name: z.string(),
  task: TaskId.nullable(),
  /** Of a task's, what was coordination. Not in records of before it was told apart. */
  coordination: Used.optional(),
  cost: z.number().min(0),
  /** Grows with each change of any record of this teammate. */
  n: count,
  /** What its session had used in all at that change: what comes on top of that is not counted yet. */
  seen: Used,
})
export type Spending = z.infer<typeof Spending>

/** Asks the human for more, where a call would go past a cap. */
export const BudgetData = z.object({
  task: TaskId.nullable().default(null),
  kind: z.literal('budget'),
  scope: z.enum(scopes),
  /** The teammate's name or the task's id; `team`. */
  of: z.string(),
  unit: z.enum(units),
  /** What was allowed and what was used when it was asked, and by how much an approval raises what is allowed. */
  cap: z.number(),
  spent: z.number(),
  raise: z.number(),
})
export type BudgetData = z.infer<typeof BudgetData>
