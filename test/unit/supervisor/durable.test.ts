import { expect, test } from 'vitest'
import { clock } from '../../../src/lib/clock.ts'
import { unwrap } from '../../../src/lib/result.ts'
import type { AssignedTask } from '../../../src/protocol/thread.ts'
import { State, StateStore } from '../../../src/store/state.ts'
import { Dispatch } from '../../../src/supervisor/dispatch.ts'
import { createPlanned } from '../../../src/supervisor/effects.ts'
import { Suspicion } from '../../../src/supervisor/suspicion.ts'
import { Disk, SimJournal } from '../../simulation/disk.ts'
import { coreOf } from '../../support/core.ts'

const turn = () => new Promise(setImmediate)

/** A core over a journal that is flushed when the test says so. */
const held = () => {
  const disk = new Disk()
  const journal = new SimJournal(disk, () => undefined)
  const made = coreOf({ teammates: [{ name: 'alice' }] }, clock, { store: new StateStore(new State(clock), journal) })
  return { ...made, disk, journal }
}
const dispatchOf = (core: ReturnType<typeof held>['core']) => {
  const sent: AssignedTask[] = []
  const failures: unknown[] = []
  const dispatch = new Dispatch({
    core,
    send: (_name, task) => void sent.push(task),
    alive: () => true,
    bringBase: async () => undefined,
    onProblem: () => undefined,
    suspicion: new Suspicion({ core, onLetGo: () => undefined, onFailure: error => void failures.push(error) }),
    onFailure: error => void failures.push(error),
  })
  return { dispatch, sent, failures }
}

test('what is only read is answered when it is durable', async () => {
  const { core, handlers, journal } = held()
  unwrap(core.tasks.add([{ title: 'one' }], { by: 'human' }))
  const answers: string[] = []
  for (const method of ['task.get', 'task.list', 'request.list'] as const)
    void handlers
      .call('alice', method, method === 'task.get' ? { id: '1' } : {})
      .then(({ ok }) => answers.push(ok ? method : 'a fault'))
  void handlers.call('alice', 'task.claim', { id: '1' }).then(() => answers.push('refused'))
  await turn()
  expect(answers).toEqual([])
  journal.flush()
  await turn()
  expect(answers.sort()).toEqual(['refused', 'request.list', 'task.get', 'task.list'])
})

test('a thread that comes back is told of its task when that is durable, also where it died before it was', async () => {
  const { core, journal } = held()
  const { dispatch, sent } = dispatchOf(core)
  unwrap(core.tasks.add([{ title: 'one' }], { by: 'human' }))
  dispatch.idle('alice')
  await turn()
  expect(core.tasks.inHand('alice')?.value.id).toBe('1')
  dispatch.gone('alice')
  dispatch.idle('alice')
  await turn()
  expect(sent).toEqual([])
  journal.flush()
  await turn()
  expect(sent.map(({ id }) => id)).toEqual(['1'])
})

test('a journal that cannot be written is told to whoever started the dispatch', async () => {
  const { core, journal } = held()
  const { dispatch, failures } = dispatchOf(core)
  unwrap(core.tasks.add([{ title: 'one' }], { by: 'human' }))
  dispatch.idle('alice')
  journal.fail('ENOSPC')
  await turn()
  expect(failures).toMatchObject([{ message: 'the journal cannot be written: ENOSPC' }])
})

test('an approved plan is carried out once, and the record says so once', () => {
  const { core, store } = held()
  const done: string[] = []
  store.requests.watch((_id, { value }) => {
    if (value.effect) done.push(value.effect.step)
    if (value.type === 'plan_request') createPlanned(core, value)
  })
  const { request } = unwrap(
    core.requests.open({
      type: 'plan_request',
      from: 'alice',
      to: 'human',
      title: 'a plan',
      body: '',
      data: { task: null, tasks: [{ title: 'one' }] },
    }),
  )
  unwrap(core.requests.decide(request.id, 'human', 'approve', null))
  expect(done).toEqual(['intent', 'done'])
  expect([...store.tasks.list()]).toHaveLength(1)
  expect(core.requests.effect(request.id, 'done', 'ok')).toMatchObject({ ok: false, fault: { code: 'refused' } })
})

test('what a teammate says of a task that was taken from it ends no other that it was given since', async () => {
  const { core, handlers, journal } = held()
  const say = async (method: string, params: object) => {
    const answer = handlers.call('alice', method, params)
    await turn()
    journal.flush()
    return answer
  }
  unwrap(core.tasks.add([{ title: 'one' }, { title: 'two' }], { by: 'human' }))
  unwrap(core.tasks.move('1', 'supervisor', { move: 'start', owner: 'alice', branch: null }))
  unwrap(core.tasks.move('1', 'human', { move: 'cancel', reason: 'not wanted' }))
  unwrap(core.tasks.move('2', 'supervisor', { move: 'start', owner: 'alice', branch: null }))
  const no = { ok: false, fault: { code: 'refused', message: 'task 1 is not in your hands any more' } }
  expect(await say('task.complete', { summary: 'did it', during: '1' })).toMatchObject(no)
  expect(await say('task.fail', { reason: 'cannot', during: '1' })).toMatchObject(no)
  expect(await say('task.release', { during: '1' })).toMatchObject(no)
  expect(core.tasks.inHand('alice')?.value.id).toBe('2')
  expect(await say('task.release', { during: '2' })).toMatchObject({ ok: true })
})
