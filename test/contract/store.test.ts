import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import type { JournalEntry, Why } from '../../src/protocol/event.ts'
import { Stored } from '../../src/protocol/message.ts'
import type { Task } from '../../src/protocol/task.ts'
import { type Holder, hold, openMemoryStore } from '../../src/store/index.ts'
import type { Put, Rec, Store } from '../../src/store/store.ts'

const why: Why = { event: 'task.created', by: 'human' }
const at = '2026-01-02T03:04:05.678Z'

const task = (id: string, change: Partial<Task> = {}): Task => ({
  id,
  title: `Task ${id}`,
  description: '',
  status: 'pending',
  dependsOn: [],
  owner: null,
  assignee: null,
  needs: ['write'],
  skills: [],
  priority: 0,
  verify: null,
  accept: [],
  review: false,
  paths: [],
  claimed: null,
  attempts: 0,
  returns: 0,
  createdAt: at,
  startedAt: null,
  updatedAt: at,
  completedAt: null,
  branch: null,
  result: null,
  error: null,
  takeIn: null,
  needsPlan: false,
  parent: null,
  tags: [],
  file: null,
  ...change,
})

const mail = (id: string, content = id): Stored => ({
  message: { id, from: 'bob', to: 'alice', timestamp: at, type: 'info', content },
  origin: 'daemon',
})

const put = <T>(result: Put<T>): Rec<T> => {
  if (!result.ok) throw new Error('the change was refused')
  return result.rec
}

const all = async (entries: AsyncIterable<JournalEntry>): Promise<JournalEntry[]> => {
  const list: JournalEntry[] = []
  for await (const entry of entries) list.push(entry)
  return list
}

interface Backend {
  readonly name: string
  /** A new, empty store; `reopen` ends it and opens what it left, null where nothing lasts. */
  readonly open: () => Promise<{ store: Store; reopen: (() => Promise<Store>) | null; end: () => Promise<void> }>
}

const memory: Backend = {
  name: 'memory',
  open: async () => ({ store: openMemoryStore(clock), reopen: null, end: async () => {} }),
}

const files: Backend = {
  name: 'files',
  open: async () => {
    const root = mkdtempSync(join(tmpdir(), 'team-store-'))
    const begin = async () => unwrap(await hold(root, 'daemon', { version: 'test', clock }))
    let holder: Holder = await begin()
    return {
      store: holder.store,
      reopen: async () => {
        await holder.release()
        holder = await begin()
        return holder.store
      },
      end: async () => {
        await holder.release()
        rmSync(root, { recursive: true })
      },
    }
  },
}

for (const backend of [memory, files])
  describe(`the ${backend.name} store`, () => {
    let opened: Awaited<ReturnType<Backend['open']>>
    let store: Store
    beforeEach(async () => {
      opened = await backend.open()
      store = opened.store
    })
    afterEach(() => opened.end())

    /** Checks `check` now, and again on what a new holder reads, where anything lasts. */
    const lasting = async (check: (store: Store) => void) => {
      check(store)
      if (opened.reopen) check(await opened.reopen())
    }

    test('a record is created once, and a second creation is shown what is there', () => {
      expect(put(store.tasks.create('1', task('1'), why)).rev).toBe(1)
      const second = store.tasks.create('1', task('1', { title: 'other' }), why)
      expect(second).toMatchObject({ ok: false, rec: { rev: 1, value: { title: 'Task 1' } } })
      expect(store.tasks.size).toBe(1)
    })

    test('of many updates from the same revision exactly one is made', async () => {
      put(store.tasks.create('1', task('1'), why))
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, async (_, n) => store.tasks.update('1', 1, task('1', { owner: `t${n}` }), why)),
      )
      expect(outcomes.filter(outcome => outcome.ok)).toHaveLength(1)
      await lasting(s => expect(s.tasks.get('1')).toMatchObject({ rev: 2, value: { owner: 't0' } }))
    })

    test('an update of what is not there is refused and makes nothing', () => {
      expect(store.tasks.update('9', 0, task('9'), why)).toEqual({ ok: false, rec: undefined })
      expect(store.tasks.size).toBe(0)
    })

    test('records are listed in order of creation, whatever was updated when', async () => {
      for (const id of ['b', 'a', '10', '9']) put(store.tasks.create(id, task(id), why))
      put(store.tasks.update('a', 1, task('a', { priority: 5 }), why))
      await lasting(s => expect(Array.from(s.tasks.list(), ([id]) => id)).toEqual(['b', 'a', '10', '9']))
    })

    test('names that JavaScript objects know already are ids like any other', async () => {
      for (const id of ['__proto__', 'constructor', 'toString']) {
        put(store.marks.create(id, { id }, why))
        store.inbox(id).append(mail(id), why)
      }
      await lasting(s => {
        expect(s.marks.get('__proto__')?.value).toEqual({ id: '__proto__' })
        expect(s.inbox('constructor').last).toBe(1)
        expect(s.inbox('valueOf').last).toBe(0)
      })
    })

    test('watchers are told of each change at once, in order, with what was before', () => {
      const seen: string[] = []
      const stop = store.tasks.watch((id, rec, old, { event }) =>
        seen.push(`${id} ${old?.rev ?? 0}->${rec.rev} ${event}`),
      )
      put(store.tasks.create('1', task('1'), why))
      put(store.tasks.update('1', 1, task('1', { priority: 1 }), { ...why, event: 'task.edited' }))
      expect(seen).toEqual(['1 0->1 task.created', '1 1->2 task.edited'])
      stop()
      put(store.tasks.create('2', task('2'), why))
      expect(seen).toHaveLength(2)
    })

    test('a watcher that makes a change itself does not put others out of order', () => {
      const seen: string[] = []
      store.tasks.watch((id, rec) => {
        if (rec.rev === 1) put(store.tasks.update(id, 1, task(id, { priority: 1 }), why))
      })
      store.tasks.watch((id, rec) => seen.push(`${id}@${rec.rev}`))
      put(store.tasks.create('1', task('1'), why))
      expect(seen).toEqual(['1@1', '1@2'])
    })

    test('a log is read after a cursor, in bounded pieces, and its entries count up from 1', () => {
      const inbox = store.inbox('alice')
      for (let n = 1; n <= 10; n++) expect(inbox.append(mail(`m${n}`), why).index).toBe(n)
      expect(inbox.read(0).map(entry => entry.index)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
      expect(inbox.read(7, 2).map(entry => entry.value.message.id)).toEqual(['m8', 'm9'])
      expect(inbox.read(10)).toEqual([])
      expect(inbox.last).toBe(10)
    })

    test('a cursor only moves forward, never past the end, and each reader has its own', async () => {
      const inbox = store.inbox('alice')
      for (let n = 1; n <= 5; n++) inbox.append(mail(`m${n}`), why)
      inbox.ack('alice', 3, why)
      inbox.ack('alice', 2, why)
      inbox.ack('alice', 3, why)
      inbox.ack('human', 99, why)
      await lasting(s => {
        expect(s.inbox('alice').cursor('alice')).toBe(3)
        expect(s.inbox('alice').cursor('human')).toBe(5)
        expect(s.inbox('alice').cursor('bob')).toBe(0)
      })
    })

    test('an ignored acknowledgement is durable when the one before it is, and makes no entry', async () => {
      const inbox = store.inbox('alice')
      inbox.append(mail('m1'), why)
      const first = inbox.ack('alice', 1, why)
      const again = inbox.ack('alice', 1, why)
      expect(again.seq).toBe(first.seq)
      await again.durable
      expect(store.seq).toBe(first.seq)
    })

    test('a trimmed log forgets its head and never uses an index twice', async () => {
      const inbox = store.inbox('alice')
      for (let n = 1; n <= 5; n++) inbox.append(mail(`m${n}`), why)
      inbox.trim(3, why)
      inbox.trim(2, why)
      await lasting(s => {
        const log = s.inbox('alice')
        expect(log.read(0).map(entry => entry.index)).toEqual([4, 5])
        expect(log.read(4).map(entry => entry.index)).toEqual([5])
      })
      const now = opened.reopen ? await opened.reopen() : store
      now.inbox('alice').trim(5, why)
      expect(now.inbox('alice').read(0)).toEqual([])
      expect(now.inbox('alice').append(mail('m6'), why).index).toBe(6)
      expect(
        now
          .inbox('alice')
          .read(5)
          .map(entry => entry.value.message.id),
      ).toEqual(['m6'])
    })

    test('inboxes are kept apart, dead letters too, and a watcher hears of its own log only', () => {
      const heard: string[] = []
      store.inbox('alice').watch(entry => heard.push(entry.value.message.id))
      store.inbox('bob').append(mail('to-bob'), why)
      store.inbox('alice').append(mail('to-alice'), why)
      store.deadLetters.append({ at, file: 'f', offset: 0, reason: 'r', line: 'l' }, why)
      expect(heard).toEqual(['to-alice'])
      expect(store.inbox('bob').last).toBe(1)
      expect(store.deadLetters.last).toBe(1)
      expect([...store.inboxNames].sort()).toEqual(['alice', 'bob'])
    })

    test('entries are told after they are durable, all of them, in order, before the write is answered', async () => {
      const told: number[] = []
      store.onEntry(entry => told.push(entry.seq))
      const from = store.seq
      const writes = Array.from({ length: 200 }, (_, n) => store.note({ event: 'warning', by: 'human', info: { n } }))
      expect(told).toEqual([])
      await writes[99]?.durable
      expect(told.length).toBeGreaterThanOrEqual(100)
      await store.flushed()
      expect(told).toEqual(Array.from({ length: 200 }, (_, n) => from + 1 + n))
    })

    test('the journal is read after a sequence number, and says what changed, why and by whom', async () => {
      const from = store.seq
      put(store.tasks.create('1', task('1'), { event: 'task.created', by: 'alice', info: { drop: 'x.json' } }))
      store.inbox('alice').append(mail('m1', 'line\u2028separator \u0085 \r and \\n'), why)
      store.inbox('alice').ack('alice', 1, why)
      store.inbox('alice').trim(1, why)
      await store.flushed()
      const entries = await all(store.entries(from))
      expect(entries.map(entry => entry.seq)).toEqual([from + 1, from + 2, from + 3, from + 4])
      expect(entries[0]).toMatchObject({ event: 'task.created', by: 'alice', info: { drop: 'x.json' } })
      expect(entries[0]?.put?.slice(0, 3)).toEqual(['tasks', '1', 1])
      expect(Stored.parse(entries[1]?.append?.[2]).message.content).toBe('line\u2028separator \u0085 \r and \\n')
      expect(entries[2]?.ack?.slice(1)).toEqual(['alice', 1])
      expect(entries[3]?.trim?.[1]).toBe(1)
      expect(await all(store.entries(from + 4))).toEqual([])
    })

    test('everything lasts: all kinds of records and logs, with revisions, cursors and sequence numbers', async () => {
      put(store.tasks.create('1', task('1', { description: '日本 "x" \ud83d\ude00' }), why))
      put(store.teammates.create('alice', { name: 'alice', standing: 'stopped', reason: 'asked', at }, why))
      put(store.marks.create('trunk', { commit: 'abc', nested: { list: [1, 2] } }, why))
      put(
        store.requests.create(
          'req_1',
          {
            id: 'req_1',
            type: 'shutdown_request',
            from: 'human',
            to: 'alice',
            status: 'pending',
            outcome: null,
            title: 't',
            body: '',
            bodyHash: 'h',
            data: { teammate: 'alice', graceMs: 1 },
            createdAt: at,
            deadline: null,
            history: [],
            decidedBy: null,
            decidedAt: null,
            reason: null,
            successor: null,
            effect: null,
          },
          why,
        ),
      )
      store.inbox('alice').append(mail('m1'), why)
      const seq = store.seq
      await lasting(s => {
        expect(s.tasks.get('1')?.value.description).toBe('日本 "x" \ud83d\ude00')
        expect(s.teammates.get('alice')?.value.standing).toBe('stopped')
        expect(s.marks.get('trunk')?.value).toEqual({ commit: 'abc', nested: { list: [1, 2] } })
        expect(s.requests.get('req_1')?.value.type).toBe('shutdown_request')
        expect(s.inbox('alice').read(0)[0]?.value).toEqual(mail('m1'))
        expect(s.seq).toBeGreaterThanOrEqual(seq)
      })
    })

    test('a closed store has everything durable, and refuses changes without making them', async () => {
      const write = store.inbox('alice').append(mail('m1'), why)
      let isDurable = false
      void write.durable.then(() => {
        isDurable = true
      })
      await store.close()
      expect(isDurable).toBe(true)
      expect(() => store.tasks.create('1', task('1'), why)).toThrow('closed')
      expect(store.tasks.size).toBe(0)
    })
  })
