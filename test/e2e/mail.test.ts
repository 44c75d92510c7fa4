import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ended, says, start, team, teamOk, until } from '../support/cli.ts'
import {
  gate,
  heard,
  inboxOf,
  killed,
  lastSaid,
  quiet,
  type Script,
  scriptedTeam,
  status,
  taken,
} from '../support/scripted-team.ts'

const line = (content: string, extra: object = {}): string =>
  `${JSON.stringify({ from: 'build', to: 'alice', type: 'info', content, ...extra })}\n`
const inboxFile = (root: string, name = 'alice') => join(root, '.messages', `${name}.inbox.jsonl`)
const numbers = (contents: readonly string[]) =>
  contents.map(text => Number(/n=(\d+)/.exec(text)?.[1])).sort((a, b) => a - b)
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

test('A01 fifty senders at one moment, half of them commands and half of them a teammate, each reach alice once', async () => {
  const hold = gate()
  const bob: Script = (_, n) =>
    n === 0 ? { calls: upTo(25).map(i => ({ name: 'message', args: { to: 'alice', content: `n=${i}` } })) } : 'Sent.'
  const { root, requests, up } = await scriptedTeam({
    alice: async () => {
      await hold.opened
      return 'Read.'
    },
    bob,
  })
  await up()
  const sends = upTo(25).map(i => team(['send', 'alice', `n=${i + 25}`, '--root', root]))
  await teamOk(['send', 'bob', 'go', '--root', root])
  expect((await Promise.all(sends)).map(({ code }) => code)).toEqual(sends.map(() => 0))
  await until(async () => (await inboxOf(root, 'alice')).last === 50)
  hold.open()
  await quiet(root, 'alice', 'bob')
  expect(numbers(taken(root, 'alice').map(mail => mail.content))).toEqual(upTo(50))
  const all = heard(requests('alice').at(-1))
  for (const i of upTo(50)) expect(all.split(`\nn=${i}\n`)).toHaveLength(2)
})

test('A03 looking twice at the inbox of a busy lead consumes nothing: it gets the mail when it is free', async () => {
  const hold = gate()
  const { root, requests, up } = await scriptedTeam(
    {
      lead: async () => {
        await hold.opened
        return 'Read.'
      },
    },
    { lead: 'lead' },
  )
  await up()
  await teamOk(['send', 'lead', 'the first keeps it busy', '--root', root])
  await until(() => requests('lead').length >= 1)
  await teamOk(['send', 'lead', 'seen twice, read once', '--root', root])
  for (let look = 0; look < 2; look++) {
    expect(await teamOk(['inbox', 'lead', '--unread', '--root', root])).toContain('seen twice, read once')
    expect((await status(root)).teammates[0]?.unread).toBe(1)
  }
  hold.open()
  await quiet(root, 'lead')
  expect(heard(requests('lead').at(-1)).split('seen twice, read once')).toHaveLength(2)
})

test('A05 a name that nobody has is refused by the daemon, for the command and for a teammate, and leaves no inbox', async () => {
  const names = ['nobody', 'ALICE', ' alice', 'reviewer', '../x', 'team/alice']
  const { root, requests, up } = await scriptedTeam(
    {
      alice: (_, n) =>
        n === 0
          ? { calls: [...names, ''].map(to => ({ name: 'message', args: { to, content: 'hi' } })) }
          : 'I could not send it.',
      bob: () => 'Read.',
    },
    { teammates: [{ name: 'alice', role: 'reviewer' }, { name: 'bob' }] as { name: string }[] },
  )
  await up()
  const before = readdirSync(join(root, '.messages')).sort()
  for (const name of [...names, '']) {
    const ran = await team(['send', name, 'hi', '--root', root])
    expect([name, ran.code, ran.stderr]).toEqual([name, 4, expect.stringContaining('alice, bob')])
  }
  await teamOk(['send', 'alice', 'write to everybody', '--root', root])
  await quiet(root, 'alice')
  const results =
    requests('alice')
      .at(-1)
      ?.messages.filter(message => message.role === 'tool') ?? []
  expect(results).toHaveLength(names.length + 1)
  for (const result of results) expect(result.content).toMatch(/^error: nobody is called[\s\S]*alice, bob, user/)
  expect(readdirSync(join(root, '.messages')).sort()).toEqual(before)
})

test('A07 a torn last line does not swallow what is sent after it, and a restart repeats nothing', async () => {
  const { root, requests, up } = await scriptedTeam({ alice: () => 'Read.' })
  let daemon = await up()
  appendFileSync(inboxFile(root), '{"id":"x1","te')
  await teamOk(['send', 'alice', 'hello', '--root', root])
  await quiet(root, 'alice')
  expect(heard(requests('alice').at(-1))).toContain('\nhello\n')
  await until(async () => (await status(root)).deadLetters === 1)
  for (let again = 0; again < 2; again++) {
    await killed(daemon)
    daemon = await up()
    await quiet(root, 'alice')
  }
  expect((await status(root)).deadLetters).toBe(1)
  expect(readFileSync(join(root, '.messages', 'dead-letter.jsonl'), 'utf8').split('\n')).toHaveLength(2)
  expect(taken(root, 'alice').map(mail => mail.content)).toEqual(['hello'])
  expect(requests('alice')).toHaveLength(1)
})

test('A09 odd line separators, controls and quotes reach the model byte for byte, sent or appended', async () => {
  const { root, requests, up } = await scriptedTeam({ alice: () => 'Read.' })
  await up()
  const sent =
    'a\u2028b\u2029c\u0085d\re\n\nf\r\ng\th\u0000i\u001bj\u007fk\u200b\u202el\ufeffm"\\ \\n 🦊 日本 e\u0301 \u{10ffff}'
  const appended = sent.replace('a', 'z')
  await teamOk(['send', 'alice', '-', '--root', root], { input: sent })
  // JSON may hold these as they are, and programs other than this one write them so.
  appendFileSync(inboxFile(root), line(appended))
  await until(() => taken(root, 'alice').length >= 2)
  await quiet(root, 'alice')
  expect(
    taken(root, 'alice')
      .map(mail => mail.content)
      .sort(),
  ).toEqual([sent, appended].sort())
  const all = heard(requests('alice').at(-1))
  for (const text of [sent, appended]) expect(all).toContain(`\n${text}\n</message>`)
  expect((await inboxOf(root, 'alice')).items.map(item => item.stored.message.content).sort()).toEqual(
    [sent, appended].sort(),
  )
})

test('A11 two thousand unread lines and a giant one are taken in bounded batches, and the short one behind them arrives', async () => {
  const { root, requests, up } = await scriptedTeam({ alice: () => 'Read.' }, { limits: { messageBatch: 100 } })
  mkdirSync(join(root, '.messages'))
  writeFileSync(
    inboxFile(root),
    upTo(2000)
      .map(i => line(`n=${i}`))
      .join('') + line(`big ${'x'.repeat(5_000_000)}`),
  )
  await up()
  const big = await team(['send', 'alice', '-', '--root', root], { input: `${'y'.repeat(5_000_000)}` })
  expect([big.code, big.stderr]).toEqual([1, expect.stringMatching(/5000000 bytes, 262144 are allowed/)])
  expect(big.stderr.length).toBeLessThan(1000)
  await teamOk(['send', 'alice', 'n=2000', '--root', root])
  await until(() => taken(root, 'alice').some(mail => mail.content === 'n=2000'), 60_000)
  const now = await quiet(root, 'alice')
  expect(now.deadLetters).toBe(0)
  const got = taken(root, 'alice')
  expect(numbers(got.map(mail => mail.content).filter(text => text.startsWith('n=')))).toEqual(upTo(2001))
  const giant = got.filter(mail => mail.content.startsWith('big '))
  expect(giant).toHaveLength(1)
  expect(giant[0]?.content.length).toBeLessThan(5000)
  for (const request of requests('alice'))
    expect(lastSaid(request).split('<message ').length - 1).toBeLessThanOrEqual(100)
})

test('A11 mail far past the window of the model is read to its end, and no prompt passes the window', async () => {
  const window = 16_000
  const { root, requests, up } = await scriptedTeam(
    { alice: () => 'Read.' },
    { limits: { messageBatch: 5 }, teammates: [{ name: 'alice' }] },
  )
  const config = JSON.parse(readFileSync(join(root, 'config.json'), 'utf8'))
  config.model.contextWindow = window
  writeFileSync(join(root, 'config.json'), JSON.stringify(config))
  mkdirSync(join(root, '.messages'))
  writeFileSync(
    inboxFile(root),
    upTo(60)
      .map(i => line(`n=${i} ${'word '.repeat(800)}`))
      .join('') +
      // A name that is longer than the window.
      line('n=60 ', { from: 'f'.repeat(100_000) }),
  )
  await up()
  await until(() => taken(root, 'alice').some(mail => mail.content.startsWith('n=60 ')), 60_000)
  await quiet(root, 'alice')
  for (const request of requests('alice')) expect(JSON.stringify(request.messages).length / 4).toBeLessThan(window)
  const seen = new Set(
    requests('alice').flatMap(request => [...heard(request).matchAll(/n=(\d+)/g)].map(([, n]) => Number(n))),
  )
  expect([...seen].sort((a, b) => a - b)).toEqual(upTo(61))
})

test('A13 a sender that is cut off in the middle of sending is told so, and nothing it sent arrives twice', async () => {
  const bob: Script = (request, n) => {
    if (n === 0) return { calls: upTo(40).map(i => ({ name: 'message', args: { to: 'alice', content: `n=${i}` } })) }
    return heard(request).includes('interrupted, outcome unknown') ? 'I was cut off and send nothing again.' : 'Sent.'
  }
  for (const after of [1, 17]) {
    const { root, requests, up } = await scriptedTeam({ alice: () => 'Read.', bob })
    const daemon = await up()
    await teamOk(['send', 'bob', 'go', '--root', root])
    await until(() => existsSync(inboxFile(root)) && readFileSync(inboxFile(root), 'utf8').split('\n').length > after)
    await killed(daemon)
    const second = await up()
    // Ready is not yet at work again: the turn that was cut off goes on right after it.
    await until(() => requests('bob').length > 1)
    await quiet(root, 'alice', 'bob')
    const got = taken(root, 'alice')
    const ids = (await inboxOf(root, 'alice')).items.map(item => item.stored.message.id)
    expect(got.map(mail => mail.id)).toEqual(ids)
    expect(new Set(ids).size).toBe(ids.length)
    expect(new Set(got.map(mail => mail.content)).size).toBe(got.length)
    const results =
      requests('bob')
        .at(-1)
        ?.messages.filter(message => message.role === 'tool') ?? []
    expect(results).toHaveLength(40)
    const sure = results.filter(result => /^alice: delivered/.test(result.content ?? ''))
    // Told as sent means that it arrived; at most one is unknown, the others were not begun.
    expect(got.length - sure.length).toBeGreaterThanOrEqual(0)
    expect(got.length - sure.length).toBeLessThanOrEqual(1)
    await killed(second)
  }
})

test('A15 five errors of the endpoint in a row lose no mail, are visible meanwhile and need no hand', async () => {
  const { root, requests, up } = await scriptedTeam({
    alice: (_, n) =>
      // Asked to, the last wait is long enough to be seen, whatever chance makes of the others.
      n < 5 ? { status: 500, ...(n === 4 ? { headers: { 'retry-after': '6' } } : {}) } : 'Read.',
  })
  await teamOk(['send', 'alice', 'first', '--root', root])
  await teamOk(['send', 'alice', 'second', '--root', root])
  await up()
  await until(async () => {
    const [alice] = (await status(root)).teammates
    return alice?.state === 'waiting' && alice.waiting !== null && /model|500/.test(JSON.stringify(alice.waiting))
  })
  await quiet(root, 'alice')
  expect(requests('alice')).toHaveLength(6)
  expect(lastSaid(requests('alice')[5] ?? { model: '', messages: [] })).toMatch(/first[\s\S]*second/)
  expect(taken(root, 'alice').map(mail => mail.content)).toEqual(['first', 'second'])
})

test('A17 mail that comes in any of ten rounds of tools stands in the very next request, after all results of the round', async () => {
  const rounds = 10
  const { root, requests, up } = await scriptedTeam(
    {
      // Each round ends when the test lets it, so that the mail surely comes while its commands run.
      alice: (_, n) =>
        n < rounds
          ? {
              calls: [`until [ -e go-${n} ]; do sleep 0.02; done`, 'echo done'].map(command => ({
                name: 'bash',
                args: { command },
              })),
            }
          : n === rounds
            ? { calls: [{ name: 'task', args: { action: 'complete', summary: 'slept' } }] }
            : 'Done.',
    },
    { permissions: { allow: ['sleep *', 'echo *'] } },
  )
  await up()
  await teamOk(['task', 'add', 'Sleep', '--root', root])
  // By command, urgent by command, by a line in the file: each in turn.
  const send = [
    (text: string) => teamOk(['send', 'alice', text, '--root', root]),
    (text: string) => teamOk(['send', 'alice', '--urgent', text, '--root', root]),
    async (text: string) => {
      const { last } = await inboxOf(root, 'alice')
      appendFileSync(inboxFile(root), line(text))
      await until(async () => (await inboxOf(root, 'alice')).last > last)
    },
  ]
  for (let n = 0; n < rounds; n++) {
    await until(() => requests('alice').length === n + 1)
    await send[n % send.length]?.(`in round ${n}.`)
    writeFileSync(join(root, `go-${n}`), '')
  }
  await quiet(root, 'alice')
  for (let n = 0; n < rounds; n++) {
    const { messages } = requests('alice')[n + 1] ?? { messages: [] }
    expect(messages.slice(-4).map(message => message.role)).toEqual(['assistant', 'tool', 'tool', 'user'])
    expect(messages.at(-1)?.content).toContain(`in round ${n}.`)
  }
  expect(taken(root, 'alice')).toHaveLength(rounds)
})

/** The daemon may put a file back before its folder is gone: as with `rm -r`, one tries again then. */
const removeWhileItFills = (folder: string): void => {
  for (let tries = 0; ; tries++)
    try {
      rmSync(folder, { recursive: true })
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY' || tries > 100) throw error
    }
}

describe('the folder of messages', () => {
  test('J01 ten lines at once, two hundred at a pace and a writer that never pauses are all read, once', async () => {
    // What is tried is the reading of the file, so few turns are enough for the context.
    const { root, up } = await scriptedTeam({ alice: () => 'Read.' }, { limits: { messageBatch: 1000 } })
    await up()
    let n = 0
    for (let i = 0; i < 10; i++) appendFileSync(inboxFile(root), line(`n=${n++}`))
    for (let i = 0; i < 200; i++) {
      appendFileSync(inboxFile(root), line(`n=${n++}`))
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    const end = performance.now() + 3000
    while (performance.now() < end) {
      appendFileSync(inboxFile(root), line(`n=${n++}`))
      await new Promise(resolve => setImmediate(resolve))
      if (n % 50 === 0) await new Promise(resolve => setTimeout(resolve, 10))
    }
    await until(async () => (await inboxOf(root, 'alice')).last === n)
    await quiet(root, 'alice')
    expect(numbers(taken(root, 'alice').map(mail => mail.content))).toEqual(upTo(n))
  })

  test('J03 with the folders missing at the start, what is written right after ready is seen', async () => {
    const { root, up } = await scriptedTeam({ alice: () => 'Read.' })
    await teamOk(['task', 'add', 'Known before', '--root', root])
    for (const folder of ['.messages', '.tasks']) removeWhileItFills(join(root, folder))
    await up()
    appendFileSync(inboxFile(root), line('n=0'))
    writeFileSync(join(root, '.tasks', 'first.json'), '{"title":"Dropped at once"}')
    await until(() => taken(root, 'alice').length >= 1)
    await until(async () => (await status(root)).tasks.length === 2)
  })

  test('J03 with the folders deleted while it runs, mail and drops go on, and everything known is put back', async () => {
    const { root, requests, up } = await scriptedTeam({ alice: () => 'Read.' })
    await up()
    await teamOk(['send', 'alice', 'n=0', '--root', root])
    await teamOk(['task', 'add', 'Stays', '--after', 'Never', '--root', root])
    await quiet(root, 'alice')
    for (let round = 1; round <= 3; round++) {
      for (const folder of ['.messages', '.tasks']) removeWhileItFills(join(root, folder))
      await teamOk(['send', 'alice', `n=${round * 2}`, '--root', root])
      await until(() => existsSync(join(root, '.tasks', 'task_1.json')) && existsSync(join(root, '.messages')))
      appendFileSync(inboxFile(root), line(`n=${round * 2 + 1}`))
      writeFileSync(join(root, '.tasks', `late-${round}.json`), `{"title":"Late ${round}","blockedBy":["Never"]}`)
      await until(() => taken(root, 'alice').length === round * 2 + 1)
      await until(async () => (await status(root)).tasks.length === round + 1)
    }
    await quiet(root, 'alice')
    expect(numbers(taken(root, 'alice').map(mail => mail.content))).toEqual([0, 2, 3, 4, 5, 6, 7])
    expect(requests('alice').length).toBeGreaterThan(0)
  })
})

test('what the guides to such teams write into an inbox is mail: from, to, timestamp, type, content', async () => {
  const { root, requests, up } = await scriptedTeam({ 'frontend-agent': () => 'Read.' })
  mkdirSync(join(root, '.messages'))
  const mail = {
    from: 'leader',
    to: 'frontend-agent',
    timestamp: '2026-05-14T10:00:00Z',
    type: 'task',
    content: '实现登录页面',
  }
  writeFileSync(inboxFile(root, 'frontend-agent'), `${JSON.stringify(mail)}\n`)
  await up()
  appendFileSync(
    inboxFile(root, 'frontend-agent'),
    `${JSON.stringify({ ...mail, type: 'message', content: '接口已经就绪' })}\n`,
  )
  await until(() => requests('frontend-agent').some(request => heard(request).includes('接口已经就绪')))
  await until(() => requests('frontend-agent').some(request => heard(request).includes('# 实现登录页面')))
  expect((await status(root)).tasks).toMatchObject([{ title: '实现登录页面', assignee: 'frontend-agent' }])
})

test('the daemon is killed again and again while mail comes from everywhere: each message enters one context once', async () => {
  const chatty: Script = (request, n) =>
    n % 3 === 0 && heard(request).includes('n=')
      ? {
          calls: [
            {
              name: 'message',
              args: { to: request.model === 'alice' ? 'bob' : 'alice', content: `from ${request.model} ${n}` },
            },
          ],
        }
      : 'Read.'
  const { root, up } = await scriptedTeam({ alice: chatty, bob: chatty }, { limits: { messageBatch: 3 } })
  let n = 0
  const sent: string[] = []
  for (let round = 0; round < 3; round++) {
    const daemon = start(['up', '--root', root])
    await says(daemon, /ready, pid/)
    const end = performance.now() + 200 + Math.random() * 600
    const sends: Promise<void>[] = []
    while (performance.now() < end) {
      const content = `n=${n++}`
      const to = n % 2 ? 'alice' : 'bob'
      appendFileSync(inboxFile(root, to), line(content, { to }))
      sent.push(content)
      if (n % 8 === 0) {
        const more = `n=${n++}`
        sends.push(
          team(['send', 'all', more, '--root', root]).then(({ code }) => {
            if (code === 0) sent.push(more)
          }),
        )
      }
      await new Promise(resolve => setTimeout(resolve, 15))
    }
    daemon.kill('SIGKILL')
    await ended(daemon)
    await Promise.all(sends)
  }
  await up()
  await quiet(root, 'alice', 'bob')
  const all = new Map<string, number>()
  for (const name of ['alice', 'bob']) {
    const got = taken(root, name)
    const { items, cursor, last } = await inboxOf(root, name)
    expect(cursor).toBe(last)
    expect(got.map(mail => mail.id).sort()).toEqual(items.map(item => item.stored.message.id).sort())
    expect(new Set(got.map(mail => mail.id)).size).toBe(got.length)
    for (const mail of got) all.set(mail.content, (all.get(mail.content) ?? 0) + 1)
  }
  for (const content of sent) expect([content, all.has(content)]).toEqual([content, true])
})

test('mail in the inbox of nobody stands on the screen, and is told to the human once, over restarts too', async () => {
  const { root, up } = await scriptedTeam({ alice: () => 'Read.' })
  const told = async () =>
    (await inboxOf(root, 'user')).items.filter(({ stored }) => stored.message.content.includes('did you mean alice?'))
  mkdirSync(join(root, '.messages'), { recursive: true })
  appendFileSync(inboxFile(root, 'alicia'), line('for whom?'))
  for (let start = 0; start < 3; start++) {
    const child = await up()
    await until(async () =>
      (await status(root)).problems.some(text => text.includes('nobody on the team has this inbox')),
    )
    await until(async () => (await told()).length > 0)
    await killed(child)
  }
  await up()
  await until(async () =>
    (await status(root)).problems.some(text => text.includes('nobody on the team has this inbox')),
  )
  expect(await told()).toHaveLength(1)
})
