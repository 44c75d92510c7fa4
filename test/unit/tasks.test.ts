import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { Tasks } from '../../src/supervisor/tasks.ts'

const setup = () => {
  const store = openMemoryStore(clock)
  return { store, tasks: new Tasks(store, clock) }
}
const by = { by: 'human' }
const add = (tasks: Tasks, ...drops: Parameters<Tasks['add']>[0]) => unwrap(tasks.add(drops, by)).ids

describe('adding tasks', () => {
  it('gives short numbers as ids, and keeps an id that is free', () => {
    const { tasks } = setup()
    expect(add(tasks, { title: 'a' }, { title: 'b', id: '7' }, { title: 'c' })).toEqual(['1', '7', '2'])
    expect(add(tasks, { title: 'd' })).toEqual(['8'])
    expect(tasks.add([{ title: 'e', id: '7' }], by)).toMatchObject({ ok: false, fault: { code: 'conflict' } })
  })

  it('B11 never gives an id twice, over cancellation and over a new holder of the same store', () => {
    const { store, tasks } = setup()
    add(tasks, { title: 'a' }, { title: 'b' }, { title: 'c', blockedBy: ['2'] })
    unwrap(tasks.move('1', 'human', { move: 'cancel', reason: 'x' }))
    unwrap(tasks.move('2', 'human', { move: 'cancel', reason: 'x' }))
    expect(add(tasks, { title: 'd' })).toEqual(['4'])
    expect(add(new Tasks(store, clock), { title: 'e' })).toEqual(['5'])
  })

  it('resolves dependencies by id, drop file name and title, whichever arrives first', () => {
    const { store, tasks } = setup()
    const [early = ''] = add(tasks, { title: 'report', blockedBy: ['Parse the file', 'schema.md', '9'] })
    expect(tasks.graph.blockedBy(unwrapTask(tasks, early))).toEqual(['Parse the file', 'schema.md', '9'])
    const [parse = ''] = add(tasks, { title: 'Parse the file' })
    const [schema = ''] = unwrap(tasks.add([{ title: 'the schema' }], { by: 'human', file: 'schema.md' })).ids
    add(tasks, { title: 'nine', id: '9' })
    expect(unwrapTask(tasks, early).dependsOn).toEqual([parse, schema, '9'])
    const [late = ''] = add(tasks, { title: 'late', blockedBy: ['schema', 'report'] })
    expect(unwrapTask(tasks, late).dependsOn).toEqual([schema, early])
    expect([...store.tasks.list()].length).toBe(5)
  })

  it('refuses a title that several tasks have, naming them', () => {
    const { tasks } = setup()
    add(tasks, { title: 'same' }, { title: 'same' })
    expect(tasks.add([{ title: 'x', blockedBy: ['same'] }], by)).toMatchObject({
      ok: false,
      fault: { message: expect.stringContaining('1, 2') },
    })
  })

  it('B01 refuses a cycle and spells it out: to itself, in one drop, through existing tasks and through names yet to come', () => {
    const { tasks } = setup()
    const refused = (...drops: Parameters<Tasks['add']>[0]) => {
      const result = tasks.add(drops, by)
      expect(result.ok).toBe(false)
      return result.ok ? '' : result.fault.message
    }
    expect(refused({ title: 'self', id: '50', blockedBy: ['50'] })).toContain('50 "self" → 50 "self"')
    expect(
      refused({ title: 'a', blockedBy: ['b'] }, { title: 'b', blockedBy: ['c'] }, { title: 'c', blockedBy: ['a'] }),
    ).toMatch(/a.*→.*b.*→.*c.*→.*a/)
    const [x = ''] = add(tasks, { title: 'x', blockedBy: ['to come', '77'] })
    expect(refused({ title: 'to come', blockedBy: [x] })).toContain('to come')
    expect(refused({ title: 'other', id: '77', blockedBy: ['x'] })).toContain('77')
    const [y = ''] = add(tasks, { title: 'y', blockedBy: [x] })
    expect(tasks.edit(x, { dependsOn: [y] }, 'human')).toMatchObject({
      ok: false,
      fault: { code: 'refused', message: expect.stringContaining('→') },
    })
  })

  it('takes what a task accepts from a hand while it is not claimed done', () => {
    const { tasks } = setup()
    const [id = ''] = add(tasks, { title: 'a', accept: ['make a'] })
    expect(unwrap(tasks.edit(id, { accept: ['make b'] }, 'human')).value.accept).toEqual(['make b'])
    tasks.move(id, 'supervisor', { move: 'start', owner: 'ann', branch: null })
    expect(unwrap(tasks.edit(id, { accept: ['make c'] }, 'human')).value.accept).toEqual(['make c'])
    tasks.move(id, 'ann', { move: 'claim', head: null, summary: '' })
    expect(tasks.edit(id, { accept: [] }, 'human')).toMatchObject({
      ok: false,
      fault: { code: 'refused', message: `task ${id} is claimed done: what it accepts stands until that is decided` },
    })
  })

  it('adds nothing a second time under the same key, and finishes what a crash cut short', () => {
    const { store, tasks } = setup()
    const from = { by: 'human', key: 'k', file: 'two.json' }
    const ids = unwrap(tasks.add([{ title: 'a' }, { title: 'b', blockedBy: ['a'] }], from)).ids
    expect(unwrap(tasks.add([{ title: 'a' }, { title: 'b', blockedBy: ['a'] }], from)).ids).toEqual(ids)
    expect(store.tasks.size).toBe(2)
    // A mark that still holds its tasks is what a crash between the mark and the tasks leaves.
    const kept = { ...unwrapTask(tasks, '1'), id: '40', title: 'cut short', dependsOn: [] }
    store.marks.create(
      'drop/cut',
      { ids: ['40'], tasks: [kept], by: 'human', file: null },
      { event: 'drop.taken', by: 'human' },
    )
    const again = new Tasks(store, clock)
    again.recover()
    expect(again.get('40')?.value.title).toBe('cut short')
    again.recover()
    expect(store.tasks.size).toBe(3)
  })
})

describe('moves', () => {
  it('B05 lets one owner start a task, whoever else asks at the same time', () => {
    const { tasks } = setup()
    for (let round = 0; round < 100; round++) {
      const [id = ''] = add(tasks, { title: `r${round}` })
      const won = ['a', 'b', 'c', 'd', 'e'].filter(
        owner => tasks.move(id, 'supervisor', { move: 'start', owner, branch: null }).ok,
      )
      expect(won).toEqual(['a'])
      unwrap(tasks.move(id, 'a', { move: 'fail', reason: 'x' }))
    }
  })

  it('knows what everyone has in hand, through claim, return, release and failure', () => {
    const { tasks } = setup()
    const [id = ''] = add(tasks, { title: 'a' })
    const held = () => tasks.inHand('alice')?.value.id
    unwrap(tasks.move(id, 'supervisor', { move: 'start', owner: 'alice', branch: null }))
    expect(held()).toBe(id)
    unwrap(tasks.move(id, 'alice', { move: 'claim', head: 'abc', summary: 's' }))
    expect(held()).toBeUndefined()
    unwrap(tasks.move(id, 'supervisor', { move: 'return', reason: 'red' }))
    expect(unwrapTask(tasks, id)).toMatchObject({ status: 'pending', owner: 'alice', error: 'red', returns: 1 })
    unwrap(tasks.move(id, 'supervisor', { move: 'start', owner: 'alice', branch: null }))
    unwrap(tasks.move(id, 'alice', { move: 'release', reason: null }))
    expect(held()).toBeUndefined()
    expect(tasks.move(id, 'human', { move: 'retry' })).toMatchObject({ ok: false, fault: { code: 'refused' } })
  })

  it('B03 keeps dependants of a failed task blocked, and frees them when it is retried and completed', () => {
    const { tasks } = setup()
    const freed: string[] = []
    tasks.onFreed(ids => freed.push(...ids))
    const [a = '', b = ''] = add(tasks, { title: 'a' }, { title: 'b', blockedBy: ['a'] })
    freed.length = 0
    unwrap(tasks.move(a, 'supervisor', { move: 'start', owner: 'alice', branch: null }))
    unwrap(tasks.move(a, 'alice', { move: 'fail', reason: 'no' }))
    expect(freed).toEqual([])
    expect(tasks.graph.deadBlockers(unwrapTask(tasks, b)).map(task => task.id)).toEqual([a])
    unwrap(tasks.move(a, 'human', { move: 'retry' }))
    expect(unwrapTask(tasks, a)).toMatchObject({ status: 'pending', error: 'no' })
    unwrap(tasks.move(a, 'supervisor', { move: 'start', owner: 'alice', branch: null }))
    expect(tasks.move(a, 'supervisor', { move: 'complete', result: { outcome: 'unverified', summary: '' } }).ok).toBe(
      false,
    )
    unwrap(tasks.move(a, 'alice', { move: 'claim', head: null, summary: '' }))
    unwrap(tasks.move(a, 'supervisor', { move: 'complete', result: { outcome: 'unverified', summary: '' } }))
    expect(freed).toEqual([a, b])
  })
})

describe('the graph', () => {
  it('always agrees with its definition, whatever is added, edited and moved in whatever order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(9), fc.nat(9), fc.constantFrom('add', 'complete', 'fail', 'retry', 'edge')), {
          maxLength: 60,
        }),
        steps => {
          const { tasks } = setup()
          for (const [x, y, act] of steps) {
            const id = String(x)
            if (act === 'add') tasks.add([{ id, title: `t${x}`, blockedBy: [String(y)] }], by)
            if (act === 'complete') {
              tasks.move(id, 'supervisor', { move: 'start', owner: 'a', branch: null })
              tasks.move(id, 'a', { move: 'claim', head: null, summary: '' })
              tasks.move(id, 'supervisor', { move: 'complete', result: { outcome: 'unverified', summary: '' } })
            }
            if (act === 'fail') tasks.move(id, 'supervisor', { move: 'fail', reason: 'x' })
            if (act === 'retry') tasks.move(id, 'human', { move: 'retry' })
            if (act === 'edge') tasks.edit(id, { dependsOn: [String(y)] }, 'human')
          }
          const all = [...tasks.graph.tasks()]
          const done = (dep: string) => all.find(task => task.id === dep)?.status === 'completed'
          const ready = all.filter(task => task.status === 'pending' && task.dependsOn.every(done)).map(task => task.id)
          expect([...tasks.graph.ready()].map(task => task.id).sort()).toEqual(ready.sort())
          for (const task of all) {
            expect(tasks.graph.blockedBy(task)).toEqual([...new Set(task.dependsOn)].filter(dep => !done(dep)))
            expect(tasks.graph.cycle(new Map([[task.id, task.dependsOn]]))).toBeNull()
          }
        },
      ),
    )
  })

  it('walks a chain of twenty thousand tasks without running out of stack', () => {
    const { tasks } = setup()
    const chain = Array.from({ length: 20_000 }, (_, i) => ({
      id: String(i + 1),
      title: `t${i + 1}`,
      ...(i === 0 ? {} : { blockedBy: [String(i)] }),
    }))
    unwrap(tasks.add(chain, by))
    expect(tasks.edit('1', { dependsOn: ['20000'] }, 'human').ok).toBe(false)
  })
})

const unwrapTask = (tasks: Tasks, id: string) => {
  const rec = tasks.get(id)
  if (!rec) throw new Error(`no task ${id}`)
  return rec.value
}

it('in dir mode accept is refused when it is asked for, by a new task, a proposed one and an edit, and taking it out is not', () => {
  const tasks = new Tasks(openMemoryStore(clock), clock, 'dir')
  const refused = { ok: false, fault: { code: 'refused', message: expect.stringContaining('accept needs git mode') } }
  const drops = [{ title: 'one' }, { title: 'two', accept: ['npm test'] }]
  expect(tasks.add(drops, { by: 'human' })).toMatchObject(refused)
  expect(tasks.check(drops)).toMatchObject(refused)
  const [id = ''] = unwrap(tasks.add([{ title: 'one', accept: [] }], { by: 'human' })).ids
  expect(id).toBe('1')
  expect(tasks.edit(id, { accept: ['npm test'] }, 'human')).toMatchObject(refused)
  expect(unwrap(tasks.edit(id, { accept: [] }, 'human')).value.accept).toEqual([])
})
