import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildPrefix } from '../../src/agent/prefix.ts'
import { readPrefixParts } from '../../src/agent/prefix-files.ts'
import { loadSkills } from '../../src/agent/skills.ts'
import { loadConfig } from '../../src/store/root.ts'
import { pickTools } from '../../src/tools/index.ts'

const top = fileURLToPath(new URL('../..', import.meta.url))

describe('the sample team at the top of the repository', () => {
  it('loads without a warning, in dir mode', () => {
    const loaded = loadConfig(top)
    expect(loaded).toMatchObject({ ok: true, value: { mode: 'dir', warnings: [] } })
  })

  it('has skills that load without a warning, each with a body', () => {
    const { skills, warnings } = loadSkills(join(top, 'team'), 'analyst')
    expect(warnings).toEqual([])
    expect(skills.map(skill => skill.name).sort()).toEqual(['csv-report', 'git-commit'])
    for (const name of readdirSync(join(top, 'team/skills')))
      expect(readFileSync(join(top, 'team/skills', name, 'SKILL.md'), 'utf8').length).toBeGreaterThan(1500)
  })

  it('has at most 1,500 tokens before each call, with its rules and skills', () => {
    const loaded = loadConfig(top)
    if (!loaded.ok) throw new Error(loaded.fault.message)
    const { config, members, mode } = loaded.value
    const teammates = members.map(({ name, role }) => ({ name, role }))
    expect(members.length).toBe(3)
    for (const member of members) {
      const tools = pickTools(member.tools)
      if (!tools.ok) throw new Error(tools.fault.message)
      const { parts } = readPrefixParts(top, member, { teammates, lead: config.lead ?? 'user', mode })
      const schemas = tools.value.map(({ schema }) => JSON.stringify(schema)).join('\n')
      expect(parts.skillIndex).toContain('csv-report')
      expect(countTokens(buildPrefix(parts)) + countTokens(schemas), member.name).toBeLessThanOrEqual(1500)
    }
  })

  it('keeps its run files out of git, and its own files in', () => {
    const ignored = (path: string) => spawnSync('git', ['check-ignore', '-q', path], { cwd: top }).status === 0
    const run = [
      '.team/journal/00000001.jsonl',
      '.transcripts/a.md',
      '.messages/analyst.inbox.jsonl',
      '.messages/dead-letter.jsonl',
      '.messages/requests/req_1.json',
      '.tasks/task_1.json',
      '.tasks/dropped/a.md',
      'team/analyst/NOTES.md',
    ]
    expect(run.filter(path => !ignored(path))).toEqual([])
    const own = ['config.json', 'team/AGENTS.md', '.tasks/README.md', '.messages/README.md']
    expect([...own, 'team/skills/csv-report/SKILL.md'].filter(ignored)).toEqual([])
  })
})

describe('the script of the csv-report skill', () => {
  let dir: string
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'csv-report-'))
  })
  afterAll(() => rmSync(dir, { recursive: true, force: true }))
  const script = join(top, 'team/skills/csv-report/scripts/csv-report.mjs')
  const report = (text: string, ...args: string[]) => {
    const file = join(dir, 'data.csv')
    writeFileSync(file, text)
    return execFileSync(process.execPath, [script, file, ...args], { encoding: 'utf8' })
  }

  it('sums up by group, and names odd rows, empty cells and what is no number', () => {
    const out = report(
      '\uFEFFregion;item;amount\r\nnorth;"tea; ""green""\nleaf";4\r\nsouth;coffee;11.5\r\nnorth;tea;\r\nsouth;x\r\nsouth;milk;n/a\r\n',
      '--by',
      'region',
      '--sum',
      'amount',
    )
    expect(out).toContain('Rows: 5. Columns: 3.')
    expect(out).toContain('have another number of cells: 4.')
    expect(out).toContain('| amount | 2 | 15.5 | 7.75 | 4 | 11.5 | 1 | 1 | n/a (1) |')
    expect(out).toContain('tea; "green" leaf (1)')
    expect(out).toContain('| south | 2 | 11.5 | 11.5 | 1 |')
  })

  it('reads a file without a last newline, and refuses what it cannot do in one line', () => {
    expect(report('a,b\n1,2')).toContain('| b | 1 | 2 | 2 | 2 | 2 | 0 | 0 |  |')
    const run = (...args: string[]) => spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' })
    expect(run(join(dir, 'none.csv'))).toMatchObject({ status: 1, stderr: expect.stringContaining('there is no file') })
    expect(run(join(dir, 'data.csv'), '--by', 'z').stderr).toBe('no column "z"; there are: a, b\n')
    expect(run().status).toBe(2)
  })
})
