import * as code from './code.ts'
import { verifyCommand } from './files.ts'

/** One of the demo's eight tasks, as it is dropped. */
export interface DemoTask {
  /** Name of the dropped file, without `.md`. */
  readonly key: string
  readonly title: string
  readonly assignee: string
  /** Keys of the tasks it waits for. */
  readonly after: readonly string[]
  /** The task whose merge its own waits for, and how its first claim comes back for it. */
  readonly behind: { readonly key: string; readonly returned: 'conflict' | 'verify' } | null
  /** Why the human rejects its first merge; null: nothing is wrong with it. */
  readonly rejected: string | null
  /** Nothing is written before its plan is approved. */
  readonly needsPlan: boolean
  readonly text: string
}

export const demoTeam = [
  { name: 'reader', role: 'input: files, cells, numbers' },
  { name: 'counter', role: 'figures: sums, means, the report' },
  { name: 'writer', role: 'output: tables and the command line' },
  { name: 'checker', role: 'limits, documentation, last looks' },
] as const

const file = (path: string, text: string): string => `~~~ file=${path}\n${text}~~~\n`
const sh = (command: string, option = ''): string => `~~~sh${option}\n${command}\n~~~\n`
/** Runs the tests as they are in the clone; `passing` is how many there are by then, whatever was merged in which order. */
const tested = (passing: number): string => `${sh(verifyCommand)}~~~expect\n# pass ${passing}\n# fail 0\n~~~\n`
/** The same where how many there are depends on what is on the trunk by then. */
const green = `${sh(verifyCommand)}~~~expect\n# fail 0\n~~~\n`
/** What a task does that came back, for whatever reason: what is on the trunk by then goes in, and `mended` on top of it. */
const sentBack = (why: string, mended: string, ...after: readonly string[]): string =>
  ['', '## If sent back', '', why, '', sh('git merge hub/trunk', ' may-fail') + mended + green, ...after, ''].join('\n')
const exportsMet = 'Somebody else added to the list of exports, or may have: both lines are wanted.'
const spreadMended = `${file('src/spread.js', code.spreadMended)}${file('test/spread.test.js', code.spreadTestMended)}`
const asItIs = 'Nobody else works on this file: it stays, on what the trunk is now.'

const tasks: readonly (Omit<DemoTask, Chosen> & Partial<Pick<DemoTask, Chosen>>)[] = [
  {
    key: 'quoted-cells',
    title: 'Read quoted cells',
    assignee: 'reader',
    after: [],
    text: `A cell in double quotes may hold commas, and "" for a quote.

${file('src/csv.js', code.csv)}
${file('test/csv.test.js', code.csvTest)}
${tested(5)}
commit: Read quoted cells
note: parse() reads quotes now; it does not read line breaks inside them.
@counter: parse() keeps "tea, green" in one cell now, so columns stay where they are.
@writer: a cell may hold a comma from now on: do not split rows yourself.
${sentBack(asItIs, '', 'commit: Read quoted cells')}`,
  },
  {
    key: 'totals',
    title: 'Sum up a column',
    assignee: 'counter',
    after: ['quoted-cells'],
    text: `The sum and the mean of a column, by its name.

lease: name sample-rows
ask: What is the mean of no rows: 0, or not a number?
${file('src/totals.js', code.totals)}
${file('test/totals.test.js', code.totalsTest)}
${file('src/index.js', code.index('csv', 'number', 'totals'))}
${green}
commit: Sum up a column
@writer: total(rows, column) and mean(rows, column) are in src/totals.js.
${sentBack(exportsMet, sh(code.keepBoth), 'commit: Keep both exports')}`,
  },
  {
    key: 'table',
    title: 'Lay rows out as a table',
    assignee: 'writer',
    after: ['quoted-cells'],
    behind: { key: 'totals', returned: 'conflict' },
    needsPlan: true,
    text: `Columns padded to their widest cell, numbers to the right.

lease: name sample-rows
plan: one new file src/table.js with its test, and one line more in src/index.js
${file('src/table.js', code.table)}
${file('test/table.test.js', code.tableTest)}
${file('src/index.js', code.index('csv', 'number', 'table'))}
${green}
commit: Lay rows out as a table
${sentBack(exportsMet, sh(code.keepBoth), 'commit: Keep both exports', '@counter: our exports met in src/index.js; both are in now.')}`,
  },
  {
    key: 'strict-numbers',
    title: 'Refuse cells that are no numbers',
    assignee: 'reader',
    after: ['quoted-cells'],
    text: `A typing error must not count as 0.

${file('src/number.js', code.number)}
${file('test/number.test.js', code.numberTest)}
${green}
commit: Refuse cells that are no numbers
@checker: toNumber() throws on what is no number now; ask isNumber() first.
${sentBack('Whoever counts on n/a being 0 leaves such cells out from now on.', spreadMended, 'commit: Leave cells without a number out')}`,
  },
  {
    key: 'spread',
    title: 'Least and most of a column',
    assignee: 'checker',
    after: ['quoted-cells'],
    behind: { key: 'strict-numbers', returned: 'verify' },
    text: `A cell without a number, like n/a, counts as 0 in this library.

${file('src/spread.js', code.spread)}
${file('test/spread.test.js', code.spreadTest)}
${green}
commit: Least and most of a column
${sentBack('Numbers are strict on the trunk, or will be: such cells are left out.', spreadMended, 'commit: Leave cells without a number out', '@reader: spread() relied on n/a being 0; it leaves such cells out now.')}`,
  },
  {
    key: 'report',
    title: 'Put the report together',
    assignee: 'counter',
    after: ['totals', 'table', 'spread'],
    text: `The table of a CSV text, and under it the figures of one column.

${file('src/report.js', code.report)}
${file('test/report.test.js', code.reportTest)}
${file('src/index.js', code.index('csv', 'number', 'report', 'spread', 'table', 'totals'))}
${green}
commit: Put the report together
@writer: report(text, column) returns the whole text to print.
${sentBack(asItIs, '', 'commit: Put the report together')}`,
  },
  {
    key: 'command',
    title: 'A command to print it',
    assignee: 'writer',
    after: ['report', 'strict-numbers'],
    text: `\`node bin/tally.js <file> <column>\`

${file('bin/tally.js', code.bin)}
${file('test/command.test.js', code.binTest)}
${sh('chmod +x bin/tally.js')}
${sh('node bin/tally.js data/sales.csv sold')}~~~expect
mon | tea, green |    4
total 21, mean 7, least 4, most 11
~~~
${tested(15)}
commit: A command to print the report
@checker: node bin/tally.js data/sales.csv sold prints the report: please document it.
${sentBack(asItIs, '', 'commit: A command to print the report')}`,
  },
  {
    key: 'how-to-use',
    title: 'Say how to use it',
    assignee: 'checker',
    after: ['command'],
    rejected: 'Say what it needs to run, too.',
    text: `The README shows the command and what it prints, and that is checked here.

on shutdown: reject the page is half written
ask: Which column should the example sum up?
${file('README.md', code.readme)}
${sh('node bin/tally.js data/sales.csv sold')}~~~expect
${code.printed}~~~
commit: Say how to use it
@user: tally is ready: README.md shows how to use it.

## If sent back

${file('README.md', code.readmeMended)}
commit: Say what it needs to run
`,
  },
]
type Chosen = 'behind' | 'rejected' | 'needsPlan'

/**
 *   quoted-cells ─┬▶ totals ──┬▶ report ─┬▶ command ──▶ how-to-use    totals and table change the same lines: conflict
 *                 ├▶ table ───┤          │                            strict-numbers breaks what spread relies on: verify
 *                 ├▶ spread ──┘          │
 *                 └▶ strict-numbers ─────┘
 *
 * totals and table want the same lease; totals asks a question, table needs a plan, command needs a permission, and who
 * writes how-to-use does not agree to shut down in the middle of it, and sees its merge rejected once.
 */
export const demoTasks: readonly DemoTask[] = tasks.map(task => ({
  behind: null,
  rejected: null,
  needsPlan: false,
  ...task,
}))

/** The file to drop: frontmatter, then the runbook. */
export const dropText = (task: DemoTask): string =>
  [
    '---',
    `title: ${task.title}`,
    `assignee: ${task.assignee}`,
    `blockedBy: [${task.after.map(key => `${key}.md`).join(', ')}]`,
    ...(task.needsPlan ? ['needsPlan: true'] : []),
    '---',
    task.text,
  ].join('\n')
