import { createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { actor } from '../support/actor.ts'
import { until, watched } from '../support/threads.ts'

test('a thread that says ready is idle, and then is in whatever state it says', async () => {
  const { threads, seen } = watched()
  threads.start(actor('alice', ['ready']))
  expect(threads.status('alice')?.state).toBe('starting')
  await until(() => threads.status('alice')?.state === 'idle')
  expect(seen.messages.map(({ message }) => message.t)).toEqual(['ready'])
  expect(seen.deaths).toEqual([])
})

for (const act of ['throw', 'throw in a timer', 'reject', 'exit 3'])
  test(`C13 a thread that does "${act}" dies alone and is restarted`, async () => {
    const { threads, seen } = watched({}, { random: () => 1 - Number.EPSILON })
    threads.start(actor('bystander', ['ready', 'beat']))
    threads.start(actor('victim', ['ready', act]))
    const death = await until(() => seen.deaths[0])
    expect(death.name).toBe('victim')
    expect(death.why).toMatch(/on purpose|exited with code 3/)
    expect(death.next?.restart).toBe(1)
    expect(threads.status('victim')).toMatchObject({
      state: 'starting',
      waiting: { what: expect.stringContaining('restart 1 of 5'), whom: 'supervisor' },
      reason: death.why,
    })
    // It is back, so it dies again; the other one never noticed.
    await until(() => seen.deaths[1])
    expect(new Set(seen.deaths.map(({ name }) => name))).toEqual(new Set(['victim']))
    expect(threads.status('bystander')?.state).toBe('idle')
    expect(threads.send('bystander', { t: 'mail', urgent: false })).toBe(true)
    await until(() => seen.messages.filter(m => m.name === 'bystander' && m.message.t === 'ready').length === 2)
  })

test('C13 malformed messages are warned of and ignored, and the thread lives on', async () => {
  const { threads, seen } = watched()
  threads.start(actor('alice', ['nonsense', 'ready']))
  await until(() => threads.status('alice')?.state === 'idle')
  const warnings = seen.messages.filter(({ message }) => message.t === 'event')
  expect(warnings).toHaveLength(6)
  for (const { message } of warnings)
    expect(message).toMatchObject({ event: 'warning', info: { problem: expect.stringContaining('malformed') } })
  expect(seen.deaths).toEqual([])
})

test('C13 a heap that grows without end ends its own thread only', async () => {
  const { threads, seen } = watched({ heapMb: 32 })
  threads.start(actor('bystander', ['ready']))
  threads.start(actor('glutton', ['ready', 'blow the heap']))
  const death = await until(() => seen.deaths[0], 'the death', 60_000)
  expect(death).toMatchObject({ name: 'glutton', why: 'its heap grew over the limit' })
  expect(threads.send('bystander', { t: 'mail', urgent: false })).toBe(true)
  await until(() => seen.messages.filter(m => m.name === 'bystander' && m.message.t === 'ready').length === 2)
})

test('a thread that hangs in an endless loop is ended and restarted, one that beats is not', async () => {
  const { threads, seen } = watched({ heartbeatSeconds: 5 })
  threads.start(actor('beating', ['ready', 'beat']))
  threads.start(actor('hanging', ['ready', 'beat', 'hang']))
  const death = await until(() => seen.deaths[0])
  expect(death).toMatchObject({ name: 'hanging', why: 'no sign of life for 5 s', next: { restart: 1 } })
  expect(threads.status('beating')?.state).toBe('idle')
})

test('an entry that cannot be loaded is a death with its reason', async () => {
  const { threads, seen } = watched({ restarts: 0 }, { entry: '/no/such/entry.js' })
  threads.start(actor('alice', []))
  const failure = await until(() => seen.failures[0])
  expect(failure.why).toContain('/no/such/entry.js')
  expect(threads.status('alice')).toMatchObject({ state: 'failed', reason: failure.why })
})

test('what a thread prints comes as warnings, line by line, and nothing of a flood is passed on without bound', async () => {
  const { threads, seen } = watched()
  threads.start(actor('printer', ['print', 'ready']))
  threads.start(actor('flooder', ['flood', 'ready']))
  const texts = (name: string) =>
    seen.messages.flatMap(m => (m.name === name && m.message.t === 'event' ? [m.message.info] : []))
  await until(() => texts('printer').length >= 3)
  expect(texts('printer')).toEqual(
    expect.arrayContaining([
      { stream: 'stdout', text: 'a line' },
      { stream: 'stdout', text: 'half another' },
      { stream: 'stderr', text: 'a complaint' },
    ]),
  )
  await until(() => threads.status('flooder')?.state === 'idle' && texts('flooder').length >= 20)
  await threads.stop('flooder', 'enough', 10_000)
  expect(texts('flooder').length).toBeLessThan(100)
})

test('G07 a thread sees the environment it was given and nothing of the daemon', async () => {
  const { threads, seen } = watched({}, { threadEnv: { ONLY: 'this' } })
  threads.start(actor('alice', ['env']))
  const { message } = await until(() => seen.messages[0])
  expect(message).toMatchObject({ t: 'event', info: { env: { ONLY: 'this' }, argv: [] } })
  expect(message.t === 'event' && Object.keys(message.info.env as object)).toEqual(['ONLY'])
})

test('C05 a thread with a request in flight that is never answered stops at once when asked', async () => {
  const sockets: Socket[] = []
  const server = createServer(socket => sockets.push(socket.on('error', () => socket.destroy())))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const { threads } = watched()
  threads.start(
    actor('alice', ['ready', 'ask a server that never answers'], {
      port: typeof address === 'object' ? address?.port : 0,
    }),
  )
  await until(() => threads.status('alice')?.state === 'working')
  expect(await threads.stop('alice', 'down', 60_000)).toBe('bye')
  expect(threads.status('alice')).toMatchObject({ state: 'stopped', reason: 'down' })
  for (const socket of sockets) socket.destroy()
  await new Promise(resolve => server.close(resolve))
})

test('C05 a thread that does not obey is ended by force after its grace time, one in an endless loop too', async () => {
  const { threads, seen } = watched()
  threads.start(actor('deaf', ['disobey', 'ready']))
  threads.start(actor('looping', ['ready', 'hang']))
  await until(() => ['deaf', 'looping'].every(name => threads.status(name)?.state === 'idle'))
  const [deaf, looping] = [threads.stop('deaf', 'down', 200), threads.stop('looping', 'down', 200)]
  expect(threads.status('deaf')).toMatchObject({ state: 'draining', reason: 'down' })
  expect([await deaf, await looping]).toEqual(['forced', 'forced'])
  expect(threads.status('deaf')).toMatchObject({ state: 'stopped', reason: 'down' })
  expect(seen.deaths).toEqual([])
})

test('C05 a second stop with no grace hurries the first', async () => {
  const { threads } = watched()
  threads.start(actor('deaf', ['disobey', 'ready']))
  await until(() => threads.status('deaf')?.state === 'idle')
  const patient = threads.stop('deaf', 'down', 3_600_000)
  expect(await threads.stop('deaf', 'now', 0)).toBe('forced')
  expect(await patient).toBe('forced')
})

test('a thread that says goodbye of its own will is stopped, not dead, even when it does not go', async () => {
  const { threads, seen } = watched()
  threads.start(actor('polite', ['ready', 'bye']))
  threads.start(actor('lingering', ['ready', 'bye without going']))
  await until(() => ['polite', 'lingering'].every(name => threads.status(name)?.state === 'stopped'))
  expect(threads.status('lingering')?.reason).toBe('all done')
  expect(seen.deaths).toEqual([])
})

test('an answer goes to the thread that asked, never to the one that came after it', async () => {
  const { threads, seen } = watched()
  threads.start(actor('alice', ['ready', 'ask']))
  const first = await until(() => seen.messages.find(({ message }) => message.t === 'req'))
  await threads.stop('alice', 'again', 10_000)
  expect(threads.restart('alice').ok).toBe(true)
  const second = await until(() => seen.messages.filter(({ message }) => message.t === 'req')[1])
  expect(first.reply({ t: 'res', id: 1, ok: true, value: 'old' })).toBe(false)
  expect(second.reply({ t: 'res', id: 1, ok: true, value: 'new' })).toBe(true)
  const { message } = await until(() => seen.messages.find(m => m.message.t === 'event'))
  expect(message).toMatchObject({ info: { answer: { value: 'new' } } })
})

test('no more than eight threads are starting at the same moment, and all of them come up', async () => {
  const { threads, seen } = watched()
  const names = Array.from({ length: 20 }, (_, i) => `t${i}`)
  for (const name of names) threads.start(actor(name, ['ready']))
  expect(threads.names()).toEqual(names)
  expect(names.filter(name => threads.send(name, { t: 'mail', urgent: false }))).toEqual(names.slice(0, 8))
  await until(() => names.every(name => threads.status(name)?.state === 'idle'))
  expect(seen.deaths).toEqual([])
})

test('closing ends every thread, one that waits for its restart and one that hangs included', async () => {
  const { threads, seen } = watched()
  threads.start(actor('idle', ['ready']))
  threads.start(actor('hanging', ['ready', 'hang']))
  threads.start(actor('dead', ['exit 3']))
  await until(() => seen.deaths.length >= 1 && threads.status('hanging')?.state === 'idle')
  await threads.close()
  for (const name of threads.names()) expect(threads.status(name)?.state).toBe('stopped')
  expect(threads.restart('idle')).toMatchObject({ ok: false, fault: { code: 'closed' } })
})

test('a thread that beats and works while nothing comes of it is shown as stuck, ended and restarted; one that moves, and one that waits, is not', async () => {
  const { threads, seen } = watched({ stuckSeconds: 3 })
  threads.start(actor('stuck', ['ready', 'beat', 'work']))
  threads.start(actor('busy', ['ready', 'move', 'beat', 'work']))
  threads.start(actor('parked', ['ready', 'beat', 'work', 'wait']))
  const death = await until(() => seen.deaths[0])
  expect(death).toMatchObject({ name: 'stuck', why: 'stuck: nothing came of what it did, long after its time' })
  const shown = seen.states.filter(({ name, status }) => name === 'stuck' && status.stuck !== null)
  expect(shown[0]?.status).toMatchObject({
    state: 'working',
    stuck: { text: 'nothing comes of what it does, long after its time', since: expect.any(String) },
  })
  expect(threads.status('stuck')?.stuck).toBeNull()
  await until(() => seen.deaths[1])
  expect(new Set(seen.deaths.map(({ name }) => name))).toEqual(new Set(['stuck']))
  expect(seen.states.filter(({ name, status }) => name !== 'stuck' && status.stuck !== null)).toEqual([])
})
