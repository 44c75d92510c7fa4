// A process that holds roots, for tests that kill, stop and race holders. It obeys one command a line on stdin, and says
// one JSON object a line on stdout, written synchronously so that nothing said is lost when it is killed.
import { readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { clock } from '../../src/lib/clock.ts'
import { type Holder, hold } from '../../src/store/index.ts'

const why = { event: 'warning', by: 'human' } as const
const say = (value: object) => writeSync(1, `${JSON.stringify(value)}\n`)
// Small, so that a short run goes through new epochs, snapshots and deletions too.
const limits = { segmentBytes: 20_000, replayEpochs: 2, replayBytes: 40_000, keep: { bytes: 60_000, epochs: 8 } }
const options = { version: 'test', clock, limits }
let holder: Holder | undefined

const begin = async (root: string, kind: 'daemon' | 'cli', waitMs = 10_000): Promise<Holder | undefined> => {
  const held = await hold(root, kind, { ...options, waitMs })
  if (held.ok) return held.value
  say({ fault: held.fault.code, message: held.fault.message })
  return undefined
}

const commands: Record<string, (root: string, argument: string) => Promise<void>> = {
  daemon: async root => {
    holder = await begin(root, 'daemon')
    if (holder) say({ held: holder.hello.epoch, pid: process.pid })
  },
  cli: async root => {
    holder = await begin(root, 'cli')
    if (holder) say({ held: holder.hello.epoch, pid: process.pid })
  },
  release: async () => {
    await holder?.release()
    holder = undefined
    say({ released: true })
  },
  /** Writes numbered marks and mail in bursts, saying each number once it is durable, until it is killed. */
  write: async root => {
    const store = (await begin(root, 'daemon'))?.store
    if (!store) return
    for (let n = Number(store.marks.get('counter')?.value.n ?? 0) + 1; ; ) {
      const burst: Promise<void>[] = []
      for (let size = 1 + Math.floor(Math.random() * 8); size > 0; size--, n++) {
        const number = n
        // Cut down between the two entries, the last one left its mark and did not count it.
        if (!store.marks.get(String(n)))
          store.marks.create(String(n), { n, pad: 'x'.repeat(Math.floor(Math.random() * 300)) }, why)
        const counter = store.marks.get('counter')
        const total = counter
          ? store.marks.update('counter', counter.rev, { n }, why)
          : store.marks.create('counter', { n }, why)
        if (!total.ok) throw new Error('refused')
        burst.push(total.durable.then(() => void say({ ack: number })))
      }
      await Promise.all(burst)
    }
  },
  /** Adds one to a counter, so many times, holding the root anew each time. */
  count: async (root, times) => {
    const inside = join(root, 'inside')
    for (let left = Number(times); left > 0; left--) {
      const mine = await begin(root, 'cli', 60_000)
      if (!mine) return
      try {
        writeFileSync(inside, String(process.pid), { flag: 'wx' })
      } catch {
        say({ intruder: readFileSync(inside, 'utf8') })
        writeFileSync(inside, String(process.pid))
      }
      const there = mine.store.marks.get('count')
      const n = Number(there?.value.n ?? 0) + 1
      const put = there
        ? mine.store.marks.update('count', there.rev, { n }, why)
        : mine.store.marks.create('count', { n }, why)
      if (!put.ok) throw new Error('refused')
      await put.durable
      say({ counted: n })
      rmSync(inside)
      await mine.release()
    }
    say({ done: true })
  },
}

let held = ''
process.stdin.on('data', piece => {
  held += piece
  for (let at = held.indexOf('\n'); at !== -1; at = held.indexOf('\n')) {
    const [name = '', root = '', argument = ''] = held.slice(0, at).split('\t')
    held = held.slice(at + 1)
    void commands[name]?.(root, argument)
  }
})
process.stdin.on('end', () => process.exit(0))
