import { expect, test } from 'vitest'
import { lineOf } from '../../src/agent/line.ts'
import { callModel, localGate } from '../../src/agent/retry.ts'
import { resolveFallbacks } from '../../src/cli/models.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { Model, ModelFault, Turn } from '../../src/model/model.ts'
import { Config, members } from '../../src/protocol/config.ts'
import { fallbackOf, labelsOf, mostCost, priceOf } from '../../src/protocol/fallbacks.ts'

let now = 0
const clock: Clock = { wall: () => now, mono: () => now }
const usage = { input: 1, cachedInput: 0, output: 1 }
const answer: Turn = { text: 'fine', calls: [], stop: 'end', usage }
const failing = (fault: ModelFault): Turn => ({ text: '', calls: [], stop: 'error', fault, usage: null })
const auth = failing({ kind: 'auth', message: 'no' })

/** Models that answer by what stands in `says` at the time. */
const line = (says: Record<string, Turn>, answering: string | null = null) => {
  const asked: string[] = []
  const told: string[] = []
  const one = (label: string): Model => ({
    label,
    turn: async () => {
      asked.push(label)
      return says[label] ?? answer
    },
  })
  const { model, gate } = lineOf({
    models: Object.keys(says).map(label => ({
      model: one(label),
      gate: localGate(clock),
      isCheaper: label === 'cheap',
    })),
    answering,
    clock,
    onSwitch: (from, to, why) => told.push(`${from} ${to} ${why === 'budget' ? why : (why?.kind ?? 'back')}`),
  })
  const call = () =>
    callModel({
      model,
      gate,
      request: { system: 's', messages: [], tools: [], signal: new AbortController().signal },
      retries: 1,
      backoff: { baseMs: 0, capMs: 0 },
      onWait: () => undefined,
    })
  return { model, call, asked, told }
}

test('a failing model is retried, then the next one takes the call, and those after it, until a later turn', async () => {
  const says: Record<string, Turn> = { a: failing({ kind: 'overloaded', message: 'down' }), b: answer }
  const { model, call, asked, told } = line(says)
  expect(await call()).toMatchObject({ text: 'fine', model: 'b' })
  expect(asked).toEqual(['a', 'a', 'b'])
  expect(told).toEqual(['a b overloaded'])
  says.a = answer
  model.turnBegins?.()
  expect(await call()).toMatchObject({ model: 'b' })
  now += 10 * 60_000
  // Not in the middle of a turn, whatever the time.
  expect(await call()).toMatchObject({ model: 'b' })
  model.turnBegins?.()
  expect(await call()).toMatchObject({ model: 'a' })
  expect(told).toEqual(['a b overloaded', 'b a back'])
})

test('a refused key, an empty account and a model that is not there are reasons; a bad request and an overflow are not', async () => {
  const faults: ModelFault[] = [
    { kind: 'auth', message: '' },
    { kind: 'quota', message: '' },
    { kind: 'bad_request', status: 404, message: '' },
    { kind: 'bad_request', status: 400, message: 'The model `x` does not exist' },
  ]
  for (const fault of faults) expect(await line({ a: failing(fault), b: answer }).call()).toMatchObject({ model: 'b' })
  for (const kind of ['bad_request', 'overflow', 'unusable', 'aborted'] as const)
    expect((await line({ a: failing({ kind, message: '' }), b: answer }).call()).fault).toMatchObject({ kind })
})

test('where all fail the call fails, and the next one begins with the first again', async () => {
  const says: Record<string, Turn> = { a: auth, b: auth }
  const { call, asked, told } = line(says)
  expect((await call()).fault).toMatchObject({ kind: 'auth' })
  says.a = answer
  expect(await call()).toMatchObject({ model: 'a' })
  expect(asked).toEqual(['a', 'b', 'a'])
  expect(told).toEqual(['a b auth', 'b a back'])
})

test('calls made at the same time switch once; a restart goes on with who answered', async () => {
  const { call, told } = line({ a: auth, b: answer, c: answer })
  expect(await Promise.all([call(), call()])).toMatchObject([{ model: 'b' }, { model: 'b' }])
  expect(told).toEqual(['a b auth'])
  expect(await line({ a: answer, b: answer }, 'b').call()).toMatchObject({ model: 'b' })
  expect(await line({ a: answer, b: answer }, 'gone').call()).toMatchObject({ model: 'a' })
})

test('an entry is laid over the model unless it names where it is; a price is its own, and the dearest is kept free', () => {
  const model = { provider: 'house', name: 'm', baseURL: 'http://h/v1', apiKeyEnv: 'K', contextWindow: 9 }
  expect(fallbackOf(model, { name: 'small' })).toEqual({ model: { ...model, name: 'small' }, price: null })
  const own = { provider: 'deepseek', price: { in: 1, out: 1 } }
  expect(fallbackOf(model, own)).toEqual({ model: { provider: 'deepseek' }, price: own.price })
  const [alice] = members(
    Config.parse({
      model: {
        ...model,
        price: { in: 2, out: 2 },
        fallbacks: [{ name: 'm' }, { name: 'x', price: { in: 8, out: 8 } }],
      },
      teammates: [{ name: 'alice' }],
    }),
  )
  if (!alice) throw new Error('there is one')
  expect(labelsOf([alice.model, ...alice.fallbacks.map(each => each.model)])).toEqual([
    'house/m',
    'house/m (2)',
    'house/x',
  ])
  expect(priceOf(alice, 'house/m')).toEqual({ in: 2, out: 2 })
  expect(priceOf(alice, 'house/m (2)')).toBeNull()
  expect(priceOf(alice, 'house/x')).toEqual({ in: 8, out: 8 })
  expect(priceOf(alice, 'of another time')).toEqual({ in: 2, out: 2 })
  expect(mostCost(alice, { input: 1e6, cachedInput: 0, output: 0 })).toBe(8)
})

test('the cheaper one takes the calls while the budget is to be spared, and to the end of the turn; it takes over for none that failed', async () => {
  const says: Record<string, Turn> = { a: answer, b: answer, cheap: answer }
  const { model, call, told } = line(says)
  expect(await call()).toMatchObject({ model: 'a' })
  model.spare?.(true)
  expect(await call()).toMatchObject({ model: 'cheap' })
  model.turnBegins?.()
  model.spare?.(true)
  expect(await call()).toMatchObject({ model: 'cheap' })
  model.spare?.(false)
  expect(await call()).toMatchObject({ model: 'cheap' })
  model.turnBegins?.()
  expect(await call()).toMatchObject({ model: 'a' })
  says.a = auth
  says.b = auth
  expect((await call()).fault).toMatchObject({ kind: 'auth' })
  expect(told).toEqual(['a cheap budget', 'cheap a back', 'a b auth', 'b a back'])
})

test('a cheaper one that fails gives the call back, and is left alone for a while', async () => {
  const says: Record<string, Turn> = { a: answer, cheap: auth }
  const { model, call, asked } = line(says)
  model.spare?.(true)
  expect(await call()).toMatchObject({ model: 'a' })
  model.spare?.(true)
  expect(await call()).toMatchObject({ model: 'a' })
  expect(asked).toEqual(['cheap', 'a', 'a'])
  now += 10 * 60_000
  says.cheap = answer
  model.spare?.(true)
  expect(await call()).toMatchObject({ model: 'cheap' })
})

test('the first is gone back to after six hours at the latest, whatever it asked for', async () => {
  const says: Record<string, Turn> = {
    a: failing({ kind: 'rate_limit', message: '', retryAfterMs: 400 * 86_400_000 }),
    b: answer,
  }
  const { model, call } = line(says)
  expect(await call()).toMatchObject({ model: 'b' })
  says.a = answer
  now += 6 * 3_600_000 + 1
  model.turnBegins?.()
  expect(await call()).toMatchObject({ model: 'a' })
})

test('the runbook executor is no fallback: the error names the entry and says so', () => {
  const member = { name: 'alice', fallbacks: [{ model: { provider: 'runbook' }, price: null }] }
  expect(resolveFallbacks(member, {})).toMatchObject({
    ok: false,
    fault: { message: expect.stringMatching(/^alice: model\.fallbacks\[0\] comes to the runbook executor/) },
  })
})
