import * as z from 'zod'
import { Entry } from '../agent/entry.ts'
import type { Verified } from '../agent/verify.ts'
import { scopes, units } from '../protocol/amount.ts'
import { UsedFor } from '../protocol/budget.ts'
import { JournalEntry } from '../protocol/event.ts'
import { DeadLetter, Message, Stored } from '../protocol/message.ts'
import { Request } from '../protocol/request.ts'
import type {
  DownReport,
  GivenRule,
  HeldLease,
  InboxItem,
  LandReport,
  QueuedLease,
  RpcResults,
  Status,
  TaskShown,
  TeammateStatus,
} from '../protocol/rpc.ts'
import { Task } from '../protocol/task.ts'
import { HeldUp, RunningCommand, TeammateState, Waiting } from '../protocol/teammate.ts'
import type { Restored, SavedShown, WhyShown } from '../protocol/work.ts'
import type { Outcome } from './demo/run.ts'

// What `--json` prints, for programs. Each is held against the type that the code prints, so that one cannot change alone;
// docs/json/ is generated from here by scripts/schema.mjs.

const count = z.number().int()
const taskShown = z.object({
  v: z.literal(1),
  rev: count,
  ...Task.shape,
  blockedBy: z.array(z.string()),
  shown: z.string(),
  why: z.string().nullable(),
}) satisfies z.ZodType<TaskShown>
const inboxItem = z.object({
  index: count,
  stored: Stored,
  receipt: z.enum(['stored', 'taken', 'in context', 'acted on']),
  turn: count.nullable(),
}) satisfies z.ZodType<InboxItem>
const kind = z.enum(['path', 'port', 'name'])
const heldLease = z.object({
  id: z.string().nullable(),
  holder: z.string(),
  task: z.string().nullable(),
  kind,
  what: z.array(z.string()),
  fence: count.nullable(),
  until: z.string().nullable(),
}) satisfies z.ZodType<HeldLease>
const queuedLease = z.object({
  id: z.string(),
  from: z.string(),
  task: z.string().nullable(),
  kind,
  what: z.array(z.string()),
  since: z.string(),
  behind: z.array(z.object({ who: z.string(), id: z.string(), what: z.enum(['holds it', 'was there before']) })),
}) satisfies z.ZodType<QueuedLease>
const teammateStatus = z.object({
  name: z.string(),
  role: z.string(),
  state: TeammateState,
  since: z.string(),
  task: z.string().nullable(),
  waiting: Waiting.nullable(),
  unread: count,
  restarts: count,
  stall: z.string().nullable(),
  heldUp: HeldUp.nullable(),
  background: z.array(RunningCommand),
  reason: z.string().nullable(),
  model: z.string(),
  tokens: z.object({ input: count, cachedInput: count, output: count, calls: count }),
  context: z.number().nullable(),
}) satisfies z.ZodType<TeammateStatus>
const Commit = z.object({ name: z.string(), commit: z.string() })
const status = z.object({
  holder: z
    .object({
      pid: count,
      kind: z.enum(['daemon', 'cli']),
      root: z.string(),
      epoch: count,
      version: z.string(),
      host: z.string(),
      startedAt: z.string(),
    })
    .nullable(),
  asOf: z.string().nullable(),
  root: z.string(),
  workspace: z.string(),
  mode: z.enum(['git', 'dir']),
  trunk: Commit.extend({ ahead: count }).nullable(),
  base: Commit.nullable(),
  sandbox: z.object({ mode: z.string(), kind: z.string(), defended: z.boolean(), detail: z.string() }),
  teammates: z.array(teammateStatus),
  tasks: z.array(taskShown),
  archived: count,
  requests: z.array(Request),
  budget: z.array(
    z.object({ scope: z.enum(scopes), of: z.string(), unit: z.enum(units), spent: z.number(), cap: z.number() }),
  ),
  used: UsedFor,
  leases: z.object({ held: z.array(heldLease), queued: z.array(queuedLease) }),
  problems: z.array(z.string()),
  pendingChanges: z.array(z.string()),
  deadLetters: count,
}) satisfies z.ZodType<Status>
const givenRule = z.object({
  request: z.string(),
  teammate: z.string(),
  rule: z.string(),
  past: z.array(z.string()),
  sandboxed: z.boolean(),
  at: z.string(),
}) satisfies z.ZodType<GivenRule>
const returned = z.array(z.object({ task: z.string(), why: z.string() }))
const demo = z.object({
  ok: z.boolean(),
  seconds: z.number(),
  tasks: z.object({ dropped: count, completed: count, merged: count }),
  notDone: returned,
  merges: z.object({ approved: count, returned, rejected: returned }),
  plans: z.object({ approved: count }),
  questions: z.object({ answered: count }),
  permissions: z.object({ granted: count }),
  leases: z.object({ held: count, waited: count }),
  messages: z.object({ all: count, betweenTeammates: count }),
  shutdowns: z.object({ approved: count, rejected: count }),
  deadLetters: count,
  tests: z.object({ passed: count, failed: count }),
  folder: z.string().nullable(),
  problems: z.array(z.string()),
}) satisfies z.ZodType<Outcome>
const saved = z.object({
  id: z.string(),
  ref: z.string(),
  commit: z.string(),
  kind: z.enum(['uncommitted', 'commits', 'replaced']),
  teammate: z.string().nullable(),
  branch: z.string().nullable(),
  at: z.string().nullable(),
  isInCloneAlone: z.boolean(),
}) satisfies z.ZodType<SavedShown>
const Weight = z.object({ bytes: count, tokens: count })

/** By command, as its file in docs/json is named. `logs` and `replay` print one of these a line. */
export const outputs = {
  status: status,
  'task-add': taskShown,
  'task-list': z.array(taskShown),
  'task-show': z.object({
    task: taskShown,
    requests: z.array(Request),
    saved: z.array(saved),
    used: UsedFor,
  }) satisfies z.ZodType<RpcResults['task.get']>,
  'task-graph': z.object({
    nodes: z.array(z.object({ id: z.string(), title: z.string(), shown: z.string(), owner: z.string().nullable() })),
    edges: z.array(z.object({ from: z.string(), to: z.string() })),
  }),
  inbox: z.object({ name: z.string(), cursor: count, last: count, items: z.array(inboxItem) }),
  'inbox-sent': z.object({ name: z.string(), items: z.array(inboxItem) }),
  'inbox-dead': z.array(z.object({ ...DeadLetter.shape, seen: z.boolean() })) satisfies z.ZodType<
    RpcResults['inbox.dead']['letters']
  >,
  send: z.array(
    z.object({
      to: z.string(),
      id: z.string(),
      how: z.enum(['delivered', 'queued', 'held']),
      note: z.string().optional(),
    }),
  ),
  requests: z.array(Request),
  'requests-one': Request,
  /** Of a goal: the task that is the lead's; of `--edit`: the plan as it is proposed now. */
  plan: taskShown,
  'plan-edit': Request,
  permissions: z.object({ rules: z.array(givenRule), unused: z.array(Request) }),
  diff: z.object({ title: z.string(), stat: z.string(), patch: z.string() }) satisfies z.ZodType<RpcResults['diff']>,
  land: z.object({
    from: z.string(),
    to: z.string(),
    branch: z.string(),
    commits: count,
    how: z.enum(['fast-forward', 'merge', 'already there']),
  }) satisfies z.ZodType<LandReport>,
  why: z.object({
    path: z.string(),
    line: count,
    text: z.string(),
    isHere: z.boolean(),
    commit: z
      .object({
        id: z.string(),
        author: z.string(),
        at: z.string(),
        subject: z.string(),
        path: z.string(),
        line: count,
      })
      .nullable(),
    merge: z.object({ id: z.string(), subject: z.string() }).nullable(),
    task: taskShown.nullable(),
    requests: z.array(Request),
    messages: z.array(Message),
    why: z.string().nullable(),
  }) satisfies z.ZodType<WhyShown>,
  'rescue-list': z.array(saved) satisfies z.ZodType<RpcResults['rescue.list']['saved']>,
  'rescue-show': z.object({ saved, stat: z.string(), patch: z.string() }) satisfies z.ZodType<
    RpcResults['rescue.show']
  >,
  'rescue-restore': z.object({
    commit: z.string(),
    branch: z.string().nullable(),
    folder: z.string().nullable(),
  }) satisfies z.ZodType<Restored>,
  compact: z.object({
    name: z.string(),
    state: TeammateState,
    when: z.string(),
  }) satisfies z.ZodType<RpcResults['teammate.compact']>,
  down: z.object({
    stopped: z.array(z.object({ name: z.string(), how: z.enum(['approved', 'forced', 'idle', 'dead']) })),
    rejected: z.array(z.object({ name: z.string(), reason: z.string() })),
  }) satisfies z.ZodType<DownReport>,
  logs: JournalEntry,
  replay: Entry,
  'replay-verify': z.object({
    same: count,
    unknown: count,
    differs: z.object({ turn: count, call: count }).nullable(),
  }) satisfies z.ZodType<Verified>,
  prefix: z.array(Weight.extend({ name: z.string(), parts: z.array(Weight.extend({ part: z.string() })) })),
  demo,
  doctor: z.array(
    z.object({
      what: z.string(),
      state: z.enum(['ok', 'warn', 'fail']),
      detail: z.string(),
      remedy: z.string().nullable(),
      /** Of a leftover: what `--fix` does with it; `fixed` under `--fix`: was that done? */
      fix: z.string().optional(),
      fixed: z.boolean().optional(),
    }),
  ),
} as const satisfies Readonly<Record<string, z.ZodType>>

/** The JSON Schema of one, as it is published. */
export const outputSchema = (name: keyof typeof outputs): object => ({
  // What a transform comes to is not known to a schema: such a value is left open.
  ...z.toJSONSchema(outputs[name], { io: 'output', target: 'draft-7', unrepresentable: 'any' }),
  title: `team ${name} --json`,
})
