import { expect, test } from 'vitest'
import { Listeners } from '../../src/supervisor/listeners.ts'

test('a thread is told when somebody listens, again when it comes up anew, and when the last one has gone', () => {
  const told: [string, boolean][] = []
  const heard: string[] = []
  const listeners = new Listeners((name, on) => told.push([name, on]))
  const hear = ({ text }: { text: string }) => heard.push(text)
  const first = listeners.listen('alice', hear)
  const second = listeners.listen('alice', hear)
  listeners.heard('alice', { call: 1, text: 'a' })
  listeners.heard('bob', { call: 1, text: 'b' })
  listeners.ready('alice')
  listeners.ready('bob')
  first()
  first()
  listeners.heard('alice', { call: 2, text: 'c' })
  second()
  listeners.heard('alice', { call: 2, text: 'd' })
  expect(heard).toEqual(['a', 'a', 'c'])
  expect(told).toEqual([
    ['alice', true],
    ['alice', true],
    ['alice', false],
  ])
})
