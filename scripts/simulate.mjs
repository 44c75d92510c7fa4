// Runs the simulations for longer than the tests do: npm run simulate -- [--runs N] [--seed S] [name]. See test/simulation/README.md.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const top = fileURLToPath(new URL('..', import.meta.url))
const { values, positionals } = parseArgs({
  options: { runs: { type: 'string', default: '20000' }, seed: { type: 'string' } },
  allowPositionals: true,
})
const numbers = {
  SIMULATE_RUNS: values.runs,
  SIMULATE_SEED: values.seed ?? String(Math.floor(Math.random() * 2 ** 30)),
}
for (const [name, text] of Object.entries(numbers))
  if (!/^\d{1,10}$/.test(text)) {
    console.error(`${name.endsWith('RUNS') ? '--runs' : '--seed'} wants a whole number, not ${text}`)
    process.exit(2)
  }
console.log(`${numbers.SIMULATE_RUNS} schedules each, from seed ${numbers.SIMULATE_SEED} on`)
const args = [
  'node_modules/vitest/vitest.mjs',
  'run',
  '--project',
  'simulation',
  '--testTimeout',
  '0',
  '--exclude',
  '**/mutations.test.ts',
]
const only = positionals[0] === undefined ? [] : ['-t', positionals[0]]
const child = spawn(process.execPath, [...args, ...only], {
  cwd: top,
  stdio: 'inherit',
  env: { ...process.env, ...numbers },
})
child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)))
