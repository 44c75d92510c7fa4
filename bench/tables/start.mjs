// From `team up` until every teammate is idle, and what a teammate costs in memory: the built command, real threads.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { command, isBuilt, notBuilt, now } from '../lib.mjs'
import { makeRoot } from '../team.mjs'

const sizes = [4, 32, 128]

const memoryMb = pid => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024

const measure = size => async () => {
  const root = makeRoot('start', size)
  const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env
  const from = now()
  const child = spawn(process.execPath, [command, 'up', '--root', root], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let told = ''
  let readyMs
  let before
  await new Promise((resolve, reject) => {
    child.stdout.on('data', piece => {
      told += piece
      before ??= memoryMb(child.pid)
      const ready = told.match(/ is ready$/gm)?.length ?? 0
      if (ready === size && readyMs === undefined) {
        readyMs = now() - from
        resolve()
      }
    })
    child.once('exit', code => reject(new Error(`team up ended with ${code}: ${told}`)))
  })
  const all = memoryMb(child.pid)
  child.removeAllListeners('exit')
  const ended = new Promise(resolve => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
  return { seconds: readyMs / 1000, all, each: (all - before) / size }
}

export default {
  title: 'Start until all teammates are idle',
  method:
    'The built command in a process of its own, each teammate a thread with the agent loop, the model client and the tools ' +
    'loaded. Memory: resident set of the whole process when all are idle, and by how much it grew for each since its first line of output.',
  turns: 3,
  base: '4 teammates',
  columns: [
    { key: 'seconds', label: 'all idle after, s', ratio: true },
    { key: 'all', label: 'memory, MB' },
    { key: 'each', label: 'MB a teammate' },
  ],
  async prepare() {
    if (!isBuilt()) return notBuilt('team up')
    return {
      variants: sizes.map(size => ({ name: `${size} teammates`, measure: measure(size) })),
      missing: [],
      close: async () => {},
    }
  },
}
