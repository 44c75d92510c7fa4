import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseRunbook, type Step } from '../../src/model/runbook/parse.ts'

const text = (...lines: string[]): string => lines.join('\n')

describe('a text read as a runbook', () => {
  it('keeps prose out and steps in order', () => {
    const book = parseRunbook(
      text(
        '# Add a greeting',
        '',
        'Prose with `sh` and an address: mail @bob or note that.',
        '```js file=src/hello.js',
        'export const hello = 1',
        '```',
        '```sh',
        'node --test',
        '```',
        '@bob: hello is there',
        '- note: done by hand before',
        'commit: Add a greeting',
        '```js',
        'this is only an illustration',
        '```',
      ),
    )
    expect(book.problems).toEqual([])
    expect(book.mend).toBeNull()
    expect(book.steps).toEqual([
      { line: 4, kind: 'write', path: 'src/hello.js', content: 'export const hello = 1\n' },
      { line: 7, kind: 'run', command: 'node --test', mayFail: false, timeoutS: null, expect: null },
      { line: 10, kind: 'message', to: 'bob', text: 'hello is there' },
      { line: 11, kind: 'note', text: 'done by hand before' },
      { line: 12, kind: 'commit', message: 'Add a greeting' },
    ])
  })

  it('reads options of command blocks, and names those it does not know', () => {
    const book = parseRunbook(text('```sh may-fail timeout=30', 'false', '```', '```sh mayfail', 'true', '```'))
    expect(book.steps[0]).toMatchObject({ mayFail: true, timeoutS: 30 })
    expect(book.problems).toEqual([expect.stringContaining('line 4')])
    expect(book.problems[0]).toContain('mayfail')
  })

  it('ties an expect block to the command before it, and refuses one without', () => {
    const tied = parseRunbook(text('```sh', 'date', '```', 'It prints:', '```expect', '  a', '', 'b', '```'))
    expect(tied.steps).toEqual([expect.objectContaining({ kind: 'run', expect: ['a', 'b'] })])
    const loose = parseRunbook(text('note: x', '```expect', 'a', '```'))
    expect(loose.problems).toEqual([expect.stringMatching(/^line 2: an expect block/)])
  })

  it('refuses what stands beside file=, as a path with spaces would without its quotes', () => {
    const book = parseRunbook(text('~~~ file=docs/a b.md', 'x', '~~~'))
    expect(book.steps).toEqual([])
    expect(book.problems).toEqual([expect.stringMatching(/^line 1: .*not b.md; put a path with spaces in quotes/)])
  })

  it('lets a longer fence hold a shorter one, and ~~~ hold ```', () => {
    const book = parseRunbook(
      text('````md file="docs/a b.md"', '```sh', 'rm x', '```', '````', '~~~ file=c.md', '```', '~~~'),
    )
    expect(book.steps).toEqual([
      { line: 1, kind: 'write', path: 'docs/a b.md', content: '```sh\nrm x\n```\n' },
      { line: 6, kind: 'write', path: 'c.md', content: '```\n' },
    ])
  })

  it('refuses a block that is never closed, instead of running half of it', () => {
    const book = parseRunbook(text('```sh', 'rm -rf build'))
    expect(book.steps).toEqual([])
    expect(book.problems).toEqual([expect.stringContaining('not closed')])
  })

  it('reads what is asked of others: a plan, a question, leases of each kind', () => {
    const book = parseRunbook(
      text(
        'plan: delete the data',
        '- ask: which one?',
        'lease: port 80',
        'lease: name staging',
        'lease: src/** docs/a.md',
      ),
    )
    expect(book.problems).toEqual([])
    expect(book.steps).toEqual([
      { kind: 'plan', line: 1, plan: 'delete the data', tasks: null },
      { kind: 'ask', line: 2, question: 'which one?' },
      { kind: 'lease', line: 3, of: 'port', what: ['80'] },
      { kind: 'lease', line: 4, of: 'name', what: ['staging'] },
      { kind: 'lease', line: 5, of: 'path', what: ['src/**', 'docs/a.md'] },
    ])
    expect(parseRunbook('lease: src/{a,b}/**, docs/a.md , x').steps).toMatchObject([
      { of: 'path', what: ['src/{a,b}/**', 'docs/a.md', 'x'] },
    ])
    const proposed = parseRunbook(
      text('plan: two steps', '```tasks', '- title: one', '- title: two', '  dependsOn: [one]', '```'),
    )
    expect(proposed.steps).toEqual([
      { kind: 'plan', line: 1, plan: 'two steps', tasks: [{ title: 'one' }, { title: 'two', dependsOn: ['one'] }] },
    ])
    expect(parseRunbook(text('```tasks', '- title: one', '```')).problems).toEqual([
      expect.stringContaining('right after the "plan:" line'),
    ])
    expect(parseRunbook(text('plan: x', '```tasks', 'title: one', '```')).problems).toEqual([
      expect.stringContaining('is no list'),
    ])
    expect(parseRunbook('lease: port').problems).toEqual(['line 1: "lease: port" needs what it is about'])
  })

  it('starts another part at a heading "if sent back" and ends it at the next heading of that level', () => {
    const book = parseRunbook(
      text(
        '# T',
        'note: one',
        '## What to do IF SENT BACK',
        'note: two',
        '### Detail',
        'note: three',
        '## After',
        'note: four',
      ),
    )
    const notes = (steps: typeof book.mend) => steps?.map(step => (step.kind === 'note' ? step.text : step.kind))
    expect(notes(book.steps)).toEqual(['one', 'four'])
    expect(notes(book.mend)).toEqual(['two', 'three'])
  })

  it('takes a heading inside a block for content', () => {
    const book = parseRunbook(text('```md file=a.md', '## If sent back', '```'))
    expect(book.mend).toBeNull()
    expect(book.steps).toHaveLength(1)
  })

  it('reads CRLF text like LF text', () => {
    const lines = ['```sh', 'a', 'b', '```', 'commit: x']
    expect(parseRunbook(lines.join('\r\n'))).toEqual(parseRunbook(lines.join('\n')))
  })

  it('knows the reason to reject a shutdown with', () => {
    expect(parseRunbook('on shutdown: reject the export runs').rejectShutdown).toBe('the export runs')
    expect(parseRunbook('no word of it').rejectShutdown).toBeNull()
  })
})

it('docs/runbook.md names every step and every word for a command, and docs/models.md sends there', () => {
  const doc = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8')
  const fenced = (info: string, body = 'x') => `~~~${info}\n${body}\n~~~`
  // By kind, as it stands in the table; a new kind of step does not compile without its line here.
  const steps: Record<Step['kind'], readonly (readonly [named: string, text: string])[]> = {
    run: ['sh', 'bash', 'shell'].map(lang => [`\`${lang}\``, fenced(lang)]),
    write: [['`file=path`', fenced('file=path')]],
    message: [['`@name: text`', '@name: text']],
    note: [['`note: text`', 'note: text']],
    commit: [['`commit: message`', 'commit: message']],
    ask: [['`ask: text`', 'ask: text']],
    plan: [['`plan: text`', 'plan: text']],
    lease: [['`lease: src/**`', 'lease: src/**']],
  }
  for (const [kind, ways] of Object.entries(steps))
    for (const [named, text] of ways) {
      expect(parseRunbook(text).steps, text).toMatchObject([{ kind }])
      expect(doc).toContain(named)
    }
  const models = readFileSync(new URL('../../docs/models.md', import.meta.url), 'utf8')
  const about = models.slice(models.indexOf('## Runbooks'))
  expect(about).toContain('(runbook.md)')
  expect(about).not.toMatch(/^\|/m)
})
