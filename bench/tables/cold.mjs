// Starting on ten thousand tasks, and a completion that frees a thousand.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { BroadcastChannel } from 'node:worker_threads'
import { now } from '../lib.mjs'
import { makeRoot, startTeam, task } from '../team.mjs'

const many = 10_000
const dependants = 1_000

export default {
  title: `Cold start with ${many} tasks, and a completion that frees ${dependants}`,
  method:
    `Cold start: the daemon is opened on a root whose journal and task files hold ${many} tasks (which nobody may take), until ` +
    'its two teammates are idle; against reading and parsing the same files. Freed: one task completes and ' +
    `${dependants} become ready; from the moment its completion was asked for until the first of them is in a thread's hands.`,
  turns: 3,
  base: 'reading the files',
  columns: [
    { key: 'ms', label: 'ms', ratio: true },
    { key: 'freedMs', label: 'first of the freed starts after, ms' },
  ],
  async prepare() {
    const root = makeRoot('cold', 2)
    const first = await startTeam({ root })
    const tasks = Array.from({ length: many }, (_, i) =>
      task(`t${i}`, i % 10 === 0 ? [] : [`t${i - 1}`], { assignee: 'nobody' }),
    )
    for (let at = 0; at < many; at += 1_000) await first.ask('task.add', { tasks: tasks.slice(at, at + 1_000) })
    await first.stop()
    const files = () => {
      const dir = join(root, '.tasks')
      const from = now()
      let n = 0
      for (const name of readdirSync(dir))
        if (name.startsWith('task_')) n += JSON.parse(readFileSync(join(dir, name), 'utf8')).id ? 1 : 0
      if (n !== many) throw new Error(`${n} task files`)
      return { ms: now() - from }
    }
    const cold = async () => {
      const from = now()
      const team = await startTeam({ root })
      const ms = now() - from
      await team.stop()
      return { ms }
    }
    const freed = async () => {
      const team = await startTeam({ root: makeRoot('freed', 8) })
      const channel = new BroadcastChannel('bench')
      const heard = new Map()
      let onTask = () => {}
      channel.onmessage = ({ data }) => {
        if (data.task) {
          heard.set(data.task, data.at)
          onTask(data.task)
        }
      }
      await team.ask('task.add', {
        tasks: [
          task('gate', ['key'], { description: 'timed' }),
          ...Array.from({ length: dependants }, (_, i) =>
            task(`d${i}`, ['gate'], { description: i < 8 ? 'timed' : '' }),
          ),
        ],
      })
      const started = new Promise(resolve => {
        onTask = id => {
          if (id.startsWith('d')) resolve()
        }
      })
      await team.ask('task.add', { tasks: [task('key')] })
      await started
      const ms = Math.min(...[...heard].filter(([id]) => id.startsWith('d')).map(([, at]) => at)) - heard.get('gate')
      channel.close()
      await team.stop()
      return { freedMs: ms }
    }
    return {
      variants: [
        { name: 'reading the files', measure: async () => files() },
        { name: 'cold start', measure: cold },
        { name: 'freed', measure: freed },
      ],
      missing: [],
      close: async () => {},
    }
  },
}
