// From sending a message until it is in the receiving teammate's hands; and from a foreign append until it is.
import { fork } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BroadcastChannel } from 'node:worker_threads'
import { quantile, sleep } from '../lib.mjs'
import { makeRoot, startTeam } from '../team.mjs'

const writerFile = fileURLToPath(new URL('./message-writer.mjs', import.meta.url))
const paced = 150
const burst = 5_000
const gaps = [1, 5, 20, 50]
const pairs = 10

export default {
  title: 'From a message to the receiving thread',
  method:
    `The real daemon, two teammates whose threads read and acknowledge what they are hinted at. Paced: ${paced} messages, one in ` +
    'about 20 ms, from the sending call until the receiver has read it; durable before the receiver hears of it. "teammate": sent by ' +
    'one thread to the other. "foreign append": a process appends lines to the inbox file. ' +
    `Stuck: of a burst of ${burst} lines, and of two lines ${gaps.join(', ')} ms apart (${pairs} of each), how many were never read.`,
  turns: 3,
  base: 'teammate',
  columns: [
    { key: 'p50', label: 'paced p50, ms', ratio: true },
    { key: 'p99', label: 'paced p99, ms' },
    { key: 'burstMs', label: 'burst read after, ms' },
    { key: 'stuck', label: 'stuck', take: 'worst' },
  ],
  async prepare() {
    const root = makeRoot('message', 2)
    mkdirSync(join(root, '.messages'), { recursive: true })
    const team = await startTeam({ root })
    const channel = new BroadcastChannel('bench')
    let heard = () => {}
    channel.onmessage = ({ data }) => {
      if (data.mail && data.name === 't-2') for (const content of data.mail) heard(content, data.at)
    }
    /** Runs `send`, and waits until `count` messages came, or nothing came for five seconds. */
    const receive = async (count, send) => {
      const seen = []
      let last = Date.now()
      heard = (content, at) => {
        last = Date.now()
        seen.push({ ms: at - Number(content.split(' ')[1]), at })
      }
      const first = await send()
      while (seen.length < count && Date.now() - last < 5_000) await sleep(20)
      heard = () => {}
      return { seen, stuck: count - seen.length, from: first }
    }
    const figures = async send => {
      const slow = await receive(paced, () => send({ count: paced, gap: 20 }))
      const from = process.hrtime.bigint()
      const fast = await receive(burst, () => send({ count: burst, gap: 0 }))
      let { stuck } = fast
      for (const gap of gaps)
        for (let i = 0; i < pairs; i++) stuck += (await receive(2, () => send({ count: 2, gap, exact: true }))).stuck
      const ms = slow.seen.map(each => each.ms)
      return {
        p50: quantile(ms, 0.5),
        p99: quantile(ms, 0.99),
        burstMs: Math.max(...fast.seen.map(each => each.at)) - Number(from) / 1e6,
        stuck: stuck + slow.stuck,
      }
    }
    const writer = fork(writerFile, [join(root, '.messages', 't-2.inbox.jsonl')])
    await new Promise(resolve => writer.once('message', resolve))
    return {
      variants: [
        {
          name: 'teammate',
          measure: () => figures(async what => channel.postMessage({ from: 't-1', to: 't-2', ...what })),
        },
        { name: 'foreign append', measure: () => figures(async what => writer.send(what)) },
      ],
      missing: [],
      async close() {
        writer.disconnect()
        channel.close()
        await team.stop()
      },
    }
  },
}
