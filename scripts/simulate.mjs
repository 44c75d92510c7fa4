// Runs the simulations for longer than the tests do: npm run simulate -- [--runs N] [--seed S] [--side N] [name]. See test/simulation/README.md.
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const top = fileURLToPath(new URL('..', import.meta.url))
const { values, positionals } = parseArgs({
  options: {
    runs: { type: 'string', default: '20000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 30)) },
    side: { type: 'string', default: String(availableParallelism()) },
  },
  allowPositionals: true,
})
for (const [name, text] of Object.entries(values))
  if (!/^\d{1,10}$/.test(text) || (name === 'side' && text === '0')) {
    console.error(`--${name} wants a whole number${name === 'side' ? ' above 0' : ''}, not ${text}`)
    process.exit(2)
  }
const [runs, seed, side] = [values.runs, values.seed, values.side].map(Number)
const args = ['run', '--project', 'simulation', '--testTimeout', '0', '--exclude', '**/mutations.test.ts']
const only = positionals[0] === undefined ? [] : ['-t', positionals[0]]

/** One process with its share of the seeds; answers its exit code, and what it said. */
const share = (count, from) =>
  new Promise(resolve => {
    const child = spawn(process.execPath, ['node_modules/vitest/vitest.mjs', ...args, ...only], {
      cwd: top,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        NO_COLOR: '1',
        FORCE_COLOR: '',
        SIMULATE_RUNS: String(count),
        SIMULATE_SEED: String(from),
      },
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8')
      stream.on('data', text => {
        said += text
      })
    }
    child.on('error', error => resolve({ code: 1, said: String(error) }))
    child.on('close', code => resolve({ code: code ?? 1, said }))
  })

console.log(`${runs} schedules each, from seed ${seed} on, ${side} side by side`)
const each = Math.floor(runs / side)
const shares = Array.from({ length: side }, (_, n) => ({
  count: each + (n < runs % side ? 1 : 0),
  from: seed + n * each + Math.min(n, runs % side),
})).filter(({ count }) => count > 0)
const ran = await Promise.all(shares.map(({ count, from }) => share(count, from)))

const rates = new Map()
for (const { said } of ran)
  for (const [, name, count, rate] of said.matchAll(/^(.+): (\d+) schedules in [\d.]+ s, (\d+) a second$/gm)) {
    const so = rates.get(name) ?? { count: 0, rate: 0 }
    rates.set(name, { count: so.count + Number(count), rate: so.rate + Number(rate) })
  }
for (const [name, { count, rate }] of rates) console.log(`${name}: ${count} schedules, ${rate} a second`)
const failed = ran.filter(({ code }) => code !== 0)
for (const { said } of failed) console.log(said)
if (rates.size === 0 && failed.length === 0) {
  console.error(`no simulation is called ${positionals[0]}`)
  process.exit(2)
}
process.exit(failed.length > 0 ? 1 : 0)
