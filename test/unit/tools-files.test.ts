import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ToolContext } from '../../src/agent/tool.ts'
import { unwrap } from '../../src/lib/result.ts'
import { appendFileAt, openFile, replaceFileAt } from '../../src/sandbox/open.ts'
import { applyEdits } from '../../src/tools/edit.ts'
import { likeBefore } from '../../src/tools/endings.ts'
import { makePlace, type Place } from '../support/sandbox.ts'
import { toolContext, use } from '../support/tools.ts'

let place: Place
let context: ToolContext
let repo: string
beforeEach(() => {
  place = makePlace()
  context = toolContext(place.view('alice', { mode: 'git' }))
  repo = context.view.cwd
})
afterEach(() => place.remove())
const put = (name: string, content: string | Buffer) => writeFileSync(join(repo, name), content)
const get = (name: string) => readFileSync(join(repo, name), 'latin1')
const edit = (path: string, ...edits: [string, string][]) =>
  use(context, 'edit_file', {
    path: `repo/${path}`,
    edits: edits.map(([old_text, new_text]) => ({ old_text, new_text })),
  })

describe('paths', () => {
  test('G01 no file tool reads, lists, searches or writes outside, and nothing is made there', async () => {
    const outside = join(place.top, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'secret'), 'needle')
    symlinkSync(outside, join(repo, 'link'))
    mkdirSync(join(repo, 'a'))
    mkdirSync(join(place.root, 'team/alice-evil'))
    for (const path of ['repo/link/secret', '../x', 'repo/a/../../../x', `${outside}/secret`, '../alice-evil/x']) {
      for (const [tool, args] of [
        ['read_file', {}],
        ['ls', {}],
        ['grep', { pattern: 'needle' }],
        ['write_file', { content: 'x' }],
        ['edit_file', { edits: [{ old_text: 'needle', new_text: 'x' }] }],
      ] as const) {
        const result = await use(context, tool, { path, ...args })
        expect(result, `${tool} ${path}`).toMatchObject({
          isError: true,
          text: expect.stringMatching(/^error: .*outside/),
        })
      }
    }
    expect((await use(context, 'grep', { pattern: 'needle' })).text).toBe('no hits for needle')
    expect(readdirSync(outside)).toEqual(['secret'])
    expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('needle')
    expect(readdirSync(join(place.root, 'team/alice-evil'))).toEqual([])
  })

  test('G01 a link to a place inside works, and writing through it keeps the link', async () => {
    put('real.txt', 'one')
    symlinkSync('real.txt', join(repo, 'by-link'))
    expect((await use(context, 'write_file', { path: 'repo/by-link', content: 'two' })).isError).toBe(false)
    expect(get('real.txt')).toBe('two')
    expect(readFileSync(join(repo, 'by-link'), 'utf8')).toBe('two')
  })

  test('G01 a link put in the way after the path was judged is not followed', () => {
    const outside = join(place.top, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'f'), 'whole')
    symlinkSync(outside, join(repo, 'dir'))
    symlinkSync(join(outside, 'f'), join(repo, 'file'))
    // The judged path was a plain folder or file; by now a link stands there.
    expect(openFile(join(repo, 'file'))).toMatchObject({ ok: false })
    expect(openFile(join(repo, 'dir/f'))).toMatchObject({ ok: false, fault: { code: 'refused' } })
    expect(replaceFileAt(join(repo, 'dir/f'), Buffer.from('torn'), 0o644)).toMatchObject({ ok: false })
    expect(appendFileAt(join(repo, 'dir/f'), Buffer.from('torn'))).toMatchObject({ ok: false })
    expect(appendFileAt(join(repo, 'file'), Buffer.from('torn'))).toMatchObject({ ok: false })
    expect(readFileSync(join(outside, 'f'), 'utf8')).toBe('whole')
    expect(readdirSync(outside)).toEqual(['f'])
  })

  test("git's own files and what is read-only are left alone", async () => {
    mkdirSync(join(repo, '.git/hooks'), { recursive: true })
    for (const path of ['repo/.git/hooks/pre-commit', 'repo/.GIT/config', 'TASK.md', 'AGENTS.md', 'skills/x'])
      expect((await use(context, 'write_file', { path, content: 'x' })).isError, path).toBe(true)
    expect(existsSync(join(repo, '.git/hooks/pre-commit'))).toBe(false)
  })
})

describe('ls', () => {
  test('shows the view at the top, and folders with sizes in order', async () => {
    expect((await use(context, 'ls', {})).text).toMatch(
      /^\. \(your view\), 5 entries\nNOTES\.md {2}append\nskills\/ {2}read\ndata\/ {2}read\nout\/ {2}write\nrepo\/ {2}write$/,
    )
    put('b', '12345')
    mkdirSync(join(repo, 'a'))
    symlinkSync('b', join(repo, 'c'))
    expect((await use(context, 'ls', { path: 'repo' })).text).toBe('repo, 3 entries\na/\nb  5\nc  link')
    expect((await use(context, 'ls', { path: 'repo/none' })).text).toBe('error: repo/none does not exist')
  })
})

describe('read_file', () => {
  test('numbers lines, says how to go on, and tells an offset past the end', async () => {
    put('f', Array.from({ length: 450 }, (_, i) => `line ${i + 1}\n`).join(''))
    const first = (await use(context, 'read_file', { path: 'repo/f' })).text.split('\n')
    expect(first[0]).toBe('repo/f, lines 1-200 of 450')
    expect(first[1]).toBe('1\tline 1')
    expect(first.at(-1)).toBe('[more: read_file with offset 201]')
    const last = (await use(context, 'read_file', { path: 'repo/f', offset: 449 })).text
    expect(last).toBe('repo/f, lines 449-450 of 450\n449\tline 449\n450\tline 450')
    expect((await use(context, 'read_file', { path: 'repo/f', offset: 451 })).text).toMatch(/^error: .*450 lines/)
  })

  test('F17 cuts at 80 KB and in long lines without splitting a character, and makes other bytes well-formed', async () => {
    put('f', `${'🦊'.repeat(30_000)}\n`.repeat(20))
    const { text } = await use(context, 'read_file', { path: 'repo/f' })
    expect(Buffer.byteLength(text)).toBeLessThan(82_500)
    expect(text).not.toMatch(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])/)
    expect(text).toMatch(/more characters\]\n\[more: read_file with offset 2\]|more: read_file with offset 3/)
    put('bad', Buffer.from([0x61, 0xff, 0xf0, 0x9f, 0x62]))
    expect((await use(context, 'read_file', { path: 'repo/bad' })).text).toMatch(/^repo\/bad, 1 line\n1\ta\uFFFD+b$/)
  })

  test('does not hang on a pipe, nor show a binary as text; U+2028 is text', async () => {
    execFileSync('mkfifo', [join(repo, 'pipe')])
    expect((await use(context, 'read_file', { path: 'repo/pipe' })).text).toMatch(/^error: .*no regular file/)
    put('bin', Buffer.from([1, 0, 2]))
    expect((await use(context, 'read_file', { path: 'repo/bin' })).text).toMatch(/^error: .*no text/)
    put('sep', 'a\u2028b\r\nc')
    expect((await use(context, 'read_file', { path: 'repo/sep' })).text).toBe('repo/sep, 2 lines\n1\ta\u2028b\n2\tc')
    put('empty', '')
    expect((await use(context, 'read_file', { path: 'repo/empty' })).text).toBe('repo/empty, empty')
  })
})

describe('write_file', () => {
  test('writes whole files, keeps the mode, leaves no temporary, and wants its folder there', async () => {
    put('run.sh', 'old')
    chmodSync(join(repo, 'run.sh'), 0o755)
    expect((await use(context, 'write_file', { path: 'repo/run.sh', content: 'new' })).text).toBe(
      'replaced repo/run.sh, 3 → 3 bytes',
    )
    expect(statSync(join(repo, 'run.sh')).mode & 0o777).toBe(0o755)
    expect((await use(context, 'write_file', { path: 'repo/new.txt', content: '日本' })).text).toBe(
      'wrote repo/new.txt, 6 bytes',
    )
    expect((await use(context, 'write_file', { path: 'repo/no/x', content: '' })).text).toMatch(
      /^error: the folder of repo\/no\/x does not exist/,
    )
    expect(readdirSync(repo).sort()).toEqual(['new.txt', 'run.sh'])
  })

  test('appends to notes, each addition on lines of its own', async () => {
    writeFileSync(join(context.view.home, 'NOTES.md'), 'one')
    await use(context, 'write_file', { path: 'NOTES.md', content: 'two' })
    await use(context, 'write_file', { path: 'NOTES.md', content: 'three\n' })
    expect(readFileSync(join(context.view.home, 'NOTES.md'), 'utf8')).toBe('one\ntwo\nthree\n')
  })

  test('a file that changed since it was read is neither overwritten nor edited', async () => {
    put('f', 'one\n')
    await use(context, 'read_file', { path: 'repo/f' })
    put('f', 'other\n')
    expect((await use(context, 'write_file', { path: 'repo/f', content: 'x' })).text).toMatch(
      /changed since you read it/,
    )
    expect((await edit('f', ['other', 'x'])).text).toMatch(/changed since you read it/)
    await use(context, 'read_file', { path: 'repo/f' })
    expect((await edit('f', ['other', 'x'])).isError).toBe(false)
    expect((await edit('f', ['x', 'y'])).isError).toBe(false)
    expect(get('f')).toBe('y\n')
  })

  test.each([
    ['CRLF', 'a\r\nb\r\n', 'a\nc\n', 'a\r\nc\r\n'],
    ['CRLF with BOM', '\xEF\xBB\xBFa\r\nb\r\n', 'a\nc\nd', '\xEF\xBB\xBFa\r\nc\r\nd'],
    ['mixed', 'a\r\nb\nc\r\nd\n', 'a\nb\nnew\nd\n', 'a\r\nb\nnew\nd\n'],
    ['LF', 'a\n', 'b', 'b'],
  ])('G11 a whole-file write keeps the style: %s', (_, before, content, after) => {
    expect(likeBefore(content, Buffer.from(before, 'latin1')).bytes.toString('latin1')).toBe(after)
  })
})

describe('edit_file', () => {
  test('G09 new text is written literally, whatever it holds', async () => {
    const text = "a $& b $$ c $' d $1 $` e"
    put('f', 'x OLD y OLD2 z')
    expect((await edit('f', ['OLD y', text], ['OLD2', text])).isError).toBe(false)
    expect(get('f')).toBe(`x ${text} ${text} z`)
  })

  test.each([
    ['CRLF', 'one\r\ntwo\r\nthree\r\n', 'one\r\n2\r\n2b\r\n3\r\n'],
    ['CRLF and BOM', '\xEF\xBB\xBFone\r\ntwo\r\nthree\r\n', '\xEF\xBB\xBFone\r\n2\r\n2b\r\n3\r\n'],
    ['mixed', 'one\ntwo\r\nthree\n', 'one\n2\r\n2b\r\n3\n'],
    ['no last newline', 'one\r\ntwo\r\nthree', 'one\r\n2\r\n2b\r\n3'],
    ['bytes that are no UTF-8', '\xFFone\ntwo\nthree\xFE\n', '\xFFone\n2\n2b\n3\xFE\n'],
  ])('G11 an edit over two lines keeps everything else as it is: %s', (_, before, after) => {
    const made = unwrap(applyEdits(Buffer.from(before, 'latin1'), [{ old_text: 'two\nthree', new_text: '2\n2b\n3' }]))
    expect(made.bytes.toString('latin1')).toBe(after)
  })

  test('all or nothing: one edit that does not fit leaves the file as it was, and says why', async () => {
    const before = 'aa\nbb\naa\n  cc\n'
    put('f', before)
    const cases: [[string, string][], RegExp][] = [
      [
        [
          ['bb', 'x'],
          ['aa', 'y'],
        ],
        /edit 2 is there more than once \(lines 1, 3\)/,
      ],
      [[['zz', 'x']], /old_text is not there/],
      [[['cc \n', 'x']], /line 4, but white space/],
      [[['2\tbb', 'x']], /line numbers/],
      [[['bb', 'bb']], /are the same/],
      [
        [
          ['aa\nbb', 'x'],
          ['bb\naa', 'y'],
        ],
        /overlap/,
      ],
      [[['', 'y']], /old_text/],
    ]
    for (const [edits, reason] of cases) {
      const result = await edit('f', ...edits)
      expect(result).toMatchObject({ isError: true, text: expect.stringMatching(reason) })
      expect(get('f')).toBe(before)
    }
  })

  test('shows what it did', async () => {
    put('f', 'one\ntwo\nthree\n')
    expect((await edit('f', ['two\n', '2\n'])).text).toBe('edited repo/f, 1 place\n@@ line 2 @@\n-two\n+2')
  })

  test('keeps the newline at the end of a file, the BOM and the line endings, and says so', async () => {
    for (const [before, old, now, after] of [
      ['one\ntwo\n', 'two\n', '2', 'one\n2\n'],
      ['one\r\ntwo\r\n', 'two\n', '2', 'one\r\n2\r\n'],
      ['\u00EF\u00BB\u00BFone\ntwo\n', 'one\ntwo\n', '1', '\u00EF\u00BB\u00BF1\n'],
    ] as const) {
      context.read.clear()
      put('f', Buffer.from(before, 'latin1'))
      expect((await edit('f', [old, now])).text).toMatch(/^edited repo\/f, 1 place, the newline at its end kept\n/)
      expect(get('f')).toBe(after)
    }
    // None is made where there was none, and an emptied file is empty.
    put('g', 'one\ntwo')
    expect((await edit('g', ['two', '2'])).text).toMatch(/^edited repo\/g, 1 place\n/)
    expect(get('g')).toBe('one\n2')
    put('h', 'one\n')
    expect((await edit('h', ['one\n', 'one'])).text).toMatch(
      /^error: .*newline at its end kept, the file would be the same/,
    )
    expect(get('h')).toBe('one\n')
    expect((await edit('h', ['one\n', ''])).isError).toBe(false)
    expect(get('h')).toBe('')
  })

  test('any edit found once puts its text there and touches no other byte', () => {
    const part = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '\n', '\r\n', '$&', '🦊'), maxLength: 12 })
    fc.assert(
      fc.property(part, part, part, (before, after, replacement) => {
        const made = applyEdits(Buffer.from(`${before}<OLD>${after}`), [{ old_text: '<OLD>', new_text: replacement }])
        const { bytes: whole, isEnded } = unwrap(made)
        const bytes = isEnded ? Buffer.from(whole.toString('latin1').replace(/\r?\n$/, ''), 'latin1') : whole
        expect(bytes.subarray(0, Buffer.byteLength(before)).equals(Buffer.from(before))).toBe(true)
        expect(bytes.subarray(bytes.length - Buffer.byteLength(after)).equals(Buffer.from(after))).toBe(true)
        const middle = bytes.subarray(Buffer.byteLength(before), bytes.length - Buffer.byteLength(after)).toString()
        expect(middle.replaceAll('\r\n', '\n')).toBe(replacement.replaceAll('\r\n', '\n'))
      }),
      { numRuns: 300 },
    )
  })
})
