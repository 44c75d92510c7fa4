/**
 * The two clocks. Wall time is for people (stamps in files); the monotonic one is for durations, time-outs and leases,
 * so that a stepped wall clock expires nothing early and keeps nothing alive. Both are passed in, never read elsewhere.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  wall(): number
  /** Milliseconds from an arbitrary start, never going back. */
  mono(): number
}

export const clock: Clock = {
  wall: () => Date.now(),
  mono: () => performance.now(),
}

/** ISO 8601 in UTC, with milliseconds. */
export const iso = (wall: number): string => {
  // Many things happen in the same millisecond.
  if (wall !== last.wall) last = { wall, text: new Date(wall).toISOString() }
  return last.text
}
let last = { wall: Number.NaN, text: '' }

/** The longest delay that a timer takes; a longer one fires at once. */
export const maxDelay = 2 ** 31 - 1

/** Milliseconds as every timer takes them: whole, from 0 to `maxDelay`; what is no number is 0. */
export const timerMs = (ms: number): number => (ms > 0 ? Math.min(Math.ceil(ms), maxDelay) : 0)

/** Resolves after `ms`, or rejects with the signal's reason. Never keeps the process alive on its own when `unref`. */
export const delay = (ms: number, signal?: AbortSignal, unref = false): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, timerMs(ms))
    if (unref) timer.unref()
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', stop, { once: true })
  })
