import { expect, test } from 'vitest'
import type { MailMark } from '../../src/agent/entry.ts'
import { unwrap } from '../../src/lib/result.ts'
import type { RpcResults } from '../../src/protocol/rpc.ts'
import { choose, lookAhead } from '../../src/teammate/intake.ts'
import { coreOf } from '../support/core.ts'

const setup = () => {
  const { store, core, handlers } = coreOf({ teammates: [{ name: 'alice' }] })
  const read = async (after: number) =>
    unwrap(
      await handlers.call('alice', 'inbox.read', { name: 'alice', after, limit: lookAhead }),
    ) as RpcResults['inbox.read']
  return { store, mail: core.mail, read }
}

test('what a teammate reads is on the disk before it is given, so that no index of it can come again', async () => {
  const { store, mail, read } = setup()
  let flush = (): void => undefined
  const flushed = new Promise<void>(resolve => {
    flush = resolve
  })
  store.flushed = () => flushed
  unwrap(mail.send({ from: 'user', to: 'alice', content: 'not on the disk yet' }))
  let given = false
  const reading = read(0).then(page => {
    given = true
    return page
  })
  await new Promise(resolve => setImmediate(resolve))
  expect(given).toBe(false)
  flush()
  expect((await reading).items).toHaveLength(1)
})

test('a long row of messages that became tasks does not hide the mail behind it', async () => {
  const { mail, read } = setup()
  const send = (i: number, type: 'task' | 'info') =>
    unwrap(mail.send({ from: 'user', to: 'alice', content: `n=${i}`, type }))
  for (let i = 0; i < 1500; i++) send(i, i % 100 === 50 ? 'info' : 'task')
  for (let i = 1500; i < 2800; i++) send(i, 'info')
  const seen: string[] = []
  let mark: MailMark = { upTo: 0, early: [] }
  for (let more = true; more; ) {
    const { items, last } = await read(mark.upTo)
    const choice = choose(items, mark, 500, last)
    seen.push(...choice.picked.map(item => item.stored.message.content))
    mark = choice.mark
    more = choice.more
  }
  expect(seen).toHaveLength(15 + 1300)
  expect(new Set(seen).size).toBe(seen.length)
  expect(mark.upTo).toBe(2800)
})
