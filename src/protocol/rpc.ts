import * as z from 'zod'
import type { Result } from '../lib/result.ts'
import { faultCodes } from '../lib/result.ts'
import type { UsedFor } from './budget.ts'
import { type JournalEntry, TakenIn } from './event.ts'
import { MessageId, Name, RequestId, TaskId } from './ids.ts'
import { MemoryCategory, type MemoryEntry } from './memory.ts'
import type { DeadLetter, Receipt, Stored } from './message.ts'
import { MessageType } from './message.ts'
import { Learned } from './quirks.ts'
import type { Request, RequestOf } from './request.ts'
import { requestTypeNames } from './request-types.ts'
import type { BudgetShown, HeldLease, OverBudget, QueuedLease, Stray } from './shown.ts'
import type { TaskFile } from './task.ts'
import { TaskDrop, TaskStatus } from './task.ts'
import type { HeldUp, RunningCommand, TeammateState, Waiting } from './teammate.ts'
import type { Restored, SavedShown, WhyShown } from './work.ts'

export type { Blocker, BudgetShown, HeldLease, OverBudget, QueuedLease, Stray } from './shown.ts'

/**
 * The one small RPC to the holder: over a MessagePort from a teammate's thread (which is who it says it is by its port),
 * over the Unix socket from the CLI (the human). Each method's parameters are parsed at the holder's edge.
 */
export const rpcMethods = {
  hello: z.strictObject({}),
  status: z.strictObject({}),

  'task.add': z.strictObject({ tasks: z.array(TaskDrop).min(1) }),
  'task.list': z.strictObject({ status: TaskStatus.optional(), all: z.boolean().optional() }),
  'task.get': z.strictObject({ id: TaskId }),
  'task.cancel': z.strictObject({ id: TaskId, reason: z.string().default('cancelled') }),
  'task.retry': z.strictObject({ id: TaskId }),
  /** Teammates: takes a ready task in hand. Without an id: the one that fits best. */
  'task.claim': z.strictObject({ id: TaskId.optional() }),
  /** Teammates: the claim that the task in hand is done. */
  /** These end the task in hand: `during`, where that is the one the caller means, since it may have another by now. */
  'task.complete': z.strictObject({ summary: z.string(), during: z.string().optional() }),
  'task.release': z.strictObject({ reason: z.string().optional(), during: z.string().optional() }),
  'task.fail': z.strictObject({ reason: z.string().min(1), during: z.string().optional() }),
  /** Teammates, before each write: is it allowed now? Paths from the top of the workspace; none: anywhere. */
  'task.gate': z.strictObject({ paths: z.array(z.string()).default([]) }),
  /** Teammates, after a command: which of these changed paths the task in hand may not touch. null: is there anything to look for? */
  'task.strays': z.strictObject({ paths: z.array(z.string()).nullable() }),

  'message.send': z.strictObject({
    to: z.string(),
    content: z.string(),
    type: MessageType.optional(),
    urgent: z.boolean().optional(),
    replyTo: MessageId.optional(),
    /** Given by the sender so that sending again after a lost answer makes no second message. */
    id: MessageId.optional(),
  }),
  /** Looking consumes nothing. `after` is an index of the inbox's log. */
  'inbox.read': z.strictObject({
    name: z.string(),
    after: z.number().int().min(0).optional(),
    limit: z.number().int().min(1).max(1000).optional(),
    unread: z.boolean().optional(),
  }),
  /** A teammate for its own inbox (the mail stands in its session journal), the human for `user`. */
  'inbox.ack': z.strictObject({
    name: z.string(),
    upTo: z.number().int().min(0),
    /** What entered the context, by index, and at which turn. */
    taken: TakenIn.optional(),
  }),
  /** What somebody sent (a teammate: itself), the last `limit`, oldest first, with how far each got. */
  'inbox.sent': z.strictObject({ name: z.string(), limit: z.number().int().min(1).max(1000).optional() }),
  /** The last of the lines that were no messages; consumes nothing. */
  'inbox.dead': z.strictObject({ limit: z.number().int().min(1).max(1000).optional() }),
  /** The human has seen those up to this index: they stay, and are not counted any more. */
  'inbox.deadSeen': z.strictObject({ upTo: z.number().int().min(0) }),

  /** `from`: only what this one opened. */
  'request.list': z.strictObject({ all: z.boolean().optional(), from: z.string().optional() }),
  'request.get': z.strictObject({ id: z.string() }),
  'request.open': z.strictObject({
    type: z.enum(requestTypeNames),
    data: z.record(z.string(), z.unknown()).default({}),
    title: z.string().max(200).optional(),
    body: z.string().default(''),
    /** The task that its asker has in hand, as far as it knows: refused where that was taken from it meanwhile. */
    during: z.string().optional(),
  }),
  /** The human: the lead is given the task of proposing tasks for a goal; what it proposes may be changed before approving. */
  'plan.ask': z.strictObject({ goal: z.string().min(1) }),
  'plan.revise': z.strictObject({ id: z.string(), tasks: z.array(TaskDrop).min(1) }),
  'request.decide': z.strictObject({
    id: z.string(),
    decision: z.enum(['approve', 'reject', 'ask']),
    reason: z.string().optional(),
    /** The content that was shown, by its hash or the beginning of it. */
    shown: z
      .string()
      .regex(/^[0-9a-f]{8,64}$/, 'the hash as `team requests <id>` shows it')
      .optional(),
    /** The human, of a permission: the rule shown holds from now on. */
    always: z.boolean().default(false),
  }),
  'request.answer': z.strictObject({ id: z.string(), text: z.string() }),
  'request.withdraw': z.strictObject({ id: z.string(), reason: z.string().optional() }),

  /** Teammates: may this command run, which the rules alone do not allow? A permission for one run is used up by the answer. */
  'permission.use': z.strictObject({ command: z.string() }),
  /** What came of the run that a permission was used for. */
  'permission.done': z.strictObject({ request: RequestId, exit: z.number().int().nullable(), detail: z.string() }),
  'permission.list': z.strictObject({}),
  'permission.remove': z.strictObject({ id: z.string() }),

  /** Into the memory that the team shares, with who said so. `known`: the same text stands there in that category already. */
  'memory.save': z.strictObject({ content: z.string().min(1), category: MemoryCategory }),

  /** Before a call of the model: may it take about so many tokens? What it takes is kept free until it is told, or the next is asked about. */
  'budget.reserve': z.strictObject({
    input: z.number().min(0),
    output: z.number().min(0),
    /** For a call of this subagent, beside those of others. */
    sub: z.string().optional(),
  }),
  /**
   * Before a call of the model is made: answered when there is a place for it (`limits.modelCalls`). `call`: its caller's number for it.
   * It is told when the call has ended, or is given up.
   */
  'model.enter': z.strictObject({ call: z.number().int() }),
  'model.leave': z.strictObject({ call: z.number().int() }),
  /** Why it rests still, since the human said no; null where it does not. */
  'budget.rests': z.strictObject({}),

  /** Teammates: what an endpoint taught by refusing it, to be known from now on; `why` in its words. */
  'model.learn': z.strictObject({
    baseURL: z.string(),
    name: z.string(),
    learned: Learned,
    why: z.string().max(1000),
  }),

  /** What a merge would bring: of a request or a task. */
  diff: z.strictObject({ id: z.string() }),
  land: z.strictObject({}),
  /** Whence a line is. `file`: meant from `cwd`, or from the workspace; `here`: as it lies in the person's repository, else on the trunk. */
  why: z.strictObject({
    file: z.string().min(1),
    line: z.number().int().min(1),
    cwd: z.string(),
    here: z.boolean().default(false),
  }),
  /** What was saved before a branch or a work tree moved on without it; `task`: on this one's branch. */
  'rescue.list': z.strictObject({ task: TaskId.optional() }),
  'rescue.show': z.strictObject({ id: z.string() }),
  /** Into a branch of the workspace (without either: `rescue/<id>`), or into a folder by its absolute path. */
  'rescue.restore': z.strictObject({ id: z.string(), branch: z.string().optional(), folder: z.string().optional() }),
  /**
   * Opens a shutdown request for every teammate and answers when all have ended or one rejected; then the daemon ends. With
   * `names` only these are asked, and the daemon goes on.
   */
  down: z.strictObject({
    names: z.array(z.string()).min(1).optional(),
    force: z.boolean().default(false),
    timeoutMs: z.number().int().min(0).default(30_000),
  }),
  /** Lets a failed or stopped teammate start again. */
  'teammate.restart': z.strictObject({ name: Name }),
  /** Its conversation is put together before its next step. Refused where it will not be, with the reason. */
  'teammate.compact': z.strictObject({ name: Name, focus: z.string().min(1).max(2000).optional() }),
  /** Journal entries after `after`; over the socket with `follow`, more come as they happen. */
  events: z.strictObject({
    after: z.number().int().min(0).default(0),
    limit: z.number().int().min(1).max(100_000).default(1000),
    follow: z.boolean().default(false),
    name: z.string().optional(),
    /** With `follow` and `name`: the pieces of its answers to a person as well, as they come. */
    words: z.boolean().default(false),
  }),
} as const
export type RpcMethod = keyof typeof rpcMethods
export const isRpcMethod = (name: string): name is RpcMethod => Object.hasOwn(rpcMethods, name)
export type RpcParams<M extends RpcMethod> = z.input<(typeof rpcMethods)[M]>
export type RpcParsed<M extends RpcMethod> = z.output<(typeof rpcMethods)[M]>

export interface Hello {
  readonly pid: number
  readonly kind: 'daemon' | 'cli'
  readonly root: string
  readonly epoch: number
  readonly version: string
  readonly host: string
  readonly startedAt: string
}

export interface TeammateStatus {
  readonly name: string
  readonly role: string
  readonly state: TeammateState
  readonly since: string
  readonly task: string | null
  readonly waiting: Waiting | null
  readonly unread: number
  readonly restarts: number
  /** How it shows that it works on its task and gets nowhere; null while it gets on. */
  readonly stall: string | null
  /** What keeps it from its work, and how that ends; null while it works, or has nothing to do. */
  readonly heldUp: HeldUp | null
  readonly background: readonly RunningCommand[]
  readonly reason: string | null
  readonly model: string
  /** Tokens, of this session. */
  readonly tokens: {
    readonly input: number
    readonly cachedInput: number
    readonly output: number
    readonly calls: number
  }
  /** Share of the context window in use, 0..1; null where the window is not known. */
  readonly context: number | null
}

/** A task on a screen: what is stored, and what is derived from it. */
export interface TaskShown extends TaskFile {
  /** ready · blocked · waiting (a dependency that does not exist yet) · working · claimed · completed · unverified · failed · cancelled */
  readonly shown: string
  /** Why, where that needs saying: `by 3 (failed)`. */
  readonly why: string | null
}

export interface Status {
  readonly holder: Hello | null
  /** When a projection was read instead of the holder asked: the time of its last write. */
  readonly asOf: string | null
  readonly root: string
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  readonly trunk: { readonly name: string; readonly commit: string; readonly ahead: number } | null
  readonly base: { readonly name: string; readonly commit: string } | null
  readonly sandbox: {
    readonly mode: string
    readonly kind: string
    readonly defended: boolean
    readonly detail: string
  }
  readonly teammates: readonly TeammateStatus[]
  readonly tasks: readonly TaskShown[]
  readonly archived: number
  readonly requests: readonly Request[]
  /** Every cap that counts now: of the team, of teammates, of tasks that have used some and have not ended. */
  readonly budget: readonly BudgetShown[]
  /** What the models used in all. */
  readonly used: UsedFor
  readonly leases: { readonly held: readonly HeldLease[]; readonly queued: readonly QueuedLease[] }
  /** Anything wrong, in words, most urgent first. */
  readonly problems: readonly string[]
  /** Changes of config.json that a running daemon has not taken in yet, and when it will. Nothing is wrong with them. */
  readonly pendingChanges: readonly string[]
  /** Lines that were no messages, and that the human has not marked as seen. */
  readonly deadLetters: number
}

/** A rule that the human gave a teammate on request, by that request's id. */
export interface GivenRule {
  readonly request: string
  readonly teammate: string
  readonly rule: string
  readonly past: readonly string[]
  readonly sandboxed: boolean
  readonly at: string
}

/** May the command run: by the rules, given ones among them, once by a permission, or is it to be asked for? */
export type Use =
  | { readonly how: 'rule' }
  | { readonly how: 'once'; readonly request: string }
  | { readonly how: 'ask'; readonly why: string }

export interface InboxItem {
  readonly index: number
  readonly stored: Stored
  readonly receipt: Receipt
  readonly turn: number | null
}

export interface DownReport {
  readonly stopped: readonly { name: string; how: 'approved' | 'forced' | 'idle' | 'dead' }[]
  readonly rejected: readonly { name: string; reason: string }[]
}

export interface LandReport {
  readonly from: string
  readonly to: string
  readonly branch: string
  readonly commits: number
  readonly how: 'fast-forward' | 'merge' | 'already there'
}

/** What a merge did, for `team approve` to say. */
export interface RpcResults {
  hello: Hello
  status: Status
  'task.add': { tasks: TaskShown[] }
  'task.list': { tasks: TaskShown[] }
  /** `saved`: what was saved aside of its branch. `used`: by models, over all who worked on it. */
  'task.get': { task: TaskShown; requests: Request[]; saved: SavedShown[]; used: UsedFor }
  'task.cancel': { task: TaskShown }
  'task.retry': { task: TaskShown }
  'task.claim': { task: TaskShown }
  'task.complete': { id: string; note: string }
  'task.release': { task: TaskShown }
  'task.fail': { task: TaskShown }
  'task.gate': null
  'task.strays': { guarded: boolean; strays: Stray[] }
  'message.send': { sent: { to: string; id: string; how: 'delivered' | 'queued' | 'held'; note?: string }[] }
  'inbox.read': { items: InboxItem[]; cursor: number; last: number }
  'inbox.ack': { cursor: number }
  'inbox.sent': { items: InboxItem[] }
  'inbox.dead': { letters: (DeadLetter & { readonly seen: boolean })[]; cursor: number; last: number }
  'inbox.deadSeen': { cursor: number }
  'request.list': { requests: Request[] }
  'request.get': { request: Request; ifApproved: string }
  'request.open': { request: Request }
  'plan.ask': { task: TaskShown }
  'plan.revise': { request: Request }
  'request.decide': { request: Request; note: string }
  'request.answer': { request: Request }
  'request.withdraw': { request: Request }
  'permission.use': Use
  'permission.done': null
  /** `unused`: approved for one run that has not come. */
  'permission.list': { rules: GivenRule[]; unused: RequestOf<'permission_request'>[] }
  'permission.remove': { removed: string }
  'memory.save': { known: MemoryEntry | null }
  /** `cheaper`: it may, by the model that spares the budget. */
  'budget.reserve': OverBudget | { readonly cheaper: true } | null
  'budget.rests': string | null
  'model.enter': null
  'model.leave': null
  'model.learn': null
  diff: { title: string; stat: string; patch: string }
  land: LandReport
  why: WhyShown
  'rescue.list': { saved: SavedShown[] }
  'rescue.show': { saved: SavedShown; stat: string; patch: string }
  'rescue.restore': Restored
  down: DownReport
  'teammate.restart': { name: string }
  /** `when` in words. */
  'teammate.compact': { name: string; state: TeammateState; when: string }
  events: { entries: JournalEntry[]; last: number }
}

/** Asks the holder. Never throws for an expected failure. */
export type Call = <M extends RpcMethod>(method: M, params: RpcParams<M>) => Promise<Result<RpcResults[M]>>

/** What goes over the socket and the port: one object a line (socket), or one structured clone (port). */
export const RpcRequest = z.object({ id: z.number().int(), method: z.string(), params: z.unknown() })
export const WireFault = z.object({ code: z.enum(faultCodes), message: z.string(), hint: z.string().optional() })
export const RpcResponse = z.union([
  z.object({ id: z.number().int(), ok: z.literal(true), value: z.unknown() }),
  z.object({ id: z.number().int(), ok: z.literal(false), fault: WireFault }),
  /** One of a stream that `events` with `follow` opened. */
  z.object({ id: z.number().int(), entry: z.unknown() }),
  z.object({ id: z.number().int(), words: z.unknown() }),
])
