import { expect, test } from 'vitest'
import { actor } from '../support/actor.ts'
import { ManualTime } from '../support/manual-time.ts'
import { until, watched } from '../support/threads.ts'

/** Threads under a time of the test's own, without jitter and with no heartbeat due. */
const timed = (restarts: number) => {
  const time = new ManualTime()
  const options = { clock: time.clock, wait: time.wait, random: () => 0 }
  return { time, ...watched({ restarts, heartbeatSeconds: 86_400 }, options) }
}

test('C07 a thread that throws at every start comes back after 1, 2, 4, 8, 16 s, then is given up and visible', async () => {
  const { time, threads, seen } = timed(5)
  threads.start(actor('alice', ['throw']))
  for (const [n, inMs] of [1_000, 2_000, 4_000, 8_000, 16_000].entries()) {
    const death = await until(() => seen.deaths[n])
    expect(death).toMatchObject({ why: 'Error: thrown on purpose', next: { restart: n + 1, inMs } })
    await time.pass(inMs - 1)
    expect(threads.send('alice', { t: 'mail', urgent: false })).toBe(false)
    await time.pass(1)
    expect(threads.send('alice', { t: 'mail', urgent: false })).toBe(true)
  }
  await until(() => seen.failures[0])
  expect(seen.deaths.at(-1)?.next).toBeNull()
  expect(threads.status('alice')).toMatchObject({ state: 'failed', restarts: 5, reason: 'Error: thrown on purpose' })
  await time.pass(3_600_000)
  expect(seen.deaths).toHaveLength(6)
})

test('C07 the wait for a restart grows to a minute and no further', async () => {
  const { time, threads, seen } = timed(9)
  threads.start(actor('alice', ['throw']))
  for (let n = 0; n < 9; n++) {
    const death = await until(() => seen.deaths[n])
    await time.pass(death.next?.inMs ?? 0)
  }
  await until(() => seen.failures[0])
  expect(seen.deaths.slice(5).map(({ next }) => next?.inMs)).toEqual([32_000, 60_000, 60_000, 60_000, undefined])
})

test('C07 being spawned, ready and beating clears no count, progress does', async () => {
  const { time, threads, seen } = timed(5)
  threads.start(actor('alice', ['ready', 'beat']))
  for (let n = 1; n <= 3; n++) {
    await until(() => threads.status('alice')?.state === 'idle')
    threads.send('alice', { t: 'unassign', id: '1', reason: 'throw' })
    const death = await until(() => seen.deaths[n - 1])
    expect(death.next?.restart).toBe(n)
    await time.pass(death.next?.inMs ?? 0)
  }
  await until(() => threads.status('alice')?.state === 'idle')
  expect(threads.status('alice')).toMatchObject({ restarts: 3, reason: 'Error: thrown on purpose' })
  threads.send('alice', { t: 'unassign', id: '1', reason: 'progress' })
  await until(() => threads.status('alice')?.restarts === 0)
  expect(threads.status('alice')?.reason).toBeNull()
  threads.send('alice', { t: 'unassign', id: '1', reason: 'throw' })
  expect((await until(() => seen.deaths[3])).next?.restart).toBe(1)
})

test('C07 a failed teammate starts again by hand, with a clean count', async () => {
  const { threads, seen } = timed(0)
  threads.start(actor('alice', ['ready', 'beat']))
  await until(() => threads.status('alice')?.state === 'idle')
  expect(threads.restart('alice')).toMatchObject({ ok: false, fault: { code: 'refused' } })
  threads.send('alice', { t: 'unassign', id: '1', reason: 'throw' })
  await until(() => seen.failures[0])
  expect(threads.restart('alice').ok).toBe(true)
  expect(threads.status('alice')).toMatchObject({ state: 'starting', restarts: 0, reason: null })
  await until(() => threads.status('alice')?.state === 'idle')
  expect(threads.restart('nobody')).toMatchObject({ ok: false, fault: { code: 'unknown' } })
})

test('C07 restarting by hand does not wait until the restart is due', async () => {
  const { time, threads, seen } = timed(5)
  threads.start(actor('alice', ['exit 3']))
  await until(() => seen.deaths[0])
  expect(threads.restart('alice').ok).toBe(true)
  await until(() => seen.deaths[1])
  expect(seen.deaths[1]?.next?.restart).toBe(1)
  // The wait that was cut short starts no second thread later.
  await time.pass(999)
  expect(seen.deaths).toHaveLength(2)
})

test('a teammate that is stopped while its restart is due does not come back', async () => {
  const { time, threads, seen } = timed(5)
  threads.start(actor('alice', ['exit 3']))
  await until(() => seen.deaths[0])
  expect(await threads.stop('alice', 'down', 1_000)).toBe('bye')
  expect(threads.status('alice')).toMatchObject({ state: 'stopped', waiting: null, reason: 'down' })
  await time.pass(60_000)
  expect(seen.deaths).toHaveLength(1)
})

test('a teammate that was stopped or given up before is known, does not run, and starts by hand', async () => {
  const { threads } = timed(5)
  threads.park(actor('alice', ['ready']), 'failed', 'gave up yesterday')
  expect(threads.status('alice')).toMatchObject({ state: 'failed', reason: 'gave up yesterday' })
  expect(threads.send('alice', { t: 'mail', urgent: true })).toBe(false)
  expect(await threads.stop('alice', 'down', 1_000)).toBe('bye')
  expect(threads.status('alice')).toMatchObject({ state: 'failed', reason: 'gave up yesterday' })
  expect(threads.restart('alice').ok).toBe(true)
  await until(() => threads.status('alice')?.state === 'idle')
})
