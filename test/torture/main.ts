import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { torture } from './world.ts'

const option = (name: string, fallback: number): number => {
  const at = process.argv.indexOf(`--${name}`)
  if (at < 0) return fallback
  const value = Number(process.argv[at + 1])
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} wants a whole number above 0`)
  return value
}

const kills = option('kills', 200)
const each = Math.min(option('each', 50), kills)
const first = option('seed', Math.floor(Math.random() * 1e9) + 1)
const began = performance.now()
let done = 0
let faults = 0
const at = new Map<string, number>()
for (let seed = first; done < kills; seed++) {
  const outcome = await torture(seed, Math.min(each, kills - done))
  done += outcome.kills
  for (const [point, times] of outcome.at) at.set(point, (at.get(point) ?? 0) + times)
  faults += outcome.faults.length
  console.log(
    `seed ${seed}: ${outcome.kills} kills, ${outcome.faults.length === 0 ? 'nothing lost, nothing twice' : `${outcome.faults.length} faults, kept in ${outcome.root}`}`,
  )
  for (const fault of outcome.faults) console.log(`  ${fault}`)
  if (outcome.faults.length === 0) rmSync(dirname(outcome.root), { recursive: true, force: true })
}
const seconds = Math.round((performance.now() - began) / 1000)
console.log(`\n${done} kills in ${seconds} s, seeds from ${first}: ${faults} faults`)
for (const [point, times] of [...at].sort()) console.log(`  ${point.padEnd(16)} ${times}`)
process.exitCode = faults === 0 ? 0 : 1
