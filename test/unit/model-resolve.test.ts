import { expect, test } from 'vitest'
import { resolveModel } from '../../src/model/index.ts'
import type { ModelConfig } from '../../src/protocol/config.ts'

const resolved = (config: ModelConfig, env: Record<string, string> = {}) => {
  const result = resolveModel(config, env)
  if (!result.ok) throw new Error(result.fault.message)
  return result.value
}
const refused = (config: ModelConfig, env: Record<string, string> = {}) => {
  const result = resolveModel(config, env)
  return result.ok ? null : `${result.fault.code}: ${result.fault.message} (${result.fault.hint ?? ''})`
}

test('auto takes what the environment offers, in a fixed order, else the runbook', () => {
  expect(resolved({})).toMatchObject({ needsRunbook: true, keyEnv: null, config: { provider: 'runbook' } })
  expect(resolved({}, { OPENAI_API_KEY: 'k', DEEPSEEK_API_KEY: 'd' })).toMatchObject({
    keyEnv: 'OPENAI_API_KEY',
    needsRunbook: false,
    config: { provider: 'openai', baseURL: 'https://api.openai.com/v1', apiKeyEnv: 'OPENAI_API_KEY' },
  })
  expect(resolved({}, { DEEPSEEK_API_KEY: 'd' }).config).toMatchObject({ provider: 'deepseek', name: 'deepseek-chat' })
  expect(resolved({}, { ARK_API_KEY: 'd' }).needsRunbook).toBe(true)
  expect(resolved({ name: 'ep-1' }, { ARK_API_KEY: 'd' }).config.provider).toBe('doubao')
})

test('an endpoint on this machine needs no key, and none is invented', () => {
  const local = resolved({ provider: 'ollama', name: 'qwen3' })
  expect(local).toMatchObject({ keyEnv: null, config: { baseURL: 'http://127.0.0.1:11434/v1' } })
  expect(local.config.apiKeyEnv).toBeUndefined()
  expect(resolved({ name: 'x' }, { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1/' }).config.baseURL).toBe(
    'http://127.0.0.1:9/v1',
  )
  expect(resolved({ name: 'x', baseURL: 'http://h/v1', provider: 'house' }, { HOUSE_API_KEY: 'k' }).keyEnv).toBe(
    'HOUSE_API_KEY',
  )
  expect(resolved({ name: 'x', baseURL: 'http://h/v1' }).keyEnv).toBeNull()
})

test('what is missing is named with its remedy', () => {
  expect(refused({ provider: 'openai' })).toMatch(/config: .*OPENAI_API_KEY.*not set/)
  expect(refused({ provider: 'opena', name: 'x' })).toMatch(/did you mean "openai"/)
  expect(refused({ apiKeyEnv: 'MINE' })).toMatch(/MINE/)
  expect(refused({ baseURL: 'http://h/v1' })).toMatch(/no model is named.*model\.name/)
  expect(refused({ provider: 'ollama' })).toMatch(/model\.name/)
  expect(refused({}, { OPENAI_BASE_URL: 'nonsense' })).toMatch(/OPENAI_BASE_URL is no URL/)
})

test('resolving what was resolved changes nothing', () => {
  const env = { OPENAI_API_KEY: 'k' }
  const once = resolved({}, env)
  expect(resolved(once.config, env)).toEqual(once)
  const runbook = resolved({ ...resolved({}).config, baseURL: 'http://127.0.0.1:5/v1' })
  expect(runbook).toMatchObject({
    needsRunbook: false,
    config: { provider: 'runbook', baseURL: 'http://127.0.0.1:5/v1' },
  })
})

test("Anthropic's and Google's endpoints are found by their keys, after OpenAI's, and by their names", () => {
  expect(resolved({}, { ANTHROPIC_API_KEY: 'k' })).toMatchObject({
    keyEnv: 'ANTHROPIC_API_KEY',
    config: { provider: 'anthropic', baseURL: 'https://api.anthropic.com/v1' },
  })
  expect(resolved({}, { GEMINI_API_KEY: 'k' })).toMatchObject({
    keyEnv: 'GEMINI_API_KEY',
    config: { provider: 'google', baseURL: 'https://generativelanguage.googleapis.com/v1beta/openai' },
  })
  expect(resolved({}, { GEMINI_API_KEY: 'k', OPENAI_API_KEY: 'o' }).config.provider).toBe('openai')
  expect(resolved({ provider: 'google', name: 'gemini-x' }, { GEMINI_API_KEY: 'k' }).config.name).toBe('gemini-x')
})
