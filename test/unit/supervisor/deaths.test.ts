import { describe, expect, test } from 'vitest'
import { unwrap } from '../../../src/lib/result.ts'
import { isOfTheMachine, isOwnDeath } from '../../../src/protocol/death.ts'
import { openMemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'
import { Deaths, deathsOf } from '../../../src/supervisor/deaths.ts'
import { retryTask } from '../../../src/supervisor/retry.ts'
import { Suspicion, triedFor } from '../../../src/supervisor/suspicion.ts'
import { coreOf } from '../../support/core.ts'

const clock = { wall: () => 0, mono: () => 0 }

/** A holder over `store` with alice, bob and carol; `trials` has the length of each trial and what ends it. */
const holder = (store: Store = openMemoryStore(clock)) => {
  const { core } = coreOf({ teammates: ['alice', 'bob', 'carol'].map(name => ({ name })) }, clock, { store })
  const trials: { ms: number; end: () => void }[] = []
  let kicks = 0
  const suspicion = new Suspicion({
    core,
    onLetGo: () => {
      kicks++
    },
    onFailure: error => {
      throw error
    },
    wait: (ms, signal) =>
      new Promise((resolve, reject) => {
        signal.addEventListener('abort', reject)
        trials.push({ ms, end: resolve })
      }),
  })
  const deaths = new Deaths(core, suspicion)
  const give = (title: string, owner: string): string => {
    const [id = ''] = unwrap(core.tasks.add([{ title }], { by: 'human' })).ids
    unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner, branch: null }))
    return id
  }
  /** What a daemon does at its start. */
  const begin = (died: string | null): boolean => {
    const isCounted = died !== null && deaths.ofDaemon(died)
    deaths.recover()
    suspicion.start()
    return isCounted
  }
  return {
    store,
    core,
    deaths,
    suspicion,
    trials,
    give,
    begin,
    kicks: () => kicks,
    task: (id: string) => core.tasks.get(id)?.value,
    count: (id: string) => deathsOf(store, id).deaths.length,
  }
}
const told = () => true
const untold = () => false

describe('the deaths of threads', () => {
  test('are counted against the task that the thread had been told of, over restarts of the daemon and changes of owner; at the third it fails', () => {
    const first = holder()
    const id = first.give('Poison', 'alice')
    expect(first.deaths.ofThread('alice', 'its heap grew over the limit', told)).toBe(false)
    expect(first.deaths.ofThread('bob', 'it threw', told)).toBe(false)
    const second = holder(first.store)
    second.begin(null)
    unwrap(second.core.tasks.move(id, 'supervisor', { move: 'release', reason: 'alice was given up' }))
    unwrap(second.core.tasks.move(id, 'supervisor', { move: 'start', owner: 'bob', branch: null }))
    expect(second.deaths.ofThread('bob', 'it exited with code 3', told)).toBe(false)
    expect(second.deaths.ofThread('bob', 'no sign of life for 30 s', told)).toBe(true)
    expect(second.task(id)).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(
        /^it was in hand at 3 deaths .*alice at 1970\S+, its heap.*; bob at .*code 3; bob at .*no sign of life/,
      ),
    })
    // A retry counts anew.
    const failed = second.task(id)
    if (!failed) throw new Error('it is gone')
    unwrap(retryTask(second.core, failed, 'human'))
    expect(second.count(id)).toBe(0)
    unwrap(second.core.tasks.move(id, 'supervisor', { move: 'start', owner: 'bob', branch: null }))
    expect(second.deaths.ofThread('bob', 'again', told)).toBe(false)
    expect(second.task(id)?.status).toBe('in_progress')
  })

  test('at its start, before it was told, it counts only right after one that counted; what the machine did counts never', () => {
    const { deaths, give, count } = holder()
    const id = give('Task', 'alice')
    deaths.ofThread('alice', 'SyntaxError: alice.jsonl:1', untold)
    expect(count(id)).toBe(0)
    for (const why of ['Error: ENOSPC: no space left on device, write', 'FaultError: cannot write x: EMFILE: …'])
      deaths.ofThread('alice', why, told)
    expect(count(id)).toBe(0)
    deaths.ofThread('alice', 'its heap grew over the limit', told)
    deaths.ofThread('alice', 'its heap grew over the limit', untold)
    expect(count(id)).toBe(2)
    deaths.ready('alice')
    deaths.ofThread('alice', 'SyntaxError', untold)
    expect(count(id)).toBe(2)
  })

  test('cut off between the count and the failing, the next daemon fails it', () => {
    const { store, give, deaths } = holder()
    const id = give('Poison', 'alice')
    deaths.ofThread('alice', 'one', told)
    const mark = store.marks.get(`deaths/${id}`)
    if (!mark) throw new Error('no mark')
    const three = Array.from({ length: 3 }, () => ({ at: 'x', who: 'alice', why: 'y' }))
    store.marks.update(
      `deaths/${id}`,
      mark.rev,
      { deaths: three, suspected: 0 },
      { event: 'task.death', by: 'supervisor' },
    )
    const next = holder(store)
    next.begin(null)
    expect(next.task(id)?.status).toBe('failed')
  })
})

describe('the deaths of the daemon', () => {
  test('count where something in it ended it, not where it was killed from outside', () => {
    for (const how of ['SIGABRT', 'SIGSEGV', 'SIGBUS', 'SIGILL', 'SIGTRAP', 'exit 1', 'exit 134'])
      expect([how, isOwnDeath(how)]).toEqual([how, true])
    for (const how of ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGPWR', 'null'])
      expect([how, isOwnDeath(how)]).toEqual([how, false])
    expect(isOfTheMachine('RangeError: Array buffer allocation failed')).toBe(false)
  })

  test('with one task in hand they are counted against it; one who waits for a decision does nothing', () => {
    const first = holder()
    const id = first.give('Poison', 'alice')
    const parked = first.give('Parked', 'bob')
    unwrap(
      first.core.requests.open({
        type: 'question',
        from: 'bob',
        to: 'human',
        title: 'which?',
        body: 'which?',
        data: { task: parked },
      }),
    )
    expect(holder(first.store).begin('SIGKILL')).toBe(false)
    expect(first.count(id)).toBe(0)
    for (const n of [1, 2, 3]) {
      const next = holder(first.store)
      expect(next.begin('SIGSEGV')).toBe(true)
      expect([next.count(id), next.suspicion.isOpen]).toEqual([n, false])
    }
    expect(first.core.tasks.get(id)?.value).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/at 3 deaths.*alice at 1970\S+, the daemon died \(SIGSEGV\)/),
    })
    expect([first.count(parked), first.core.tasks.get(parked)?.value.status]).toEqual([0, 'in_progress'])
  })

  test('with several in hand each is tried alone: nothing else goes on, and the one that it dies with is the one', async () => {
    const first = holder()
    const [a, b, c] = [first.give('A', 'alice'), first.give('B', 'bob'), first.give('C', 'carol')]
    const second = holder(first.store)
    expect(second.begin('SIGABRT')).toBe(false)
    const { suspicion } = second
    expect([a, b, c, 'new'].map(id => suspicion.allows(id))).toEqual([true, true, true, false])
    await suspicion.given(b)
    expect([a, b, c, 'new'].map(id => suspicion.allows(id))).toEqual([false, true, false, false])
    expect(second.trials.map(({ ms }) => ms)).toEqual([triedFor(1)])
    expect(suspicion.problems().join()).toContain(
      `still to be tried alone: task ${a}, task ${b}, task ${c}; now task ${b}`,
    )
    // It leaves its hands, as a claim does: the next may be tried.
    unwrap(second.core.tasks.move(b, 'bob', { move: 'claim', head: null, summary: 'done' }))
    expect([second.kicks(), suspicion.alone, suspicion.allows(a)]).toEqual([1, null, true])
    await suspicion.given(a)
    // Killed from outside meanwhile: it is tried again.
    const third = holder(first.store)
    expect(third.begin('SIGKILL')).toBe(false)
    expect([third.count(a), third.suspicion.alone, third.suspicion.allows(c)]).toEqual([0, null, true])
    await third.suspicion.given(c)
    const fourth = holder(first.store)
    expect(fourth.begin('exit 134')).toBe(true)
    expect([a, b, c].map(fourth.count)).toEqual([0, 0, 1])
    // Dead again before anything was given out: that says nothing of anyone.
    expect(holder(first.store).begin('SIGABRT')).toBe(false)
    expect([a, c].map(fourth.count)).toEqual([0, 1])
  })

  test('one that goes on for long enough, or waits for a decision, is let go; a suspect again is tried for twice as long', async () => {
    const first = holder()
    const [a, b] = [first.give('A', 'alice'), first.give('B', 'bob')]
    const second = holder(first.store)
    second.begin('SIGABRT')
    await second.suspicion.given(a)
    second.trials[0]?.end()
    await expect.poll(() => second.suspicion.allows(b)).toBe(true)
    await second.suspicion.given(b)
    second.suspicion.parked('alice')
    expect(second.suspicion.isOpen).toBe(true)
    second.suspicion.parked('bob')
    expect([second.suspicion.isOpen, second.suspicion.allows('new'), second.suspicion.problems()]).toEqual([
      false,
      true,
      [],
    ])
    const third = holder(first.store)
    third.begin('SIGABRT')
    await third.suspicion.given(a)
    expect(third.trials.map(({ ms }) => ms)).toEqual([2 * triedFor(1)])
  })
})
