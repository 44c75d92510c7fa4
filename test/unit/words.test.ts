import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { renderItems } from '../../src/agent/items.ts'
import { unwrap } from '../../src/lib/result.ts'
import { withoutHeading } from '../../src/lib/text.ts'
import { parseDrops } from '../../src/protocol/drop.ts'
import { writeTaskFile } from '../../src/teammate/task-file.ts'
import { taskItem } from '../../src/teammate/words.ts'
import { coreOf } from '../support/core.ts'

test('the heading that a dropped Markdown file took its title from stands once in what a teammate is told, and in TASK.md', () => {
  const dropped = parseDrops(
    'a.md',
    Buffer.from('# Say how to use it #\n\n    indented\n\n# Say how to use it\nmore\n'),
  )
  if (!dropped.ok) throw new Error(dropped.reasons.join())
  const { core } = coreOf({ sandbox: 'off', teammates: [{ name: 'alice' }] })
  const [id = ''] = unwrap(core.tasks.add(dropped.drops, { by: 'human' })).ids
  const task = core.tasks.get(id)?.value
  if (!task) throw new Error('no task')
  // The record has the whole text.
  expect(task.description).toMatch(/^# Say how to use it #\n\n {4}indented/)
  const assigned = { ...task, attempt: 1, verify: [], start: null, resume: null, mergeTrunk: '' }
  const told = '# Say how to use it\n\n    indented\n\n# Say how to use it\nmore'
  expect(renderItems([taskItem(assigned)])).toBe(`<task id="1" attempt="1">\n${told}\n</task>`)
  const absent = ['.env', ...Array.from({ length: 9 }, (_, n) => `n${n}/`)]
  expect(renderItems([taskItem({ ...assigned, absent })])).toMatch(
    /\n\nNot in your clone, since git ignores it, but in the person's workspace: \.env, n0\/.* n6\/ and 2 more\. A command that needs it fails here for that alone/,
  )
  const home = mkdtempSync(join(tmpdir(), 'team-words-'))
  try {
    writeTaskFile(home, assigned, 'now')
    expect(readFileSync(join(home, 'TASK.md'), 'utf8')).toBe(
      '# Say how to use it\n\n- task 1, attempt 1, in hand since now\n\n    indented\n\n# Say how to use it\nmore\n',
    )
  } finally {
    rmSync(home, { recursive: true })
  }
})

test('only a heading that says just the title is left out', () => {
  for (const text of ['# Other\n\nbody', 'body\n\n# A', '#A\nbody', 'A\n===\nbody', '# A and more\nbody', '', ' \n '])
    expect(withoutHeading(text, 'A')).toBe(text)
  for (const text of ['# A\nbody', '\n \n## A ##\r\n\r\nbody', '#  A\n\n\nbody'])
    expect(withoutHeading(text, 'A')).toBe('body')
  for (const text of ['# A', '# A\n', '# A\n\n \n']) expect(withoutHeading(text, 'A').trim()).toBe('')
})
