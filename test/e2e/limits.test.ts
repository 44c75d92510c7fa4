import { spawn } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Status } from '../../src/protocol/rpc.ts'
import { cleanEnv, command, ended, team, teamOk, teamRoot, until } from '../support/cli.ts'
import { ask, heard, journal, killed, quiet, scriptedTeam, status, taken } from '../support/scripted-team.ts'

const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)
const skill = (root: string, name: string, text: string | Buffer, owner?: string) => {
  const folder = join(root, 'team', ...(owner === undefined ? [] : [owner]), 'skills', name)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'SKILL.md'), text)
}

describe('skills', () => {
  test('I01 I03 I05 whatever stands in the folders of skills, everyone starts, and what is left out is named with its file', async () => {
    const { root, requests, up } = await scriptedTeam({ alice: () => 'Read.' })
    const good = (name: string, description: string) => `---\nname: ${name}\ndescription: ${description}\n---\n\nBody\n`
    skill(root, 'colon', good('colon', 'Use when: a, b'))
    skill(root, 'signs', good('signs', '@here `code` # not a comment\tand a tab'))
    skill(root, 'bracket', good('bracket', '[beta] does x'))
    skill(root, 'bom', `\ufeff${good('bom', 'has a mark').replaceAll('\n', '\r\n')}`)
    skill(root, 'unclosed', '---\nname: unclosed\ndescription: never ends\n')
    skill(root, 'empty', '')
    skill(root, 'only-matter', '---\nname: only-matter\ndescription: no body\n---')
    skill(root, 'plain', 'No frontmatter here.\n')
    skill(root, 'binary', Buffer.from([0xff, 0x00, 0xfe, 0x80]))
    skill(root, 'first', good('twice', 'of the first folder'))
    skill(root, 'second', good('Twice', 'of the second folder'))
    skill(root, 'shared', good('shared', 'the team has it'))
    skill(root, 'shared', good('shared', 'alice has her own'), 'alice')
    symlinkSync('colon', join(root, 'team', 'skills', 'linked'))
    symlinkSync('..', join(root, 'team', 'skills', 'loop'))
    symlinkSync('self', join(root, 'team', 'skills', 'self'))
    writeFileSync(join(root, 'team', 'skills', 'file'), 'no folder')
    await up()
    await teamOk(['send', 'alice', 'hello', '--root', root])
    await quiet(root, 'alice')
    const system = requests('alice')[0]?.messages[0]?.content ?? ''
    for (const text of [
      'Use when: a, b',
      '@here `code`',
      '[beta] does x',
      'has a mark',
      'of the first folder',
      'alice has her own',
    ])
      expect(system).toContain(text)
    for (const text of ['of the second folder', 'the team has it']) expect(system).not.toContain(text)
    const warned = (await journal(root))
      .filter(entry => entry.event === 'config.warning')
      .map(entry => String(entry.info?.text))
    for (const name of [
      'unclosed/SKILL.md',
      'empty/SKILL.md',
      'binary/SKILL.md',
      'skills/second',
      'skills/shared',
      'skills/self',
    ])
      expect([name, warned.some(text => text.includes(name))]).toEqual([name, true])
    expect(warned.filter(text => text.includes('cannot be read'))).toEqual([])
    expect(await teamOk(['logs', '--root', root])).toContain('SKILL.md')
  })
})

describe('config.json', () => {
  test.each([
    ['teamates', { teamates: [{ name: 'a' }] }, /teamates: unknown key \(did you mean "teammates"/],
    ['modle', { teammates: [{ name: 'a' }], modle: {} }, /modle: unknown key \(did you mean "model"/],
    [
      'a key in a teammate',
      { teammates: [{ name: 'a', system_promt: 'x' }] },
      /teammates\[0\]\.system_promt: unknown key \(did you mean "system_prompt"/,
    ],
    [
      'a number as text',
      { teammates: [{ name: 'a' }], model: { maxOutputTokens: '4000' } },
      /model\.maxOutputTokens: .*number/,
    ],
    [
      'the name that the wire has for it',
      { teammates: [{ name: 'a' }], model: { max_tokens: '4000' } },
      /model\.max_tokens: unknown key/,
    ],
    [
      'a negative time-out of the model',
      { teammates: [{ name: 'a' }], limits: { modelIdleSeconds: -1 } },
      /limits\.modelIdleSeconds/,
    ],
    ['a negative time-out', { teammates: [{ name: 'a' }], limits: { commandSeconds: -1 } }, /limits\.commandSeconds/],
    [
      'a URL without scheme',
      { teammates: [{ name: 'a' }], model: { baseURL: 'localhost:1/v1' } },
      /model\.baseURL: .*http/,
    ],
  ])(
    'I07 %s keeps the daemon from starting, with the place of the key and what was meant',
    async (_, config, message) => {
      const root = teamRoot(config)
      const ran = await team(['up', '--root', root])
      expect([ran.code, ran.stderr]).toEqual([3, expect.stringMatching(message)])
      expect(ran.stderr.trim().split('\n').length).toBeLessThanOrEqual(3)
      expect(existsSync(join(root, '.team'))).toBe(false)
    },
  )

  test.each(['/', '/chat/completions', '/chat/completions/'])(
    'I07 a base URL that ends in %s is reached all the same',
    async end => {
      const { root, server, requests, up } = await scriptedTeam({ alice: () => 'Read.' })
      const path = join(root, 'config.json')
      const config = JSON.parse(readFileSync(path, 'utf8'))
      config.model.baseURL = `${server.baseURL}${end}`
      writeFileSync(path, JSON.stringify(config))
      await teamOk(['send', 'alice', 'hello', '--root', root])
      await up()
      await until(() => requests('alice').length >= 1)
    },
  )

  test.each([
    ['a slash', ['claude/opus']],
    ['two that differ in case', ['alice', 'Alice']],
    ['the same twice', ['bob', 'bob']],
    ['lead without being it', ['lead']],
    ['all', ['all']],
    ['200 characters', ['a'.repeat(200)]],
    ['an emoji', ['😀']],
    ['é in one piece', ['\u00e9']],
    ['é in two pieces', ['e\u0301']],
    ['é in both', ['\u00e9', 'e\u0301']],
    ['nothing', ['']],
  ])('I09 %s is no name: nothing is started and nothing made', async (_, names) => {
    const root = teamRoot({ teammates: names.map(name => ({ name })), sandbox: 'off' })
    const ran = await team(['up', '--root', root])
    expect([ran.code, ran.stderr]).toEqual([3, expect.stringMatching(/teammates\[\d\]\.name/)])
    expect(readdirSync(root)).toEqual(['config.json'])
  })
})

describe('what the system gives', () => {
  const limited = (root: string, files: number, args: string[]) =>
    spawn('sh', ['-c', `ulimit -n ${files}; exec "$0" "$@"`, process.execPath, command, ...args, '--root', root], {
      env: cleanEnv(),
      stdio: ['ignore', 'pipe', 'pipe'],
    })

  test.each([64, 32])('J05 with %i file handles it works or says why not, and no state is damaged', async files => {
    const { root, up } = await scriptedTeam(
      Object.fromEntries(
        ['ann', 'ben', 'cam', 'dan', 'eve'].map(name => [
          name,
          request => {
            const last = request.messages.at(-1)?.content ?? ''
            return last.includes('<task id=')
              ? { calls: [{ name: 'task', args: { action: 'complete', summary: 'done' } }] }
              : 'Done.'
          },
        ]),
      ),
    )
    mkdirSync(join(root, '.tasks'))
    for (const i of upTo(50)) writeFileSync(join(root, '.tasks', `n-${i}.json`), JSON.stringify({ title: `n=${i}` }))
    const child = limited(root, files, ['up'])
    let err = ''
    let out = ''
    let gaveUp: Status['teammates'][number][] = []
    child.stderr.on('data', chunk => {
      err += chunk
    })
    child.stdout.on('data', chunk => {
      out += chunk
    })
    await until(
      async () =>
        child.exitCode !== null ||
        child.signalCode !== null ||
        (out.includes('ready, pid') &&
          (await status(root).then(
            now => {
              gaveUp = now.teammates.filter(({ state }) => state === 'failed')
              return (
                gaveUp.length > 0 || (now.tasks.length === 50 && now.tasks.every(task => task.status === 'completed'))
              )
            },
            () => false,
          ))),
      60_000,
    )
    if (child.exitCode !== null || child.signalCode !== null) {
      expect([child.exitCode, child.signalCode, out + err]).toEqual([
        1,
        null,
        expect.stringMatching(/EMFILE|too many open files|handles/i),
      ])
      expect(err).not.toMatch(/^\s+at /m)
    } else {
      // A thread that could not open its own files again and again is given up, saying so.
      if (gaveUp.length > 0) expect(gaveUp.map(({ reason }) => reason).join('\n')).toMatch(/EMFILE|too many open files/)
      child.kill('SIGKILL')
      await ended(child)
    }
    await up()
    for (const { name } of (await status(root)).teammates.filter(({ state }) => state === 'failed'))
      await teamOk(['restart', name, '--root', root])
    const now = await until(async () => {
      const at = await status(root)
      return at.tasks.length === 50 && at.tasks.every(task => task.status === 'completed') && at
    }, 60_000)
    expect(now.tasks.map(task => task.title).sort()).toEqual(
      upTo(50)
        .map(i => `n=${i}`)
        .sort(),
    )
    expect(now.deadLetters).toBe(0)
  })

  test('J07 a lock of a dead holder an hour old is taken by one at a time: eight at once lose nothing', async () => {
    const root = teamRoot()
    await teamOk(['send', 'alice', 'n=0', '--root', root])
    const lock = join(root, '.team', 'holder.lock')
    mkdirSync(lock)
    const old = new Date(Date.now() - 3600_000)
    utimesSync(lock, old, old)
    const sends = upTo(8).map(i => team(['send', 'alice', `n=${i + 1}`, '--root', root]))
    expect((await Promise.all(sends)).map(({ code }) => code)).toEqual(sends.map(() => 0))
    const { items } = JSON.parse(await teamOk(['inbox', 'alice', '--json', '--n', '0', '--root', root]))
    expect(
      items.map((item: { stored: { message: { content: string } } }) => item.stored.message.content).sort(),
    ).toEqual(upTo(9).map(i => `n=${i}`))
  })

  test('input far past every bound is refused with a clear word, and the daemon goes on', async () => {
    const { root, up } = await scriptedTeam({ alice: () => 'Read.' })
    const daemon = await up()
    for (const bytes of [300_000, 5_000_000, 40_000_000]) {
      const ran = await team(['send', 'alice', '-', '--root', root], { input: Buffer.alloc(bytes, 'x') })
      expect([ran.code !== 0, ran.stderr]).toEqual([true, expect.stringMatching(/bytes|too (long|large)/)])
      expect(ran.stderr.length).toBeLessThan(500)
    }
    for (const input of ['', '   \n', Buffer.from([0xff, 0xfe, 0x00])]) {
      const ran = await team(['send', 'alice', '-', '--root', root], { input })
      expect(ran.code).not.toBe(0)
    }
    const ran = await team(['task', 'add', 'Long', '-d', '-', '--root', root], { input: Buffer.alloc(40_000_000, 'x') })
    expect([ran.code !== 0, ran.stderr]).toEqual([true, expect.stringMatching(/bytes|too (long|large)|longer/)])
    await teamOk(['send', 'alice', 'still here', '--root', root])
    await quiet(root, 'alice')
    expect(taken(root, 'alice').map(mail => mail.content)).toEqual(['still here'])
    expect((await status(root)).holder?.pid).toBe(daemon.pid)
  })

  test('files that stand in the way of the program are told of, and what is beside them works', async () => {
    const { root, requests, up } = await scriptedTeam({ alice: () => 'Read.', bob: () => 'Read.' })
    mkdirSync(join(root, '.messages', 'dead-letter.jsonl'), { recursive: true })
    mkdirSync(join(root, '.messages', 'bob.inbox.jsonl'))
    const daemon = await up()
    await teamOk(['send', 'bob', 'without a file', '--root', root])
    appendFileSync(
      join(root, '.messages', 'alice.inbox.jsonl'),
      'no message\n{"from":"x","to":"alice","type":"info","content":"n=1"}\n',
    )
    await until(() => taken(root, 'alice').length >= 1 && taken(root, 'bob').length >= 1)
    const now = await until(async () => {
      const at = await status(root)
      return (
        at.deadLetters > 0 &&
        at.problems.some(text => text.includes('bob.inbox.jsonl')) &&
        at.problems.some(text => text.includes('dead-letter.jsonl')) &&
        at
      )
    })
    await teamOk(['send', 'alice', 'n=2', '--root', root])
    await until(() => taken(root, 'alice').length >= 2)
    // Looked at again and again meanwhile: one line is one dead letter.
    await new Promise(resolve => setTimeout(resolve, 3000))
    expect((await status(root)).deadLetters).toBe(now.deadLetters)
    expect(now.deadLetters).toBe(1)
    for (const name of ['dead-letter.jsonl', 'bob.inbox.jsonl'])
      rmSync(join(root, '.messages', name), { recursive: true })
    await until(
      () =>
        existsSync(join(root, '.messages', 'bob.inbox.jsonl')) &&
        readFileSync(join(root, '.messages', 'bob.inbox.jsonl'), 'utf8').includes('without a file'),
    )
    await killed(daemon)
    await up()
    await quiet(root, 'alice', 'bob')
    expect(taken(root, 'alice').map(mail => mail.content)).toEqual(['n=1', 'n=2'])
    expect(requests('bob')).toHaveLength(1)
    expect(readFileSync(join(root, '.messages', 'dead-letter.jsonl'), 'utf8')).toContain('no message')
    expect((await status(root)).deadLetters).toBe(1)
  })
})

test('mail to a teammate that is going, gone and coming again enters its context once', async () => {
  const { root, requests, up } = await scriptedTeam({ alice: () => 'Read.' })
  await up()
  const sent: string[] = []
  const send = async () => {
    const content = `n=${sent.length}`
    sent.push(content)
    await ask(root, 'message.send', { to: 'alice', content })
  }
  for (let round = 0; round < 4; round++) {
    await send()
    await ask(root, 'request.open', { type: 'shutdown_request', data: { teammate: 'alice' }, body: 'again' })
    await send()
    await until(async () => (await status(root)).teammates[0]?.state === 'stopped')
    expect(await teamOk(['send', 'alice', `n=${sent.length}`, '--root', root])).toContain('queued for alice')
    sent.push(`n=${sent.length}`)
    const restarted = ask(root, 'teammate.restart', { name: 'alice' })
    await send()
    await restarted
    await send()
  }
  await quiet(root, 'alice')
  expect(taken(root, 'alice').map(mail => mail.content)).toEqual(sent)
  const all = heard(requests('alice').at(-1))
  for (const content of sent) expect(all.split(`\n${content}\n`)).toHaveLength(2)
})
