import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusOf, teamOk, teamRoot, until } from '../support/cli.ts'

test('dead letters are counted until they are marked as seen, over restarts, and stay where they are', async () => {
  const root = teamRoot()
  const inbox = join(root, '.messages', 'alice.inbox.jsonl')
  const file = join(root, '.messages', 'dead-letter.jsonl')
  const dead = async () => (await statusOf(root)).deadLetters
  await teamOk(['up', '-d', '--root', root])
  appendFileSync(inbox, 'no message\nnor this\n')
  await until(async () => (await dead()) === 2)
  expect((await statusOf(root)).problems.join('\n')).toContain('team inbox --dead')
  expect(await teamOk(['inbox', '--dead', '--root', root])).toMatch(/●.*no message[\s\S]*●.*nor this/s)
  expect(await teamOk(['inbox', '--dead', '--root', root])).toContain('alice.inbox.jsonl, byte 11: ')
  expect(await dead()).toBe(2)

  await teamOk(['inbox', '--dead', '--ack', '--root', root])
  expect(await dead()).toBe(0)
  expect((await statusOf(root)).problems.join('\n')).not.toContain('team inbox --dead')
  expect(await teamOk(['doctor', '--root', root])).not.toContain('dead letters')
  const all = await teamOk(['inbox', '--dead', '--root', root])
  expect(all).toContain('nor this')
  expect(all).not.toContain('●')
  expect(await teamOk(['inbox', '--dead', '--unread', '--root', root])).toBe('no dead letters\n')

  await teamOk(['down', '--root', root])
  expect(await dead()).toBe(0)
  await teamOk(['up', '-d', '--root', root])
  appendFileSync(inbox, 'a later one\n')
  await until(async () => (await dead()) === 1)
  expect(await teamOk(['inbox', '--dead', '--unread', '--root', root])).toContain('a later one')
  expect(readFileSync(file, 'utf8').trimEnd().split('\n')).toHaveLength(3)

  await teamOk(['down', '--root', root])
  await teamOk(['inbox', '--dead', '--ack', '--root', root])
  expect(await dead()).toBe(0)
})
