import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import {
  isOf,
  isSame,
  MemoryCategory,
  maxEntryBytes,
  maxMemoryBytes,
  readEntries,
  tidy,
  writeEntry,
} from '../../src/protocol/memory.ts'
import { addMemory, readMemory } from '../../src/store/files/memory-file.ts'
import { folder } from '../support/agent.ts'

let at: ReturnType<typeof folder>
let file: string
beforeEach(() => {
  at = folder()
  file = join(at.path, 'memory.md')
})
afterEach(() => at.remove())

const time = '2026-05-14T10:00:00.000Z'
const entry = (content: string, category = 'note', who: string | null = null) => ({ time, category, who, content })
const add = (content: string, category?: string) => addMemory(file, entry(content, category))
const contents = () => unwrap(readMemory(file)).map(each => each.content)

describe('the format', () => {
  test('is a heading with time, category and who, and the text; a line that would be a heading is kept as text', () => {
    const written = writeEntry(entry('## not a heading\n\\## nor this\n# nor this', 'team/api', 'alice'))
    expect(written).toBe(`## ${time} · team/api · alice\n\\## not a heading\n\\\\## nor this\n# nor this\n`)
    expect(readEntries(written)).toEqual([entry('## not a heading\n\\## nor this\n# nor this', 'team/api', 'alice')])
  })

  test('whatever is written is read back the same, entry by entry, with any line ends', () => {
    const line = fc.oneof(
      fc.constantFrom(
        '## x',
        '\\## y',
        '\\\\## z',
        '',
        '  ',
        '# t',
        '##',
        '## · · ·',
        '\u2028## u',
        '\uFEFF## b',
        '```',
      ),
      fc.string({ unit: 'grapheme' }),
    )
    const text = fc.array(line, { minLength: 1, maxLength: 6 }).map(lines => lines.join('\n'))
    fc.assert(
      fc.property(fc.array(text, { maxLength: 5 }), fc.boolean(), (texts, crlf) => {
        const kept = texts.filter(each => tidy(each) !== '')
        const written = kept.map(each => writeEntry(entry(each, 'a b'))).join('\n')
        const read = readEntries(crlf ? written.replaceAll('\n', '\r\n') : written)
        expect(read).toEqual(kept.map(each => entry(tidy(each), 'a b')))
        for (const [i, each] of read.entries())
          expect(isSame(each, { content: kept[i] ?? '', category: 'a b' })).toBe(true)
      }),
    )
  })

  test('what a person wrote in another form is read as far as it goes, and nothing of it is left out', () => {
    const text = `\uFEFF# Memory\r\n\r\nThe server is called ada.\r\n\r\n## 2026-01-02 · deploy\r\nOn Fridays never.\r\n## People\r\nBob knows SQL.\r\n## a heading that says all of it\r\n## x · y · z · w\r\ntext\r\n### below\r\nmore`
    expect(readEntries(text)).toEqual([
      { time: null, category: null, who: null, content: '# Memory\n\nThe server is called ada.' },
      { time: '2026-01-02', category: 'deploy', who: null, content: 'On Fridays never.' },
      { time: null, category: 'People', who: null, content: 'Bob knows SQL.' },
      { time: null, category: null, who: null, content: 'a heading that says all of it' },
      { time: null, category: null, who: null, content: 'x · y · z · w\ntext\n### below\nmore' },
    ])
    expect(readEntries('')).toEqual([])
  })

  test('a category is a word that can stand in the heading, and those below it belong to it', () => {
    for (const good of ['note', 'team/api', '部署', 'a b', 'v1.2'])
      expect(MemoryCategory.safeParse(good).success, good).toBe(true)
    for (const bad of ['', ' a', 'a ', 'a·b', 'a\nb', '#', 'x'.repeat(61)])
      expect(MemoryCategory.safeParse(bad).success, bad).toBe(false)
    expect(isOf(entry('x', 'team/api'), 'Team')).toBe(true)
    expect(isOf(entry('x', 'teams'), 'team')).toBe(false)
  })
})

describe('adding', () => {
  test('makes the file for its owner alone, then adds at its end', () => {
    expect(readMemory(file)).toEqual({ ok: true, value: [] })
    expect(existsSync(file)).toBe(false)
    expect(add('one')).toEqual({ ok: true, value: { known: null } })
    expect(add('two', 'other')).toEqual({ ok: true, value: { known: null } })
    expect(readFileSync(file, 'utf8')).toBe(`## ${time} · note\none\n\n## ${time} · other\ntwo\n`)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  test('the same again is there already, whatever its time; in another category it is another', () => {
    add('one\r\nline\n')
    const before = readFileSync(file)
    expect(addMemory(file, { ...entry('\none\nline  '), time: '2027-01-01T00:00:00Z' })).toEqual({
      ok: true,
      value: { known: entry('one\nline') },
    })
    expect(readFileSync(file)).toEqual(before)
    expect(add('one\nline', 'other')).toMatchObject({ value: { known: null } })
  })

  test.each([
    ['no newline at its end', 'by hand'],
    ['CRLF', '# Mine\r\n\r\n## Deploy\r\nnever on Fridays\r\n'],
    ['a BOM', '\uFEFF# Mine\n'],
    ['no heading', 'just text\n\n\n'],
  ])('leaves what a person wrote as it is: %s', (_, text) => {
    writeFileSync(file, text)
    expect(add('one\ntwo')).toEqual({ ok: true, value: { known: null } })
    const after = readFileSync(file, 'utf8')
    expect(after.startsWith(text)).toBe(true)
    expect(contents().at(-1)).toBe('one\ntwo')
    // In the line ends that are there.
    expect(after.slice(text.length).includes('\r\n')).toBe(text.includes('\r\n'))
    expect(add('one\ntwo')).toMatchObject({ value: { known: { content: 'one\ntwo' } } })
  })

  test('bytes that are no text survive', () => {
    const odd = Buffer.from([0x23, 0xff, 0xfe, 0x0a])
    writeFileSync(file, odd)
    add('one')
    expect(readFileSync(file).subarray(0, 4)).toEqual(odd)
    expect(contents().at(-1)).toBe('one')
  })

  test('an editor that replaces the file between two entries loses neither', () => {
    add('one')
    writeFileSync(`${file}.new`, `${readFileSync(file, 'utf8')}\nand by hand\n`)
    renameSync(`${file}.new`, file)
    add('two')
    expect(contents()).toEqual(['one\n\nand by hand', 'two'])
  })

  test('half an entry that a kill left stays, and the whole one is added', () => {
    add('one')
    add('two words')
    truncateSync(file, statSync(file).size - 7)
    expect(add('two words')).toEqual({ ok: true, value: { known: null } })
    expect(contents()).toEqual(['one', 'two', 'two words'])
  })

  test('nothing, too much, a full file, a folder and a link in its place are refused, each with what to do', () => {
    expect(add(' \n ')).toMatchObject({ ok: false, fault: { code: 'usage' } })
    expect(add('x'.repeat(maxEntryBytes))).toMatchObject({
      ok: false,
      fault: { message: expect.stringMatching(/8192/) },
    })
    expect(existsSync(file)).toBe(false)
    writeFileSync(file, `${'x'.repeat(maxMemoryBytes - 20)}\n`)
    const full = add('one')
    expect(full).toMatchObject({ ok: false, fault: { code: 'refused', message: expect.stringMatching(/is full/) } })
    expect(statSync(file).size).toBe(maxMemoryBytes - 19)
    expect(contents()).toHaveLength(1)
    truncateSync(file, maxMemoryBytes * 8 + 1)
    expect(readMemory(file)).toMatchObject({ ok: false, fault: { message: expect.stringMatching(/too large/) } })
    const [other, link] = [join(at.path, 'folder.md'), join(at.path, 'link.md')]
    mkdirSync(other)
    symlinkSync(join(at.path, 'elsewhere'), link)
    expect(addMemory(other, entry('x'))).toMatchObject({ ok: false, fault: { code: 'config' } })
    expect(addMemory(link, entry('x'))).toMatchObject({
      ok: false,
      fault: { message: expect.stringMatching(/is a link/) },
    })
    expect(existsSync(join(at.path, 'elsewhere'))).toBe(false)
  })
})
