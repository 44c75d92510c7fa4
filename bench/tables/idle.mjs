// From handing a task to an idle system until its handler begins.
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { BroadcastChannel } from 'node:worker_threads'
import { folder, now, quantile, sleep, versionOf } from '../lib.mjs'
import { missingRedis, redisVersion, startRedis } from '../redis.mjs'
import { makeRoot, startTeam, task } from '../team.mjs'

const tasks = 60
const times = samples => ({ p50: quantile(samples, 0.5), p99: quantile(samples, 0.99) })

export default {
  title: 'From ready to start on an idle team',
  method:
    `${tasks} tasks one after another, 5 ms of quiet between them; time from handing one over until its handler begins. ` +
    'The team: the real daemon, eight idle teammates; the task and its start are on the disk before the thread is told. ' +
    'BullMQ runs its handler in the measuring process, on redis-server with `appendonly yes`, `appendfsync always`. The ' +
    'floor is what any durable way must pay on this disk: one line appended, one fdatasync.',
  turns: 5,
  base: 'BullMQ',
  columns: [
    { key: 'p50', label: 'p50, ms', ratio: true },
    { key: 'p99', label: 'p99, ms' },
  ],
  async prepare() {
    const fd = openSync(join(folder('idle'), 'log'), 'a')
    const line = Buffer.alloc(300, 'x')
    const floor = {
      name: 'floor: append and fdatasync',
      async measure() {
        const samples = []
        for (let i = 0; i < tasks; i++) {
          const from = now()
          writeSync(fd, line)
          fdatasyncSync(fd)
          samples.push(now() - from)
          await sleep(5)
        }
        return times(samples)
      },
    }
    const team = await startTeam({ root: makeRoot('idle', 8) })
    const channel = new BroadcastChannel('bench')
    let id = 0
    const measureTeam = async () => {
      const samples = []
      for (let i = 0; i < tasks; i++) {
        const told = key =>
          new Promise(resolve => {
            channel.addEventListener('message', function hear({ data }) {
              if (data[key] === undefined) return
              channel.removeEventListener('message', hear)
              resolve(data.at)
            })
          })
        const start = told('task')
        const done = told('completed')
        const from = now()
        await team.ask('task.add', { tasks: [task(`t${id++}`, [], { description: 'timed' })] })
        samples.push((await start) - from)
        await done
        await sleep(5)
      }
      return times(samples)
    }
    const own = { name: 'team', measure: measureTeam }
    const stop = async () => {
      channel.close()
      await team.stop()
      closeSync(fd)
    }
    const why = missingRedis()
    if (why) return { variants: [own, floor], missing: [{ name: 'BullMQ', why }], close: stop }

    const { Queue, Worker } = await import('bullmq')
    const redis = await startRedis()
    const { connection } = redis
    const queue = new Queue('idle', { connection, defaultJobOptions: { removeOnComplete: true } })
    let began = () => {}
    const worker = new Worker('idle', async () => began(now()), { connection, concurrency: 8 })
    await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()])
    const measure = async () => {
      const samples = []
      for (let i = 0; i < tasks; i++) {
        const start = new Promise(resolve => {
          began = resolve
        })
        const done = new Promise(resolve => worker.once('completed', resolve))
        const from = now()
        await queue.add('task', {})
        samples.push((await start) - from)
        await done
        await sleep(5)
      }
      return times(samples)
    }
    return {
      versions: { bullmq: versionOf('bullmq'), ioredis: versionOf('ioredis'), redis: redisVersion() },
      variants: [own, { name: 'BullMQ', measure }, floor],
      missing: [],
      async close() {
        await worker.close()
        await queue.close()
        await redis.stop()
        await stop()
      },
    }
  },
}
