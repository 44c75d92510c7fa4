import { spawnSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { clock, iso } from '../../src/lib/clock.ts'
import { splitLines } from '../../src/lib/files.ts'
import type { Message, Stored } from '../../src/protocol/message.ts'
import { InboxFolder, type InboxFolderOptions } from '../../src/store/files/inbox-folder.ts'
import type { Problem } from '../../src/store/files/problem.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import { foreign, tempRoot, until } from '../support/folders.ts'

let root: string
let remove: () => void
let store: Store
let folder: InboxFolder | undefined
let problems: Problem[]
let tasks: Stored[]
beforeEach(() => {
  ;({ root, remove } = tempRoot())
  store = openMemoryStore(clock)
  problems = []
  tasks = []
})
afterEach(async () => {
  await stop()
  remove()
})

const start = async (more: Partial<InboxFolderOptions> = {}): Promise<InboxFolder> => {
  folder = new InboxFolder({
    root,
    store,
    names: ['alice', 'bob', 'user', 'supervisor'],
    limits: { messageBytes: 262_144, inboxBytes: 1_048_576 },
    clock,
    onProblem: problem => problems.push(problem),
    onTask: stored => tasks.push(stored),
    onFailure: error => {
      throw error
    },
    ...more,
  })
  await folder.start()
  return folder
}
const stop = async () => {
  await folder?.close()
  folder = undefined
}

const path = (name = 'alice') => join(root, '.messages', `${name}.inbox.jsonl`)
const line = (fields: Record<string, unknown> = {}) =>
  `${JSON.stringify({ from: 'ext', to: 'alice', type: 'info', content: 'hi', ...fields })}\n`
const drop = (text: string | Buffer, name = 'alice') => appendFileSync(path(name), text)
const inbox = (name = 'alice') =>
  store
    .inbox(name)
    .read(0)
    .map(entry => entry.value)
const contents = (name = 'alice') => inbox(name).map(stored => stored.message.content)
const send = (content: string, name = 'alice', fields: Partial<Message> = {}) => {
  const id = `msg_${Math.random().toString(36).slice(2)}`
  const message: Message = { id, from: 'bob', to: name, timestamp: iso(clock.wall()), type: 'info', content, ...fields }
  store.inbox(name).append({ message, origin: 'daemon' }, { event: 'message.stored', by: 'bob' })
  return message
}
const lines = (file = path()) =>
  splitLines(readFileSync(file))
    .lines.map(each => each.bytes.toString('utf8'))
    .filter(text => text !== '')
const messages = (file = path()): Message[] => lines(file).map(text => JSON.parse(text))
const letters = () => store.deadLetters.read(0).map(entry => entry.value)

describe('foreign lines', () => {
  test('a hand-written line gets an id and a time, and its sender stays a claim', async () => {
    const now = await start()
    drop(line({ from: 'human', urgent: true }))
    drop(line({ id: 7, timestamp: 1767225600, type: 'request', requestId: 'r1', note: 'extra' }))
    drop('\n  \r\n')
    drop(line({ type: 'ping', data: { a: 1 }, to: 'alice' }))
    await now.settled()
    const [first, second, third] = inbox()
    expect(first).toMatchObject({
      origin: 'file',
      place: { generation: 1, offset: 0 },
      message: { from: 'human', type: 'info', content: 'hi', urgent: true },
    })
    expect(first?.message.id).toMatch(/^msg_f[0-9a-f]{24}$/)
    expect(Date.parse(first?.message.timestamp ?? '')).toBeGreaterThan(0)
    expect(second?.message).toEqual({
      id: '7', from: 'ext', to: 'alice', timestamp: '2026-01-01T00:00:00.000Z', type: 'info', content: 'hi',
      data: { note: 'extra', requestId: 'r1', type: 'request' },
    }) // biome-ignore format: a record
    expect(third?.message).toMatchObject({ type: 'info', data: { a: 1, type: 'ping' } })
    expect(problems).toEqual([])
  })

  test('A07 a torn last line does not swallow the message that is sent next, and is set aside once', async () => {
    let now = await start()
    drop('{"id":"x1","te')
    await sleep(50)
    const hello = send('hello')
    await now.projected()
    await now.settled()
    expect(lines()).toEqual(['{"id":"x1","te', JSON.stringify(hello)])
    expect(letters()).toMatchObject([{ file: '.messages/alice.inbox.jsonl', offset: 0, line: '{"id":"x1","te' }])
    for (let round = 0; round < 3; round++) {
      await stop()
      now = await start()
      await now.settled()
    }
    expect(contents()).toEqual(['hello'])
    expect(letters()).toHaveLength(1)
    expect(problems).toHaveLength(1)
    expect(messages(join(root, '.messages', 'dead-letter.jsonl'))).toHaveLength(1)
  })

  test('A07 a torn line that another writer appended to is parted again: the whole message is kept', async () => {
    const now = await start()
    drop('{"id":"x1","te')
    drop(line({ id: 'x2', content: 'whole' }))
    drop(line({ id: 'x3', content: 'one' }).trimEnd() + line({ id: 'x4', content: 'two' }))
    await now.settled()
    expect(contents()).toEqual(['whole', 'one', 'two'])
    expect(letters().map(letter => letter.line)).toEqual(['{"id":"x1","te'])
  })

  test('a last line waits for its end, and after a while is judged as it is', async () => {
    let now = await start()
    drop(line().trimEnd())
    await now.settled()
    expect(inbox()).toEqual([])
    drop('\n')
    await now.settled()
    expect(inbox()).toHaveLength(1)
    await stop()
    now = await start({ unfinishedMs: 50, sweepMs: 200 })
    drop(line({ content: 'no newline' }).trimEnd())
    await until('the whole but unended line', () => inbox().length === 2)
    drop('\n{"half')
    await until('the half line', () => letters().length === 1)
    expect(letters()[0]?.reason).toContain('never finished')
    drop(' of it"\n')
    drop(line({ content: 'after' }))
    await now.settled()
    expect(contents()).toEqual(['hi', 'no newline', 'after'])
  })

  test('A09 a body with U+2028, U+2029, NEL, a lone CR and line breaks arrives byte for byte', async () => {
    const body = 'a\u2028b\u2029c\u0085d\re\nf\r\ng\u0000h'
    const now = await start()
    drop(line({ content: body }))
    drop(`{"from":"x","to":"alice","type":"info","content":"raw \u2028 and \u0085"}\r\n`)
    send(body)
    await now.settled()
    expect(contents().sort()).toEqual([body, body, 'raw \u2028 and \u0085'].sort())
    expect(messages().filter(message => message.content === body)).toHaveLength(2)
    expect(letters()).toEqual([])
  })

  test('half an emoji is made well-formed, a byte order mark is passed over', async () => {
    const now = await start()
    drop(`\uFEFF{"from":"x","to":"alice","type":"info","content":"\\ud83d!"}\n`)
    await now.settled()
    expect(contents()).toEqual(['\uFFFD!'])
  })

  test('what is no message goes to the dead letters with file, offset and reason; the rest flows', async () => {
    const now = await start()
    const bad = ['not json', '[1]', '{"from":"x","to":"alice","type":"info"}', line({ to: 'bob' }).trimEnd()]
    drop(`${bad.join('\n')}\n${line()}`)
    await now.settled()
    expect(contents()).toEqual(['hi'])
    expect(letters().map(letter => letter.line)).toEqual(bad)
    expect(letters().map(letter => letter.reason)).toEqual([
      expect.stringContaining('not JSON'),
      expect.stringContaining('expected object'),
      'content: is missing (expected string)',
      'addressed to "bob", but this is the inbox of alice',
    ])
    expect(letters()[1]?.offset).toBe(9)
    expect(problems.map(problem => problem.kind)).toEqual(['letter', 'letter', 'letter', 'letter'])
    expect(inbox('bob')).toEqual([])
  })

  test('an equal id with equal content is one message; with other content both are kept', async () => {
    const now = await start()
    drop(line({ id: 'm1', content: 'a' }) + line({ id: 'm1', content: 'a' }) + line({ id: 'm1', content: 'b' }))
    drop(line({ content: 'ping' }) + line({ content: 'ping' }))
    const own = send('from the daemon')
    await now.settled()
    drop(`${JSON.stringify(own)}\n${JSON.stringify({ ...own, content: 'forged' })}\n`)
    await now.settled()
    expect(contents().sort()).toEqual(['a', 'b', 'forged', 'from the daemon', 'ping', 'ping'])
    const ids = inbox().map(stored => stored.message.id)
    expect(new Set(ids).size).toBe(6)
    expect(inbox().find(stored => stored.message.content === 'forged')).toMatchObject({
      origin: 'file',
      message: { data: { id: own.id } },
    })
    await stop()
    await (await start()).settled()
    expect(inbox()).toHaveLength(6)
  })

  test('A11 a giant line is replaced by its head and a file, and the short one behind it arrives', async () => {
    const now = await start()
    const body = `${'x'.repeat(5_000_000)}end`
    drop(line({ id: 'big', content: body }) + line({ content: 'short' }))
    await now.settled()
    const [big, short] = inbox()
    expect(short?.message.content).toBe('short')
    expect(big?.message.content.length).toBeLessThan(2200)
    expect(big?.message.content).toContain('.messages/archive/oversize/big.txt')
    expect(readFileSync(join(root, '.messages', 'archive', 'oversize', 'big.txt'), 'utf8')).toBe(body)
    await stop()
    await (await start()).settled()
    expect(inbox()).toHaveLength(2)
  })

  test('A11 of a giant name of a sender and a giant time only the beginning is kept, of a short line and a long one', async () => {
    const now = await start()
    for (const length of [1000, 5_000_000])
      drop(line({ from: 'f'.repeat(length), timestamp: 't'.repeat(length), content: `hi ${length}` }))
    await now.settled()
    expect(inbox().map(({ message }) => message.content.split('\n')[0])).toEqual(['hi 1000', 'hi 5000000'])
    for (const { message } of inbox()) {
      expect(message.from).toMatch(/^f{128}$/)
      expect(message.timestamp).toMatch(/^t{64}$/)
    }
    await stop()
    await (await start()).settled()
    expect(inbox()).toHaveLength(2)
  })

  test('A11 a line without end is given up at its bound, and what follows it is read', async () => {
    const now = await start()
    drop(Buffer.alloc(17 * 1024 * 1024, 'y'))
    await now.settled()
    drop(Buffer.alloc(1024, 'y'))
    await now.settled()
    drop(`\n${line()}`)
    await now.settled()
    expect(contents()).toEqual(['hi'])
    expect(letters()).toMatchObject([{ reason: 'the line is too long to be read' }])
    expect(letters()[0]?.line.length).toBeLessThan(5000)
  })

  test('A11 two thousand unread lines are taken in at the start, once each', async () => {
    mkdirSync(join(root, '.messages'))
    drop(Array.from({ length: 2000 }, (_, i) => line({ content: `n=${i}` })).join(''))
    await (await start()).settled()
    expect(contents()).toEqual(Array.from({ length: 2000 }, (_, i) => `n=${i}`))
  })

  test('a line of type task is told to whoever makes the task', async () => {
    const now = await start()
    drop(line({ type: 'task', content: 'do it' }))
    await now.settled()
    expect(tasks.map(stored => stored.message.content)).toEqual(['do it'])
  })

  test('an inbox of nobody is told once, with the nearest name', async () => {
    const now = await start()
    writeFileSync(path('alcie'), line())
    await now.settled()
    await now.settled()
    expect(problems).toMatchObject([{ kind: 'inbox', file: '.messages/alcie.inbox.jsonl', standing: true }])
    expect(problems[0]?.reason).toContain('did you mean alice?')
    rmSync(path('alcie'))
    await now.settled()
    expect(now.problems()).toEqual([])
  })
})

describe('bursts', () => {
  test('J01 5,000 lines of another process are all taken in, without any sweep', async () => {
    await start({ sweepMs: 3_600_000 })
    await foreign(
      `const fs = require('fs'); for (let i = 0; i < 5000; i++)
         fs.appendFileSync(process.argv[1], JSON.stringify({from:'x',to:'alice',type:'info',content:'n=' + i}) + '\\n')`,
      [path()],
    ).done
    await until('the whole burst', () => store.inbox('alice').last === 5000)
    expect(new Set(contents()).size).toBe(5000)
  })

  test('J01 200 lines at 20 ms pace are all taken in, without any sweep', async () => {
    await start({ sweepMs: 3_600_000 })
    await foreign(
      `const fs = require('fs'); let i = 0
       const timer = setInterval(() => {
         fs.appendFileSync(process.argv[1], JSON.stringify({from:'x',to:'alice',type:'info',content:'n=' + i}) + '\\n')
         if (++i === 200) clearInterval(timer)
       }, 20)`,
      [path()],
    ).done
    await until('the last line', () => store.inbox('alice').last === 200)
  })

  test('J01 pairs 1 to 50 ms apart are both taken in, without any sweep', async () => {
    await start({ sweepMs: 3_600_000 })
    await foreign(
      `const fs = require('fs'); const wait = ms => new Promise(r => setTimeout(r, ms));
       const put = () => fs.appendFileSync(process.argv[1], JSON.stringify({from:'x',to:'alice',type:'info',content:'x'}) + '\\n');
       (async () => { for (const gap of [1, 2, 5, 10, 20, 40, 50]) { put(); await wait(gap); put(); await wait(120) } })()`,
      [path()],
    ).done
    await until('both of every pair', () => store.inbox('alice').last === 14)
  })

  test('A01 four foreign writers and the daemon on one inbox lose nothing and mix nothing', async () => {
    const now = await start()
    const writers = [0, 1, 2, 3].map(
      w =>
        foreign(
          `const fs = require('fs'); for (let i = 0; i < 200; i++)
             fs.appendFileSync(process.argv[1], JSON.stringify({from:'x',to:'alice',type:'info',content:'w' + process.argv[2] + ' ' + i + 'z'.repeat(3000)}) + '\\n')`,
          [path(), String(w)],
        ).done,
    )
    let sent = 0
    const sender = (async () => {
      while (sent < 200) {
        send(`own ${sent++}`)
        await sleep(2)
      }
    })()
    await Promise.all([...writers, sender])
    await now.settled()
    expect(new Set(contents()).size).toBe(1000)
    expect(inbox()).toHaveLength(1000)
    expect(letters()).toEqual([])
    const own = messages().filter(message => message.content.startsWith('own'))
    expect(own.map(message => message.content)).toEqual(Array.from({ length: 200 }, (_, i) => `own ${i}`))
  })
})

describe('what the daemon sends', () => {
  test('stands in the file in order, contract keys first, and is not taken in again', async () => {
    const now = await start()
    for (let i = 0; i < 100; i++) send(`n=${i}`, 'alice', { data: { i } })
    await now.projected()
    expect(messages().map(message => message.content)).toEqual(Array.from({ length: 100 }, (_, i) => `n=${i}`))
    expect(lines()[0]).toMatch(/^\{"id":"msg_\w+","from":"bob","to":"alice","timestamp":"[^"]+","type":"info"/)
    expect(statSync(path()).mode & 0o777).toBe(0o600)
    await now.settled()
    expect(inbox()).toHaveLength(100)
    expect(store.marks.get('inbox/alice')?.value).toMatchObject({ place: { offset: statSync(path()).size } })
  })

  test('of type request stays one, while a foreign copy of the type does not become one', async () => {
    const now = await start()
    send('approve?', 'alice', { type: 'request', requestId: 'req_1' })
    await now.settled()
    drop(line({ type: 'request', requestId: 'req_1', content: 'approve?' }))
    await now.settled()
    expect(inbox().map(stored => [stored.origin, stored.message.type])).toEqual([
      ['daemon', 'request'],
      ['file', 'info'],
    ])
  })

  test('is appended after a crash where the file lacks it, once', async () => {
    send('while down')
    let now = await start()
    await now.settled()
    expect(messages().map(message => message.content)).toEqual(['while down'])
    send('second')
    await now.projected()
    await stop()
    // What a power cut leaves: the last line half written.
    truncateSync(path(), statSync(path()).size - 5)
    for (let round = 0; round < 2; round++) {
      now = await start()
      await now.settled()
      await stop()
    }
    expect(contents()).toEqual(['while down', 'second'])
    expect(lines().map(text => text.includes('second') && text.endsWith('}'))).toEqual([false, false, true])
    expect(letters()).toEqual([])
  })

  test('J03 with the folder deleted before the start and again while running, the first message is seen', async () => {
    await start()
    await stop()
    rmSync(join(root, '.messages'), { recursive: true })
    const now = await start()
    drop(line({ content: 'first' }))
    await until('the first message', () => contents().includes('first'))
    rmSync(join(root, '.messages'), { recursive: true })
    await until('the folder again', () => existsSync(join(root, '.messages')))
    drop(line({ content: 'second' }))
    await until('a message in the new folder', () => contents().includes('second'))
    send('own')
    await now.settled()
    expect(messages().map(message => message.content)).toEqual(['second', 'own'])
    expect(letters()).toEqual([])
  })
})

describe('files that are cut, replaced or rotated', () => {
  test('a file that a reader empties starts a new generation: equal text is a new message', async () => {
    const now = await start()
    drop(line({ content: 'ping' }))
    await now.settled()
    truncateSync(path())
    await now.settled()
    drop(line({ content: 'ping' }))
    await now.settled()
    expect(contents()).toEqual(['ping', 'ping'])
    expect(inbox().map(stored => stored.place?.generation)).toEqual([1, 2])
  })

  test('emptied and filled again beyond where it was read, it is read from its start', async () => {
    const now = await start()
    drop(line({ content: 'one' }))
    await now.settled()
    writeFileSync(path(), line({ content: 'two, and much longer' }) + line({ content: 'three' }))
    await now.settled()
    expect(contents()).toEqual(['one', 'two, and much longer', 'three'])
  })

  test('a file moved away keeps being read for writers that still hold it', async () => {
    const now = await start()
    drop(line({ content: 'one' }))
    await now.settled()
    const own = send('own')
    await now.settled()
    const away = join(root, '.messages', 'alice.processing')
    renameSync(path(), away)
    drop(line({ content: 'new file' }))
    await now.settled()
    appendFileSync(away, line({ content: 'late' }))
    await now.settled()
    expect(contents()).toEqual(['one', own.content, 'new file', 'late'])
  })

  test('a large inbox is rotated when it is read by its owner and quiet; a late writer loses nothing', async () => {
    let now = await start({ limits: { messageBytes: 262_144, inboxBytes: 1000 }, quietMs: 0 })
    const big = 'b'.repeat(800)
    drop(line({ content: big }) + line({ id: 'x', content: 'last' }))
    send(big)
    await now.settled()
    await now.settled()
    expect(existsSync(join(root, '.messages', 'archive'))).toBe(false)
    store.inbox('alice').ack('alice', store.inbox('alice').last, { event: 'message.taken', by: 'alice' })
    await now.settled()
    expect(readdirSync(join(root, '.messages', 'archive'))).toEqual(['alice.1.jsonl'])
    expect(readFileSync(path(), 'utf8')).toBe('')
    expect(inbox()).toEqual([])
    appendFileSync(
      join(root, '.messages', 'archive', 'alice.1.jsonl'),
      line({ content: 'late' }) + line({ id: 'x', content: 'last' }),
    )
    drop(line({ content: 'new' }))
    await now.settled()
    expect(contents().sort()).toEqual(['late', 'new'])
    await stop()
    now = await start({ limits: { messageBytes: 262_144, inboxBytes: 1000 }, quietMs: 0 })
    appendFileSync(join(root, '.messages', 'archive', 'alice.1.jsonl'), line({ content: 'later' }))
    await now.settled()
    expect(contents().sort()).toEqual(['late', 'later', 'new'])
  })

  test('a crash right after the rename of a rotation repeats nothing and loses nothing', async () => {
    let now = await start()
    drop(line({ content: 'one' }))
    await now.settled()
    const own = send('own')
    await now.settled()
    await stop()
    mkdirSync(join(root, '.messages', 'archive'))
    drop(line({ content: 'unread' }))
    renameSync(path(), join(root, '.messages', 'archive', 'alice.1.jsonl'))
    now = await start()
    await now.settled()
    expect(contents()).toEqual(['one', own.content, 'unread'])
    expect(readFileSync(path(), 'utf8')).toBe('')
  })
})

test.each([
  ['a pipe', (at: string) => spawnSync('mkfifo', [at])],
  ['a device', (at: string) => symlinkSync('/dev/zero', at)],
  ['a folder', (at: string) => mkdirSync(at)],
])(
  '%s in the place of an inbox holds nobody up: it is told, others get their mail, and it goes on when that is gone',
  async (_what, put) => {
    const folder = await start({ sweepMs: 100 })
    await send('before')
    await folder.settled()
    rmSync(path())
    put(path())
    await send('meanwhile')
    drop(line({ to: 'bob', content: 'for bob' }), 'bob')
    await until('told', () =>
      problems.some(({ file, reason }) => file.includes('alice') && /take it away/.test(reason)),
    )
    await until('bob has his', () => contents('bob').includes('for bob'))
    expect(contents()).toEqual(['before', 'meanwhile'])
    expect(folder.problems()).toHaveLength(1)
    rmSync(path(), { recursive: true })
    drop(line({ content: 'after' }))
    await until('it goes on', () => contents().includes('after') && folder.problems().length === 0)
    await until('what was sent is there', () => readFileSync(path(), 'utf8').includes('meanwhile'))
  },
)

test('a torn end of the dead letters, a hand left it, takes no line of the daemon along', async () => {
  const at = join(root, '.messages', 'dead-letter.jsonl')
  let folder = await start()
  writeFileSync(at, '{"by":"ha')
  for (const text of ['not one', 'nor this']) {
    drop(`${text}\n`)
    await folder.settled()
  }
  const whole = ['{"by":"ha', ...letters().map(letter => JSON.stringify(letter))]
  expect(whole).toHaveLength(3)
  expect(lines(at)).toEqual(whole)
  // Nor at the start, when what is missing is written.
  await stop()
  writeFileSync(at, '{"by":"ha')
  folder = await start()
  await folder.settled()
  expect(lines(at)).toEqual(whole)
})

test('a pipe or a device in the place of the dead letters is told, and the lines are kept', async () => {
  for (const put of [(at: string) => spawnSync('mkfifo', [at]), (at: string) => symlinkSync('/dev/zero', at)]) {
    const at = join(root, '.messages', 'dead-letter.jsonl')
    mkdirSync(join(root, '.messages'), { recursive: true })
    rmSync(at, { force: true })
    put(at)
    const folder = await start()
    drop(`no message ${put}\n`)
    await until('told', () => folder.problems().some(({ reason }) => /take it away/.test(reason)))
    expect(store.deadLetters.last).toBeGreaterThan(0)
    await stop()
  }
})
