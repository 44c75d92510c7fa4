import * as z from 'zod'
import { Caps, Price } from './budget.ts'
import { type Fallback, fallbackOf } from './fallbacks.ts'
import { Name } from './ids.ts'
import { Quirks } from './quirks.ts'
import { type approvable, requestTypes } from './request-types.ts'

const seconds = z.number().positive().max(86_400)
const bytes = z.number().int().positive()

/** `http://host:1/v1/` and `…/v1/chat/completions` both mean `http://host:1/v1`. Without a scheme it is refused. */
const BaseUrl = z
  .string()
  .refine(url => /^https?:\/\//.test(url) && URL.canParse(url), 'give a full URL with http:// or https://')
  .transform(url => url.replace(/\/+$/, '').replace(/\/chat\/completions$/, ''))

const modelShape = {
  /** `auto`: what the environment offers, else `runbook`. Any other name is a label for an OpenAI-compatible endpoint. */
  provider: z.string().min(1),
  name: z.string().min(1),
  baseURL: BaseUrl,
  /** The environment variable that holds the key; the key itself never stands in a file. */
  apiKeyEnv: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/),
  contextWindow: bytes,
  maxOutputTokens: bytes,
  temperature: z.number().min(0).max(2),
  price: Price,
  quirks: Quirks,
}
const OneModel = z.strictObject(modelShape).partial()
export type ModelConfig = z.infer<typeof OneModel>
/**
 * A model, those that take its calls in their order when it fails, and the one that takes them when little of a cap on cost is left:
 * each complete, or only what differs from it.
 */
export const Model = OneModel.extend({ fallbacks: z.array(OneModel).max(8).optional(), cheaper: OneModel.optional() })

const rules = z.array(z.string().min(1))
export const Permissions = z.strictObject({ allow: rules.default([]), ask: rules.default([]), deny: rules.default([]) })
export type Permissions = z.infer<typeof Permissions>

export const TeammateConfig = z.strictObject({
  name: Name,
  role: z.string().default(''),
  skills: z.array(z.string().min(1)).default([]),
  system_prompt: z.string().default(''),
  model: Model.optional(),
  /** Narrows the default tools. */
  tools: z.array(z.string()).optional(),
  needs: z.array(z.string()).optional(),
  permissions: Permissions.optional(),
  /** false: works only on tasks assigned to it. */
  autoClaim: z.boolean().default(true),
  /** It writes nothing before a plan for its task is approved. */
  needsPlan: z.boolean().default(false),
  /** Over `budget.teammate`, unit by unit. */
  budget: Caps.optional(),
  /** More than one: `<name>-1` … `<name>-n`. */
  count: z.number().int().min(1).max(128).default(1),
})
export type TeammateConfig = z.infer<typeof TeammateConfig>

export const Limits = z.strictObject({
  /** A model answer without any content for so long is given up. */
  modelIdleSeconds: seconds.default(120),
  /** Retries of one model call before the turn counts as failed. */
  modelRetries: z.number().int().min(0).max(20).default(6),
  /** Calls of the models at the same time, over the whole team; without it as many as there are teammates. */
  modelCalls: z.number().int().min(1).max(1000).optional(),
  /** Rounds of one turn. */
  rounds: z.number().int().min(1).default(200),
  /** Rounds of a subagent, before it is asked for its answer as things stand. */
  subagentRounds: z.number().int().min(1).default(30),
  /** The same call of a tool with the same result so often in a row is a loop: the model is told. At three times that its turn ends. */
  sameCalls: z.number().int().min(2).default(8),
  /** So many calls of the model in a row from which nothing came that lasts are one too, in the same way. */
  callsWithoutEffect: z.number().int().min(1).default(100),
  /** Nothing came of what a teammate does for so long beyond the time that it may take: it is stuck, and started anew. */
  stuckSeconds: seconds.default(300),
  commandSeconds: seconds.default(120),
  /** A background command that runs for so long is ended. */
  backgroundSeconds: seconds.default(3600),
  /** Background commands of a teammate that may run at the same time. */
  backgroundCommands: z.number().int().min(1).max(64).default(8),
  verifySeconds: seconds.default(900),
  setupSeconds: seconds.default(900),
  /** Of a command's output what the model sees; the whole is in out/. */
  outputBytes: bytes.default(16_384),
  /** Of a command's output what is kept at all; past it the command is ended. */
  outputMaxBytes: bytes.default(16_777_216),
  messageBytes: bytes.default(262_144),
  /** Messages that enter the context at one boundary. */
  messageBatch: z.number().int().min(1).default(20),
  mailRounds: z.number().int().min(1).default(10),
  /** Restarts of a teammate that makes no progress before it is given up. */
  restarts: z.number().int().min(0).default(5),
  /** Deaths of teammates, or of the daemon, with one task in hand before that task is failed. */
  deaths: z.number().int().min(1).default(3),
  heapMb: z.number().int().min(16).max(1024).default(128),
  /** No heartbeat for so long: the thread hangs and is restarted. */
  heartbeatSeconds: seconds.default(30),
  graceSeconds: seconds.default(30),
  /** How often a claim may be sent back before the task fails. */
  returns: z.number().int().min(0).default(3),
  /** So many approved merges that wait are verified and merged together; 1: one by one. */
  mergeBatch: z.number().int().min(1).max(64).default(8),
  /** Ended tasks kept in .tasks/ before the oldest move to archive/. */
  archiveAfter: z.number().int().min(0).default(500),
  /** An inbox file larger than this is rotated once it is consumed. */
  inboxBytes: bytes.default(1_048_576),
  /** A journal, the team's or a session's, larger than this goes on in a new file. */
  journalBytes: bytes.min(4096).default(8_388_608),
})
export type Limits = z.infer<typeof Limits>

/** By request type: `human`, `lead`, a teammate's name, or `auto`. */
const decider = z.string().min(1)
const decides = (type: (typeof approvable)[number]) => decider.default(requestTypes[type].decides)
export const requestApprovals = z.strictObject({
  plan_request: decides('plan_request'),
  merge_request: decides('merge_request'),
  permission_request: decides('permission_request'),
  question: decides('question'),
})

/** A folder below a home: `.npm`, `~/.cache/pip`. */
const CachePath = z
  .string()
  .regex(/^(~\/)?[\w.@+-]+(\/[\w.@+-]+)*$/, 'name a folder below the home, such as ".npm" or "~/.cache/pip"')
  .refine(path => !path.split('/').some(part => part === '.' || part === '..'), 'name it without . and ..')

export const Config = z.strictObject({
  $schema: z.string().optional(),
  workspace: z.string().min(1).optional(),
  mode: z.enum(['git', 'dir']).optional(),
  trunk: z.string().min(1).default('team/trunk'),
  base: z.string().min(1).optional(),
  data: z.array(z.string().min(1)).default([]),
  setup: z.string().min(1).optional(),
  copy: z.array(z.string().min(1)).default([]),
  /** Folders below the home that `setup` sees, kept from one set-up to the next. */
  caches: z.array(CachePath).default([]),
  model: Model.default({}),
  lead: Name.optional(),
  teammates: z.array(TeammateConfig).min(1, 'name at least one teammate'),
  approvals: requestApprovals.prefault({}),
  /** Nobody writes before a plan for the task is approved. */
  needsPlan: z.boolean().default(false),
  /** Every claim with commits is read by a teammate who did not work on it before its merge is asked for. */
  review: z.boolean().default(false),
  verify: z.string().min(1).optional(),
  permissions: Permissions.default({ allow: [], ask: [], deny: [] }),
  sandbox: z.enum(['required', 'prefer', 'off']).default('required'),
  /** The most that the models of the team, of each teammate and for each task may use. At a cap the human is asked. */
  budget: z
    .strictObject({
      team: Caps.default({}),
      teammate: Caps.default({}),
      task: Caps.default({}),
      /** From this share of a cap on cost on `model.cheaper` takes the calls. */
      cheaperAt: z.number().gt(0).max(1).default(0.8),
    })
    .prefault({}),
  limits: Limits.prefault({}),
})
export type Config = z.infer<typeof Config>

/** One teammate after `count` is unfolded and the model's parts are laid over one another. */
export interface Member {
  readonly name: string
  readonly role: string
  readonly skills: readonly string[]
  readonly systemPrompt: string
  readonly model: Omit<ModelConfig, 'price'>
  /** Who takes a call when its model fails, in this order; at the end the one that spares the budget, where there is one. */
  readonly fallbacks: readonly Fallback[]
  /** Of a million tokens of its model; null where config.json does not say. */
  readonly price: Price | null
  readonly budget: Caps
  /** A cap on cost counts what its model uses. */
  readonly capsCost: boolean
  readonly tools: readonly string[] | null
  readonly permissions: Permissions
  readonly autoClaim: boolean
  readonly needsPlan: boolean
  readonly lead: boolean
  /** What a task's `needs` is matched against: `write` unless `tools` leaves out every writing tool, and each tool's name. */
  readonly can: readonly string[]
}

export const defaultTools = [
  'ask_user',
  'background',
  'bash',
  'compact',
  'edit_file',
  'grep',
  'ls',
  'memory',
  'message',
  'read_file',
  'request',
  'subagent',
  'task',
  'todo',
  'write_file',
] as const

/** What is wrong where a cap on cost counts a model whose price nobody said. */
export const needsPrice =
  'a budget caps its cost, so its model needs a price: "price": {"in": …, "out": …} for a million tokens, there or in model'

/** The members of a validated config, in its order. */
export const members = (config: Config): Member[] =>
  config.teammates.flatMap(mate => {
    const names = mate.count === 1 ? [mate.name] : Array.from({ length: mate.count }, (_, i) => `${mate.name}-${i + 1}`)
    const tools = mate.tools ?? null
    const has = new Set<string>(tools ?? defaultTools)
    const can = [
      ...has,
      ...(has.has('write_file') || has.has('edit_file') || has.has('bash') || has.has('background') ? ['write'] : []),
      ...(has.has('bash') || has.has('background') ? ['exec'] : []),
      ...(mate.needs ?? []),
    ]
    const merge = (a: readonly string[], b: readonly string[] | undefined) => [...new Set([...a, ...(b ?? [])])]
    const { price, fallbacks = [], cheaper, ...model } = { ...config.model, ...mate.model }
    const budget = { ...config.budget.teammate, ...mate.budget }
    const caps = [config.budget.team, config.budget.task, budget]
    return names.map(name => ({
      name,
      role: mate.role,
      skills: mate.skills,
      systemPrompt: mate.system_prompt,
      model,
      fallbacks: [
        ...fallbacks.map(entry => fallbackOf(model, entry)),
        ...(cheaper ? [{ ...fallbackOf(model, cheaper), isCheaper: true as const }] : []),
      ],
      price: price ?? null,
      budget,
      capsCost: caps.some(({ cost }) => cost !== undefined),
      tools,
      permissions: {
        allow: merge(config.permissions.allow, mate.permissions?.allow),
        ask: merge(config.permissions.ask, mate.permissions?.ask),
        deny: merge(config.permissions.deny, mate.permissions?.deny),
      },
      autoClaim: mate.autoClaim,
      needsPlan: config.needsPlan || mate.needsPlan,
      lead: config.lead === name,
      can,
    }))
  })
