import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Entry } from '../agent/entry.ts'
import { renderItems } from '../agent/items.ts'
import { type Verified, verifySession } from '../agent/verify.ts'
import { errnoOf, misplaced, unreadable } from '../lib/files.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import { findRoot, layout, loadConfig } from '../store/root.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { ask } from './prompt.ts'
import { renderEntry } from './render/entry.ts'
import { jsonText } from './render/text.ts'

/** `team replay <name>`. */
export const replay = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'replay <name>',
    "Step through a teammate's session: what it was told, said and did",
    y =>
      y
        .positional('name', { type: 'string', demandOption: true, describe: 'a teammate' })
        .option('turn', { type: 'number', describe: 'this turn alone' })
        .option('full', { type: 'boolean', default: false, describe: 'whole results, not their first lines' })
        .option('verify', {
          type: 'boolean',
          default: false,
          describe: 'make each context anew from the record, and hold it against what was sent',
        })
        .option('json', { type: 'boolean', default: false, describe: 'the entries as they stand, one a line' })
        .example('$0 replay alice', 'Enter goes on by a step, q ends; in a pipe all of it')
        .example('$0 replay alice --turn 3', 'one turn alone')
        .example('$0 replay alice --verify', 'does the record give what the model was sent, byte for byte?'),
    handler(cli, args => act(cli, args)),
  )

interface Replay extends Globals {
  name: string
  turn: number | undefined
  full: boolean
  verify: boolean
  json: boolean
}

const act = async (cli: Cli, args: Replay): Promise<Result<number>> => {
  if (args.turn !== undefined && !(Number.isInteger(args.turn) && args.turn > 0))
    return fail('usage', '--turn takes a whole number above 0')
  if (args.verify && (args.turn !== undefined || args.full))
    return fail('usage', '--verify looks at the whole session', 'leave --turn and --full out')
  const root = findRoot({ root: args.root, cwd: cli.cwd, env: cli.env })
  if (!root.ok) return root
  const listed = sessionFiles(layout(root.value).sessions, args.name)
  if (!listed.ok) return listed
  const files = listed.value
  if (files.length === 0) return none(root.value, args.name)
  if (args.verify) return verify(cli, args, files)
  let turn = 0
  let said = false
  for (const file of files) {
    const read = entries(file)
    if (!read.ok) return read
    for (const entry of read.value) {
      if (entry.k === 'turn') turn = entry.turn
      if (cli.out.closed.aborted) return ok(0)
      if (args.turn !== undefined && turn !== args.turn) continue
      if (args.json) {
        cli.out.say(jsonText(entry))
        said = true
        continue
      }
      const text = renderEntry(entry, { now: cli.clock.wall(), paint: cli.paint, full: args.full, items: renderItems })
      if (text === null) continue
      if (cli.interactive && said) {
        const answer = await ask(cli, '')
        if (answer === null || answer.trim() === 'q') return ok(0)
      }
      cli.out.say(text)
      said = true
    }
  }
  if (said) return ok(0)
  if (args.turn !== undefined) return fail('unknown', `there is no turn ${args.turn} in the session of ${args.name}`)
  if (!args.json) cli.out.note(`nothing is in the session of ${args.name} yet`)
  return ok(0)
}

/** Exit code 1 where a context came out that was not the one sent. */
const verify = (cli: Cli, args: Replay, files: readonly string[]): Result<number> => {
  const all: Entry[] = []
  for (const file of files) {
    const read = entries(file)
    if (!read.ok) return read
    all.push(...read.value)
  }
  const found = verifySession(all)
  if (args.json) cli.out.json(found)
  else cli.out.say(verified(args.name, found))
  return ok(found.differs === null ? 0 : 1)
}

const verified = (name: string, { same, unknown, differs }: Verified): string =>
  [
    differs === null
      ? `${same} model calls of ${name}: each context comes out of the record as it was sent, byte for byte`
      : `turn ${differs.turn}, model call ${differs.call} of ${name}: another context comes out of the record than was sent; of the others ${same} came out the same. The session was changed by hand, or written by another version`,
    ...(unknown === 0 ? [] : [`${unknown} are of a version that kept nothing to hold them against`]),
  ].join('\n')

/** A session's files, oldest first: those put aside are numbered. */
const sessionFiles = (folder: string, name: string): Result<string[]> => {
  let names: string[]
  try {
    names = readdirSync(folder)
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return ok([])
    if (errnoOf(thrown) === 'ENOTDIR') return { ok: false, fault: misplaced(folder, 'a file', 'folder', thrown) }
    return refused(folder, thrown)
  }
  const number = (file: string): number => {
    const [, middle, ...more] = file.slice(name.length).split('.')
    if (!file.startsWith(`${name}.`) || !file.endsWith('.jsonl')) return Number.NaN
    return middle === 'jsonl'
      ? Number.POSITIVE_INFINITY
      : more.length === 1 && /^\d+$/.test(middle ?? '')
        ? Number(middle)
        : Number.NaN
  }
  return ok(
    names
      .filter(file => !Number.isNaN(number(file)))
      .sort((a, b) => number(a) - number(b))
      .map(file => join(folder, file)),
  )
}

/** A last line that is still being written is left out; any other that cannot be read is a fault that names it. */
const entries = (file: string): Result<Entry[]> => {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (thrown) {
    return refused(file, thrown)
  }
  const found: Entry[] = []
  let start = 0
  for (let line = 1, end = bytes.indexOf(10); end >= 0; line++, start = end + 1, end = bytes.indexOf(10, start)) {
    const text = bytes.subarray(start, end).toString('utf8')
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch (cause) {
      return fail('invalid', `${file}:${line} cannot be read`, 'mend the line, or move the file away', cause)
    }
    const entry = Entry.safeParse(value)
    if (!entry.success)
      return fail('invalid', `${file}:${line} is no entry of a session`, 'was it written by a newer version?')
    found.push(entry.data)
  }
  return ok(found)
}

const refused = (path: string, thrown: unknown): Result<never> => {
  const fault = unreadable(path, thrown)
  if (fault === undefined) throw thrown
  return { ok: false, fault }
}

const none = (root: string, name: string): Result<number> => {
  const loaded = loadConfig(root)
  if (!loaded.ok) return loaded
  const names = loaded.value.members.map(member => member.name)
  if (names.includes(name)) return fail('invalid', `${name} has no session yet`, 'it begins with the first team up')
  const near = nearest(name, names)
  return fail(
    'unknown',
    `there is no teammate ${name}`,
    near ? `did you mean ${near}?` : `there are ${names.join(', ')}`,
  )
}
