/** The demo's repository before any task: a small library that sums up CSV files, in plain JavaScript, with tests. */
export const repositoryFiles: Readonly<Record<string, string>> = {
  'package.json': `{
  "name": "tally",
  "version": "0.1.0",
  "description": "Sums up CSV files",
  "type": "module",
  "private": true,
  "exports": "./src/index.js",
  "scripts": { "test": "node --test" }
}
`,
  'README.md': '# tally\n\nSums up CSV files.\n\nTests: `npm test`\n',
  'data/sales.csv': 'day,item,sold\nmon,"tea, green",4\ntue,coffee,11\nwed,"tea, green",6\n',
  'src/csv.js': `/** The rows of a CSV text as arrays of cells; the first row names the columns. */
export const parse = text =>
  text
    .trim()
    .split('\\n')
    .map(line => line.split(','))
`,
  'src/number.js': `/** A cell as a number; whatever is none counts as 0. */
export const toNumber = cell => Number(cell) || 0
`,
  'src/index.js': `export { parse } from './csv.js'
export { toNumber } from './number.js'
`,
  'test/csv.test.js': `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from '../src/csv.js'

test('a row a line, a cell between commas', () => {
  assert.deepEqual(parse('a,b\\n1,2\\n'), [
    ['a', 'b'],
    ['1', '2'],
  ])
})
`,
  'test/number.test.js': `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toNumber } from '../src/number.js'

test('a number in text is that number', () => {
  assert.equal(toNumber('12.5'), 12.5)
})
`,
}

/** What proves the merged result; in TAP, which is the same on every version of node. */
export const verifyCommand = 'node --test --test-reporter=tap'
