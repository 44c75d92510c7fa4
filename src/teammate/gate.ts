import { BroadcastChannel } from 'node:worker_threads'
import { type Gate, localGate } from '../agent/retry.ts'
import type { Clock } from '../lib/clock.ts'

/**
 * The gate of one endpoint, shared by every thread of this process: when one is told to slow down, all who use the
 * endpoint wait. Durations are sent, not moments, since each thread's monotonic clock has its own start.
 */
export const sharedGate = (endpoint: string, clock: Clock): Gate & { end(): void } => {
  const own = localGate(clock)
  const channel = new BroadcastChannel(`team-model:${endpoint}`)
  channel.onmessage = event => {
    const ms: unknown = typeof event === 'object' && event !== null && 'data' in event ? event.data : null
    if (typeof ms === 'number' && Number.isFinite(ms)) own.close(ms)
  }
  channel.unref()
  return {
    closedFor: () => own.closedFor(),
    close(ms) {
      own.close(ms)
      channel.postMessage(ms)
    },
    end: () => channel.close(),
  }
}
