import { fileURLToPath } from 'node:url'
import { afterEach } from 'vitest'
import { clock, delay } from '../../src/lib/clock.ts'
import type { FromThread } from '../../src/protocol/thread.ts'
import type { Reply, ThreadStatus, ThreadsOptions } from '../../src/supervisor/threads.ts'
import { Threads } from '../../src/supervisor/threads.ts'

export const threadEntry = fileURLToPath(new URL('./thread.mjs', import.meta.url))

interface Seen {
  readonly messages: { name: string; message: FromThread; reply: Reply }[]
  readonly states: { name: string; status: ThreadStatus }[]
  readonly deaths: { name: string; why: string; next: { restart: number; inMs: number } | null }[]
  readonly failures: { name: string; why: string }[]
}

const open = new Set<Threads>()
afterEach(async () => {
  await Promise.all([...open].map(threads => threads.close()))
  open.clear()
})

/** Threads of test/support/thread.mjs and everything they are heard to do; closed after the test. */
export const watched = (
  limits: Partial<ThreadsOptions['limits']> = {},
  options: Partial<ThreadsOptions> = {},
): { threads: Threads; seen: Seen } => {
  const seen: Seen = { messages: [], states: [], deaths: [], failures: [] }
  const threads = new Threads({
    entry: threadEntry,
    threadEnv: {},
    limits: { heapMb: 64, heartbeatSeconds: 30, restarts: 5, stuckSeconds: 300, ...limits },
    clock,
    on: {
      message: (name, message, reply) => void seen.messages.push({ name, message, reply }),
      state: (name, status) => void seen.states.push({ name, status }),
      excused: () => false,
      died: (name, why, next) => void seen.deaths.push({ name, why, next }),
      failed: (name, why) => void seen.failures.push({ name, why }),
    },
    ...options,
  })
  open.add(threads)
  return { threads, seen }
}

/** Waits until `look` finds something, and gives it. Fails after `ms`, far beyond what a loaded machine takes. */
export const until = async <T>(look: () => T | undefined | null | false, what = 'the condition', ms = 45_000) => {
  const end = clock.mono() + ms
  for (;;) {
    const found = look()
    if (found) return found
    if (clock.mono() > end) throw new Error(`${what} did not come within ${ms} ms`)
    await delay(5)
  }
}
