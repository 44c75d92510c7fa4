import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { knownFor } from '../../src/model/index.ts'
import { learnedOf, readLearned, writeLearned } from '../../src/store/learned.ts'
import { checkVersions } from '../../src/store/versions.ts'
import { folder } from '../support/agent.ts'

let home: ReturnType<typeof folder>
let file: string
beforeEach(() => {
  home = folder()
  mkdirSync(join(home.path, '.team'))
  file = join(home.path, '.team', 'models.json')
})
afterEach(() => home.remove())

const at = '2026-01-01T00:00:00.000Z'
const baseURL = 'http://h/v1'
const write = (name: string, learned: Parameters<typeof writeLearned>[1]['learned']) =>
  writeLearned(home.path, { baseURL, name, learned, why: 'no', at })
const known = (name: string) => learnedOf(readLearned(home.path).models, baseURL, name)

test('what is learned adds up by endpoint and model, and is forgotten with the file', async () => {
  expect(readLearned(home.path)).toEqual({ models: {}, damage: null })
  await write('m', { role: 'developer' })
  await write('m', { temperature: false })
  await write('__proto__', { streamUsage: false })
  expect(known('m')).toEqual({ role: 'developer', temperature: false })
  expect(known('__proto__')).toEqual({ streamUsage: false })
  expect(known('other')).toEqual({})
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
    v: 1,
    models: { 'http://h/v1 m': { role: 'developer', at, why: 'no' } },
  })
  rmSync(file)
  expect(known('m')).toEqual({})
  await write('m', { role: 'system' })
  expect(known('m')).toEqual({ role: 'system' })
})

test('a damaged file says nothing, says so, and is kept beside the one that takes its place', async () => {
  for (const text of [
    '{"v":1,"mod',
    '',
    'null',
    '{"v":1,"models":{"http://h/v1 m":{"role":"king","at":"","why":""}}}',
  ]) {
    writeFileSync(file, text)
    expect(readLearned(home.path)).toEqual({ models: {}, damage: expect.stringContaining(file) })
    await write('m', { temperature: false })
    expect(known('m')).toEqual({ temperature: false })
    expect(readFileSync(join(home.path, '.team', 'models.damaged.json'), 'utf8')).toBe(text)
  }
  rmSync(file)
  mkdirSync(file)
  expect(readLearned(home.path).damage).toContain('cannot be read')
})

test('one of a newer version is refused before anything is written', async () => {
  writeFileSync(file, '{"v":99,"models":{}}')
  expect(checkVersions(home.path)).toMatchObject({ ok: false, fault: { code: 'refused' } })
  expect(existsSync(join(home.path, '.team', 'models.damaged.json'))).toBe(false)
})

test('what is known of a provider counts for its own endpoint alone', () => {
  const own = { provider: 'deepseek', name: 'm', baseURL: 'https://api.deepseek.com/v1' }
  expect(knownFor(own, {}).reasoningBack).toEqual({ value: true, from: 'preset' })
  expect(knownFor(own, { reasoningBack: false }).reasoningBack).toEqual({ value: false, from: 'learned' })
  expect(knownFor({ ...own, quirks: { reasoningBack: true } }, { reasoningBack: false }).reasoningBack.from).toBe(
    'config',
  )
  expect(knownFor({ ...own, baseURL }, {}).reasoningBack).toEqual({ value: false, from: 'default' })
})
