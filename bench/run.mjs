// node bench/run.mjs [table…] [--turns n]: measures the tables named, or all, and prints them as Markdown with the method,
// the versions and the machine. Ratios are of one run; absolute figures of a shared machine swing by a factor of two.
// The samples go to bench/results/<table>.json. Exit code 1 when a table could not be measured by a fault, 2 for wrong use.
import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { cleanUp, folder, inTurns, machine, render, rowsOf, syncCost, top } from './lib.mjs'

// A daemon that a table kills stays dead.
process.env.TEAM_PARENT = 'off'

const here = join(top, 'bench')
const known = readdirSync(join(here, 'tables'))
  .filter(file => file.endsWith('.mjs') && !/-(writer|reader|child)\.mjs$/.test(file))
  .map(file => file.slice(0, -'.mjs'.length))
  .sort()

const readArguments = () => {
  try {
    const options = { turns: { type: 'string' }, list: { type: 'boolean' }, one: { type: 'string' } }
    return parseArgs({ allowPositionals: true, options })
  } catch (error) {
    return misused(error.message)
  }
}
const misused = why => {
  process.stderr.write(`${why}\nuse: node bench/run.mjs [${known.join('|')}]… [--turns n] [--list]\n`)
  process.exit(2)
}

const { values, positionals } = readArguments()
const unknown = positionals.filter(name => !known.includes(name))
if (unknown.length > 0) misused(`no table named ${unknown.join(', ')}`)
const turns = values.turns === undefined ? undefined : Number(values.turns)
if (turns !== undefined && !(Number.isInteger(turns) && turns > 0)) misused('--turns takes a whole number above 0')
if (values.list) {
  process.stdout.write(`${known.join('\n')}\n`)
  process.exit(0)
}

const say = (text = '') => process.stdout.write(`${text}\n`)
const progress = text => {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

/** One sample of a variant, from a process that runs nothing else: the last of as many runs as the table says. */
const apart = (table, variant) =>
  new Promise((resolve, reject) => {
    const args = [fileURLToPath(import.meta.url), table, '--one', variant]
    execFile(process.execPath, args, { encoding: 'utf8' }, (error, stdout) =>
      error ? reject(error) : resolve(JSON.parse(stdout)),
    )
  })

/** The process of `apart`. */
const one = async (name, wanted) => {
  const { default: table } = await import(`./tables/${name}.mjs`)
  const { variants, close } = await table.prepare()
  let sample
  for (let run = 0; run < table.apart; run++) sample = await variants.find(({ name }) => name === wanted).measure()
  await close()
  cleanUp()
  // What a peer's library leaves open is nobody's business any more.
  await new Promise(resolve => process.stdout.write(JSON.stringify(sample), resolve))
  process.exit()
}
if (values.one !== undefined) await one(positionals[0], values.one)

const measure = async name => {
  const { default: table } = await import(`./tables/${name}.mjs`)
  const count = turns ?? table.turns
  const before = { load: loadavg()[0], syncMs: syncCost(folder('cost')) }
  const { versions = {}, variants, missing, close } = await table.prepare()
  try {
    const samples = await inTurns(
      table.apart ? variants.map(variant => ({ ...variant, measure: () => apart(name, variant.name) })) : variants,
      count,
      (variant, turn, of) => progress(`${name}: ${variant}, ${turn === 0 ? 'warming up' : `turn ${turn} of ${of}`}`),
      table.apart ? 1 : 0,
    )
    const rows = rowsOf(table, samples)
    progress('')
    say(`\n## ${table.title}\n`)
    say(render(table, rows, missing))
    const by = Object.entries(versions).map(([what, version]) => `${what} ${version}`)
    say(`\n${table.method} Medians of ${count} turn${count === 1 ? '' : 's'}${by.length ? `; ${by.join(', ')}` : ''}.`)
    say(`Load before ${before.load.toFixed(2)}; append and fdatasync ${before.syncMs.toFixed(3)} ms.`)
    return { name, turns: count, versions, before, rows, missing, samples: Object.fromEntries(samples) }
  } finally {
    await close()
  }
}

const on = machine()
say(`# Benchmark\n\nNode ${on.node}, commit ${on.commit}, ${on.cpu}, Linux ${on.kernel}, files on ${on.files}.`)
const results = join(here, 'results')
mkdirSync(results, { recursive: true })
let faults = 0
for (const name of positionals.length > 0 ? positionals : known) {
  try {
    const result = { at: new Date().toISOString(), machine: on, ...(await measure(name)) }
    writeFileSync(join(results, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`)
  } catch (error) {
    faults++
    progress('')
    say(`\n## ${name}\n\ncould not be measured: ${error instanceof Error ? error.stack : error}`)
  } finally {
    cleanUp()
  }
}
say('\nSamples: bench/results/')
process.exitCode = faults > 0 ? 1 : 0
