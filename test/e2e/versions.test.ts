import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { TaskShown } from '../../src/protocol/rpc.ts'
import { team, teamOk, teamRoot, tempFolder, until, willRun } from '../support/cli.ts'
import { treeOf } from '../support/tree.ts'

/**
 * A root as commit b341f97 left it, killed while bob was at a command with a message unread: recorded from a run of that commit
 * (`.team/logs` left out).
 */
const olderRoot = (): string => {
  const root = join(tempFolder(), 'root')
  const files = JSON.parse(readFileSync('test/fixtures/older-root.json', 'utf8')) as Record<string, string>
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text, { mode: 0o600 })
  }
  return willRun(root)
}
const tasksOf = async (root: string) =>
  JSON.parse(await teamOk(['task', 'list', '--all', '--json', '--root', root])) as TaskShown[]

test('a root of an older version is read as it is, and its work goes on', async () => {
  const root = olderRoot()
  const before = treeOf(root)
  const written = readFileSync(join(root, '.team/sessions/bob.jsonl'), 'utf8')
  const shown = await tasksOf(root)
  expect(shown.map(({ id, title, shown }) => `${id} ${title}: ${shown}`).sort()).toEqual([
    '1 After: blocked',
    '2 Long: working',
    '3 Write one: ready',
    '4 Wait: blocked',
  ])
  expect(treeOf(root)).toEqual(before)
  writeFileSync(join(root, 'go'), '')
  await teamOk(['up', '-d', '--takeover', '--root', root])
  await until(async () => (await tasksOf(root)).every(task => task.status === 'completed'), 60_000)
  // What its files lack, since it came later, was taken out by nobody.
  expect(readdirSync(join(root, '.tasks')).filter(name => name.includes('rejected'))).toEqual([])
  const bob = JSON.parse(await teamOk(['inbox', 'bob', '--json', '--root', root])) as {
    items: { stored: { message: { content: string } }; receipt: string }[]
  }
  const about = (text: string) => bob.items.filter(item => item.stored.message.content === text)
  expect(about('How far are you?').map(item => item.receipt)).toEqual(['acted on'])
  expect(about('one is written').map(item => item.receipt)).toEqual(['in context'])
  // The session goes on where it was: what the older version wrote stands in front, and the task was given to nobody else.
  const session = readFileSync(join(root, '.team/sessions/bob.jsonl'), 'utf8')
  expect(session.startsWith(written)).toBe(true)
  expect((await tasksOf(root)).find(task => task.id === '2')).toMatchObject({ owner: 'bob', attempts: 1 })
})

describe('a file of a newer version stops every command before anything is written', async () => {
  const newer = (root: string, file: string, change: (text: string) => string): string => {
    const path = join(root, file)
    const text = readFileSync(path, 'utf8')
    const next = change(text)
    expect(next).not.toBe(text)
    writeFileSync(path, next)
    return path
  }
  const two = (text: string): string => text.replace(/"v": ?1/, match => match.replace('1', '2'))
  const last = (root: string): string =>
    readdirSync(join(root, '.team/journal'))
      .filter(name => /^\d+\.jsonl$/.test(name))
      .sort()
      .at(-1) ?? ''

  const kinds: Record<string, (root: string) => string> = {
    journal: root => newer(root, `.team/journal/${last(root)}`, two),
    snapshot: root => {
      const path = join(root, '.team/journal/snapshot-00000001.json')
      writeFileSync(path, '{"v":2,"epoch":1,"seq":9,"state":{}}')
      return path
    },
    holder: root => newer(root, '.team/holder.json', two),
    session: root => newer(root, '.team/sessions/bob.jsonl', two),
    'task page': root => newer(root, '.tasks/task_2.json', two),
    'request page': root => {
      const path = join(root, '.messages/requests/req_1.json')
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, '{"v": 2, "rev": 1, "id": "req_1"}')
      return path
    },
  }
  test.each(Object.entries(kinds))('%s', async (_kind, plant) => {
    const root = olderRoot()
    const path = plant(root)
    const before = treeOf(root)
    const commands = [
      ['up', '--once', '--takeover'],
      ['up', '-d', '--takeover'],
      ['status'],
      ['task', 'add', 'One'],
      ['send', 'bob', 'Hello'],
    ]
    const ran = await Promise.all(commands.map(words => team([...words, '--root', root])))
    for (const [at, { code, stderr }] of ran.entries()) {
      expect(stderr, commands[at]?.join(' ')).toContain(`${path} was written by a newer version of this program`)
      expect(stderr).toContain('use that version; nothing was changed')
      expect(code).toBe(5)
    }
    const doctor = await team(['doctor', '--fix', '--root', root])
    expect([doctor.code, doctor.stdout]).toEqual([1, expect.stringContaining(path)])
    expect(treeOf(root)).toEqual(before)
  })

  test('config.json has no version: a key that is not known is named, and nothing is written', async () => {
    const root = teamRoot({ teammates: [{ name: 'alice' }], tomorrow: true })
    const before = treeOf(root)
    for (const words of [['up', '--once'], ['status'], ['task', 'add', 'One']]) {
      const ran = await team([...words, '--root', root])
      expect([ran.code, ran.stderr]).toEqual([3, expect.stringContaining('tomorrow')])
    }
    expect(treeOf(root)).toEqual(before)
  })
})
