// What it costs that every answer is on the disk: the same work with flushes that do nothing.
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const at = name => fileURLToPath(new URL(name, import.meta.url))

const measure = execArgv => () =>
  new Promise((resolve, reject) => {
    const child = fork(at('./durability-child.mjs'), [], { execArgv })
    let told
    child.once('message', sample => {
      told = sample
    })
    child.once('exit', code => (told ? resolve(told) : reject(new Error(`it ended with ${code}`))))
  })

export default {
  title: 'What durability costs',
  method:
    'The real daemon with 8 threads that complete at once what they are given: a graph of 1,000 tasks in 100 chains, then 300 messages, ' +
    'each sent when the one before was answered. Unflushed: the same code, with fsync and fdatasync replaced by nothing in that ' +
    'process (`node --require`); the product has no such switch.',
  turns: 5,
  base: 'unflushed',
  columns: [
    { key: 'tasks', label: 'tasks/s', ratio: true },
    { key: 'sendMs', label: 'a message answered after, ms (p50)', ratio: true },
  ],
  async prepare() {
    return {
      variants: [
        { name: 'flushed (the product)', measure: measure([]) },
        { name: 'unflushed', measure: measure(['--require', at('./durability-preload.cjs')]) },
      ],
      missing: [],
      close: async () => {},
    }
  },
}
