import { delay } from '../../lib/clock.ts'
import { fail, ok, type Result } from '../../lib/result.ts'
import type { JournalEntry } from '../../protocol/event.ts'
import { isEnded, type Task } from '../../protocol/task.ts'
import type { Client } from '../../store/rpc/client.ts'
import { keyOf, mayMerge } from './policy.ts'
import { demoTasks } from './tasks.ts'

/** Looks again so often though nothing was told: an event is only a hint. */
const sweepMs = 300
/** Events come in bursts: one look serves them all. */
const burstMs = 20

/**
 * Stands in for the human at the daemon's socket: approves merges by the demo's policy until every task has ended. A fault
 * when one fails, when the daemon refuses or goes away, or when `signal` is aborted first. `onEntry` sees the whole journal.
 */
export const approveAll = async (
  client: Client,
  onEntry: (entry: JournalEntry) => void,
  signal: AbortSignal,
): Promise<Result<void>> => {
  const over = new AbortController()
  const bell = new Bell()
  const following = client.follow({ after: 0 }, () => bell.ring(), AbortSignal.any([signal, over.signal]))
  let seen = 0
  try {
    while (!signal.aborted) {
      const heard = bell.next()
      const news = await client.call('events', { after: seen, limit: 100_000 })
      if (!news.ok) return news
      news.value.entries.forEach(onEntry)
      seen = news.value.last
      const done = await step(client)
      if (!done.ok) return done
      if (done.value) return ok(undefined)
      await Promise.race([heard, delay(sweepMs, undefined, true)])
      await delay(burstMs)
    }
    return fail('closed', signal.reason instanceof Error ? signal.reason.message : String(signal.reason))
  } finally {
    over.abort()
    await following
  }
}

/** Approves what may be merged now; true when every task of the demo is there and has ended. */
const step = async (client: Client): Promise<Result<boolean>> => {
  const listed = await client.call('task.list', { all: true })
  if (!listed.ok) return listed
  const tasks = new Map(listed.value.tasks.map((task): [string, Task] => [keyOf(task), task]))
  if (demoTasks.every(({ key }) => hasEnded(tasks.get(key)))) return ok(true)
  // What depends on it would wait for ever; a person would look now, not go on.
  const lost = [...tasks.values()].find(task => task.status === 'failed' || task.status === 'cancelled')
  if (lost) return fail('invalid', `${keyOf(lost)} ${lost.status}: ${lost.error ?? 'no reason'}`)
  const may = new Set(mayMerge(tasks).map(key => tasks.get(key)?.id))
  const waiting = await client.call('request.list', {})
  if (!waiting.ok) return waiting
  for (const request of waiting.value.requests) {
    if (request.type !== 'merge_request' || request.status !== 'pending' || !may.has(request.data.task)) continue
    const decided = await client.call('request.decide', {
      id: request.id,
      decision: 'approve',
      reason: 'the policy of the demo',
      shown: request.bodyHash,
    })
    // Withdrawn or moved on meanwhile: its successor is seen at the next look.
    if (!decided.ok && decided.fault.code !== 'refused') return decided
  }
  return ok(false)
}

const hasEnded = (task: Task | undefined): boolean => task !== undefined && isEnded(task)

/** Tells whoever waits that something happened since it began to wait. */
class Bell {
  #rings: (() => void)[] = []

  next(): Promise<void> {
    return new Promise(resolve => this.#rings.push(resolve))
  }

  ring(): void {
    for (const resolve of this.#rings.splice(0)) resolve()
  }
}
