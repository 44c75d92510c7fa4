import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { Gate, Lines } from '../../../src/supervisor/output.ts'

const linesOf = (chunks: Buffer[]) => {
  const lines: string[] = []
  const splitter = new Lines(line => lines.push(line))
  for (const chunk of chunks) splitter.write(chunk)
  splitter.end()
  return lines
}

test('A09 lines are the same however the bytes are cut, U+2028 and split characters included', async () => {
  const text = 'one\nzwei ü\nthree\u2028still three\n\nfünf 🦊 ohne Ende'
  const bytes = Buffer.from(text)
  await fc.assert(
    fc.property(fc.array(fc.nat(bytes.length), { maxLength: 8 }), cuts => {
      const at = [0, ...cuts.sort((a, b) => a - b), bytes.length]
      const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end))
      expect(linesOf(chunks)).toEqual(['one', 'zwei ü', 'three\u2028still three', 'fünf 🦊 ohne Ende'])
    }),
  )
})

test('a line without end takes no memory without end, and what follows it is read', () => {
  const endless = Array.from({ length: 1_000 }, () => Buffer.alloc(64 * 1024, 'x'))
  const [head, next] = linesOf([...endless, Buffer.from('\nnext\n')])
  expect(head).toHaveLength(2_000)
  expect(next).toBe('next')
})

test('of a flood a bounded number a second passes, and the next to pass tells how many did not', () => {
  let now = 0
  const gate = new Gate({ wall: () => now, mono: () => now }, 3)
  expect([gate.pass(), gate.pass(), gate.pass(), gate.pass(), gate.pass()]).toEqual([0, 0, 0, null, null])
  now = 1_000
  expect([gate.pass(), gate.pass()]).toEqual([2, 0])
})
