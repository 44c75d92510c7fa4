// What every table of the benchmark needs: time, medians, variants measured in turns, temporary folders, a machine's facts.
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { cpus, loadavg, release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export const top = fileURLToPath(new URL('..', import.meta.url))

/** The built command. */
export const command = join(top, 'dist', 'team.cjs')
export const isBuilt = () => existsSync(command)
/** What a table that runs `name` is without it. */
export const notBuilt = name => ({
  variants: [],
  missing: [{ name, why: 'dist/ is not built (npm run build)' }],
  close: async () => {},
})

/** Milliseconds of the monotonic clock, which all threads and processes of a machine share. */
export const now = () => Number(process.hrtime.bigint()) / 1e6
export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

/** The value below which the share `p` of the values lies. */
export const quantile = (values, p) => {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))]
}
export const median = values => quantile(values, 0.5)

const folders = []
/** A new folder below BENCH_DIR (or the system's temporary folder), removed by `cleanUp`. */
export const folder = name => {
  const path = mkdtempSync(join(process.env.BENCH_DIR ?? tmpdir(), `team-bench-${name}-`))
  folders.push(path)
  return path
}
export const cleanUp = () => {
  bundles.clear()
  for (const path of folders.splice(0)) rmSync(path, { recursive: true, force: true })
}

/** A port of the loopback interface that nobody listens on. */
export const freePort = () =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

/** What a program prints, trimmed; null when it cannot be run. */
export const output = (program, ...args) => {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return null
  }
}

export const versionOf = (name, from = join(top, 'bench')) =>
  JSON.parse(readFileSync(join(from, 'node_modules', name, 'package.json'), 'utf8')).version

const bundles = new Map()
/** The path of a module of the product, bundled from its TypeScript source as the build does; made once. */
export const bundle = entry => {
  if (!bundles.has(entry)) bundles.set(entry, makeBundle(entry))
  return bundles.get(entry)
}
/** The module itself. */
export const product = async entry => import(pathToFileURL(await bundle(entry)).href)

const makeBundle = async entry => {
  const { build } = await import(pathToFileURL(join(top, 'node_modules/esbuild/lib/main.js')).href)
  const cache = join(top, 'node_modules', '.cache')
  mkdirSync(cache, { recursive: true })
  const dir = mkdtempSync(join(cache, 'bench-'))
  folders.push(dir)
  const outfile = join(dir, 'bundle.mjs')
  await build({
    entryPoints: [join(top, entry)],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'error',
    banner: { js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);" },
  })
  return outfile
}

/**
 * Measures the variants in turns, so that what slows the machine slows all of them: one unmeasured turn, then `count`
 * turns, in reverse order every other time. A variant gives an object of numbers; the samples of each are returned.
 */
export const inTurns = async (variants, count, onTurn = () => {}, from = 0) => {
  const samples = new Map(variants.map(({ name }) => [name, []]))
  for (let turn = from; turn <= count; turn++) {
    const order = turn % 2 === 0 ? variants : [...variants].reverse()
    for (const { name, measure } of order) {
      onTurn(name, turn, count)
      const sample = await measure()
      if (turn > 0) samples.get(name).push(sample)
    }
  }
  return samples
}

/** One figure of several samples: the median, or the worst where a single bad one counts. */
const figure = (samples, { key, take = 'median' }) => {
  const values = samples.map(sample => sample[key]).filter(value => value !== undefined)
  if (values.length === 0) return undefined
  return take === 'worst' ? Math.max(...values) : median(values)
}

const digits = value => {
  if (value === undefined) return '-'
  if (value === 0 || value >= 1_000) return String(Math.round(value))
  return value.toPrecision(3)
}

/**
 * The rows of a table: a figure for each column, and for columns with `ratio` how it stands to the `base` variant's in
 * this run.
 */
export const rowsOf = ({ columns, base }, samples) => {
  const figures = new Map([...samples].map(([name, each]) => [name, columns.map(column => figure(each, column))]))
  const against = figures.get(base)
  return [...figures].map(([name, values]) => ({
    name,
    values: Object.fromEntries(columns.map(({ key }, i) => [key, values[i]])),
    ratios: Object.fromEntries(
      columns.flatMap(({ key, ratio }, i) =>
        ratio && against?.[i] && values[i] !== undefined ? [[key, values[i] / against[i]]] : [],
      ),
    ),
  }))
}

/** A table as Markdown. */
export const render = ({ columns, base }, rows, missing) => {
  const heads = columns.flatMap(({ label, ratio }) => (ratio ? [label, `× ${base}`] : [label]))
  const lines = [`| | ${heads.join(' | ')} |`, `|---|${heads.map(() => '---:').join('|')}|`]
  for (const { name, values, ratios } of rows) {
    const cells = columns.flatMap(({ key, ratio }) =>
      ratio ? [digits(values[key]), digits(ratios[key])] : [digits(values[key])],
    )
    lines.push(`| ${name} | ${cells.join(' | ')} |`)
  }
  for (const { name, why } of missing) lines.push(`| ${name} | not measured: ${why} |${' |'.repeat(heads.length - 1)}`)
  return lines.join('\n')
}

/** Median time of an append of 300 bytes with fdatasync in `dir`, in milliseconds: what durability costs here and now. */
export const syncCost = dir => {
  const fd = openSync(join(dir, 'sync-cost'), 'a')
  const line = Buffer.alloc(300, 'x')
  const times = []
  for (let i = 0; i < 200; i++) {
    const from = now()
    writeSync(fd, line)
    fdatasyncSync(fd)
    times.push(now() - from)
  }
  closeSync(fd)
  return median(times)
}

/** The machine and the versions, for the head of a report. */
export const machine = () => ({
  node: process.version,
  commit: output('git', '-C', top, 'rev-parse', '--short', 'HEAD'),
  cpu: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}`,
  kernel: release(),
  files: output('stat', '-f', '-c', '%T', process.env.BENCH_DIR ?? tmpdir()) ?? 'unknown',
  load: loadavg()[0],
})
