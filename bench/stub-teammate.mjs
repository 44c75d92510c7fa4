// The thread entry of teammates that think nothing: what it is given it completes at once, what mail it is hinted at it
// takes in. Measures, on a channel of its own beside the daemon, when things reached it.
import { BroadcastChannel, parentPort, workerData } from 'node:worker_threads'

const { name } = workerData
const channel = new BroadcastChannel('bench')
const now = () => Number(process.hrtime.bigint()) / 1e6
const post = message => parentPort.postMessage(message)
const idle = () => post({ t: 'state', state: 'idle', waiting: null })

const waiting = new Map()
let asked = 0
const ask = (method, params, then) => {
  waiting.set(++asked, then)
  post({ t: 'req', id: asked, method, params })
}

// A hint that comes while a page is under way asks for one more.
let read = 0
let reading = false
let due = false
const readMail = () => {
  due = true
  if (reading) return
  due = false
  reading = true
  ask('inbox.read', { name, after: read }, ({ items, last }) => {
    const at = now()
    channel.postMessage({ name, mail: items.map(({ stored }) => stored.message.content), at })
    for (const { stored } of items) granted.get(stored.message.requestId)?.()
    // A page ends at a thousand.
    read = Math.max(read, ...items.map(({ index }) => index), items.length === 0 ? last : 0)
    ask('inbox.ack', { name, upTo: read }, () => {
      reading = false
      if (due || read < last) readMail()
    })
  })
}

// Takes a lease `rounds` times, holds it for `hold` ms and gives it back. Each turn says when it asked, had it and let go.
const granted = new Map()
const call = (method, params) => new Promise(resolve => ask(method, params, resolve))
const contend = async ({ leases, rounds, hold, first }) => {
  for (let round = 0; round < rounds; round++) {
    const lease = `lease-${(first + round) % leases}`
    const asked = now()
    const data = { kind: 'name', what: [lease], seconds: 600 }
    let { request } = await call('request.open', { type: 'resource_request', title: `${lease} ${round}`, data })
    const { id } = request
    // The decision may be there before this is: then the request says so.
    const decided = new Promise(resolve => granted.set(id, resolve))
    if (request.outcome === null) {
      await decided
      request = (await call('request.get', { id })).request
    }
    granted.delete(id)
    const had = now()
    await new Promise(resolve => setTimeout(resolve, hold))
    const gave = now()
    await call('request.withdraw', { id })
    channel.postMessage({ name, lease, fence: request.effect.fence, asked, had, gave })
  }
}

const acts = {
  assign({ task }) {
    const timed = task.description === 'timed'
    if (timed) channel.postMessage({ name, task: task.id, at: now() })
    ask('task.complete', { summary: 'nothing to do' }, () => {
      if (timed) channel.postMessage({ name, completed: task.id, at: now() })
    })
    idle()
  },
  res({ id, ok, value, fault }) {
    const then = waiting.get(id)
    waiting.delete(id)
    if (!ok) throw new Error(`${name} was refused: ${fault.message}`)
    then(value)
  },
  mail: readMail,
  unassign() {},
  stop({ reason }) {
    clearInterval(beating)
    channel.close()
    post({ t: 'bye', reason })
    parentPort.close()
  },
}
// What is of no use to it (who is on the team, which rules hold) it passes over.
parentPort.on('message', message => acts[message.t]?.(message))

let beats = 0
const beat = () => post({ t: 'beat', progress: beats++ })
const beating = setInterval(beat, 2_000)
beat()

// Sends what it is told to: each message says when it was sent. Or contends for leases, when all are told to.
channel.onmessage = async ({ data: { from, to, count, gap, contending } }) => {
  if (contending) return contend({ ...contending, first: contending.names.indexOf(name) })
  if (from !== name) return
  for (let i = 0; i < count; i++) {
    ask('message.send', { to, content: `${i} ${now()}` }, () => {})
    if (gap > 0) await new Promise(resolve => setTimeout(resolve, gap * (0.5 + Math.random())))
  }
}
post({ t: 'ready' })
