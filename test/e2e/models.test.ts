import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Reply, type ScriptedRequest, startScripted } from '../../src/model/scripted.ts'
import { team, teamOk, until } from '../support/cli.ts'
import { ask, journal, killed, scriptedTeam, status } from '../support/scripted-team.ts'

/** Ends its task, and after that its turn. */
const done = ({ messages }: ScriptedRequest): Reply =>
  messages.at(-1)?.content?.includes('is claimed done')
    ? 'Done.'
    : { calls: [{ name: 'task', args: { action: 'complete', summary: 'done' } }] }
const ended = (root: string, id = '1') =>
  until(async () => {
    const { task } = await ask(root, 'task.get', { id })
    return ['completed', 'failed', 'cancelled'].includes(task.status) && task
  }, 45_000)
const refuse = (message: string): Reply => ({ status: 400, body: { error: { message } } })

test('a refused parameter is known to the whole team over kill -9, shown by doctor, and forgotten with its file', async () => {
  const alice = (request: ScriptedRequest): Reply =>
    'max_tokens' in request ? refuse("Unsupported parameter: 'max_tokens'") : done(request)
  const { root, up, requests } = await scriptedTeam(
    { alice },
    { teammates: [{ name: 'alice', model: { maxOutputTokens: 500 } }] },
  )
  const file = join(root, '.team', 'models.json')
  await teamOk(['task', 'add', 'One', '--root', root])
  let daemon = await up()
  await ended(root)
  await until(() => existsSync(file), 45_000)
  const refused = () => requests('alice').filter(request => 'max_tokens' in request).length
  expect(refused()).toBe(1)
  await until(async () => (await journal(root)).some(({ event }) => event === 'model.learned'), 45_000)
  expect(await teamOk(['logs', '--root', root])).toContain('max_completion_tokens')
  await killed(daemon)

  expect(await teamOk(['doctor', '--root', root])).toContain('max_completion_tokens (learned)')
  await teamOk(['task', 'add', 'Two', '--root', root])
  daemon = await up()
  await ended(root, '2')
  expect(refused()).toBe(1)
  await killed(daemon)

  // Half a file is told, and nothing waits for it; what it said is learned again.
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, 40))
  expect((await team(['doctor', '--root', root])).stdout).toContain('is damaged')
  await teamOk(['task', 'add', 'Three', '--root', root])
  daemon = await up()
  await ended(root, '3')
  expect(refused()).toBe(2)
  expect(
    (await journal(root)).some(({ event, info }) => event === 'warning' && /damaged/.test(String(info?.text))),
  ).toBe(true)
  await until(() => existsSync(file) && readFileSync(file, 'utf8').includes('max_completion_tokens'), 45_000)
  await killed(daemon)
  rmSync(file)
  expect(await teamOk(['doctor', '--root', root])).not.toContain('max_completion_tokens')
})

test('a failing model is followed by the next, over kill -9 in the middle, at its own price; doctor and status tell of it', async () => {
  let works = 0
  const usage = { prompt_tokens: 1000, completion_tokens: 100 }
  const second = await startScripted(request =>
    works++ < 3
      ? { calls: [{ name: 'ls', args: {} }], usage }
      : works === 4
        ? { ...(done(request) as object), usage }
        : done(request),
  )
  const refused: Reply = { status: 401, body: { error: { message: 'that key is no good' } } }
  const { root, up, requests } = await scriptedTeam(
    { alice: () => refused },
    { teammates: [{ name: 'alice', model: { price: { in: 1000, out: 1000 } } }] },
  )
  try {
    const file = join(root, 'config.json')
    const config = JSON.parse(readFileSync(file, 'utf8')) as { teammates: { model: object }[]; budget?: object }
    config.budget = { team: { cost: 5000 } }
    const [alice] = config.teammates
    if (alice)
      alice.model = {
        ...alice.model,
        fallbacks: [{ provider: 'other', baseURL: second.baseURL, name: 'spare', price: { in: 1, out: 1 } }],
      }
    writeFileSync(file, JSON.stringify(config))
    expect(await teamOk(['doctor', '--root', root])).toContain(`spare at ${second.baseURL}`)
    await teamOk(['task', 'add', 'One', '--root', root])
    let daemon = await up()
    await until(() => works >= 2, 45_000)
    await killed(daemon)
    daemon = await up()
    expect(await ended(root)).toMatchObject({ status: 'completed' })
    // The first is asked once, not at each call and not after the restart in the middle of the turn.
    expect(requests('alice')).toHaveLength(1)
    const events = (await journal(root)).filter(({ event }) => event === 'model.fallback')
    expect(events.map(({ info }) => [info?.from, info?.to, info?.kind])).toEqual([
      ['scripted/alice', 'other/spare', 'auth'],
    ])
    const now = await status(root)
    expect(now.teammates[0]?.model).toBe('other/spare')
    // At the price of who answered: at the first one's it would be a thousand times as much.
    expect(now.used.cost).toBeGreaterThan(0)
    expect(now.used.cost).toBeLessThan(0.1)
    expect(await teamOk(['logs', '--root', root])).toContain('calls other/spare from now on: scripted/alice failed')
    expect(readFileSync(join(root, '.team', 'sessions', 'alice.jsonl'), 'utf8')).toContain('"model":"other/spare"')
    await killed(daemon)
  } finally {
    await second.close()
  }
})

test('model.cheaper: near a cap on cost it takes the calls before anybody is asked; logs, doctor and status tell of it', async () => {
  const usage = { prompt_tokens: 1000, completion_tokens: 10 }
  const small = await startScripted((_request, n) => (n === 0 ? { calls: [{ name: 'ls', args: {} }] } : done(_request)))
  const { root, up, requests } = await scriptedTeam({
    alice: (_request, n) => ({ calls: [{ name: 'grep', args: { pattern: `x${n}` } }], usage }),
  })
  try {
    const file = join(root, 'config.json')
    const config = JSON.parse(readFileSync(file, 'utf8')) as { teammates: { model: object }[]; budget?: object }
    config.budget = { team: { cost: 10 } }
    const [alice] = config.teammates
    // A call is about 3,000 tokens with what is kept free for its answer, and uses 1,010: it costs 1, and 3 are kept free for it.
    const price = { in: 1000, out: 1000 }
    if (alice)
      alice.model = {
        ...alice.model,
        price,
        cheaper: { provider: 'other', baseURL: small.baseURL, name: 'small' },
      }
    writeFileSync(file, JSON.stringify(config))
    expect((await team(['doctor', '--root', root])).stdout).toMatch(/cheaper.*needs a price/)
    if (alice) Object.assign((alice.model as { cheaper: object }).cheaper, { price: { in: 0.1, out: 0.1 } })
    writeFileSync(file, JSON.stringify(config))
    expect(await teamOk(['doctor', '--root', root])).toContain(`small at ${small.baseURL}`)
    await teamOk(['task', 'add', 'One', '--root', root])
    const daemon = await up()
    expect(await ended(root)).toMatchObject({ status: 'completed' })
    expect(requests('alice').length).toBeGreaterThan(2)
    const now = await status(root)
    expect(now.teammates[0]?.model).toBe('other/small')
    expect(now.requests).toEqual([])
    expect(now.used.cost).toBeLessThan(10)
    expect(await teamOk(['logs', '--root', root])).toContain(
      'calls other/small from now on: little of the budget is left for scripted/alice',
    )
    await killed(daemon)
  } finally {
    await small.close()
  }
})

test('a fallback at the same address takes the calls while the first model asked for a long wait', async () => {
  const { root, up, requests } = await scriptedTeam(
    {
      alice: () => ({ status: 429, body: { error: { message: 'slow' } }, headers: { 'retry-after': '3600' } }),
      spare: done,
    },
    { teammates: [{ name: 'alice', model: { fallbacks: [{ name: 'spare' }] } }] },
  )
  await teamOk(['task', 'add', 'One', '--root', root])
  const daemon = await up()
  expect(await ended(root)).toMatchObject({ status: 'completed' })
  expect(requests('alice')).toHaveLength(1)
  await killed(daemon)
})
