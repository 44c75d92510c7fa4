import { expect, test } from 'vitest'
import { ok } from '../../src/lib/result.ts'
import { Graph } from '../../src/protocol/graph.ts'
import { Table } from '../../src/store/table.ts'
import { Budget } from '../../src/supervisor/budget.ts'
import { Crew } from '../../src/supervisor/crew.ts'
import { Dispatch } from '../../src/supervisor/dispatch.ts'
import { Leases } from '../../src/supervisor/leases.ts'
import { Mail } from '../../src/supervisor/mail.ts'
import { Requests } from '../../src/supervisor/requests.ts'
import { Tasks } from '../../src/supervisor/tasks.ts'
import { Intake } from '../../src/teammate/intake.ts'
import { SimJournal } from './disk.ts'
import { simulate } from './run.ts'
import { ofTeam, type teams } from './teams.ts'

type Kind = keyof typeof teams
const merging: Kind = 'a team that merges by rule, without a lead'
const folder: Kind = 'a team in one folder, where leases matter'
const done = Promise.resolve()

/** A rule of the product, broken; by what it is found, and where. */
interface Mutation {
  readonly finds: RegExp
  readonly kind?: Kind
  /** Where to begin, so that it need not be looked for each time. */
  readonly seed?: number
  /** What is broken: a method of a class, in the place of the one that is there. */
  readonly of: object
  readonly method: string
  // biome-ignore lint/suspicious/noExplicitAny: whatever the method takes and gives.
  readonly by: (original: (...args: any[]) => any) => (this: any, ...args: any[]) => any
}

const mutations: Readonly<Record<string, Mutation>> = {
  'acknowledged before it is durable': {
    finds: /before that was durable/,
    of: SimJournal.prototype,
    method: 'flushed',
    by: () => () => done,
  },
  'given to a thread before the start of the task is durable': {
    finds: /was told of task \d+ before that was durable/,
    of: Tasks.prototype,
    method: 'move',
    by: original =>
      function (...args) {
        const moved = original.apply(this, args)
        return moved.ok ? ok({ ...moved.value, durable: done }) : moved
      },
  },
  'an effect without intent': {
    finds: /was merged before the intent was on the disk|an effect without intent/,
    of: Requests.prototype,
    method: 'effect',
    by: original =>
      function (id, step, ...rest) {
        return step === 'intent' ? ok({ seq: 0, durable: done }) : original.call(this, id, step, ...rest)
      },
  },
  'an effect that does not wait for its intent': {
    finds: /was merged before the intent was on the disk|nobody approved it on the disk/,
    of: Requests.prototype,
    method: 'effect',
    by: original =>
      function (...args) {
        const put = original.apply(this, args)
        return put.ok ? ok({ ...put.value, durable: done }) : put
      },
  },
  'a hint dropped with no sweep': {
    finds: /never entered the context/,
    seed: 19,
    of: Crew.prototype,
    method: 'mailFor',
    by: () => () => undefined,
  },
  'a hint lost in the middle of a read': {
    finds: /never entered the context/,
    seed: 426,
    of: Intake.prototype,
    method: 'next',
    by: original =>
      async function (...args) {
        const choice = await original.apply(this, args)
        if (!choice?.more) this.due = false
        return choice
      },
  },
  'mail that is given again to whoever had it': {
    finds: /entered the context of \w+ twice/,
    seed: 24,
    of: Mail.prototype,
    method: 'find',
    by: () => () => undefined,
  },
  'a thread that comes back is not told of its task again': {
    finds: /steps without faults/,
    seed: 68,
    of: Dispatch.prototype,
    method: 'gone',
    by: () => () => undefined,
  },
  'a task is given to whoever has one': {
    finds: /in hand/,
    of: Tasks.prototype,
    method: 'inHand',
    by: () => () => undefined,
  },
  'tasks begun where another writes': {
    finds: /write the same/,
    kind: folder,
    of: Leases.prototype,
    method: 'bar',
    by: () => () => null,
  },
  'a dependency that counts before it is completed': {
    finds: /is blocked by/,
    of: Graph.prototype,
    method: 'blockedBy',
    by: () => () => [],
  },
  'a replay that leaves something out': {
    finds: /before the crash|contradicts itself/,
    seed: 24,
    of: Table.prototype,
    method: 'apply',
    by: original =>
      function (id, rev, value) {
        if (rev < 3) original.call(this, id, rev, value)
      },
  },
  'what a session tells again after its thread died is not counted': {
    finds: /tokens are counted/,
    seed: 324,
    of: Budget.prototype,
    method: 'heard',
    by: original =>
      function (name, told) {
        if (told.call !== null) original.call(this, name, told)
      },
  },
}

const broken = async ({ of, method, by }: Mutation, act: () => Promise<unknown>): Promise<Error> => {
  const rules = of as Record<string, (...args: unknown[]) => unknown>
  const original = rules[method]
  if (!original) throw new Error(`${method} is not there to be broken`)
  rules[method] = by(original)
  try {
    await act()
    return new Error('not found')
  } catch (error) {
    return error as Error
  } finally {
    rules[method] = original
  }
}

const most = 300
for (const [name, mutation] of Object.entries(mutations))
  test(name, async () => {
    const simulation = ofTeam(mutation.kind ?? merging)
    const found = await broken(mutation, () => simulate(simulation, most, mutation.seed ?? 1, false))
    expect(found.message).toMatch(mutation.finds)
  })

test('what fails is made small, and shown as what happened', async () => {
  const mutation = mutations['tasks begun where another writes']
  if (!mutation) throw new Error('it is not there')
  const { message } = await broken(mutation, () => simulate(ofTeam(folder), most, 1))
  expect(message).toMatch(
    /^a team in one folder, where leases matter, seed \d+: Error: tasks \d+ and \d+ write the same\n/,
  )
  const [, from, to] = /from (\d+) steps to (\d+)/.exec(message) ?? []
  expect(Number(to)).toBeLessThan(6)
  expect(Number(from)).toBeGreaterThan(Number(to))
  expect(message).toContain('  the human: task.add {')
})
