#!/usr/bin/env node
// Sums up a CSV or TSV file as Markdown: its columns, what is odd about its rows, and one column by another.
// usage: csv-report.mjs <file> [--delimiter <char>] [--by <column>] [--sum <column>]
import { createReadStream, existsSync } from 'node:fs'
import { parseArgs } from 'node:util'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { delimiter: { type: 'string' }, by: { type: 'string' }, sum: { type: 'string' } },
})
const [file] = positionals
if (file === undefined || positionals.length > 1) {
  console.error('usage: csv-report.mjs <file> [--delimiter <char>] [--by <column>] [--sum <column>]')
  process.exit(2)
}

if (!existsSync(file)) {
  console.error(`there is no file ${file}`)
  process.exit(1)
}

/** The delimiter that splits the first line into most cells. */
const guess = line => [',', ';', '\t', '|'].sort((a, b) => line.split(b).length - line.split(a).length)[0]

/** Rows of a stream of text, quotes and line breaks inside them respected (RFC 4180). */
async function* rows(chunks, delimiter) {
  let row = []
  let cell = ''
  let quoted = false
  let closing = false
  let first = ''
  for await (const chunk of chunks) {
    for (const c of chunk) {
      if (delimiter === undefined) {
        // The head is kept until its line ends, then read with the delimiter found in it.
        if (c !== '\n') {
          first += c
          continue
        }
        delimiter = guess(first)
        yield* rows([`${first}\n`], delimiter)
        continue
      }
      if (closing) {
        closing = false
        if (c === '"') {
          cell += c
          continue
        }
        quoted = false
      }
      if (quoted) {
        if (c === '"') closing = true
        else cell += c
      } else if (c === '"' && cell === '') quoted = true
      else if (c === delimiter) {
        row.push(cell)
        cell = ''
      } else if (c === '\n') {
        yield [...row, cell.replace(/\r$/, '')]
        row = []
        cell = ''
      } else cell += c
    }
  }
  if (delimiter === undefined && first !== '') yield* rows([`${first}\n`], guess(first))
  else if (row.length > 0 || cell !== '') yield [...row, cell.replace(/\r$/, '')]
}

const isNumber = cell => /^\s*[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?\s*$/i.test(cell)
const round = number => String(Math.round(number * 1000) / 1000)
const shown = text => (text.length > 30 ? `${text.slice(0, 29)}…` : text).replace(/\|/g, '\\|').replace(/\s+/g, ' ')
const tableRow = cells => console.log(`| ${cells.join(' | ')} |`)
const table = (head, body) => {
  tableRow(head)
  tableRow(head.map(() => '---'))
  for (const cells of body) tableRow(cells)
}

const newColumn = name => ({ name, empty: 0, numbers: 0, sum: 0, least: Infinity, most: -Infinity, other: new Map() })
const add = (column, cell) => {
  if (cell.trim() === '') column.empty++
  else if (isNumber(cell)) {
    const number = Number(cell)
    column.numbers++
    column.sum += number
    column.least = Math.min(column.least, number)
    column.most = Math.max(column.most, number)
  } else if (column.other.size < 10_000 || column.other.has(cell))
    column.other.set(cell, (column.other.get(cell) ?? 0) + 1)
}

let columns
let count = 0
const odd = []
const groups = new Map()
let by = -1
let sum = -1
const source = createReadStream(file, 'utf8')
for await (const row of rows(source, values.delimiter)) {
  if (columns === undefined) {
    columns = row.map((name, i) =>
      newColumn((i === 0 ? name.replace(/^\uFEFF/, '') : name).trim() || `column ${i + 1}`),
    )
    const at = option => {
      if (values[option] === undefined) return -1
      const found = columns.findIndex(column => column.name === values[option])
      if (found >= 0) return found
      console.error(`no column "${values[option]}"; there are: ${columns.map(column => column.name).join(', ')}`)
      process.exit(1)
    }
    by = at('by')
    sum = at('sum')
    continue
  }
  if (row.length === 1 && row[0] === '') continue
  count++
  if (row.length !== columns.length) {
    odd.push(count)
    continue
  }
  for (const [i, column] of columns.entries()) add(column, row[i])
  if (by < 0) continue
  const group = groups.get(row[by]) ?? { rows: 0, numbers: 0, sum: 0 }
  groups.set(row[by], group)
  group.rows++
  if (sum >= 0 && isNumber(row[sum])) {
    group.numbers++
    group.sum += Number(row[sum])
  }
}
if (columns === undefined) {
  console.error(`${file} is empty`)
  process.exit(1)
}

console.log(`# ${file}\n\nRows: ${count}. Columns: ${columns.length}.`)
if (odd.length > 0)
  console.log(
    `\nLeft out (${odd.length}), since they have another number of cells: ${odd.slice(0, 10).join(', ')}${odd.length > 10 ? ', …' : ''}.`,
  )
console.log('')
table(
  ['column', 'numbers', 'sum', 'mean', 'least', 'most', 'empty', 'other', 'most frequent others'],
  columns.map(column => {
    const others = [...column.other].sort((a, b) => b[1] - a[1])
    const figures = [column.sum, column.sum / column.numbers, column.least, column.most].map(round)
    return [
      shown(column.name),
      column.numbers,
      ...(column.numbers > 0 ? figures : ['', '', '', '']),
      column.empty,
      others.reduce((all, [, times]) => all + times, 0),
      others
        .slice(0, 3)
        .map(([text, times]) => `${shown(text)} (${times})`)
        .join(', '),
    ]
  }),
)
if (by >= 0) {
  const sorted = [...groups].sort((a, b) => (sum < 0 ? b[1].rows - a[1].rows : b[1].sum - a[1].sum))
  console.log(`\n## By ${columns[by].name}\n`)
  table(
    [columns[by].name, 'rows', ...(sum < 0 ? [] : [`sum of ${columns[sum].name}`, 'mean', 'rows without a number'])],
    sorted.map(([name, group]) => [
      shown(name) || '(empty)',
      group.rows,
      ...(sum < 0
        ? []
        : [round(group.sum), group.numbers > 0 ? round(group.sum / group.numbers) : '', group.rows - group.numbers]),
    ]),
  )
}
