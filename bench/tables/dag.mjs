// Tasks a second through a graph of dependencies, each step durable.
import { rmSync } from 'node:fs'
import { now, versionOf } from '../lib.mjs'
import { missingRedis, redisVersion, startRedis } from '../redis.mjs'
import { makeRoot, startTeam, task } from '../team.mjs'

const chains = 100
const length = 20
const concurrency = 8
const total = chains * length
const removed = { removeOnComplete: true, removeOnFail: true }

/** Counts what is completed (answered by the server, so on its disk) up to the whole graph. */
const countdown = worker =>
  new Promise((resolve, reject) => {
    let left = total
    worker.on('completed', () => {
      if (--left === 0) resolve()
    })
    worker.on('failed', (_, error) => reject(error))
    worker.on('error', reject)
  })

const chained = first =>
  Array.from({ length: chains }, (_, chain) =>
    Array.from({ length }, (_, at) => task(`c${chain}-${at}`, at === 0 ? first : [`c${chain}-${at - 1}`])),
  ).flat()

/** One run of the daemon on a root of its own. Gated: the graph is handed over first, and waits for one task more. */
const measureTeam = gated => async () => {
  let left = total + (gated ? 1 : 0)
  let allDone = () => {}
  const done = new Promise(resolve => {
    allDone = resolve
  })
  const onEntry = ({ event }) => {
    if (event === 'task.completed' && --left === 0) allDone()
  }
  const team = await startTeam({ root: makeRoot('dag', concurrency), onEntry })
  let from = now()
  await team.ask('task.add', { tasks: chained(gated ? ['gate'] : []) })
  const handoverMs = now() - from
  if (gated) {
    from = now()
    await team.ask('task.add', { tasks: [task('gate')] })
  }
  await done
  const perSecond = (total / (now() - from)) * 1_000
  await team.stop()
  rmSync(team.root, { recursive: true })
  return { perSecond, handoverMs }
}

export default {
  title: `Durable no-op tasks a second through a DAG of ${chains} chains × ${length}`,
  method:
    `${concurrency} at a time, handlers that return at once; time from handing over the first task until the last is ` +
    'completed on the disk. The team: the real daemon with one thread a teammate, each of which completes what it is ' +
    'given at once; the graph is handed over as one durable call, each start and completion is on the disk before anyone ' +
    'is told, and the task files follow. Drained: the graph waits, handed over, for one task more. BullMQ runs its handlers in the measuring process (its best case), on redis-server with ' +
    '`appendonly yes`, `appendfsync always`, over loopback. Chained: a handler adds its dependant. Flow: the whole graph ' +
    'is handed over by FlowProducer first, while the worker runs; "flow, drained" begins when all of it is handed over. ' +
    'Each sample is the last of four runs in a process that runs nothing else.',
  turns: 3,
  // A daemon and a worker have processes of their own, and live long.
  apart: 4,
  base: 'BullMQ, chained',
  columns: [
    { key: 'perSecond', label: 'tasks/s', ratio: true },
    { key: 'handoverMs', label: 'handing over, ms' },
  ],
  async prepare() {
    const team = [
      { name: 'team', measure: measureTeam(false) },
      { name: 'team, drained', measure: measureTeam(true) },
    ]
    const names = ['BullMQ, chained', 'BullMQ, flow', 'BullMQ, flow, drained']
    const why = missingRedis()
    if (why) return { variants: team, missing: names.map(name => ({ name, why })), close: async () => {} }
    const { FlowProducer, Queue, Worker } = await import('bullmq')
    const redis = await startRedis()
    const { connection } = redis
    let made = 0

    /** One run on a queue of its own. `work` hands the tasks over and gives the time from which it counts. */
    const measure = (handle, work, late) => async () => {
      const name = `q${made++}`
      const queue = new Queue(name, { connection, defaultJobOptions: removed })
      const worker = new Worker(name, job => handle(queue, job), { connection, concurrency, autorun: false })
      await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()])
      const done = countdown(worker)
      const start = () => void worker.run()
      if (!late) start()
      let from = now()
      await work(queue)
      const handoverMs = now() - from
      if (late) {
        from = now()
        start()
      }
      await done
      const perSecond = (total / (now() - from)) * 1_000
      await worker.close()
      await queue.close()
      return { perSecond, handoverMs }
    }

    const flow = new FlowProducer({ connection })
    const node = (queue, left) => ({
      name: 'task',
      queueName: queue.name,
      data: {},
      opts: removed,
      children: left > 1 ? [node(queue, left - 1)] : [],
    })
    const addFlow = async queue => {
      for (let i = 0; i < chains; i += 50) await flow.addBulk(Array.from({ length: 50 }, () => node(queue, length)))
    }
    const addHeads = queue =>
      queue.addBulk(Array.from({ length: chains }, () => ({ name: 'task', data: { left: length } })))
    const addNext = (queue, job) => (job.data.left > 1 ? queue.add('task', { left: job.data.left - 1 }) : undefined)
    const nothing = async () => {}

    return {
      versions: { bullmq: versionOf('bullmq'), ioredis: versionOf('ioredis'), redis: redisVersion() },
      variants: [
        ...team,
        { name: names[0], measure: measure(addNext, addHeads, false) },
        { name: names[1], measure: measure(nothing, addFlow, false) },
        { name: names[2], measure: measure(nothing, addFlow, true) },
      ],
      missing: [],
      async close() {
        await flow.close()
        await redis.stop()
      },
    }
  },
}
