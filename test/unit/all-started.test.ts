import { expect, test } from 'vitest'
import { AllStarted } from '../../src/cli/all-started.ts'
import { clock } from '../../src/lib/clock.ts'
import { ok } from '../../src/lib/result.ts'
import type { Call } from '../../src/protocol/rpc.ts'
import type { Ended } from '../../src/supervisor/daemon-options.ts'

/** A daemon of which nothing is known but how its teammates stand; counts how often that is asked. */
const daemonOf = (teammates: { state: string; restarts: number }[]) => {
  let asked = 0
  const handlers = (async () => {
    asked++
    return ok({ teammates })
  }) as unknown as Call
  let end: (how: Ended) => void = () => undefined
  const done = new Promise<Ended>(resolve => {
    end = resolve
  })
  return {
    teammates,
    handlers,
    isEnding: false,
    done,
    end: () => end({ exit: 0, reason: '', isDisk: false }),
    asked: () => asked,
  }
}
const soon = async (waits: Promise<void>) => {
  let isOver = false
  void waits.then(() => {
    isOver = true
  })
  await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
  return isOver
}

test('it waits for the last first start, and not for one that died, was given up or is stopped', async () => {
  const [alice, bob] = [
    { state: 'starting', restarts: 0 },
    { state: 'starting', restarts: 0 },
  ]
  const daemon = daemonOf([alice, bob, { state: 'failed', restarts: 0 }, { state: 'stopped', restarts: 0 }])
  const threads = new AllStarted(clock)
  const waits = threads.wait(daemon)
  expect(await soon(waits)).toBe(false)
  alice.state = 'idle'
  threads.changed()
  expect(await soon(waits)).toBe(false)
  bob.restarts = 1
  threads.changed()
  await waits
  expect(daemon.asked()).toBe(3)
})

test('it waits no longer than is bearable, nor for a daemon that has ended', async () => {
  const one = { state: 'starting', restarts: 0 }
  await new AllStarted(clock).wait(daemonOf([one]), 20)
  const daemon = daemonOf([one])
  const waits = new AllStarted(clock).wait(daemon)
  expect(await soon(waits)).toBe(false)
  daemon.isEnding = true
  daemon.end()
  await waits
})
