import { prefixSections } from '../agent/prefix.ts'
import { readPrefixParts } from '../agent/prefix-files.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import { findRoot, loadConfig } from '../store/root.ts'
import { pickTools } from '../tools/index.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { table } from './render/text.ts'

/** `team prefix [name]`. */
export const prefix = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'prefix [name]',
    'Weigh what stands before every call of a model: bytes and tokens, by part',
    y =>
      y
        .positional('name', { type: 'string', describe: 'a teammate; else all' })
        .option('max', { type: 'number', describe: 'exit 1 where one has more tokens than this' })
        .option('json', { type: 'boolean', default: false, describe: 'the weights as JSON' })
        .example('$0 prefix alice', 'what each part of it weighs')
        .example('$0 prefix --max 1500', 'a check that nobody has grown too heavy'),
    handler(cli, async args => act(cli, args)),
  )

interface Weight {
  readonly part: string
  readonly bytes: number
  readonly tokens: number
}

/** Counts tokens exactly, as o200k has them. Its table is large: loaded here, where counting exactly is the point, and nowhere else. */
const counter = async (): Promise<(text: string) => number> => {
  const { countTokens } = await import('gpt-tokenizer/encoding/o200k_base')
  // What looks like a token of control is text here: rules and skills are sent as text.
  return text => countTokens(text, { disallowedSpecial: new Set() })
}

const act = async (
  cli: Cli,
  args: Globals & { name: string | undefined; max: number | undefined; json: boolean },
): Promise<Result<number>> => {
  const { name, max } = args
  if (max !== undefined && !(Number.isInteger(max) && max > 0))
    return fail('usage', '--max takes a whole number above 0')
  const root = findRoot({ root: args.root, cwd: cli.cwd, env: cli.env })
  if (!root.ok) return root
  const loaded = loadConfig(root.value)
  if (!loaded.ok) return loaded
  const { config, members, mode } = loaded.value
  const names = members.map(member => member.name)
  if (name !== undefined && !names.includes(name)) {
    const near = nearest(name, names)
    return fail(
      'unknown',
      `there is no teammate ${name}`,
      near ? `did you mean ${near}?` : `there are ${names.join(', ')}`,
    )
  }
  const teammates = members.map(member => ({ name: member.name, role: member.role }))
  const tokens = await counter()
  const weigh = (part: string, text: string): Weight => ({
    part,
    bytes: Buffer.byteLength(text),
    tokens: tokens(text),
  })
  const weighed = []
  for (const member of members) {
    if (name !== undefined && member.name !== name) continue
    const tools = pickTools(member.tools)
    if (!tools.ok) return tools
    const { parts } = readPrefixParts(root.value, member, { teammates, lead: config.lead ?? 'user', mode })
    const schemas = tools.value.map(({ schema }) => JSON.stringify(schema)).join('\n')
    const rows = [...prefixSections(parts).map(({ part, text }) => weigh(part, text)), weigh('tools', schemas)]
    const sum = (of: 'bytes' | 'tokens') => rows.reduce((all, row) => all + row[of], 0)
    weighed.push({ name: member.name, bytes: sum('bytes'), tokens: sum('tokens'), parts: rows })
  }
  const heavy = max === undefined ? [] : weighed.filter(each => each.tokens > max)
  if (args.json) cli.out.json(weighed)
  else {
    for (const each of weighed) {
      const rows = [...each.parts, { part: 'together', bytes: each.bytes, tokens: each.tokens }]
      cli.out.say(cli.paint.bold(each.name))
      cli.out.say(
        table(
          rows.map(row => [row.part, `${row.bytes} bytes`, `${row.tokens} tokens`]),
          '  ',
        ),
      )
    }
    cli.out.note('tokens are counted as o200k has them; another model may have a few more or fewer')
  }
  for (const each of heavy) cli.out.note(`team: ${each.name} has ${each.tokens} tokens, more than ${max}`)
  return ok(heavy.length > 0 ? 1 : 0)
}
