import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { errnoOf, replaceFile, splitLines } from '../../src/lib/files.ts'
import { lineCutter } from '../../src/store/rpc/lines.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'team-files-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test('A09 lines end at byte 0x0A and nowhere else', () => {
  const text = 'a\u2028b\u2029c\u0085d\re\r\nsecond\n\nrest'
  const { lines, rest, end } = splitLines(Buffer.from(text), 100)
  expect(lines.map(line => line.bytes.toString())).toEqual(['a\u2028b\u2029c\u0085d\re\r', 'second', ''])
  expect(rest.toString()).toBe('rest')
  const bytes = Buffer.from(text)
  for (const line of lines)
    expect(bytes.subarray(line.offset - 100, line.offset - 100 + line.bytes.length)).toEqual(line.bytes)
  expect(end).toBe(100 + bytes.length - 4)
})

test('lines and rest together are the bytes again, at the offsets that are told', () => {
  fc.assert(
    fc.property(fc.uint8Array({ max: 12 }), array => {
      const bytes = Buffer.from(array)
      const { lines, rest } = splitLines(bytes)
      const joined = Buffer.concat([...lines.flatMap(line => [line.bytes, Buffer.from('\n')]), rest])
      expect(joined).toEqual(bytes)
    }),
  )
})

test('a stream cut in any pieces gives the same lines, until one is too long', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.array(fc.nat(9), { minLength: 1 }),
      (text, sizes) => {
        const bytes = Buffer.from(`${text.slice(0, 10)}\n${text}\n`)
        const seen: string[] = []
        const feed = lineCutter(
          line => seen.push(line),
          () => seen.push('overflow'),
          1000,
        )
        for (let at = 0, n = 0; at < bytes.length; n++) {
          const size = 1 + (sizes[n % sizes.length] ?? 0)
          feed(bytes.subarray(at, at + size))
          at += size
        }
        expect(seen).toEqual(bytes.toString().split('\n').slice(0, -1))
      },
    ),
  )
  const seen: string[] = []
  const feed = lineCutter(
    line => seen.push(line),
    () => seen.push('overflow'),
    5,
  )
  for (const piece of ['12345\n123', '456', '\nok\n']) feed(Buffer.from(piece))
  expect(seen).toEqual(['12345', 'overflow'])
})

test('a file is replaced as a whole, for its user alone, and a failed replacement leaves no trace', async () => {
  const path = join(folder, 'x.json')
  writeFileSync(path, 'old')
  await replaceFile(path, 'new')
  expect(readFileSync(path, 'utf8')).toBe('new')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  mkdirSync(join(folder, 'sub'))
  const failed = await replaceFile(join(folder, 'sub'), 'x').then(
    () => null,
    (error: unknown) => error,
  )
  expect(errnoOf(failed)).toMatch(/^E/)
  expect(readdirSync(folder).sort()).toEqual(['sub', 'x.json'])
})
