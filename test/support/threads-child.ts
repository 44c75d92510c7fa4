// Runs threads in a process of its own, so that a test may stop and continue the whole of it. Says what happens on
// stdout, and `tick` ten times a second; ends when stdin does.
import { clock } from '../../src/lib/clock.ts'
import { Threads } from '../../src/supervisor/threads.ts'
import { actor } from './actor.ts'

const say = (text: string) => process.stdout.write(`${text}\n`)
const [entry = ''] = process.argv.slice(2)
const threads = new Threads({
  entry,
  threadEnv: {},
  limits: { heapMb: 64, heartbeatSeconds: 1, stuckSeconds: 300, restarts: 5 },
  clock,
  on: {
    message: () => undefined,
    state: (name, { state }) => say(`${name} ${state}`),
    excused: () => false,
    died: (name, why) => say(`${name} died: ${why}`),
    failed: (name, why) => say(`${name} failed: ${why}`),
  },
})
threads.start(actor('alice', ['ready', 'beat']))
setInterval(() => say('tick'), 100)
process.stdin.on('end', () => void threads.close().then(() => process.exit(0))).resume()
