// Many teammates contend for few leases: how long they wait, how fair that is, and whether two ever held one at once.
import { BroadcastChannel } from 'node:worker_threads'
import { quantile } from '../lib.mjs'
import { makeRoot, startTeam } from '../team.mjs'

const teammates = 64
const leases = 8
const rounds = 4
const hold = 5

export default {
  title: 'Leases under contention',
  method:
    `The real daemon, ${teammates} teammates whose threads take ${leases} named leases in turns, ${rounds} times each, and hold each for ` +
    `${hold} ms. From asking until it is held (durable, and known to the thread). "Unfair": the longest wait against the mean; served in ` +
    'turn, the last of a queue that fills at once waits twice the mean. "Handing on": from one holder letting go until the next knows. "Two ' +
    'holders": pairs of turns of one lease that overlap in time, by the clock that all threads share, or whose fencing numbers do not rise.',
  turns: 3,
  base: 'named leases',
  columns: [
    { key: 'mean', label: 'mean wait, ms' },
    { key: 'longest', label: 'longest wait, ms' },
    { key: 'unfair', label: 'unfair', take: 'worst' },
    { key: 'handing', label: 'handing on p50, ms' },
    { key: 'perSecond', label: 'leases a second' },
    { key: 'double', label: 'two holders', take: 'worst' },
  ],
  async prepare() {
    const root = makeRoot('leases', teammates)
    const team = await startTeam({ root })
    const channel = new BroadcastChannel('bench')
    const names = Array.from({ length: teammates }, (_, i) => `t-${i + 1}`)
    const measure = async () => {
      const turns = []
      const all = new Promise(resolve => {
        channel.onmessage = ({ data }) => {
          if (data.lease && turns.push(data) === teammates * rounds) resolve()
        }
      })
      channel.postMessage({ contending: { leases, rounds, hold, names } })
      await all
      const waits = turns.map(({ asked, had }) => had - asked)
      const mean = waits.reduce((sum, ms) => sum + ms, 0) / waits.length
      const longest = Math.max(...waits)
      const handing = []
      let double = 0
      for (let i = 0; i < leases; i++) {
        const held = turns.filter(({ lease }) => lease === `lease-${i}`).sort((a, b) => a.fence - b.fence)
        for (const [at, next] of held.entries()) {
          const before = held[at - 1]
          if (!before) continue
          if (next.had < before.gave || next.fence <= before.fence) double++
          if (next.asked < before.gave) handing.push(next.had - before.gave)
        }
      }
      const ms = Math.max(...turns.map(({ gave }) => gave)) - Math.min(...turns.map(({ asked }) => asked))
      return {
        mean,
        longest,
        unfair: longest / mean,
        handing: quantile(handing, 0.5),
        perSecond: turns.length / (ms / 1000),
        double,
      }
    }
    return {
      variants: [{ name: 'named leases', measure }],
      missing: [],
      async close() {
        channel.close()
        await team.stop()
      },
    }
  },
}
