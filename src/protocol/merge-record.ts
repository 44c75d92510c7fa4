import * as z from 'zod'

/** One command that was run for a merge. */
export const MergeCheck = z.object({
  command: z.string(),
  /** The merged tree; the trunk alone, to tell what was red before from what the work broke; where the branch started. */
  where: z.enum(['merged', 'trunk', 'base']),
  ok: z.boolean(),
  /** null when it was ended by a signal, or could not be run. */
  exitCode: z.number().int().nullable(),
  ms: z.number().int(),
  /** How many tests it executed, by its runner's word; null where no runner says so. */
  tests: z.number().int().nullable(),
  /** The end of its output, at most 600 characters. */
  tail: z.string(),
})
export type MergeCheck = z.infer<typeof MergeCheck>

/** What proves a merge, or refuses it: kept with the effect of its request. */
export const MergeRecord = z.object({
  /** The commit that it was merged onto, and the head that was merged: `tree` is the merge of exactly these two. */
  onto: z.string(),
  head: z.string(),
  tree: z.string(),
  /** The commit on the trunk (with an effect that is only begun: to be); null where nothing was merged. */
  commit: z.string().nullable(),
  /** The tree in which the checks of the merged result ran: that of the last of those that were merged together. */
  checked: z.string(),
  checks: z.array(MergeCheck),
  /** The tasks that were verified and merged together, in their order. */
  batch: z.array(z.string()),
  /** Of a red check: was the trunk alone red too? Left out where that was not asked, could not be told, or is the task's own check, red until the work is there. */
  redBefore: z.boolean().optional(),
  /** It went back without being counted against limits.returns. */
  spared: z.boolean().optional(),
})
export type MergeRecord = z.infer<typeof MergeRecord>

export const tailLength = 600
