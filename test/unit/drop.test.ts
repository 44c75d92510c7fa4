import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { dropKind, idInName, isSideFile, notRead, parseDrops } from '../../src/protocol/drop.ts'
import { jsonFault, place } from '../../src/protocol/json-place.ts'

const parse = (file: string, text: string) => parseDrops(file, Buffer.from(text))
const drops = (file: string, text: string) => {
  const parsed = parse(file, text)
  if (!parsed.ok) throw new Error(parsed.reasons.join('\n'))
  return parsed.drops
}
const reasons = (file: string, text: string): readonly string[] => {
  const parsed = parse(file, text)
  return parsed.ok ? [] : parsed.reasons
}

describe('JSON drops', () => {
  test('a hand-made file as tutorials write it loads unchanged and keeps its id', () => {
    const text = JSON.stringify({
      id: 1,
      title: 'Write the parser',
      description: '',
      status: 'pending',
      owner: '',
      blockedBy: [2, '3'],
      createdAt: 1767225600.5,
      completedAt: null,
    })
    expect(drops('task_1.json', text)).toEqual([
      {
        id: '1',
        title: 'Write the parser',
        description: '',
        status: 'pending',
        blockedBy: ['2', '3'],
        createdAt: 1767225600.5,
      },
    ])
  })

  test('task_<id>.json lends its id to a text without one, and contradicts a text with another', () => {
    expect(drops('task_7.json', '{"title":"x"}')[0]?.id).toBe('7')
    expect(reasons('task_7.json', '{"id":8,"title":"x"}')).toEqual([
      "id: 8 is not the id in the file's name (7): make them one",
    ])
  })

  test('an array is many tasks, and each fault names its place in it', () => {
    expect(drops('a.json', '[{"title":"a"},{"title":"b","blockedBy":["a"]}]').map(drop => drop.title)).toEqual([
      'a',
      'b',
    ])
    expect(reasons('a.json', '[{"title":"a"},{"title":"b","dependsOn":[true]},3]')).toEqual([
      '[1].dependsOn[0]: expected string, received boolean, or expected number, received boolean',
      '[2]: a task is an object with a title, not a number',
    ])
    expect(reasons('a.json', '[]')).toEqual(['an empty list: there is no task in it'])
    expect(reasons('a.json', '{"title":"a","needs":"exec","priority":99999}')).toEqual([
      'needs: expected a list ([…]), received string',
      'priority: must be at most 1000',
    ])
  })

  test('unknown keys are refused with the nearest known one', () => {
    expect(reasons('a.json', '{"title":"a","blocked_by":[]}')).toEqual([
      'blocked_by: unknown key (did you mean "blockedBy"?)',
    ])
    expect(reasons('a.json', '{"titel":"a"}').join()).toContain('did you mean "title"?')
    expect(reasons('a.json', '{}')).toEqual(['title: is missing'])
    expect(reasons('a.md', 'No heading at all').join()).toMatch(/^title: is missing: begin with a heading/)
  })

  test('accept is a list of commands, or one; one that says nothing is refused', () => {
    const parsed = (name: string, text: string) => {
      const drop = parse(name, text)
      return drop.ok ? drop.drops.map(({ accept }) => accept) : drop.reasons
    }
    expect(parsed('a.json', '{"title":"a","accept":["npm test","make x"]}')).toEqual([['npm test', 'make x']])
    expect(parsed('a.md', '---\naccept: npm test\nreview: true\n---\n# A\n')).toEqual([['npm test']])
    expect(parsed('a.yaml', 'title: a\naccept:\n  - npm test\n')).toEqual([['npm test']])
    expect(parsed('a.json', '{"title":"a","accept":["npm test"," "]}')).toEqual(['accept[1]: must not be empty'])
  })

  test('run state is refused by name, unless it says nothing', () => {
    expect(reasons('a.json', '{"title":"a","owner":"bob","attempts":2,"status":"completed","v":1}')).toEqual([
      'owner: set by the supervisor, leave it out',
      'attempts: set by the supervisor, leave it out',
      'v: set by the supervisor, leave it out',
      'status: a new task is "pending", the supervisor moves it on; leave it out',
    ])
    const nothing = '{"title":"a","owner":null,"attempts":0,"result":null,"error":"","review":false,"accept":[]}'
    expect(reasons('a.json', nothing)).toEqual([])
  })

  test('broken JSON is told with its line and column', () => {
    expect(reasons('a.json', '{\n  "title": "a",\n  "priority": 1,\n}')).toEqual([
      'line 4, column 1: not valid JSON: "}" where a key in double quotes belongs',
    ])
    expect(reasons('a.json', "{'title': 1}")[0]).toContain('line 1, column 2')
    expect(parse('a.json', '{"title": "a')).toMatchObject({ ok: false, torn: true })
    expect(parse('a.json', '')).toMatchObject({ ok: false, torn: true })
  })

  test('every half of a JSON text counts as torn, wherever it is cut', () => {
    const whole = JSON.stringify({ title: 'a "b" \\ \u00e9', priority: -1.5e2, tags: ['x', null, true, {}] }, null, 1)
    for (let end = 0; end < whole.length; end++)
      expect(parse('a.json', whole.slice(0, end))).toMatchObject({ ok: false, torn: true })
  })

  test('the place of a JSON fault is found exactly when the engine finds one', () => {
    const mangled = fc.tuple(fc.json(), fc.nat(), fc.string({ maxLength: 2 })).map(([text, at, put]) => {
      const i = at % (text.length + 1)
      return text.slice(0, i) + put + text.slice(i + put.length)
    })
    fc.assert(
      fc.property(mangled, text => {
        let isGood = true
        try {
          JSON.parse(text)
        } catch {
          isGood = false
        }
        expect(jsonFault(text) === null).toBe(isGood)
      }),
    )
    expect(place('a\nbc', 3)).toBe('line 2, column 2')
  })

  test('a string of megabytes with a fault behind it is no trouble', () => {
    expect(reasons('a.json', `{"title":"${'x\\n'.repeat(900_000)}",}`)[0]).toContain('line 1')
  })

  test('B09 byte order marks, UTF-16 and CRLF are read like anything else', () => {
    const text = '{\r\n  "title": "é"\r\n}\r\n'
    const utf16be = Buffer.from(`\uFEFF${text}`, 'utf16le').swap16()
    for (const bytes of [Buffer.from(`\uFEFF${text}`), Buffer.from(`\uFEFF${text}`, 'utf16le'), utf16be])
      expect(parseDrops('a.json', bytes)).toEqual({ ok: true, drops: [{ title: 'é' }] })
    expect(parseDrops('a.json', Buffer.from([0x22, 0xff, 0x22]))).toMatchObject({
      reasons: ['not text: neither UTF-8 nor UTF-16'],
    })
  })
})

describe('Markdown and YAML drops', () => {
  test('frontmatter is the fields, the body is the description', () => {
    const text = '\uFEFF---\r\ntitle: Fix: the parser\r\n---\r\nbody'
    expect(reasons('a.md', text)[0]).toMatch(/^line 2, column \d+: not valid YAML/)
    expect(
      drops('a.md', '---\r\ntitle: "Fix: it"\r\nblockedBy: [1, other.md]\r\n---\r\n\r\n# Why\r\n\r\ntext\r\n'),
    ).toEqual([{ title: 'Fix: it', blockedBy: ['1', 'other.md'], description: '# Why\n\ntext' }])
  })

  test('without a title the first heading is it, but none in a fenced block', () => {
    const body = '```sh\n# no title\n```\n\n## The title ##\n\nmore'
    expect(drops('a.md', body)).toEqual([{ title: 'The title', description: body }])
    expect(reasons('a.md', 'just text')[0]).toMatch(/^title: /)
  })

  test('frontmatter never runs code, and is refused when it does not end', () => {
    const global_ = globalThis as { ran?: boolean }
    expect(reasons('a.md', '---js\n{ title: (globalThis.ran = true, "x") }\n---\n')).toEqual([
      'line 1: frontmatter is read as YAML only, not as js',
    ])
    expect(reasons('a.md', '--- javascript\n{ title: (globalThis.ran = true, "x") }\n---\n')).toHaveLength(1)
    expect(reasons('a.yaml', 'title: !!js/function "function(){ globalThis.ran = true }"')).toEqual([])
    expect(global_.ran).toBeUndefined()
    expect(reasons('a.md', '---\ntitle: x\n')).toEqual(['the frontmatter that starts on line 1 has no closing ---'])
  })

  test('YAML: one task, a list, or several documents; words stay words', () => {
    expect(drops('a.yaml', 'title: no\nverify: npm test\n')).toEqual([{ title: 'no', verify: 'npm test' }])
    expect(drops('a.yml', '- title: a\n- title: b\n').map(drop => drop.title)).toEqual(['a', 'b'])
    expect(drops('a.yml', 'title: a\n---\ntitle: b\n').map(drop => drop.title)).toEqual(['a', 'b'])
    expect(reasons('a.yml', 'title: a\n  x: [')[0]).toMatch(/^line \d+, column \d+: not valid YAML/)
    const bomb = `a: &a [${'x,'.repeat(9)}x]\n${'bcdefg'
      .split('')
      .map((key, i) => `${key}: &${key} [${`*${'abcdef'[i]},`.repeat(9)}*${'abcdef'[i]}]\n`)
      .join('')}`
    expect(reasons('a.yml', bomb)[0]).toContain('not valid YAML')
  })
})

test('READMEs, dotfiles and side files of editors are no drops', () => {
  const no = [
    'README.md', 'README-fr.md', 'readme.txt', '.hidden.json', '.#a.json', '#a.json#', 'a.json~', 'a.json.swp', '4913', 'a.json.tmp',
    'a.json.error.txt', 'task_1.rejected-2026-01-01T00-00-00.000Z.json', 'a.json.part', 'a.md.crdownload', 'notes.txt',
    'a.tmp.json', 'archive', 'dropped',
  ] // biome-ignore format: a list
  for (const file of no) expect([file, dropKind(file)]).toEqual([file, null])
  expect(['a.json', 'a b.MD', '任务.yaml', 'a.yml'].map(dropKind)).toEqual(['json', 'md', 'yaml', 'yaml'])
  expect(dropKind('readme-mend-the-links.md')).toBe('md')
  expect(['task_1.json', 'task_a-b.json', 'task_.json', 'task_1.rejected-x.json', 'x.json'].map(idInName)).toEqual([
    '1', 'a-b', null, '1.rejected-x', null,
  ]) // biome-ignore format: a list
})

test('a file whose ending is not read is told so, with the name that would be', () => {
  for (const file of ['README.md', '.DS_Store', 'a.json~', 'Thumbs.db', 'a.json.error.txt'])
    expect(isSideFile(file)).toBe(true)
  for (const file of ['task.txt', 'plan.yml.txt', 'idea.markdown', 'notes'])
    expect([dropKind(file), isSideFile(file)]).toEqual([null, false])
  const only = 'is not read, only .md, .json, .yaml and .yml are: rename it'
  expect(notRead('task.txt')).toBe(`the ending .txt ${only} to task.md, or take it out`)
  expect(notRead('plan.yml.txt')).toContain('rename it to plan.yml,')
  expect(notRead('idea.markdown')).toContain('rename it to idea.md,')
  expect(notRead('notes')).toBe(`a file without an ending ${only} to notes.md, or take it out`)
  expect(notRead('a.json.gz')).toBe(`the ending .gz ${only}, or take it out`)
})

test('YAML anchors and merge keys are read as their writer meant them', () => {
  const text = '- &base\n  title: First\n  tags: [t]\n  priority: 2\n- <<: *base\n  title: Second\n'
  expect(parseDrops('two.yaml', Buffer.from(text))).toEqual({
    ok: true,
    drops: [
      { title: 'First', tags: ['t'], priority: 2 },
      { title: 'Second', tags: ['t'], priority: 2 },
    ],
  })
})

test('a title is one line, whatever stands in it', () => {
  const drops = parseDrops('a.json', Buffer.from(JSON.stringify({ title: ' a\r\n\tb\u2028c\u0007d\n' })))
  expect(drops).toEqual({ ok: true, drops: [{ title: 'a b c d' }] })
})
