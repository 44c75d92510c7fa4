import * as z from 'zod'
import { firstWords } from '../lib/text.ts'
import { amount, type Unit, whose } from './amount.ts'
import { BudgetData } from './budget.ts'
import { Name, TaskId } from './ids.ts'
import { claimFault, tidy } from './lease.ts'
import { TaskDrop } from './task.ts'

/** What an opener said. */
interface Asked {
  readonly from: string
  readonly body: string
  readonly data: Readonly<Record<string, unknown>>
}

/** What a request type is. Everything that the ledger, the tool and the command line need of it stands here. */
export interface RequestTypeEntry {
  /** Its content besides title and body. `task`, where it has one, is the asker's task in hand: set by the holder. */
  readonly data: z.ZodObject | z.ZodDiscriminatedUnion<z.ZodObject[]>
  /** `leads`: the lead or the human, and a teammate for itself. `supervisor`: opened for a teammate, never by one. */
  readonly opens: 'leads' | 'teammate' | 'supervisor'
  /** Who decides unless `approvals` names another; `lead` is the human where there is none, or where the lead asks. */
  readonly decides: 'human' | 'lead' | 'supervisor' | 'addressee'
  /** Whether `approvals` may name who decides, and may be `auto`. */
  readonly approvals: 'any' | 'no auto' | 'fixed'
  /** The asker does nothing until it is decided: its turn ends and its thread costs nothing. */
  readonly parks: boolean
  /** What it is called in every list where its opener gave it no title: what is asked, in few words. */
  readonly title: (of: Asked) => string
  /** What its body must say; null where it needs none. */
  readonly says: string | null
  /** Which number of its data says how long a teammate has to decide, in ms; null for no end. The human always has time. */
  readonly deadline: string | null
  /** What comes of an approval, and of nobody deciding in time: shown to whoever decides. */
  readonly effect: string
}

export const ShutdownData = z.object({
  teammate: Name,
  graceMs: z.number().int().min(0),
  /** The whole team is being stopped, for the next `team up` to start again; without it this teammate alone, which stays stopped. */
  wholeTeam: z.literal(true).optional(),
})
export const MergeData = z.object({
  task: TaskId,
  /** Which attempt at the task claimed it done: each leads to one claim at most, so this names the claim. */
  attempt: z.number().int().default(0),
  owner: Name,
  branch: z.string(),
  /** The head that approval binds to. */
  head: z.string(),
  /** The trunk when the request was opened, for people: a newer one needs no new approval. */
  trunk: z.string(),
  commits: z.number().int(),
  files: z.array(z.string()),
  verify: z.array(z.string()),
})
/** A claim that is to be read by somebody else before its merge is asked for. */
export const ReviewData = z.object({
  task: TaskId,
  /** Which attempt at the task claimed it done, as in a merge. */
  attempt: z.number().int(),
  owner: Name,
  /** The head that the decision binds to; null in dir mode, where the workspace itself is read. */
  head: z.string().nullable(),
  commits: z.number().int(),
  files: z.array(z.string()),
  verify: z.array(z.string()),
})
const ofTask = { task: TaskId.nullable().default(null) }
export const PlanData = z.object({
  ...ofTask,
  /** A plan for the team: these become tasks, all at once, when it is approved. */
  tasks: z.array(TaskDrop).optional(),
})
export const PermissionData = z.object({
  ...ofTask,
  /** The whole of it, as it would run. What follows is the holder's word too. */
  command: z.string().min(1).max(32_768),
  /** The words that the human may allow from now on; null where no rule would be narrow. */
  rule: z.string().nullable().default(null),
  /** The `ask` rules of config.json that were in its way, and whether commands ran in a sandbox: no rule goes further. */
  past: z.array(z.string()).default([]),
  sandboxed: z.boolean().default(false),
})
export const QuestionData = z.object(ofTask)
/** Seconds for which a lease is given at most, unless it asks for less. */
export const longestLease = 3600
export const LeaseData = z
  .object({
    ...ofTask,
    kind: z.enum(['path', 'port', 'name']),
    /** Globs from the top of the workspace; ports (or `any`); names. All or none is held. */
    what: z.array(z.string().min(1)).min(1).max(32),
    seconds: z.number().int().min(1).max(longestLease).default(600),
  })
  .superRefine((data, context) => {
    const message = claimFault(data)
    if (message !== null) context.addIssue({ code: 'custom', path: ['what'], message })
  })
  .overwrite(data => ({ ...data, what: tidy(data) }))
export type LeaseData = z.infer<typeof LeaseData>
/** A lease, which is had in its turn; or more of a budget, which the supervisor asks the human for. */
export const ResourceData = z.discriminatedUnion('kind', [LeaseData, BudgetData], {
  error: 'give path, port or name',
})

const titles = (tasks: unknown): string =>
  (tasks as readonly TaskDrop[] | undefined)?.map(({ title }) => title).join(', ') ?? ''

/**
 * The table of request types. Adding one is one entry here, and (where an approval does something) one line where
 * `supervisor/run.ts` ties types to their effects.
 */
export const requestTypes = {
  shutdown_request: {
    data: ShutdownData,
    opens: 'leads',
    decides: 'addressee',
    approvals: 'fixed',
    parks: false,
    title: ({ from }) => `${from} asks to shut down`,
    says: null,
    deadline: 'graceMs',
    effect: 'the teammate ends at its next safe point; when nobody decides in time it is stopped by force, recorded so',
  },
  plan_request: {
    data: PlanData,
    opens: 'teammate',
    decides: 'lead',
    approvals: 'any',
    parks: true,
    title: ({ from, body, data }) => firstWords(body) || firstWords(`plan of ${from}: ${titles(data.tasks)}`),
    says: 'you plan',
    deadline: null,
    effect: 'the work described may start; proposed tasks are created',
  },
  resource_request: {
    data: ResourceData,
    opens: 'teammate',
    decides: 'supervisor',
    approvals: 'fixed',
    parks: true,
    title: ({ data }) =>
      data.kind === 'budget'
        ? `more of the budget of ${whose(data as BudgetData)}: ${amount(data.unit as Unit, data.raise as number)}`
        : firstWords(`${data.kind} ${(data.what as readonly string[]).join(', ')}`),
    says: null,
    deadline: null,
    effect: 'the lease is held until it is given back, its time is over or its holder ends',
  },
  merge_request: {
    data: MergeData,
    opens: 'supervisor',
    decides: 'human',
    approvals: 'any',
    parks: false,
    title: () => 'merge',
    says: null,
    deadline: null,
    effect: 'verify the merge and move the trunk',
  },
  review_request: {
    data: ReviewData,
    opens: 'supervisor',
    decides: 'addressee',
    approvals: 'fixed',
    parks: false,
    title: () => 'review',
    says: null,
    deadline: null,
    effect: 'the work goes on to its proof; rejected, it goes back to its owner with the reasons',
  },
  permission_request: {
    data: PermissionData,
    opens: 'teammate',
    decides: 'human',
    approvals: 'no auto',
    parks: true,
    title: ({ from, data }) => firstWords(`${from} wants to run: ${data.command}`),
    says: null,
    deadline: null,
    effect: 'this command may run once, or what the rule shown allows from now on',
  },
  question: {
    data: QuestionData,
    opens: 'teammate',
    decides: 'human',
    approvals: 'no auto',
    parks: true,
    title: ({ from, body }) => firstWords(body) || `question of ${from}`,
    says: 'you ask',
    deadline: null,
    effect: 'the answer goes to who asked, who goes on',
  },
} as const satisfies Readonly<Record<string, RequestTypeEntry>>

export type RequestType = keyof typeof requestTypes
/** Those for one that was chosen when it was opened. */
export type AddressedType = {
  [T in RequestType]: (typeof requestTypes)[T]['decides'] extends 'addressee' ? T : never
}[RequestType]
export const requestTypeNames = Object.keys(requestTypes) as [RequestType, ...RequestType[]]
/** The types that config.json's `approvals` may hand to somebody else. */
export const approvable = requestTypeNames.filter(name => requestTypes[name].approvals !== 'fixed')
