import { delay } from '../../lib/clock.ts'
import { type Fault, fail, ok, type Result } from '../../lib/result.ts'
import type { JournalEntry } from '../../protocol/event.ts'
import { isWaiting, type Request } from '../../protocol/request.ts'
import { isEnded, type Task } from '../../protocol/task.ts'
import type { Client } from '../../store/rpc/client.ts'
import { type Act, keyOf, nextActs } from './policy.ts'
import { demoTasks } from './tasks.ts'

/** Looks again so often though nothing was told: an event is only a hint. */
const sweepMs = 300
/** Events come in bursts: one look serves them all. */
const burstMs = 20

/** A person who decides what waits, in place of the demo's policy. */
export interface Person {
  /** What is to be done now; asked no further once `signal` is aborted. */
  decide(requests: readonly Request[], signal: AbortSignal): Promise<Result<Act[]>>
  /** What it said did not hold, and why: it came too late, or was no answer. */
  refused(act: Act, fault: Fault): void
}

/**
 * Stands in for the human at the daemon's socket: decides by the demo's policy (or asks `person`) until every task has ended.
 * A fault when one fails, when the daemon refuses or goes away, or when `signal` is aborted first. `onEntry` sees the whole
 * journal.
 */
export const decideAll = async (
  client: Client,
  onEntry: (entry: JournalEntry) => void,
  signal: AbortSignal,
  person: Person | null,
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
      const done = await step(client, person, signal)
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

/** Decides what is to be decided now; true when every task of the demo is there and has ended. */
const step = async (client: Client, person: Person | null, signal: AbortSignal): Promise<Result<boolean>> => {
  const listed = await client.call('task.list', { all: true })
  if (!listed.ok) return listed
  const tasks = new Map(listed.value.tasks.map((task): [string, Task] => [keyOf(task), task]))
  if (demoTasks.every(({ key }) => hasEnded(tasks.get(key)))) return ok(true)
  // What depends on it would wait for ever; a person would look now, not go on.
  const lost = [...tasks.values()].find(task => task.status === 'failed' || task.status === 'cancelled')
  if (lost && !person) return fail('invalid', `${keyOf(lost)} ${lost.status}: ${lost.error ?? 'no reason'}`)
  const asked = await client.call('request.list', { all: true })
  if (!asked.ok) return asked
  const { requests } = asked.value
  // A person's decisions may lead to where nothing goes on; then the demo ends with what came of it.
  const goesOn = listed.value.tasks.some(({ shown }) => ['ready', 'working', 'claimed'].includes(shown))
  if (person && lost && !goesOn && !requests.some(request => isWaiting(request) && request.to === 'human'))
    return ok(true)
  const acts = person ? await person.decide(requests, signal) : ok(nextActs(tasks, requests))
  if (!acts.ok) return acts
  for (const act of acts.value) {
    const done = await carryOut(client, act)
    // Withdrawn or moved on meanwhile: its successor is seen at the next look.
    if (!done.ok && done.fault.code !== 'refused' && !(person && ['invalid', 'conflict'].includes(done.fault.code)))
      return done
    if (!done.ok) person?.refused(act, done.fault)
  }
  return ok(false)
}

const carryOut = (client: Client, act: Act): Promise<Result<unknown>> => {
  switch (act.act) {
    case 'decide':
      return client.call('request.decide', act.params)
    case 'answer':
      return client.call('request.answer', act.params)
    case 'shut down':
      return client.call('request.open', act.params)
  }
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
