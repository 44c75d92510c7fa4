import { BroadcastChannel } from 'node:worker_threads'
import { type Gate, localGate } from '../agent/retry.ts'
import { type Clock, delay } from '../lib/clock.ts'
import { unwrap } from '../lib/result.ts'
import type { Call } from '../protocol/rpc.ts'

/** A wait for a place that is shorter than this is not worth a word on a screen. */
const shownQueueMs = 1000
/** Calls of this thread, over all its endpoints: the holder tells them apart by it. */
let calls = 0

/**
 * The gate of one endpoint, shared by every thread of this process: when one is told to slow down, all who use the
 * endpoint wait. Durations are sent, not moments, since each thread's monotonic clock has its own start. For a place among the calls
 * that are made at the same time the holder is asked.
 */
export const sharedGate = (endpoint: string, clock: Clock, call: Call): Gate & { end(): void } => {
  const own = localGate(clock)
  const channel = new BroadcastChannel(`team-model:${endpoint}`)
  channel.onmessage = event => {
    const ms: unknown = typeof event === 'object' && event !== null && 'data' in event ? event.data : null
    if (typeof ms === 'number' && Number.isFinite(ms)) own.close(ms)
  }
  channel.unref()
  return {
    async enter(signal, queued) {
      const id = { call: ++calls }
      const over = new AbortController()
      const gaveUp = new Promise<null>(resolve => {
        if (signal.aborted) resolve(null)
        signal.addEventListener('abort', () => resolve(null), { once: true, signal: over.signal })
      })
      void delay(shownQueueMs, over.signal).then(queued, () => undefined)
      const entered = await Promise.race([call('model.enter', id), gaveUp])
      over.abort()
      const leave = () => void call('model.leave', id)
      if (entered === null) leave()
      else unwrap(entered)
      return entered === null ? null : leave
    },
    closedFor: () => own.closedFor(),
    close(ms) {
      own.close(ms)
      channel.postMessage(ms)
    },
    end: () => channel.close(),
  }
}
