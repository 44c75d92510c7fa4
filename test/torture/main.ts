import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { points } from '../../src/lib/points.ts'
import type { Kind } from './ground.ts'
import { type Outcome, torture } from './world.ts'

const option = (name: string, fallback: number): number => {
  const at = process.argv.indexOf(`--${name}`)
  if (at < 0) return fallback
  const value = Number(process.argv[at + 1])
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} wants a whole number above 0`)
  return value
}

const kills = option('kills', 200)
const each = Math.min(option('each', 40), kills)
const first = option('seed', Math.floor(Math.random() * 1e9) + 1)
const side = option('side', 3)
/** Seconds after which no daemon is started to be killed any more. */
const within = option('within', 1_000_000)

const isBoxed = (): boolean => {
  try {
    execFileSync('bwrap', ['--ro-bind', '/', '/', '--unshare-all', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
const boxed: Kind = isBoxed() ? 'boxed' : 'git'
/** By the seed, so that the same seed is the same world. */
const kindOf = (seed: number): Kind => (['git', 'dir', boxed, 'git'] as const)[seed % 4] ?? 'git'

const began = performance.now()
let next = first
let due = 0
let done = 0
let bad = 0
const at = new Map<string, number>()
const failures: string[] = []

const tell = (seed: number, o: Outcome): void => {
  done += o.kills
  for (const [point, times] of o.at) at.set(point, (at.get(point) ?? 0) + times)
  const isSound = o.faults.length === 0
  if (!isSound) bad++
  const how = isSound ? 'nothing lost, nothing twice' : `${o.faults.length} faults, kept in ${o.ground.root}`
  const lines = [
    `${isSound ? 'ok    ' : 'FAILED'} seed ${seed} (${o.ground.kind}): ${o.kills} kills in ${o.seconds} s, ${how}`,
  ]
  for (const fault of o.faults) lines.push(`  ${fault.replaceAll('\n', '\n  ')}`)
  if (!isSound) lines.push(`  again: npm run torture -- --seed ${seed} --kills ${each} --each ${each}`)
  console.log(lines.join('\n'))
  if (!isSound) failures.push(...lines)
  if (isSound) rmSync(o.ground.folder, { recursive: true, force: true })
}

const isOver = (): boolean => performance.now() - began > within * 1000

/** Worlds side by side, begun until enough kills are due. */
const one = async (): Promise<void> => {
  while (due < kills && !isOver()) {
    const seed = next++
    due += each
    tell(seed, await torture(seed, each, kindOf(seed), isOver))
  }
}
await Promise.all(Array.from({ length: side }, one))

const worlds = next - first
const seconds = Math.round((performance.now() - began) / 1000)
console.log(
  `\n${done} kills in ${seconds} s (${(seconds / Math.max(1, done)).toFixed(2)} s each), seeds ${first} to ${next - 1}`,
)
for (const [point, times] of [...at].sort(([a], [b]) => (a < b ? -1 : 1))) console.log(`  ${point.padEnd(28)} ${times}`)
const missed = points.filter(point => !at.has(point))
if (missed.length > 0) console.log(`  never hit: ${missed.join(', ')}`)
// As the tests' own summary, so that whoever counts these counts the worlds too.
if (bad > 0) console.log(`\n Failed Tests ${bad}\n\n${failures.join('\n')}\n`)
console.log(`\n Test Files  1`)
console.log(`      Tests  ${bad > 0 ? `${bad} failed | ` : ''}${worlds - bad} passed (${worlds})`)
process.exitCode = bad === 0 ? 0 : 1
