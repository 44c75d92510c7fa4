// A redis-server of the benchmark's own: on a loopback port, its files in a temporary folder, every write on the disk
// before it is answered.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { folder, freePort, output } from './lib.mjs'

export const missingRedis = () =>
  output('redis-server', '--version') === null ? 'redis-server is not installed (apt-get install redis-server)' : null

export const redisVersion = () => output('redis-server', '--version')?.match(/v=(\S+)/)?.[1] ?? null

const running = new Set()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** Resolves when it answers and has confirmed that each write is synced; `stop` ends it. */
export const startRedis = async () => {
  const port = await freePort()
  const settings = { appendonly: 'yes', appendfsync: 'always', save: '' }
  const args = Object.entries(settings).flatMap(([key, value]) => [`--${key}`, value])
  const child = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder('redis'), ...args],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  running.add(child)
  const gone = new Promise(resolve => child.once('exit', resolve)).then(() => running.delete(child))
  await new Promise((resolve, reject) => {
    let said = ''
    child.stdout.setEncoding('utf8').on('data', text => {
      said = `${said}${text}`.slice(-4_000)
      if (said.includes('Ready to accept connections')) resolve()
    })
    child.once('error', reject)
    void gone.then(() => reject(new Error(`redis-server ended: ${said}`)))
  })

  const { Redis } = createRequire(import.meta.url)('ioredis')
  const client = new Redis({ host: '127.0.0.1', port })
  for (const [key, value] of Object.entries(settings)) {
    const [, is] = await client.config('GET', key)
    if (is !== value) throw new Error(`redis-server has ${key} ${is}, not ${value}`)
  }
  await client.quit()
  return {
    connection: { host: '127.0.0.1', port, maxRetriesPerRequest: null },
    async stop() {
      child.kill('SIGTERM')
      const late = setTimeout(() => child.kill('SIGKILL'), 5_000)
      await gone
      clearTimeout(late)
    },
  }
}
