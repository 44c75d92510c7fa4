import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { now } from './lib.mjs'
import { makeRoot, startTeam, task } from './team.mjs'

const snap = () =>
  Object.fromEntries(
    readdirSync('/proc/self/task').map(t => {
      const s = readFileSync(`/proc/self/task/${t}/stat`, 'utf8')
      const a = s.slice(s.lastIndexOf(')') + 2).split(' ')
      return [t, [+a[11], +a[12]]]
    }),
  )
const rounds = +(process.argv[2] ?? 3)
const prof = process.argv[3]
const s = new Session()
s.connect()
if (prof) {
  await s.post('Profiler.enable')
  await s.post('Profiler.setSamplingInterval', { interval: 100 })
}
const all = []
for (let r = 0; r < rounds; r++) {
  let left = 2001,
    allDone
  const done = new Promise(res => (allDone = res))
  const team = await startTeam({
    root: makeRoot('dag', 8),
    onEntry: ({ event }) => {
      if (event === 'task.completed' && --left === 0) allDone()
    },
  })
  const tasks = Array.from({ length: 100 }, (_, c) =>
    Array.from({ length: 20 }, (_, i) => task(`c${c}-${i}`, i === 0 ? ['gate'] : [`c${c}-${i - 1}`])),
  ).flat()
  await team.ask('task.add', { tasks })
  await new Promise(r => setTimeout(r, 300))
  if (prof && r === rounds - 1) await s.post('Profiler.start')
  const a = snap(),
    t0 = now()
  await team.ask('task.add', { tasks: [task('gate')] })
  await done
  const ms = now() - t0
  if (prof && r === rounds - 1) writeFileSync(prof, JSON.stringify((await s.post('Profiler.stop')).profile))
  const b = snap()
  const rows = Object.entries(b)
    .map(([t, [u, s]]) => [u - (a[t]?.[0] ?? 0), s - (a[t]?.[1] ?? 0)])
    .filter(x => x[0] + x[1] > 0)
    .sort((x, y) => y[0] + y[1] - x[0] - x[1])
  all.push((2000 / ms) * 1000)
  console.log(
    `${((2000 / ms) * 1000).toFixed(0)}/s  ms ${ms.toFixed(0)}  total ${rows.reduce((n, [u, s]) => n + u + s, 0) * 10} ` +
      rows
        .slice(0, 6)
        .map(([u, s]) => `u${u * 10}+s${s * 10}`)
        .join('  '),
  )
  await team.stop()
}
console.log(
  'median',
  all
    .slice(1)
    .sort((a, b) => a - b)
    [Math.floor((rounds - 1) / 2)].toFixed(0),
)
process.exit(0)
