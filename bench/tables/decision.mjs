// From a decision to what comes of it: the answer, the next call of the model that waited for it, the command that may run.
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { command, folder, isBuilt, median, notBuilt, now, product, sleep } from '../lib.mjs'
import { must } from '../team.mjs'

const repeats = 8
const open = 1_000
const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env

const callsOf = (name, ...args) => ({ calls: args.map(each => ({ name, args: each })) })

/** A team whose `worker` asks for permission to run one command, again and again; `others`: how many requests wait besides. */
const startAsking = async (others, startScripted, connect) => {
  let onCall = () => {}
  const questions = Array.from({ length: others }, (_, n) => ({ question: `Question ${n}?` }))
  const server = await startScripted(request => {
    if (request.model !== 'worker') return others > 0 ? callsOf('ask_user', ...questions) : 'Nothing to ask.'
    onCall()
    return callsOf('bash', { command: 'mkdir -p made' })
  })
  const root = folder('decision')
  mkdirSync(join(root, 'team'))
  const model = name => ({ name, model: { name } })
  writeFileSync(
    join(root, 'config.json'),
    JSON.stringify({
      mode: 'dir',
      sandbox: 'off',
      limits: { rounds: 100_000 },
      model: { provider: 'scripted', baseURL: server.baseURL },
      teammates: [model('worker'), ...(others > 0 ? [model('asker')] : [])],
    }),
  )
  const daemon = spawn(process.execPath, [command, 'up', '--root', root], { cwd: root, env, stdio: 'ignore' })
  const ended = new Promise(resolve => daemon.once('exit', resolve))
  let client
  while (client === undefined) {
    const connected = await connect(root)
    if (connected.ok) client = connected.value
    else if (daemon.exitCode !== null) throw new Error(`team up ended with ${daemon.exitCode}`)
    else await sleep(20)
  }
  const ask = async (method, params) => must(await client.call(method, params))
  const done = new Map()
  const following = new AbortController()
  const followed = client.follow(
    {},
    entry => done.get(`${entry.event} ${entry.info?.request}`)?.(now()),
    following.signal,
  )
  const event = (name, id) => new Promise(resolve => done.set(`${name} ${id}`, resolve))
  for (const { name } of others > 0 ? [model('worker'), model('asker')] : [model('worker')])
    await ask('task.add', { tasks: [{ title: `of ${name}`, assignee: name, needs: [] }] })
  /** The request that `name` waits for. */
  const parked = async name => {
    for (;;) {
      const mate = (await ask('status', {})).teammates.find(each => each.name === name)
      if (mate?.waiting?.request) return mate.waiting.request
      await sleep(5)
    }
  }
  if (others > 0) await parked('asker')

  /** Approves what the worker waits for, and measures from there, in milliseconds. */
  const cycle = async approve => {
    const id = await parked('worker')
    const ran = event('effect.done', id)
    const called = new Promise(resolve => {
      onCall = () => resolve(now())
    })
    const from = now()
    await approve(id)
    const answered = now()
    const times = { answered: answered - from, model: (await called) - from, effect: (await ran) - from }
    done.clear()
    return times
  }
  const byCommand = id =>
    new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [command, 'approve', id, '--root', root], {
        cwd: root,
        env,
        stdio: 'ignore',
      })
      child.once('exit', code => (code === 0 ? resolve() : reject(new Error(`team approve ended with ${code}`))))
    })
  const bySocket = id => ask('request.decide', { id, decision: 'approve' })
  const measure = approve => async () => {
    const all = []
    for (let i = 0; i < repeats; i++) all.push(await cycle(approve))
    return Object.fromEntries(['answered', 'model', 'effect'].map(key => [key, median(all.map(times => times[key]))]))
  }
  return {
    command: measure(byCommand),
    socket: measure(bySocket),
    async close() {
      following.abort()
      await followed
      client.close()
      // Twice, since the worker never ends its turn by itself.
      daemon.kill('SIGTERM')
      daemon.kill('SIGTERM')
      await ended
      await server.close()
    },
  }
}

export default {
  title: 'From a decision to its effect',
  method:
    'The built daemon in a process of its own; a teammate whose model is scripted, over loopback HTTP, waits for a permission. ' +
    `Approved by \`team approve\` (from the start of its process) or over the daemon's socket, ${repeats} times a turn. Answered: ` +
    'the decision is durable and told. Next model call: the request of the teammate that waited has reached the model. Effect: ' +
    `the permitted command has run and its end is on record, one model call later. Beside it nothing waits, or ${open} questions of another teammate.`,
  turns: 3,
  base: 'over the socket',
  columns: [
    { key: 'answered', label: 'answered, ms', ratio: true },
    { key: 'model', label: 'next model call, ms', ratio: true },
    { key: 'effect', label: 'effect, ms', ratio: true },
  ],
  async prepare() {
    if (!isBuilt()) return notBuilt('team approve')
    const { startScripted } = await product('src/model/scripted.ts')
    const { connect } = await product('src/store/rpc/client.ts')
    const alone = await startAsking(0, startScripted, connect)
    const among = await startAsking(open, startScripted, connect)
    return {
      variants: [
        { name: 'over the socket', measure: alone.socket },
        { name: `over the socket, ${open} more wait`, measure: among.socket },
        { name: 'team approve', measure: alone.command },
        { name: `team approve, ${open} more wait`, measure: among.command },
      ],
      missing: [],
      async close() {
        await alone.close()
        await among.close()
      },
    }
  },
}
