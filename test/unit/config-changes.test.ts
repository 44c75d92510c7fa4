import { expect, test } from 'vitest'
import { Config } from '../../src/protocol/config.ts'
import { configChanges, isSame } from '../../src/protocol/config-changes.ts'

const base = { teammates: [{ name: 'alice' }, { name: 'bob', role: 'tests' }] }
const between = (to: object, from: object = base) => configChanges(Config.parse(from), Config.parse(to))

test('the same config, written in another order or with its defaults spelled out, changes nothing', () => {
  expect(isSame(between(base))).toBe(true)
  expect(
    isSame(
      between({
        sandbox: 'required',
        teammates: [
          { role: '', name: 'alice' },
          { role: 'tests', name: 'bob', count: 1 },
        ],
      }),
    ),
  ).toBe(true)
  const model = { name: 'm', provider: 'p' }
  const apart = { model: { provider: 'p' }, teammates: [{ name: 'alice', model: { name: 'm' } }] }
  expect(isSame(between(apart, { teammates: [{ name: 'alice', model }] }))).toBe(true)
})

test('teammates are added and removed by name; a renamed one is both; moved ones are neither', () => {
  expect(between({ teammates: [{ name: 'bob', role: 'tests' }, { name: 'carol' }] })).toMatchObject({
    added: ['carol'],
    removed: ['alice'],
    changed: [],
  })
})

test('count adds and removes the last ones; from one to many is another name', () => {
  const workers = (count: number) => ({ teammates: [{ name: 'w', count }] })
  expect(between(workers(4), workers(2))).toMatchObject({ added: ['w-3', 'w-4'], removed: [] })
  expect(between(workers(2), workers(3))).toMatchObject({ added: [], removed: ['w-3'] })
  expect(between(workers(2), workers(1))).toMatchObject({ added: ['w-1', 'w-2'], removed: ['w'] })
})

test('what a teammate is told needs no new thread; model, tools and permissions do', () => {
  const alice = (more: object) =>
    between({
      teammates: [
        { name: 'alice', ...more },
        { name: 'bob', role: 'tests' },
      ],
    })
  expect(alice({ system_prompt: 'Be brief.', role: 'writer' }).changed).toEqual([
    { name: 'alice', keys: ['role', 'system_prompt'], due: ['role', 'system_prompt'], anew: false },
  ])
  expect(alice({ skills: ['react'], autoClaim: false, needsPlan: true }).changed).toEqual([
    { name: 'alice', keys: ['skills', 'autoClaim', 'needsPlan'], due: [], anew: false },
  ])
  expect(alice({ model: { temperature: 1 } }).changed).toEqual([
    { name: 'alice', keys: ['model'], due: ['model'], anew: true },
  ])
  expect(alice({ tools: ['ls'] }).changed).toEqual([
    { name: 'alice', keys: ['tools', 'needs'], due: ['tools'], anew: true },
  ])
})

test('a key of the whole team that teammates inherit changes each of them', () => {
  const names = ({ changed }: ReturnType<typeof between>) => changed.map(({ name, anew }) => [name, anew])
  expect(names(between({ ...base, model: { name: 'm' } }))).toEqual([
    ['alice', true],
    ['bob', true],
  ])
  const permissions = between({ ...base, permissions: { allow: ['make *'] } })
  expect(names(permissions)).toHaveLength(2)
  expect(permissions.now).toEqual(['permissions'])
  expect(names(between({ ...base, lead: 'bob' }))).toEqual([['bob', false]])
})

test('keys of the whole team: in effect at once, with new threads, or at the next start, and those are not half applied', () => {
  const changes = between({
    ...base,
    approvals: { merge_request: 'auto' },
    verify: 'npm test',
    setup: 'npm ci',
    trunk: 'main',
    mode: 'dir',
    limits: { returns: 9, rounds: 7, heapMb: 64 },
  })
  expect(changes).toMatchObject({
    now: ['approvals', 'verify', 'limits.returns'],
    anew: ['setup', 'limits.rounds'],
    later: ['mode', 'trunk', 'limits.heapMb'],
  })
  const { config } = changes
  expect([config.verify, config.trunk, config.mode]).toEqual(['npm test', 'team/trunk', undefined])
  expect([config.limits.returns, config.limits.rounds, config.limits.heapMb]).toEqual([9, 7, 128])
  // What waits goes on to be told, and taking it back ends that.
  expect(configChanges(config, Config.parse({ ...base, trunk: 'main' })).later).toContain('trunk')
  expect(configChanges(config, Config.parse(base)).later).toEqual([])
})
