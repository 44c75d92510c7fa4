import fc from 'fast-check'
import { expect, it } from 'vitest'
import { globToRegExp } from '../../src/lib/glob.ts'
import { claimFault, clash, covers, overlaps, tidy } from '../../src/protocol/lease.ts'

it.each([
  ['src/a/**', 'src/b/**', false],
  ['src/**', 'src/b/x.ts', true],
  ['*.md', '*.ts', false],
  ['docs/*.md', 'docs/*.ts', false],
  ['docs/*.md', 'docs/a*', true],
  ['src/*.ts', 'src/deep/x.ts', false],
  ['src/*', 'src/deep/x.ts', false],
  ['src/*', 'src/deep', true],
  ['**/*.md', 'src/**/*.ts', false],
  ['**/test', 'src/a/test/x.ts', true],
  ['**/*.test.ts', 'src/a/**', true],
  ['**/*.test.ts', 'src/a/*.md', false],
  ['src/a', 'src/a/b.ts', true],
  ['src/a', 'src/ab', false],
  ['src/', './src', true],
  ['src/{a,b}/**', 'src/b/x', true],
  ['src/{a,b}/**', 'src/c/x', false],
  ['src/{a,{b,c}}/x', 'src/c', true],
  ['[a-f]*', 'g', false],
  ['[!a]b', 'ab', false],
  ['[!a]b', 'bb', true],
  ['a?c', 'abc', true],
  ['a?c', 'a/c', false],
  ['a*c', 'a/c', false],
  ['**/c', 'c', true],
  ['a/**/c', 'a/c', true],
  ['*a*b*', '*b*a*', true],
  ['日本/*', '日本/x', true],
  ['app/[id].tsx', 'app/*].tsx', true],
  ['app/[id]', 'app/[id]/page.tsx', true],
  ['app/[id]', 'app/[x]/page.tsx', false],
  ['../x', 'src', true],
  ['{a', '{a', true],
  ['a]', 'a', false],
])('%s and %s overlap: %s', (a, b, expected) => {
  expect([overlaps([a], [b]), overlaps([b], [a])]).toEqual([expected, expected])
})

it('no paths at all are everything', () => {
  expect(overlaps([], ['src/a'])).toBe(true)
  expect(overlaps(['docs/a.md'], ['src/**', 'docs/**'])).toBe(true)
  expect(covers([], 'any/file')).toBe(true)
})

it('a path is covered by what matches it and by the folder it is in, and is itself taken literally', () => {
  expect(covers(['src/**/*.ts'], 'src/a/b.ts')).toBe(true)
  expect(covers(['src'], 'src/a/b.ts')).toBe(true)
  expect(covers(['app/*.tsx'], 'app/[id].tsx')).toBe(true)
  expect(covers(['app/i.tsx'], 'app/[id].tsx')).toBe(false)
})

it('a file or folder whose name reads as a class is leased by its name', () => {
  expect(covers(['app/[id].tsx'], 'app/[id].tsx')).toBe(true)
  expect(covers(['app/[id]', 'shop/[[...slug]]/**'], 'app/[id]/page.tsx')).toBe(true)
  expect(covers(['shop/[[...slug]]/**'], 'shop/[[...slug]]/page.tsx')).toBe(true)
  expect(covers(['app/[id].tsx'], 'app/d.tsx')).toBe(true)
  expect(covers(['app/[id].tsx'], 'app/[x].tsx')).toBe(false)
})

it('ports and names overlap when they are the same; kinds never do; any meets nothing', () => {
  const port = (...what: string[]) => ({ kind: 'port' as const, what })
  expect(clash(port('80', '81'), port('81'))).toBe(true)
  expect(clash(port('any'), port('any'))).toBe(false)
  expect(clash(port('80'), { kind: 'name', what: ['80'] })).toBe(false)
  expect(clash({ kind: 'name', what: ['db'] }, { kind: 'name', what: ['db'] })).toBe(true)
})

it('what cannot be leased is named, and what can is shown as it is compared', () => {
  expect(claimFault({ kind: 'port', what: ['0'] })).toMatch(/"0" is no port/)
  expect(claimFault({ kind: 'port', what: ['65536'] })).toMatch(/no port/)
  expect(claimFault({ kind: 'port', what: ['any', '8080'] })).toBeNull()
  expect(claimFault({ kind: 'path', what: ['a/../b'] })).toMatch(/no "\.\."/)
  expect(claimFault({ kind: 'path', what: ['a'.repeat(1001)] })).toMatch(/1000 characters/)
  expect(claimFault({ kind: 'name', what: [' '] })).toMatch(/empty/)
  expect(tidy({ kind: 'path', what: ['./src//a/', '/src/a', '.'] })).toEqual(['src/a', '**'])
})

/** Globs and paths over a small alphabet, so that they meet often. */
const piece = fc.constantFrom('a', 'b', '*', '?', '**', '[ab]', '[!a]', '{a,b}', '{a,*b}', 'ab')
const glob = fc
  .array(fc.array(piece, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 })
  .map(parts => parts.map(part => part.join('')).join('/'))
const path = fc
  .array(fc.array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 })
  .map(parts => parts.map(part => part.join('')).join('/'))

it('an overlap is never missed: whatever two globs both match is one', () => {
  // Here a class never matches a slash.
  const stands = (one: string, at: string) => !one.includes('[!') && globToRegExp(one).test(at)
  fc.assert(
    fc.property(glob, glob, path, (a, b, at) => {
      if (stands(a, at)) expect(covers([a], at)).toBe(true)
      if (covers([a], at) && covers([b], at)) expect(overlaps([a], [b])).toBe(true)
    }),
    { numRuns: 5000 },
  )
})

it('what is told to overlap has a path that both stand for', () => {
  const names = ['a', 'b', 'c'].flatMap(x => [x, ...['a', 'b', 'c'].flatMap(y => [x + y, `${x}${y}a`, `${x}${y}b`])])
  const two = names.flatMap(x => [x, ...names.map(y => `${x}/${y}`)])
  // A third level, since a path stands for all that is below it: `a/a` and `**/a?` meet in a/a/ab.
  const few = names.filter(x => x.length < 3)
  const all = [...two, ...few.flatMap(x => few.flatMap(y => few.map(z => `${x}/${y}/${z}`)))]
  const part = fc.constantFrom('a', 'b', '*', '?', '**', '[ab]', '[!a]', '{a,b}', 'a*', '*b', '?a', 'a?', '*b*')
  const short = fc.array(part, { minLength: 1, maxLength: 2 }).map(parts => parts.join('/'))
  fc.assert(
    fc.property(short, short, (a, b) => {
      expect(all.some(at => covers([a], at) && covers([b], at))).toBe(overlaps([a], [b]))
    }),
  )
})
