/** What the demo's tasks write. */

const sources: Readonly<Record<string, string>> = {
  csv: "export { parse } from './csv.js'",
  number: "export { toNumber } from './number.js'",
  report: "export { report } from './report.js'",
  spread: "export { spread } from './spread.js'",
  table: "export { table } from './table.js'",
  totals: "export { mean, total } from './totals.js'",
}
export const index = (...parts: readonly string[]): string => parts.map(part => `${sources[part] ?? ''}\n`).join('')

/** Takes the marks of a conflict out of the list of exports, and leaves one without any as it is. */
export const keepBoth =
  "node -e \"const fs = require('fs'), file = 'src/index.js'; fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(/^[<=>]{7}.*\\n/gm, ''))\""

const testHead = (what: string, from: string): string => `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ${what} } from '../src/${from}.js'
`

export const csv = `const cells = line => {
  const found = []
  let cell = ''
  let quoted = false
  for (let i = 0; i < line.length; i++) {
    const c = line[i]
    if (quoted && c === '"' && line[i + 1] === '"') {
      cell += '"'
      i++
    } else if (c === '"') quoted = !quoted
    else if (c === ',' && !quoted) {
      found.push(cell)
      cell = ''
    } else cell += c
  }
  return [...found, cell]
}

/** The rows of a CSV text as arrays of cells; the first row names the columns. */
export const parse = text => text.trim().split(/\\r?\\n/).map(cells)
`

export const csvTest = `${testHead('parse', 'csv')}
test('a row a line, a cell between commas', () => {
  assert.deepEqual(parse('a,b\\n1,2\\n'), [
    ['a', 'b'],
    ['1', '2'],
  ])
})

test('quotes keep a comma inside a cell', () => {
  assert.deepEqual(parse('"tea, green",4'), [['tea, green', '4']])
})

test('two quotes inside quotes are one', () => {
  assert.deepEqual(parse('"a ""b""",c'), [['a "b"', 'c']])
})

test('lines may end as on Windows', () => {
  assert.deepEqual(parse('a\\r\\nb\\r\\n'), [['a'], ['b']])
})
`

export const number = `export const isNumber = cell => cell.trim() !== '' && Number.isFinite(Number(cell))

/** A cell as a number. Throws a TypeError on whatever is none. */
export const toNumber = cell => {
  if (!isNumber(cell)) throw new TypeError('not a number: ' + JSON.stringify(cell))
  return Number(cell)
}
`

export const numberTest = `${testHead('isNumber, toNumber', 'number')}
test('a number in text is that number', () => {
  assert.equal(toNumber('12.5'), 12.5)
})

test('whatever is no number is refused by name', () => {
  assert.throws(() => toNumber('n/a'), /not a number: "n\\/a"/)
})

test('an empty cell is no number', () => {
  assert.equal(isNumber(' '), false)
})
`

export const totals = `import { toNumber } from './number.js'

const column = ([head, ...rows], name) => {
  const at = head.indexOf(name)
  if (at < 0) throw new RangeError('no column ' + name + '; there are ' + head.join(', '))
  return rows.map(row => toNumber(row[at]))
}

/** The sum of a column. */
export const total = (rows, name) => column(rows, name).reduce((sum, each) => sum + each, 0)

/** The mean of a column. */
export const mean = (rows, name) => total(rows, name) / (rows.length - 1)
`

export const totalsTest = `${testHead('mean, total', 'totals')}
const rows = [['day', 'sold'], ['mon', '4'], ['tue', '8']]

test('a column is summed up by its name', () => {
  assert.equal(total(rows, 'sold'), 12)
  assert.equal(mean(rows, 'sold'), 6)
})

test('a column that is not there is named', () => {
  assert.throws(() => total(rows, 'price'), /no column price; there are day, sold/)
})
`

export const table = `const isRight = cells => cells.slice(1).every(cell => /^-?[\\d.]+$/.test(cell))

/** Rows as lines of text, columns padded to their widest cell, numbers to the right. */
export const table = rows => {
  const columns = rows[0].map((_, i) => rows.map(row => row[i] ?? ''))
  const padded = columns.map(cells => {
    const width = Math.max(...cells.map(cell => cell.length))
    return cells.map(cell => (isRight(cells) ? cell.padStart(width) : cell.padEnd(width)))
  })
  return rows.map((_, i) => padded.map(cells => cells[i]).join(' | ') + '\\n').join('')
}
`

export const tableTest = `${testHead('table', 'table')}
test('columns are as wide as their widest cell', () => {
  assert.equal(table([['a', 'b'], ['long', 'x']]), 'a    | b\\nlong | x\\n')
})

test('numbers stand to the right', () => {
  assert.equal(table([['n', 'm'], ['10', 'x'], ['9', 'y']]), ' n | m\\n10 | x\\n 9 | y\\n')
})
`

export const spread = `import { toNumber } from './number.js'

/** The least and the most of a column. */
export const spread = ([head, ...rows], name) => {
  const numbers = rows.map(row => toNumber(row[head.indexOf(name)]))
  return { least: Math.min(...numbers), most: Math.max(...numbers) }
}
`

export const spreadTest = `${testHead('spread', 'spread')}
test('a cell without a number counts as 0', () => {
  const rows = [['day', 'sold'], ['mon', '4'], ['tue', 'n/a']]
  assert.deepEqual(spread(rows, 'sold'), { least: 0, most: 4 })
})
`

/** Right on strict numbers and on those before them: it may come to the trunk before the one or after. */
export const spreadMended = `import { toNumber } from './number.js'

const isNumber = cell => cell.trim() !== '' && Number.isFinite(Number(cell))

/** The least and the most of a column; cells without a number are left out. */
export const spread = ([head, ...rows], name) => {
  const cells = rows.map(row => row[head.indexOf(name)])
  const numbers = cells.filter(isNumber).map(toNumber)
  return { least: Math.min(...numbers), most: Math.max(...numbers) }
}
`

export const spreadTestMended = `${testHead('spread', 'spread')}
test('a cell without a number is left out', () => {
  const rows = [['day', 'sold'], ['mon', '4'], ['tue', 'n/a'], ['wed', '7']]
  assert.deepEqual(spread(rows, 'sold'), { least: 4, most: 7 })
})
`

export const report = `import { parse } from './csv.js'
import { spread } from './spread.js'
import { table } from './table.js'
import { mean, total } from './totals.js'

/** The table of a CSV text, and under it the figures of one of its columns. */
export const report = (text, column) => {
  const rows = parse(text)
  const { least, most } = spread(rows, column)
  const figures = ['total ' + total(rows, column), 'mean ' + mean(rows, column), 'least ' + least, 'most ' + most]
  return table(rows) + figures.join(', ') + '\\n'
}
`

export const reportTest = `${testHead('report', 'report')}
test('the figures stand under the table', () => {
  const text = 'day,sold\\nmon,4\\ntue,8\\n'
  assert.equal(report(text, 'sold'), 'day | sold\\nmon |    4\\ntue |    8\\ntotal 12, mean 6, least 4, most 8\\n')
})
`

export const bin = `#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { report } from '../src/report.js'

const [file, column] = process.argv.slice(2)
if (file === undefined || column === undefined) {
  console.error('usage: tally <file.csv> <column>')
  process.exitCode = 2
} else process.stdout.write(report(readFileSync(file, 'utf8'), column))
`

export const binTest = `import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const path = name => fileURLToPath(new URL(name, import.meta.url))
const tally = (...args) =>
  spawnSync(process.execPath, [path('../bin/tally.js'), ...args], { encoding: 'utf8' })

test('it prints the report of a file', () => {
  const { status, stdout } = tally(path('../data/sales.csv'), 'sold')
  assert.equal(status, 0)
  assert.match(stdout, /total 21, mean 7, least 4, most 11/)
})

test('it says how to use it', () => {
  const { status, stderr } = tally()
  assert.equal(status, 2)
  assert.match(stderr, /usage: tally/)
})
`

export const printed = `day | item       | sold
mon | tea, green |    4
tue | coffee     |   11
wed | tea, green |    6
total 21, mean 7, least 4, most 11
`

const fence = '```'
export const readme = `# tally

Sums up CSV files.

${fence}
$ node bin/tally.js data/sales.csv sold
${printed}${fence}

Cells in double quotes may hold commas. A cell of the column that is no number is an error.

Tests: \`npm test\`
`

export const readmeMended = readme.replace('Cells in', 'It needs Node 20 or newer and nothing else.\n\nCells in')
