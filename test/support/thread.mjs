// A stand-in for a teammate's thread: does what `member.acts` says, one act after another, then lives on.
import { parentPort, workerData } from 'node:worker_threads'

const say = message => parentPort.postMessage(message)
const { acts = ['ready'], beatMs = 50 } = workerData.member
let progress = 0
let obedient = true

let moves = 0
const beat = () => say({ t: 'beat', progress, moves })
const does = {
  ready: () => say({ t: 'ready' }),
  beat: () => {
    beat()
    setInterval(beat, beatMs)
  },
  work: () => say({ t: 'state', state: 'working', waiting: null }),
  wait: () => say({ t: 'state', state: 'waiting', waiting: { what: 'req_1', whom: 'human' } }),
  move: () => setInterval(() => moves++, beatMs / 2),
  progress: () => {
    progress++
    beat()
  },
  throw: () => {
    throw new Error('thrown on purpose')
  },
  'throw in a timer': () => setTimeout(does.throw, 1),
  reject: () => {
    void Promise.reject(new Error('rejected on purpose'))
  },
  'exit 3': () => process.exit(3),
  hang: () => {
    for (;;);
  },
  'blow the heap': () => {
    const kept = []
    for (;;) kept.push({ at: kept.length, text: `entry ${kept.length}` })
  },
  nonsense: () => {
    for (const value of ['text', null, 42, { t: 'unknown' }, { t: 'beat', progress: 'much' }, [1]]) say(value)
  },
  print: () => {
    process.stdout.write('a line\nhalf a')
    process.stdout.write('nother\n')
    process.stderr.write('a complaint\n')
  },
  flood: () => {
    for (let i = 0; i < 5_000; i++) process.stdout.write(`line ${i}\n`)
  },
  env: () => say({ t: 'event', event: 'warning', info: { env: { ...process.env }, argv: process.execArgv } }),
  ask: () => say({ t: 'req', id: 1, method: 'hello', params: {} }),
  'ask a server that never answers': () => {
    // A model request in flight: the socket stays open, and so does the wait for its answer.
    void import('node:net').then(({ connect }) =>
      connect(workerData.member.port, '127.0.0.1', () => say({ t: 'state', state: 'working', waiting: null })),
    )
  },
  bye: () => {
    say({ t: 'bye', reason: 'all done' })
    process.exit(0)
  },
  'bye without going': () => say({ t: 'bye', reason: 'all done' }),
  disobey: () => {
    obedient = false
  },
}

parentPort.on('message', message => {
  if (message.t === 'stop' && obedient) {
    say({ t: 'bye', reason: 'saved' })
    process.exit(0)
  }
  if (message.t === 'mail') does.ready()
  if (message.t === 'res') say({ t: 'event', event: 'teammate.turn', info: { answer: message } })
  if (message.t === 'unassign') does[message.reason]()
})
for (const act of acts) does[act]()
