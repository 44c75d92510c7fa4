// From a foreign process's append to the watcher's reading of it.
import { fork } from 'node:child_process'
import { closeSync, openSync, readSync, watch as watchBare } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folder, now, product, quantile, sleep, top, versionOf } from '../lib.mjs'

const writerFile = fileURLToPath(new URL('./watch-writer.mjs', import.meta.url))
const quietMs = 400
const gaps = [1, 5, 20, 40]
const pairs = 6

/** Reads whole lines from where it stands to the end, and notes when each was seen. */
const reader = file => {
  const fd = openSync(file, 'a+')
  const buffer = Buffer.alloc(1 << 20)
  const seen = []
  let at = 0
  let rest = ''
  return {
    seen,
    read() {
      const before = seen.length
      for (let n = readSync(fd, buffer, 0, buffer.length, at); n > 0; n = readSync(fd, buffer, 0, buffer.length, at)) {
        at += n
        const lines = (rest + buffer.toString('latin1', 0, n)).split('\n')
        rest = lines.pop()
        for (const line of lines) {
          const { id, at: written } = JSON.parse(line)
          seen.push({ id, ms: now() - written })
        }
      }
      return seen.length - before
    },
    close: () => closeSync(fd),
  }
}

const chokidarBy = (watch, events) => async (dir, onHint) => {
  const watcher = watch(dir, { ignoreInitial: true })
  await new Promise(resolve => watcher.once('ready', resolve))
  for (const event of events) watcher.on(event, onHint)
  return () => watcher.close()
}

export default {
  title: 'From a foreign append to its reading',
  method:
    'A process appends lines of 250 bytes to one file; the watcher reads from its cursor to the end at each hint. Paced: ' +
    `100 lines, one in about 20 ms. Burst: 5,000 lines at once, what is still unread after ${quietMs} ms of quiet (worst ` +
    `turn). Pairs: two lines ${gaps.join(', ')} ms apart, ${pairs} of each, how many second lines were not read within 100 ms ` +
    '(worst turn). No sweep helps within that time but the one that a variant names.',
  turns: 2,
  base: 'chokidar change',
  columns: [
    { key: 'p50', label: 'paced p50, ms', ratio: true },
    { key: 'p99', label: 'paced p99, ms' },
    { key: 'unread', label: 'burst: unread', take: 'worst' },
    { key: 'late', label: `pairs: late of ${pairs * gaps.length}`, take: 'worst' },
  ],
  async prepare() {
    const { watch } = await import('chokidar')
    const { watchFolder } = await product('src/store/files/watch.ts')
    const writer = fork(writerFile, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    const write = order =>
      new Promise((resolve, reject) => {
        writer.once('message', resolve)
        writer.once('exit', code => reject(new Error(`the writer ended with ${code}`)))
        writer.send(order)
      }).finally(() => writer.removeAllListeners('exit'))

    const run = async (begin, order) => {
      const dir = folder('watch')
      const file = join(dir, 'inbox.jsonl')
      const inbox = reader(file)
      const end = await begin(dir, () => inbox.read())
      await sleep(50)
      await write({ file, ...order })
      await sleep(quietMs)
      const unread = inbox.read()
      await end()
      inbox.close()
      return { unread, seen: inbox.seen }
    }

    const measure = begin => async () => {
      const paced = await run(begin, { kind: 'paced', count: 100, gap: 20 })
      const burst = await run(begin, { kind: 'burst', count: 5_000 })
      let late = 0
      for (const gap of gaps) {
        const read = await run(begin, { kind: 'pairs', count: pairs, gap })
        late += read.seen.filter(({ id, ms }) => id % 2 === 1 && ms > 100).length
      }
      const ms = paced.seen.slice(10).map(each => each.ms)
      return { p50: quantile(ms, 0.5), p99: quantile(ms, 0.99), unread: burst.unread, late }
    }

    const clock = { wall: () => Date.now(), mono: now }
    return {
      versions: { chokidar: versionOf('chokidar', top) },
      variants: [
        { name: 'chokidar change', measure: measure(chokidarBy(watch, ['add', 'change'])) },
        { name: 'chokidar raw', measure: measure(chokidarBy(watch, ['raw'])) },
        {
          name: 'fs.watch',
          measure: measure(async (dir, onHint) => {
            const watcher = watchBare(dir, onHint)
            return () => watcher.close()
          }),
        },
        {
          name: "the team's watch (raw, second look, sweep 2 s)",
          measure: measure(async (dir, onHint) => {
            const watching = watchFolder(dir, {
              onHint: file => {
                if (file === null || basename(file) === 'inbox.jsonl') onHint()
              },
              clock,
            })
            await watching.ready
            return () => watching.close()
          }),
        },
      ],
      missing: [],
      async close() {
        writer.disconnect()
      },
    }
  },
}
