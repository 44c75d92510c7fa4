import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as z from 'zod'
import { parseJsonc } from '../../src/lib/jsonc.ts'
import { Config } from '../../src/protocol/config.ts'
import { findRoot, loadConfig } from '../../src/store/root.ts'

let dir: string
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'team-config-')))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const write = (config: unknown) =>
  writeFileSync(join(dir, 'config.json'), typeof config === 'string' ? config : JSON.stringify(config, null, 2))
/** The fault's message for this config; fails the test when it loads. */
const fault = (config: unknown): string => {
  write(config)
  const loaded = loadConfig(dir)
  if (loaded.ok) throw new Error('it loaded')
  expect(loaded.fault.code).toBe('config')
  return loaded.fault.message
}
const team = (...names: string[]) => ({ teammates: names.map(name => ({ name })) })

describe('parseJsonc', () => {
  test('reads whatever JSON.parse reads, to the same value', () =>
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), text => {
        const parsed = parseJsonc(text)
        expect(parsed.ok && parsed.value.value).toEqual(JSON.parse(text))
      }),
      { numRuns: 300 },
    ))

  test('comments, a BOM, CRLF and trailing commas are read; places count as editors do', () => {
    const parsed = parseJsonc('\uFEFF{ // one\r\n  "a": [1, /* two */ 2,],\r\n  "b": "// no comment",\r\n}')
    if (!parsed.ok) throw new Error(parsed.fault.message)
    expect(parsed.value.value).toEqual({ a: [1, 2], b: '// no comment' })
    expect(parsed.value.at(['a', 1])).toEqual({ line: 2, column: 22 })
    expect(parsed.value.keyAt(['b'])).toEqual({ line: 3, column: 3 })
    expect(parsed.value.at(['b', 'missing'])).toEqual({ line: 3, column: 8 })
  })

  test.each([
    ['{"a":1', 'the object is not closed at line 1, column 7'],
    ['{\n"a":1 "b":2}', 'expected , or } at line 2, column 7'],
    ['{"a":1,\n "a":2}', 'the key "a" is given twice at line 2, column 2'],
    ['{"a":yes}', 'yes is no JSON value (text stands in double quotes) at line 1, column 6'],
    ['{a:1}', 'expected a key in double quotes or } at line 1, column 2'],
    ['', 'the text ends where a value is expected at line 1, column 1'],
    ['{} x', 'something follows the end of the value at line 1, column 4'],
    ['/* x', 'a comment is not closed at line 1, column 1'],
    ['"a\nb"', 'a text is not closed at line 1, column 1'],
  ])('names what is wrong and where: %j', (text, message) => {
    const parsed = parseJsonc(text)
    expect(parsed.ok || parsed.fault.message).toBe(message)
  })

  test('nesting that would overflow the stack is refused', () => {
    const parsed = parseJsonc('['.repeat(100_000))
    expect(parsed.ok || parsed.fault.message).toContain('nested too deeply')
  })
})

describe('loadConfig', () => {
  test('the config of the tutorials loads unchanged, and the file is not rewritten', () => {
    const text =
      '{"teammates":[{"name":"frontend-agent","role":"前端开发","skills":["react","typescript","css"],"system_prompt":"…"}]}'
    write(text)
    const loaded = loadConfig(dir)
    if (!loaded.ok) throw new Error(loaded.fault.message)
    expect(loaded.value.members.map(m => [m.name, m.role, m.skills])).toEqual([
      ['frontend-agent', '前端开发', ['react', 'typescript', 'css']],
    ])
    expect(loaded.value.mode).toBe('dir')
    expect(loaded.value.workspace).toBe(dir)
    expect(loaded.value.warnings).toEqual([])
    expect(readFileSync(join(dir, 'config.json'), 'utf8')).toBe(text)
  })

  test('I07 an unknown key is an error with its place, its path and the nearest known key', () => {
    expect(fault('{\n  "teamates": []\n}')).toContain(
      'config.json:2:3 teamates: unknown key (did you mean "teammates"?)',
    )
    const modle = fault({ ...team('a'), modle: {} })
    expect(modle).toContain('modle: unknown key (did you mean "model"?)')
    expect(fault({ teammates: [{ name: 'a', modle: {} }] })).toContain(
      'config.json:5:7 teammates[0].modle: unknown key (did you mean "model"?)',
    )
    expect(fault({ ...team('a'), zzz: 1 })).toContain('zzz: unknown key; known here: ')
    expect(fault({ ...team('a'), __proto__x: 1 })).toContain('__proto__x: unknown key')
  })

  test('I07 a value of the wrong kind or out of range is named with its path and what it is', () => {
    expect(fault({ ...team('a'), model: { maxOutputTokens: '4000' } })).toContain(
      'model.maxOutputTokens: expected number, not "4000"',
    )
    expect(fault({ ...team('a'), limits: { commandSeconds: -5 } })).toMatch(/limits\.commandSeconds: too small.*not -5/)
    expect(fault({ teammates: [] })).toContain('teammates: name at least one teammate')
    expect(fault({})).toContain('teammates: missing')
    expect(fault('[]')).toContain('config: expected object')
    expect(fault('{"teammates": [}')).toContain('config.json: unexpected "}" at line 1, column 16')
  })

  test('I07 several faults are told together, the first three spelled out', () => {
    const message = fault({ teammates: [{ name: 'a', x1: 1, x2: 2, x3: 3, x4: 4 }] })
    expect(message).toContain('x3')
    expect(message).toContain('; and 1 more')
  })

  test('I07 base URLs are normalised, or refused when they have no scheme', () => {
    for (const baseURL of ['http://h:1/v1', 'http://h:1/v1/', 'http://h:1/v1/chat/completions']) {
      write({ ...team('a'), model: { baseURL } })
      const loaded = loadConfig(dir)
      expect(loaded.ok && loaded.value.members[0]?.model.baseURL).toBe('http://h:1/v1')
    }
    expect(fault({ ...team('a'), model: { baseURL: 'localhost:11434/v1' } })).toContain(
      'model.baseURL: give a full URL with http:// or https://, not "localhost:11434/v1"',
    )
  })

  test('a cap on cost wants to know what the models cost; a cap has a known unit and a value above zero', () => {
    const price = { in: 1, out: 2 }
    const capped = { team: { cost: 5 } }
    expect(fault({ ...team('a'), budget: capped, model: { baseURL: 'http://h:1/v1' } })).toContain(
      'teammates[0]: a budget caps its cost, so its model needs a price',
    )
    expect(
      fault({
        budget: { teammate: { cost: 5 } },
        teammates: [{ name: 'a', model: { provider: 'openai', name: 'm' } }],
      }),
    ).toContain('teammates[0].model: a budget caps its cost')
    expect(fault({ model: { provider: 'openai' }, teammates: [{ name: 'a', budget: { cost: 1 } }] })).toContain(
      'a budget caps its cost',
    )
    for (const config of [
      { ...team('a'), budget: capped, model: { price } },
      { budget: capped, teammates: [{ name: 'a', model: { price } }] },
      { ...team('a'), budget: capped, model: { provider: 'runbook' } },
      { ...team('a'), budget: { team: { tokens: 5 } } },
      // What `auto` comes to is not known yet.
      { ...team('a'), budget: capped },
    ]) {
      write(config)
      expect(loadConfig(dir).ok).toBe(true)
    }
    write({ budget: { teammate: { tokens: 5 } }, teammates: [{ name: 'a', budget: { cost: 1 }, model: { price } }] })
    const loaded = loadConfig(dir)
    expect(loaded.ok && loaded.value.members[0]).toMatchObject({ price, budget: { tokens: 5, cost: 1 } })
    expect(loaded.ok && loaded.value.members[0]?.model).toEqual({})
    expect(fault({ ...team('a'), budget: { team: { token: 5 } } })).toContain(
      'budget.team.token: unknown key (did you mean "tokens"?)',
    )
    expect(fault({ ...team('a'), budget: { teams: {} } })).toContain('budget.teams: unknown key (did you mean "team"?)')
    for (const tokens of [0, -1, 1.5, '100', null])
      expect(fault({ ...team('a'), budget: { team: { tokens } } })).toContain('budget.team.tokens')
    expect(fault({ ...team('a'), model: { price: { in: -1, out: 1 } } })).toContain('model.price.in')
  })

  test('a fallback of a model whose cost is capped needs a price of its own, and has none of its own fallbacks', () => {
    const price = { in: 1, out: 1 }
    const capped = (model: object) => ({ ...team('a'), budget: { team: { cost: 1 } }, model })
    expect(fault(capped({ provider: 'deepseek', price, fallbacks: [{ name: 'b', price }, { name: 'c' }] }))).toContain(
      'model.fallbacks[1]: a budget caps its cost',
    )
    expect(fault({ ...team('a'), model: { fallbacks: [{ fallbacks: [] }] } })).toContain('unknown key')
    expect(fault({ ...team('a'), model: { fallbacks: [{ nam: 'x' }] } })).toContain('did you mean "name"?')
  })

  test('what is promised for later is said to be so, not taken for a slip', () => {
    for (const key of ['hooks', 'notify'])
      expect(fault({ ...team('a'), [key]: {} })).toContain(`${key}: not supported by this version yet`)
    expect(fault({ ...team('a'), approvals: { permission_request: 'auto' } })).toContain(
      'approvals.permission_request: this is never decided by itself',
    )
  })

  test.each(['claude/opus', 'Alice', '🦊', 'é', 'e\u0301', '', '-a', 'a b', '../x'])(
    'I09 the name %j is refused by the stated rule',
    name => expect(fault(team('ok', name))).toContain('teammates[1].name: use a-z, 0-9 and -'),
  )

  test('I09 a name of 200 characters is refused', () => expect(fault(team('a'.repeat(200)))).toContain('at most 63'))

  test.each(['user', 'human', 'supervisor', 'all', 'auto', 'skills'])('I09 the name %s is reserved', name =>
    expect(fault(team(name))).toContain(`teammates[0].name: "${name}" is reserved`),
  )

  test('I09 names are unique, numbered ones too; lead and leader belong to the lead', () => {
    expect(fault(team('bob', 'bob'))).toContain('teammates[1].name: "bob" is the name of teammates[0] already')
    expect(fault({ teammates: [{ name: 'a', count: 2 }, { name: 'a-2' }] })).toContain('"a-2" is the name of')
    expect(fault(team('lead'))).toContain('"lead" is only for the lead')
    expect(fault({ ...team('alice'), lead: 'alise' })).toContain(
      'lead: nobody is named "alise" (did you mean "alice"?)',
    )
    write({ ...team('lead', 'bob'), lead: 'lead' })
    const loaded = loadConfig(dir)
    expect(loaded.ok && loaded.value.members.map(m => m.lead)).toEqual([true, false])
  })

  test('who decides must exist, and so must every tool', () => {
    expect(fault({ ...team('alice'), approvals: { merge_request: 'alcie' } })).toContain('did you mean "alice"?')
    expect(fault({ teammates: [{ name: 'a', tools: ['read_fil'] }] })).toContain('did you mean "read_file"?')
  })

  test('the mode is git where the workspace is a repository, and a plain folder inside one stays dir', () => {
    execFileSync('git', ['init', '-q', join(dir, 'repo')])
    mkdirSync(join(dir, 'repo', 'sub'))
    const mode = (config: object, root = dir) => {
      writeFileSync(join(root, 'config.json'), JSON.stringify({ ...team('a'), ...config }))
      const loaded = loadConfig(root)
      return loaded.ok ? loaded.value.mode : loaded.fault.message
    }
    expect(mode({ workspace: 'repo' })).toBe('git')
    expect(mode({ workspace: 'repo/sub' })).toBe('git')
    expect(mode({ workspace: 'repo', mode: 'dir' })).toBe('dir')
    expect(mode({}, join(dir, 'repo'))).toBe('git')
    expect(mode({}, join(dir, 'repo', 'sub'))).toBe('dir')
    expect(mode({ mode: 'git' })).toContain('is in no git repository')
    expect(mode({ workspace: 'nowhere' })).toContain('nowhere is no directory')
  })

  test('data that is not there, and settings without effect, are warned of', () => {
    mkdirSync(join(dir, 'in'))
    write({ ...team('a'), data: ['in', 'gone'], copy: ['.env'] })
    const loaded = loadConfig(dir)
    if (!loaded.ok) throw new Error(loaded.fault.message)
    expect(loaded.value.dataPaths).toEqual([join(dir, 'in')])
    expect(loaded.value.warnings).toEqual([
      expect.stringContaining('data names gone'),
      expect.stringContaining('copy is for clones'),
    ])
  })

  test('the published JSON Schema is the one that the schema in the code gives', () => {
    const published = JSON.parse(readFileSync('docs/config.schema.json', 'utf8')) as unknown
    expect(published).toEqual(z.toJSONSchema(Config, { io: 'input', target: 'draft-7' }))
  })
})

describe('findRoot', () => {
  const find = (cwd: string, more: { root?: string; env?: Record<string, string> } = {}) => {
    const found = findRoot({ cwd, root: more.root, env: { PATH: process.env.PATH, ...more.env } })
    return found.ok ? found.value : found.fault.message
  }

  test('the nearest ancestor with teammates is the root; other config.json files on the way are not', () => {
    write(team('a'))
    mkdirSync(join(dir, 'x', 'y'), { recursive: true })
    writeFileSync(join(dir, 'x', 'config.json'), '{"port": 80}')
    expect(find(join(dir, 'x', 'y'))).toBe(dir)
  })

  test('--root comes before TEAM_ROOT, and that before the folder one stands in', () => {
    write(team('a'))
    for (const name of ['one', 'two']) {
      mkdirSync(join(dir, name))
      writeFileSync(join(dir, name, 'config.json'), JSON.stringify(team('b')))
    }
    const env = { TEAM_ROOT: join(dir, 'two') }
    expect(find(dir, { root: 'one', env })).toBe(join(dir, 'one'))
    expect(find(dir, { env })).toBe(join(dir, 'two'))
    expect(find(dir, { root: 'none' })).toContain('--root names')
    expect(find(dir, { env: { TEAM_ROOT: '/none' } })).toContain('TEAM_ROOT names /none')
  })

  test('git config team.root leads from a repository, and any folder in it, to the root beside it', () => {
    execFileSync('git', ['init', '-q', join(dir, 'repo')])
    mkdirSync(join(dir, 'repo', 'src'))
    mkdirSync(join(dir, 'repo-team'))
    writeFileSync(join(dir, 'repo-team', 'config.json'), JSON.stringify(team('a')))
    expect(find(join(dir, 'repo', 'src'))).toContain('no team root here')
    for (const value of [join(dir, 'repo-team'), '../repo-team']) {
      execFileSync('git', ['-C', join(dir, 'repo'), 'config', '--local', 'team.root', value])
      expect(find(join(dir, 'repo', 'src'))).toBe(join(dir, 'repo-team'))
      expect(find(join(dir, 'repo', 'src'), { env: { GIT_DIR: '/nowhere' } })).toBe(join(dir, 'repo-team'))
    }
  })

  test('I07 a root whose config.json has a slip in the key or does not parse is found, so that the fault is told', () => {
    mkdirSync(join(dir, 'sub'))
    for (const text of ['{"teamates":[]}', '{"teammates":[']) {
      write(text)
      expect(find(join(dir, 'sub'))).toBe(dir)
    }
  })

  test('a root reached by a symlink is the same root', () => {
    mkdirSync(join(dir, 'real'))
    writeFileSync(join(dir, 'real', 'config.json'), JSON.stringify(team('a')))
    symlinkSync('real', join(dir, 'link'))
    expect(find(join(dir, 'link'))).toBe(join(dir, 'real'))
    expect(find(dir, { root: 'link' })).toBe(join(dir, 'real'))
  })
})

test('a cheaper model that no cap on cost calls for is warned of, by whose it is; with one it is not', () => {
  const price = { in: 1, out: 1 }
  const model = { provider: 'deepseek', price, cheaper: { name: 'small', price } }
  const teammates = [{ name: 'alice', model }, { name: 'bob' }]
  write({ teammates, budget: { team: { tokens: 10 } } })
  expect(loadConfig(dir)).toMatchObject({
    ok: true,
    value: { warnings: ['config.json: model.cheaper of alice does nothing: no budget caps a cost that counts for it'] },
  })
  write({ teammates, budget: { team: { cost: 10 } } })
  expect(loadConfig(dir)).toMatchObject({ ok: true, value: { warnings: [] } })
})
