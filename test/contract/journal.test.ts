import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { type Fault, unwrap } from '../../src/lib/result.ts'
import type { JournalEntry } from '../../src/protocol/event.ts'
import type { HoldOptions } from '../../src/store/files/holder.ts'
import { FileJournal } from '../../src/store/files/journal.ts'
import { type Holder, hold, openReadOnly } from '../../src/store/index.ts'
import type { Store } from '../../src/store/store.ts'
import { StoreProcess } from '../support/store-process.ts'

const why = { event: 'warning', by: 'human' } as const
let root: string
let journal: string
const begin = async (extra: Partial<HoldOptions> = {}): Promise<Holder> =>
  unwrap(await hold(root, 'daemon', { version: 'test', clock, ...extra }))
const read = (): Store => unwrap(openReadOnly(root, clock)).store
const epochFiles = () => readdirSync(journal).filter(name => /^\d+\.jsonl$/.test(name))
const contents = () => new Map(readdirSync(journal).map(name => [name, readFileSync(join(journal, name), 'utf8')]))
const mark = (store: Store, id: string, value: Record<string, unknown> = { id }) => {
  const put = store.marks.create(id, value, why)
  if (!put.ok) throw new Error('refused')
  return put
}
const seqs = async (entries: AsyncIterable<JournalEntry>) => {
  const list: number[] = []
  for await (const entry of entries) list.push(entry.seq)
  return list
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'team-journal-'))
  journal = join(root, '.team', 'journal')
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

test('kill -9 of a writer at a random moment loses nothing acknowledged and tears nothing, 12 rounds', async () => {
  for (let round = 0; round < 12; round++) {
    const writer = new StoreProcess()
    const enough = 1 + Math.floor(Math.random() * 150)
    writer.tell('write', root)
    await writer.until(() => writer.said.length >= enough)
    await writer.kill()
    const acknowledged = Math.max(...writer.said.map(said => Number(said.ack ?? 0)))
    expect(acknowledged).toBeGreaterThan(0)
    const { marks } = read()
    const counter = Number(marks.get('counter')?.value.n)
    expect(counter).toBeGreaterThanOrEqual(acknowledged)
    for (let n = 1; n <= counter; n++) expect(marks.get(String(n))?.value.n).toBe(n)
    expect(marks.get('counter')?.rev).toBe(counter)
    // Beside the counter itself, at most the last mark is there without its count.
    expect([counter + 1, counter + 2]).toContain(marks.size)
  }
  // The rounds together went through long files, snapshots and deletions.
  // A kill between a new snapshot and the removal of the oldest leaves one more, until the next.
  expect([2, 3]).toContain(readdirSync(journal).filter(name => name.startsWith('snapshot-')).length)
  expect(epochFiles()).not.toContain('00000001.jsonl')
})

describe('the end of the newest file', () => {
  let file: string
  let whole: Buffer
  beforeEach(async () => {
    const holder = await begin()
    for (const id of ['a', 'b', 'ç'.repeat(20)]) mark(holder.store, id)
    await holder.store.flushed()
    // As a kill leaves it: no goodbye.
    cpSync(join(journal, '00000001.jsonl'), join(root, 'copy'))
    await holder.release()
    whole = readFileSync(join(root, 'copy'))
    for (const name of readdirSync(journal)) unlinkSync(join(journal, name))
    file = join(journal, '00000001.jsonl')
  })

  test('torn at any byte of the last line it is cut, reported once, and the file is left as it is', async () => {
    const last = whole.subarray(0, -1).lastIndexOf(0x0a) + 1
    for (let size = last; size < whole.length; size += 7) {
      writeFileSync(file, whole.subarray(0, size))
      expect(read().marks.size).toBe(2)
      const holder = await begin()
      expect(holder.report.cut).toEqual(size === last ? null : { file, offset: last, bytes: size - last })
      expect(holder.store.marks.size).toBe(2)
      mark(holder.store, 'after')
      await holder.release()
      expect(readFileSync(file)).toEqual(whole.subarray(0, size))
      const again = await begin()
      expect(again.report.cut).toBeNull()
      expect(again.store.marks.size).toBe(3)
      await again.release()
      for (const name of readdirSync(journal)) unlinkSync(join(journal, name))
    }
  })

  test('a last line of garbage with its newline is cut too', async () => {
    writeFileSync(file, Buffer.concat([whole, Buffer.from('\0\0\0\0{"seq":\n')]))
    const holder = await begin()
    expect(holder.report.cut?.offset).toBe(whole.length)
    expect(holder.store.marks.size).toBe(3)
    await holder.release()
  })

  test('a damaged line with sound ones after it is a fault naming file and line, and nothing is written', async () => {
    const lines = whole.toString('utf8').split('\n')
    lines[2] = `${lines[2]?.slice(0, 20)}`
    writeFileSync(file, lines.join('\n'))
    const before = contents()
    const held = await hold(root, 'daemon', { version: 'test', clock })
    expect(held).toMatchObject({ ok: false, fault: { code: 'invalid', message: expect.stringContaining(`${file}:3`) } })
    expect(openReadOnly(root, clock)).toMatchObject({ ok: false, fault: { code: 'invalid' } })
    expect(contents()).toEqual(before)
  })

  describe('of a file that is filled with newlines ahead', () => {
    /** Marks of 10 KB, each of a flush of its own but those of `together`; then as a kill leaves the file. */
    const filled = async (alone: number, together: number): Promise<Buffer> => {
      const holder = await begin()
      const big = (n: number) => mark(holder.store, String(n), { text: 'x'.repeat(10_000) })
      for (let n = 1; n <= alone; n++) await big(n).durable
      for (let n = alone + 1; n <= alone + together; n++) big(n)
      await holder.store.flushed()
      cpSync(file, join(root, 'copy'))
      await holder.release()
      expect(readFileSync(file).includes('\n\n')).toBe(false)
      for (const name of readdirSync(journal)) unlinkSync(join(journal, name))
      return readFileSync(join(root, 'copy'))
    }
    /** A page that a power cut kept from the disk: what the file was filled with is there still. */
    const lose = (content: Buffer, line: number) => {
      let at = 0
      for (let n = 0; n < line; n++) at = content.indexOf(0x0a, at) + 1
      content.fill(0x0a, at + 100, at + 4196)
      writeFileSync(file, content)
      return at
    }

    test('the newlines are no cut, and the next holder reads what is before them', async () => {
      const content = await filled(6, 0)
      expect(content.subarray(-2).toString()).toBe('\n\n')
      writeFileSync(file, content)
      const holder = await begin()
      expect(holder.report.cut).toBeNull()
      expect(holder.store.marks.size).toBe(6)
      await holder.release()
      expect(read().marks.size).toBe(6)
    })

    test('a flush that lost a page is cut from there: nobody was told of it', async () => {
      const offset = lose(await filled(6, 4), 1 + 1 + 6 + 1)
      const holder = await begin()
      expect(holder.report.cut).toMatchObject({ file, offset })
      expect(holder.store.marks.size).toBe(7)
      await holder.release()
    })

    test('a page lost before a later flush is a fault: what was acknowledged is not skipped', async () => {
      lose(await filled(6, 0), 1 + 1 + 4)
      expect(await hold(root, 'daemon', { version: 'test', clock })).toMatchObject({
        ok: false,
        fault: { code: 'invalid', message: expect.stringContaining(`${file}:7`) },
      })
    })
  })

  test('a missing line is a fault: what was acknowledged is not skipped', async () => {
    const lines = whole.toString('utf8').split('\n')
    writeFileSync(file, [...lines.slice(0, 2), ...lines.slice(3)].join('\n'))
    expect(await hold(root, 'daemon', { version: 'test', clock })).toMatchObject({
      ok: false,
      fault: { code: 'invalid', message: expect.stringContaining(`${file}:3`) },
    })
  })

  test('a file cut shorter than what its successor counted of it is a fault', async () => {
    writeFileSync(file, whole)
    await (await begin()).release()
    truncateSync(file, whole.length - 10)
    expect(await hold(root, 'daemon', { version: 'test', clock })).toMatchObject({
      ok: false,
      fault: { code: 'invalid', message: expect.stringContaining(file) },
    })
  })

  test('a file of a newer format is refused before anything is written', async () => {
    writeFileSync(file, whole.toString('utf8').replace('"v":1', '"v":2'))
    const before = contents()
    expect(await hold(root, 'daemon', { version: 'test', clock })).toMatchObject({
      ok: false,
      fault: { code: 'refused', message: expect.stringContaining('newer version') },
    })
    expect(openReadOnly(root, clock)).toMatchObject({ ok: false, fault: { code: 'refused' } })
    expect(contents()).toEqual(before)
  })

  test('an epoch that was begun without a header counts for nothing', async () => {
    writeFileSync(file, whole)
    writeFileSync(join(journal, '00000002.jsonl'), '{"v":1,"ep')
    const holder = await begin()
    expect(holder.hello.epoch).toBe(3)
    expect(holder.report.warnings.join()).toContain('00000002.jsonl')
    expect(holder.store.marks.size).toBe(3)
    await holder.release()
  })
})

describe('snapshots', () => {
  const limits = { segmentBytes: 4000, replayEpochs: 2, replayBytes: 1 << 20, keep: { bytes: 10_000, epochs: 100 } }

  test('a long run goes over to new files under the same holder, and old ones are deleted oldest first', async () => {
    const holder = await begin({ limits })
    writeFileSync(join(journal, '.epoch-1-dead'), 'left by a contender that was killed')
    for (let n = 1; n <= 300; n++) await mark(holder.store, String(n)).durable
    expect(holder.hello.epoch).toBeGreaterThan(5)
    expect(readdirSync(journal)).not.toContain('.epoch-1-dead')
    await holder.release()
    const kept = epochFiles()
    expect(kept).not.toContain('00000001.jsonl')
    expect(kept.map(name => statSync(join(journal, name)).size).reduce((a, b) => a + b)).toBeLessThan(60_000)
    const store = read()
    expect(Array.from(store.marks.list(), ([id]) => id)).toEqual(Array.from({ length: 300 }, (_, n) => String(n + 1)))
    const kinds = await seqs(store.entries(0))
    expect(kinds.at(-1)).toBe(store.seq)
    expect(kinds).toEqual(Array.from(kinds, (_, n) => (kinds[0] ?? 0) + n))
  })

  test('entries after any sequence number are found across files, while the newest is written', async () => {
    const holder = await begin({ limits: { ...limits, keep: { bytes: 1 << 30, epochs: 1000 } } })
    for (let n = 1; n <= 120; n++) await mark(holder.store, String(n)).durable
    const { store } = holder
    for (const after of [0, 1, 37, 60, store.seq - 1, store.seq])
      expect(await seqs(store.entries(after))).toEqual(
        Array.from({ length: store.seq - after }, (_, n) => after + 1 + n),
      )
    await holder.release()
  })

  test('a damaged snapshot is passed over with a warning, and the one before it is used', async () => {
    const holder = await begin({ limits })
    for (let n = 1; n <= 150; n++) await mark(holder.store, String(n)).durable
    await holder.release()
    const newest = readdirSync(journal)
      .filter(name => name.startsWith('snapshot-'))
      .at(-1)
    writeFileSync(join(journal, newest ?? ''), '{"v":1,')
    const again = await begin({ limits })
    expect(again.report.warnings.join()).toContain(newest)
    expect(again.store.marks.size).toBe(150)
    await again.release()
  })

  test('with the files behind the snapshots gone the state is whole; with one in between gone it is a fault', async () => {
    for (let n = 1; n <= 9; n++) {
      const holder = await begin({ limits })
      mark(holder.store, String(n))
      await holder.release()
    }
    const needed = Number(
      /snapshot-(\d+)/.exec(readdirSync(journal).findLast(name => name.startsWith('snap')) ?? '')?.[1],
    )
    for (const name of epochFiles()) if (Number.parseInt(name, 10) < needed) unlinkSync(join(journal, name))
    expect(read().marks.size).toBe(9)
    unlinkSync(join(journal, epochFiles()[0] ?? ''))
    for (const name of readdirSync(journal).filter(name => name.startsWith('snap'))) unlinkSync(join(journal, name))
    expect(openReadOnly(root, clock)).toMatchObject({
      ok: false,
      fault: { code: 'invalid', message: expect.stringContaining('missing') },
    })
  })
})

test('a superseded holder cannot acknowledge anything, and what it wrote is void', async () => {
  let failure: Fault | null = null
  const old = await begin({ onFailure: fault => (failure = fault) })
  await mark(old.store, 'before').durable
  // As if its machine were another one, given up by a person: nobody listens where it said it would.
  for (const name of readdirSync(join(root, '.team'))) if (name.startsWith('s.')) unlinkSync(join(root, '.team', name))
  const next = await begin()
  expect(next.store.marks.get('before')).toBeDefined()
  const late = mark(old.store, 'late')
  await expect(late.durable).rejects.toMatchObject({ fault: { code: 'held' } })
  expect(failure).toMatchObject({ code: 'held' })
  expect(() => mark(old.store, 'later')).toThrow('took')
  await mark(next.store, 'mine').durable
  await old.release()
  // It was thrown out, and takes nothing of the other one along.
  expect(readdirSync(join(root, '.team'))).toContain('holder.json')
  await next.release()
  const { marks } = read()
  expect(Array.from(marks.list(), ([id]) => id)).toEqual(['before', 'mine'])
  expect(readFileSync(join(journal, '00000001.jsonl'), 'utf8')).toContain('late')
})

test('a journal that is removed under its holder fails the next write instead of swallowing it', async () => {
  const holder = await begin()
  rmSync(journal, { recursive: true })
  await expect(mark(holder.store, 'x').durable).rejects.toMatchObject({ fault: { code: 'io' } })
  await holder.release()
})

test('a full disk rejects the write and all after it, and is told once', async () => {
  const told: Fault[] = []
  const header = {
    v: 1,
    epoch: 1,
    pid: 1,
    host: hostname(),
    kind: 'daemon',
    startedAt: '',
    socket: '',
    seq: 0,
    prev: null,
  } as const
  const full = new FileJournal({
    folder: root,
    header,
    fd: openSync('/dev/full', 'w'),
    bytes: 0,
    segments: [],
    segmentBytes: 1e9,
    onFailure: fault => told.push(fault),
    onRoll: () => {},
  })
  const entry = (seq: number): JournalEntry => ({ seq, at: '', event: 'warning', by: 'human' })
  const first = full.push(entry(1))
  const second = full.push(entry(2))
  await expect(first).rejects.toThrow('ENOSPC')
  await expect(second).rejects.toThrow('ENOSPC')
  await expect(full.flushed()).rejects.toThrow('ENOSPC')
  expect(() => full.push(entry(3))).toThrow('ENOSPC')
  expect(told).toHaveLength(1)
  expect(told[0]).toMatchObject({ code: 'io', message: expect.stringContaining('cannot be written') })
  await expect(full.close()).rejects.toThrow('ENOSPC')
})

test('writes that come while a flush is under way share the next one', async () => {
  const holder = await begin()
  const first = mark(holder.store, 'first')
  await new Promise(setImmediate)
  const rest = Array.from({ length: 500 }, (_, n) => mark(holder.store, `r${n}`))
  expect(new Set(rest.map(write => write.durable)).size).toBe(1)
  expect(rest[0]?.durable).not.toBe(first.durable)
  await rest[0]?.durable
  expect(read().marks.size).toBe(501)
  await holder.release()
})

describe('opened for reading', () => {
  test('the state of a living holder is seen as far as it is durable, and nothing is written or held', async () => {
    const holder = await begin()
    await mark(holder.store, 'a').durable
    const before = readdirSync(join(root, '.team'), { recursive: true })
    const { store, asOf } = unwrap(openReadOnly(root, clock))
    expect(store.marks.size).toBe(1)
    expect(asOf).toMatch(/^\d{4}-.*Z$/)
    expect(() => mark(store, 'b')).toThrow('for reading')
    expect(store.marks.size).toBe(1)
    expect(await seqs(store.entries(0))).toEqual([1, 2])
    expect(readdirSync(join(root, '.team'), { recursive: true })).toEqual(before)
    await mark(holder.store, 'b').durable
    await holder.release()
  })

  test('a root that never ran is empty, as of never, and gets no folder', () => {
    const { store, asOf } = unwrap(openReadOnly(root, clock))
    expect(asOf).toBeNull()
    expect(store.tasks.size).toBe(0)
    expect(readdirSync(root)).toEqual([])
    expect(openReadOnly(join(root, 'none'), clock)).toMatchObject({ ok: false, fault: { code: 'config' } })
  })

  test('a half-written last line of a living holder is not seen, and is no fault', async () => {
    const holder = await begin()
    await mark(holder.store, 'a').durable
    appendFileSync(join(journal, '00000001.jsonl'), '{"seq":3,"at":"')
    expect(read().marks.size).toBe(1)
    rmSync(journal, { recursive: true })
    await holder.release().catch(() => {})
  })
})

test('reading while a holder begins new files and deletes old ones always finds a whole state', async () => {
  const writer = new StoreProcess()
  writer.tell('write', root)
  try {
    await writer.until(said => 'ack' in said)
    let seen = 0
    for (let round = 0; round < 60; round++) {
      const from = writer.said.length
      const counter = Number(read().marks.get('counter')?.value.n)
      expect(counter).toBeGreaterThanOrEqual(seen)
      seen = counter
      await writer.until(said => 'ack' in said, from)
    }
  } finally {
    await writer.kill()
  }
})
