// One run of a graph of tasks, then of messages, through the daemon in a process of its own; says how long each took.
import { cleanUp, now } from '../lib.mjs'
import { makeRoot, startTeam, task } from '../team.mjs'

// esbuild's own process keeps nobody alive.
setInterval(() => {}, 60_000)
await globalThis.benchUnflushed
const chains = 100
const length = 10
let left = chains * length
let done = () => {}
const all = new Promise(resolve => {
  done = resolve
})
const team = await startTeam({
  root: makeRoot('durability', 8),
  onEntry(entry) {
    if (entry.event === 'task.completed' && --left === 0) done()
  },
})
const graph = Array.from({ length: chains }, (_, chain) =>
  Array.from({ length }, (_, at) => task(`c${chain}-${at}`, at === 0 ? [] : [`c${chain}-${at - 1}`])),
).flat()
const from = now()
await team.ask('task.add', { tasks: graph })
await all
const graphMs = now() - from
const answered = []
for (let n = 0; n < 300; n++) {
  const at = now()
  await team.ask('message.send', { to: 't-1', content: `message ${n}` })
  answered.push(now() - at)
}
await team.stop()
cleanUp()
process.send({ tasks: (chains * length) / (graphMs / 1000), sendMs: answered.sort((a, b) => a - b)[150] }, () =>
  process.exit(),
)
