import * as z from 'zod'

/** Where endpoints that speak the same protocol differ. `quirks` of a model in config.json; what is left out is not said. */
export const Quirks = z.strictObject({
  /** The name that the limit of an answer goes under; `none`: it is not sent. */
  maxTokensField: z.enum(['max_tokens', 'max_completion_tokens', 'none']).optional(),
  /** false: the usage of a stream is not asked for. */
  streamUsage: z.boolean().optional(),
  /** Sent as it stands here; not sent where it does not. */
  parallelToolCalls: z.boolean().optional(),
  /** false: `temperature` is never sent. */
  temperature: z.boolean().optional(),
  /** The role of the first message. */
  role: z.enum(['system', 'developer']).optional(),
  /** true: the model's thoughts go back to it with its calls (`reasoning_content`). */
  reasoningBack: z.boolean().optional(),
  /** true: calls that another model made carry Google's word for one without a signature. */
  signCalls: z.boolean().optional(),
})
export type Quirks = z.infer<typeof Quirks>

/** What an endpoint taught by refusing it. `refused`: the parameter is left out, whatever its value. */
export const Learned = Quirks.omit({ parallelToolCalls: true }).extend({
  parallelToolCalls: z.literal('refused').optional(),
})
export type Learned = z.infer<typeof Learned>

/** What was learned of each model of each endpoint, by `<baseURL> <name>`. A person may read it, and delete it. */
export const LearnedFile = z.object({
  v: z.literal(1),
  models: z.record(z.string(), Learned.extend({ at: z.string(), why: z.string() })),
})
export type LearnedFile = z.infer<typeof LearnedFile>

/** How a model of an endpoint is called where things are known of it. */
export const endpointKey = (baseURL: string, name: string): string => `${baseURL} ${name}`

/** What one request is made by. `parallelToolCalls` null: it is not sent. */
export interface Capabilities {
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens' | 'none'
  readonly streamUsage: boolean
  readonly parallelToolCalls: boolean | null
  readonly temperature: boolean
  readonly role: 'system' | 'developer'
  readonly reasoningBack: boolean
  readonly signCalls: boolean
}

/** Who says so: config.json, the endpoint itself, what is known of the provider, or nobody. */
export type Source = 'config' | 'learned' | 'preset' | 'default'
export type Known = { readonly [K in keyof Capabilities]: { readonly value: Capabilities[K]; readonly from: Source } }

/**
 * What counts for an endpoint, and who says so: config.json before what was learned, that before what is known of the provider.
 * Only a parameter that is refused whatever its value stays left out.
 */
export const knownOf = (config: Quirks | undefined, learned: Learned, preset: Quirks): Known => {
  const pick = <K extends Exclude<keyof Quirks, 'parallelToolCalls'>>(
    key: K,
    usual: NonNullable<Quirks[K]>,
  ): { value: NonNullable<Quirks[K]>; from: Source } => {
    const said = config?.[key]
    if (said !== undefined) return { value: said as NonNullable<Quirks[K]>, from: 'config' }
    const taught = learned[key]
    if (taught !== undefined) return { value: taught as NonNullable<Quirks[K]>, from: 'learned' }
    const before = preset[key]
    if (before !== undefined) return { value: before as NonNullable<Quirks[K]>, from: 'preset' }
    return { value: usual, from: 'default' }
  }
  const parallel = config?.parallelToolCalls ?? preset.parallelToolCalls
  return {
    maxTokensField: pick('maxTokensField', 'max_tokens'),
    streamUsage: pick('streamUsage', true),
    parallelToolCalls:
      learned.parallelToolCalls === 'refused'
        ? { value: null, from: 'learned' }
        : {
            value: parallel ?? null,
            from: config?.parallelToolCalls !== undefined ? 'config' : parallel !== undefined ? 'preset' : 'default',
          },
    temperature: pick('temperature', true),
    role: pick('role', 'system'),
    reasoningBack: pick('reasoningBack', false),
    signCalls: pick('signCalls', false),
  }
}

/** The same without its sources. */
export const capabilitiesOf = (known: Known): Capabilities => ({
  maxTokensField: known.maxTokensField.value,
  streamUsage: known.streamUsage.value,
  parallelToolCalls: known.parallelToolCalls.value,
  temperature: known.temperature.value,
  role: known.role.value,
  reasoningBack: known.reasoningBack.value,
  signCalls: known.signCalls.value,
})

/** What of it differs from what any endpoint is taken for, in words: `max_completion_tokens (learned)`. */
export const sayKnown = (known: Known): string[] => {
  const words: Record<keyof Capabilities, string> = {
    maxTokensField:
      known.maxTokensField.value === 'none' ? 'no limit of an answer' : `the limit as ${known.maxTokensField.value}`,
    streamUsage: known.streamUsage.value ? 'usage of streams' : 'no usage of streams',
    parallelToolCalls:
      known.parallelToolCalls.value === null
        ? 'no parallel_tool_calls'
        : `parallel_tool_calls ${known.parallelToolCalls.value}`,
    temperature: known.temperature.value ? 'temperature' : 'no temperature',
    role: `the role ${known.role.value}`,
    reasoningBack: known.reasoningBack.value ? 'thoughts go back' : 'thoughts do not go back',
    signCalls: known.signCalls.value ? 'calls of others are signed' : 'calls of others are not signed',
  }
  return (Object.keys(words) as (keyof Capabilities)[])
    .filter(key => known[key].from !== 'default')
    .map(key => `${words[key]} (${known[key].from})`)
}
