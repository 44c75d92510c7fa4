import type { ModelConfig } from '../protocol/config.ts'
import {
  type Capabilities,
  capabilitiesOf,
  type Known,
  knownOf,
  type Learned,
  type Quirks,
} from '../protocol/quirks.ts'

/** What is known of an endpoint by its provider's name. Everything can be overridden in config.json. */
interface Preset {
  readonly baseURL: string
  /** The variable its key usually stands in; null for endpoints that need none. */
  readonly keyEnv: string | null
  /** Where the provider has one model that fits most work. */
  readonly name?: string
  /** How it wants its requests, where that is known. */
  readonly quirks?: Quirks
}

/** One line a provider. All of them speak chat completions. */
export const presets: Readonly<Record<string, Preset>> = {
  openai: {
    baseURL: 'https://api.openai.com/v1',
    keyEnv: 'OPENAI_API_KEY',
    name: 'gpt-4.1',
    // The older name is refused for models that think, the newer one taken for all.
    quirks: { maxTokensField: 'max_completion_tokens' },
  },
  deepseek: {
    baseURL: 'https://api.deepseek.com/v1',
    keyEnv: 'DEEPSEEK_API_KEY',
    name: 'deepseek-chat',
    // While it thinks and calls tools it wants the thoughts back with each call, empty ones too; else it ignores them.
    quirks: { reasoningBack: true },
  },
  qwen: {
    baseURL: 'https://dashscope.aliyuncs.com/compatible-mode/v1',
    keyEnv: 'DASHSCOPE_API_KEY',
    name: 'qwen-plus',
  },
  doubao: { baseURL: 'https://ark.cn-beijing.volces.com/api/v3', keyEnv: 'ARK_API_KEY' },
  // Its layer for this protocol hoists system messages, takes either name of the limit, caps temperature at 1 and tells of no cache.
  anthropic: { baseURL: 'https://api.anthropic.com/v1', keyEnv: 'ANTHROPIC_API_KEY', name: 'claude-sonnet-5' },
  // Streams its calls whole, all under index 0, with finish_reason "stop"; puts its errors into a list.
  google: {
    baseURL: 'https://generativelanguage.googleapis.com/v1beta/openai',
    keyEnv: 'GEMINI_API_KEY',
    name: 'gemini-flash-latest',
  },
  openrouter: { baseURL: 'https://openrouter.ai/api/v1', keyEnv: 'OPENROUTER_API_KEY' },
  ollama: { baseURL: 'http://127.0.0.1:11434/v1', keyEnv: null },
  vllm: { baseURL: 'http://127.0.0.1:8000/v1', keyEnv: null },
  'llama.cpp': { baseURL: 'http://127.0.0.1:8080/v1', keyEnv: null },
  lmstudio: { baseURL: 'http://127.0.0.1:1234/v1', keyEnv: null },
  litellm: { baseURL: 'http://127.0.0.1:4000/v1', keyEnv: null },
}

/** What counts for the endpoint of a resolved config, and who says so. */
export const knownFor = (config: ModelConfig, learned: Learned): Known => {
  const provider = config.provider ?? ''
  const preset = Object.hasOwn(presets, provider) ? presets[provider] : undefined
  // What is known of a provider is known of its own endpoint, and of no other that is called by its name.
  return knownOf(config.quirks, learned, preset?.baseURL === config.baseURL ? (preset?.quirks ?? {}) : {})
}

export const capabilitiesFor = (config: ModelConfig, learned: Learned): Capabilities =>
  capabilitiesOf(knownFor(config, learned))
