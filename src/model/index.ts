import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import type { ModelConfig } from '../protocol/config.ts'
import { labelOf } from '../protocol/fallbacks.ts'
import type { Model, ModelOptions } from './model.ts'
import { presets } from './presets.ts'

export interface Resolved {
  /** Complete: provider, name, baseURL and (where a key is needed) apiKeyEnv are set; only the runbook's baseURL is not. */
  readonly config: ModelConfig
  /** The variable that a thread needs for its key; null where none is needed. */
  readonly keyEnv: string | null
  /** The embedded executor has to be started, and its address put into `config.baseURL`. */
  readonly needsRunbook: boolean
}

type Env = Readonly<Record<string, string | undefined>>

/**
 * Which endpoint a teammate uses. `auto` takes what config.json and the environment offer: a `baseURL`, then
 * OPENAI_API_KEY or OPENAI_BASE_URL (with OPENAI_MODEL), then the other providers' keys, else the embedded runbook.
 * Resolving what was resolved changes nothing. Faults (`config`) say which key or variable is missing.
 */
export const resolveModel = (config: ModelConfig, env: Env): Result<Resolved> => {
  const provider = config.provider ?? 'auto'
  if (provider === 'runbook') return ok(runbook(config))
  if (provider !== 'auto') return named(provider, config, env)
  const isSet = (name: string | null | undefined): boolean => name != null && Boolean(env[name])
  if (
    config.baseURL !== undefined ||
    config.apiKeyEnv !== undefined ||
    isSet('OPENAI_API_KEY') ||
    isSet('OPENAI_BASE_URL')
  )
    return named('openai', config, env)
  for (const [name, preset] of Object.entries(presets))
    if (isSet(preset.keyEnv) && (config.name ?? preset.name) !== undefined) return named(name, config, env)
  return ok(runbook(config))
}

const runbook = (config: ModelConfig): Resolved => ({
  config: { contextWindow: 1_000_000, ...config, provider: 'runbook', name: 'runbook' },
  keyEnv: null,
  needsRunbook: config.baseURL === undefined,
})

const named = (provider: string, config: ModelConfig, env: Env): Result<Resolved> => {
  const preset = Object.hasOwn(presets, provider) ? presets[provider] : undefined
  const isOpenai = provider === 'openai'
  const baseURL = config.baseURL ?? ((isOpenai && env.OPENAI_BASE_URL?.replace(/\/+$/, '')) || preset?.baseURL)
  if (baseURL === undefined || !URL.canParse(baseURL)) {
    const near = nearest(provider, [...Object.keys(presets), 'auto', 'runbook'])
    return fail(
      'config',
      baseURL === undefined
        ? `model.provider "${provider}" is not one whose address is known`
        : `the address ${JSON.stringify(baseURL)} in OPENAI_BASE_URL is no URL`,
      `give model.baseURL${near && baseURL === undefined ? `, or did you mean "${near}"?` : ''}`,
    )
  }
  // The default name belongs to the provider's own endpoint, and to no other that speaks its protocol.
  const own = preset !== undefined && baseURL === preset.baseURL
  const name = config.name ?? ((isOpenai && env.OPENAI_MODEL) || (own ? preset.name : undefined))
  if (!name) return fail('config', `no model is named for ${provider} at ${baseURL}`, 'set model.name in config.json')
  const usual = preset ? preset.keyEnv : `${provider.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}_API_KEY`
  const keyEnv = config.apiKeyEnv ?? (usual !== null && env[usual] ? usual : null)
  const needed = config.apiKeyEnv ?? (own ? usual : null)
  if (needed && !env[needed])
    return fail(
      'config',
      `the environment variable ${needed} (the key for ${provider}) is not set`,
      `export ${needed}=…, or choose another model.provider`,
    )
  return ok({
    config: { ...config, provider, name, baseURL, ...(keyEnv === null ? {} : { apiKeyEnv: keyEnv }) },
    keyEnv,
    needsRunbook: false,
  })
}

/**
 * The model behind a resolved config. One line a backend: all of today's speak chat completions. The client is loaded at the
 * first turn: it is a third of all that a teammate would load, and one that has nothing to do yet does without.
 */
export const openModel = (options: ModelOptions): Model => {
  let opened: Model | undefined
  return {
    label: options.label ?? labelOf(options.config),
    async turn(request) {
      opened ??= (await import('./openai.ts')).openaiModel(options)
      return opened.turn(request)
    },
  }
}

export type { Model, ModelOptions } from './model.ts'
export { knownFor } from './presets.ts'
