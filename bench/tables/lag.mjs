// How far the task files lie behind the journal while the DAG of the `dag` table runs.
import { fork } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { now, quantile, sleep } from '../lib.mjs'
import { makeRoot, startTeam, task } from '../team.mjs'

const readerFile = fileURLToPath(new URL('./lag-reader.mjs', import.meta.url))
const chains = 100
const length = 20
const total = chains * length

export default {
  title: 'How far task files lie behind the journal',
  method:
    `A DAG of ${chains} chains × ${length} no-op tasks, eight teammates. For each revision of a task: from the moment it was ` +
    'durable until another process, told by fs.watch, reads that revision or a later one in the file. The reading of ' +
    'each change is part of the figure, and of the load. Shown: the changes after the handing over; all: those of the ' +
    'handing over too, where every file is new at once.',
  turns: 3,
  base: 'team',
  columns: [
    { key: 'p50', label: 'p50, ms' },
    { key: 'p99', label: 'p99, ms' },
    { key: 'worst', label: 'longest, ms' },
    { key: 'allP99', label: 'all: p99, ms' },
    { key: 'perSecond', label: 'tasks/s meanwhile' },
  ],
  async prepare() {
    const measure = async () => {
      const root = makeRoot('lag', 8)
      mkdirSync(join(root, '.tasks'))
      const reader = fork(readerFile, [join(root, '.tasks')], { serialization: 'advanced' })
      const heard = () =>
        new Promise((resolve, reject) => {
          reader.once('message', resolve)
          reader.once('exit', code => reject(new Error(`the reader ended with ${code}`)))
        }).finally(() => reader.removeAllListeners('exit'))
      await heard()
      const durable = []
      let left = total
      let allDone = () => {}
      const done = new Promise(resolve => {
        allDone = resolve
      })
      const team = await startTeam({
        root,
        onEntry({ event, put }) {
          if (put?.[0] === 'tasks') durable.push({ id: put[1], rev: put[2], at: now() })
          if (event === 'task.completed' && --left === 0) allDone()
        },
      })
      const from = now()
      const tasks = Array.from({ length: chains }, (_, c) =>
        Array.from({ length }, (_, at) => task(`c${c}-${at}`, at === 0 ? [] : [`c${c}-${at - 1}`])),
      ).flat()
      await team.ask('task.add', { tasks })
      await done
      const perSecond = (total / (now() - from)) * 1_000
      await sleep(500)
      const asked = heard()
      reader.send('end')
      const seen = await asked
      await team.stop()

      const byId = new Map()
      for (const { id, rev, at } of seen) byId.set(id, [...(byId.get(id) ?? []), { rev, at }])
      const lags = durable.map(({ id, rev, at }) => {
        const shown = byId.get(id)?.find(each => each.rev >= rev)
        // A file that went to the archive before it was read is no lag that could be known.
        return { rev, ms: shown === undefined ? undefined : Math.max(0, shown.at - at) }
      })
      const ms = which => lags.filter(which).flatMap(lag => lag.ms ?? [])
      const worked = ms(({ rev }) => rev > 1)
      return {
        p50: quantile(worked, 0.5),
        p99: quantile(worked, 0.99),
        worst: Math.max(...worked),
        allP99: quantile(
          ms(() => true),
          0.99,
        ),
        perSecond,
      }
    }
    return { variants: [{ name: 'team', measure }], missing: [], close: async () => {} }
  },
}
