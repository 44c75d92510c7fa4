import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { loadSkills, skillIndex } from '../../src/agent/skills.ts'

let team: string
beforeEach(() => {
  team = mkdtempSync(join(tmpdir(), 'team-skills-'))
})
afterEach(() => rmSync(team, { recursive: true, force: true }))
const put = (path: string, text: string) => {
  mkdirSync(dirname(join(team, path)), { recursive: true })
  writeFileSync(join(team, path), text)
}
const skill = (folder: string, text: string) => put(`skills/${folder}/SKILL.md`, text)
const load = () => loadSkills(team, 'alice')

test.each([
  ['a colon', 'Use when: a, b', 'Use when: a, b'],
  ['a hash', 'reads C# files', 'reads C# files'],
  ['an at sign', '@mentions of people', '@mentions of people'],
  ['a backtick', '`git` work', '`git` work'],
  ['a tab', 'with\ta tab', 'with a tab'],
  ['a bracket', '[beta] does x', '[beta] does x'],
  ['a brace', '{x} does y', '{x} does y'],
  ['quotes', '"quoted: text"', 'quoted: text'],
  ['a star', '*bold* move', '*bold* move'],
  ['a percent', '%d per day', '%d per day'],
  ['a number', '42', '42'],
  ['folded lines', '>\n  two\n  lines', 'two lines'],
])('I01 I03 a description with %s is loaded as it was meant', (_, written, meant) => {
  skill('s', `---\nname: s\ndescription: ${written}\n---\n# Body\n`)
  skill('other', '---\nname: other\ndescription: fine\n---\n')
  expect(load().skills).toEqual([
    { name: 'other', description: 'fine', dir: 'skills/other' },
    { name: 's', description: meant, dir: 'skills/s' },
  ])
})

test('I01 what is no YAML is named with its file and line, and loaded all the same', () => {
  skill('s', '---\nname: s\ndescription: Use when: a\n---\n')
  expect(load().warnings).toEqual([expect.stringMatching(/^team\/skills\/s\/SKILL\.md:3: its frontmatter is no YAML/)])
})

test.each([
  ['BOM and CRLF', '\uFEFF---\r\nname: s\r\ndescription: d\r\n---\r\nbody', 'd', null],
  ['no closing ---', '---\nname: s\ndescription: d\n', 'd', /no closing ---/],
  ['no frontmatter', '# Does d\n\nmore', 'Does d', /no frontmatter/],
  ['frontmatter only', '---\ndescription: d\n---', 'd', null],
  ['a first line for a description', '---\nname: s\n---\n\n## Does d\n', 'Does d', null],
])('I03 %s is loaded', (_, text, description, warning) => {
  skill('s', text)
  const { skills, warnings } = load()
  expect(skills).toEqual([{ name: 's', description, dir: 'skills/s' }])
  expect(warnings).toEqual(warning ? [expect.stringMatching(warning)] : [])
})

test.each([
  ['empty', ''],
  ['an empty frontmatter', '---\n---\n'],
])('I03 a file that is %s is left out with a warning, the others load', (_, text) => {
  skill('s', text)
  skill('t', '---\nname: t\ndescription: d\n---\n')
  mkdirSync(join(team, 'skills/none'))
  const { skills, warnings } = load()
  expect(skills.map(({ name }) => name)).toEqual(['t'])
  expect(warnings.join('\n')).toMatch(/skills\/none\/SKILL\.md: there is none/)
  expect(warnings.join('\n')).toMatch(/skills\/s\/SKILL\.md: .*left out/)
})

test('nothing in a skill file is ever run', () => {
  skill('s', '---js\nglobalThis.ran = true\nmodule.exports = {name: "s", description: "d"}\n---\nDoes d\n')
  skill('t', '---javascript\nglobalThis.ran = true\n---\nDoes d\n')
  const { warnings } = load()
  expect('ran' in globalThis).toBe(false)
  expect(warnings.join('\n')).toMatch(/frontmatter is js/)
})

test('I05 of two with the same name the own one wins, then the first folder in byte order, with one warning each', () => {
  skill('b', '---\nname: Report\ndescription: second\n---\n')
  skill('a', '---\nname: report\ndescription: first\n---\n')
  put('alice/skills/mine/SKILL.md', '---\nname: csv\ndescription: own\n---\n')
  skill('csv', "---\nname: csv\ndescription: the team's\n---\n")
  for (let round = 0; round < 3; round++) {
    const { skills, warnings } = load()
    expect(skills.map(({ name, description }) => `${name}: ${description}`)).toEqual(['csv: own', 'report: first'])
    expect(warnings).toEqual([
      'team/skills/b: a skill named report is there already (team/skills/a), this one is left out',
      'team/skills/csv: a skill named csv is there already (team/alice/skills/mine), this one is left out',
    ])
  }
})

test('I05 links: the view of a team skill is no double, a second name for one folder is named, a loop does not hang', () => {
  skill('b', '---\nname: b\ndescription: d\n---\n')
  symlinkSync('b', join(team, 'skills/c'))
  mkdirSync(join(team, 'alice/skills'), { recursive: true })
  symlinkSync('../../skills/b', join(team, 'alice/skills/b'))
  symlinkSync('loop', join(team, 'alice/skills/loop'))
  symlinkSync('..', join(team, 'skills/z'))
  const { skills, warnings } = load()
  expect(skills.map(({ name }) => name)).toEqual(['b'])
  expect(warnings).toEqual([
    'team/alice/skills/loop: a loop of links',
    'team/skills/c: the same folder as team/skills/b, which is used',
    expect.stringMatching(/team\/skills\/z\/SKILL\.md: there is none/),
  ])
})

test('the index is one line a skill, with the folder where it has another name', () => {
  skill('csv', '---\nname: csv\ndescription: |\n  many\n  lines\n---\n')
  skill('x', '---\nname: other\ndescription: d\n---\n')
  expect(skillIndex(load().skills)).toBe('- csv: many lines\n- other (skills/x): d')
})

test('no skills folder is no fault', () => {
  expect(load()).toEqual({ skills: [], warnings: [] })
})

const published = [
  '---',
  'name: pdf-forms',
  'description: >-',
  '  Fills PDF forms: finds the fields,',
  '  writes values, checks the result.',
  '',
  '  Use when a person speaks of "forms" or .pdf files.',
  'license: Apache-2.0. LICENSE.txt has the terms',
  'compatibility: Needs python 3.11; no network',
  'metadata:',
  '  author: someone',
  '  version: "1.2"',
  '  tags: [pdf, forms]',
  'allowed-tools: Bash(python:*) Read',
  'disable-model-invocation: true',
  '---',
  '# PDF forms',
  '',
  'See [the reference](references/fields.md).',
].join('\n')

test.each([
  ['as it is', published],
  ['with CRLF', published.replaceAll('\n', '\r\n')],
  ['with a BOM', `\uFEFF${published}`],
  ['with BOM and CRLF', `\uFEFF${published.replaceAll('\n', '\r\n')}`],
  ['with its description literal', published.replace('>-', '|')],
  [
    'with its keys in another order',
    published.replace('name: pdf-forms\n', '').replace('license:', 'name: pdf-forms\nlicense:'),
  ],
  [
    'with tools as a list',
    published.replace('allowed-tools: Bash(python:*) Read', 'allowed-tools:\n  - Bash\n  - Read'),
  ],
])('a folder published for other tools works unchanged: its frontmatter %s', (_, text) => {
  skill('pdf-forms', text)
  expect(load()).toEqual({
    skills: [
      {
        name: 'pdf-forms',
        description:
          'Fills PDF forms: finds the fields, writes values, checks the result. Use when a person speaks of "forms" or .pdf files.',
        dir: 'skills/pdf-forms',
      },
    ],
    warnings: [],
  })
})

test('a description of several lines in quotes or none is one line, and one of 1,024 characters stays whole', () => {
  skill('plain', '---\nname: plain\ndescription: Does one thing\n  and another.\n---\n')
  skill('quoted', '---\nname: quoted\ndescription: "Does: one thing\n  and another."\n---\n')
  skill('long', `---\nname: long\ndescription: ${'word '.repeat(204)}end.\n---\n`)
  skill('folder', '---\nname: another-name\ndescription: d\n---\n')
  const { skills, warnings } = load()
  expect(warnings).toEqual([])
  expect(Object.fromEntries(skills.map(({ name, description }) => [name, description]))).toEqual({
    plain: 'Does one thing and another.',
    quoted: 'Does: one thing and another.',
    long: `${'word '.repeat(204)}end.`,
    'another-name': 'd',
  })
  expect(skillIndex(skills)).toContain('- another-name (skills/folder): d')
})
