import type { Clock } from '../../src/lib/clock.ts'
import type { JournalEntry } from '../../src/protocol/event.ts'
import { type State, StateStore } from '../../src/store/state.ts'
import { Disk, SimJournal } from './disk.ts'
import { replay } from './holder.ts'
import { must } from './rules.ts'
import type { Simulation } from './run.ts'
import { parts } from './world.ts'

const clock: Clock = { wall: () => Date.UTC(2026, 0, 1), mono: () => 0 }
const why = { event: 'warning', by: 'somebody' } as const
const readers = ['ann', 'bob']
/** A log that nothing ever stood in may be there or not. */
const text = (state: State): string => {
  const { logs, ...rest } = state.dump()
  return JSON.stringify([rest, logs.filter(([, { last }]) => last > 0).sort(([a], [b]) => (a < b ? -1 : 1))])
}

/** Several writers of one store, some of which write because others did, over a disk that fails and a process that dies. */
export const ofStore: Simulation = {
  name: 'a store under several writers',
  length: 60,
  run: async (schedule, trace = () => undefined) => {
    const disk = new Disk()
    /** What writers were told of as durable, by its number. */
    let promised = 0
    let lies = 0
    const open = (snapshot: number) => {
      const isBad = { now: false }
      const journal = new SimJournal(disk, () => {
        isBad.now = true
      })
      const state = replay(disk, clock, snapshot)
      const store = new StateStore(state, journal)
      let last = state.seq
      store.onEntry(({ seq }: JournalEntry) => {
        must(seq === last + 1, () => `entry ${seq} was told after ${last}`)
        last = seq
      })
      // Two that answer each other: each change must be seen by both, in order.
      const seen: string[][] = [[], []]
      for (const list of seen)
        store.marks.watch((id, rec) => {
          list.push(`${id} ${rec.rev}`)
          if (rec.value.answers === true && rec.rev < 4)
            store.marks.update(id, rec.rev, { ...rec.value, n: rec.rev }, why)
        })
      return { journal, state, store, isBad, seen }
    }
    let now = open(0)
    const wrote = (write: { readonly seq: number; readonly durable: Promise<void> }) => {
      const { isBad } = now
      write.durable.then(
        () => {
          promised = Math.max(promised, write.seq)
        },
        () => {
          if (!isBad.now) lies++
        },
      )
    }
    for (const step of schedule) {
      const { kind, a, b, c } = parts(step)
      const { store, journal, isBad } = now
      const reader = readers[a & 1] ?? 'ann'
      const box = store.inbox(reader)
      if (kind < 12) journal.flush()
      else if (kind < 16) journal.begin()
      else if (kind === 63 || (isBad.now && kind > 40)) {
        trace(`dies with ${a}/255 of what was not durable`)
        // What waits for a promise hears of it before the end.
        await null
        const before = text(now.state)
        journal.die(a)
        must(disk.entries.length >= promised, () => `${promised} was promised, and ${disk.entries.length} are there`)
        now = open((b * disk.entries.length) >> 8)
        must(text(now.state) === text(replay(disk, clock, 0)), () => 'by way of a snapshot it is another state')
        if (a === 255 && !isBad.now)
          must(text(now.state) === before, () => 'what is read again is not what was written')
        for (const name of readers) {
          const log = now.store.inbox(name)
          must(log.cursor(name) <= log.last, () => `the cursor of ${name} is past the end`)
        }
      } else if (isBad.now) {
        let isRefused = false
        try {
          store.note(why)
        } catch {
          isRefused = true
        }
        must(isRefused, () => 'a store whose journal failed took a change in')
      } else if (kind < 28) {
        const put = store.marks.create(`m${b % 5}`, { n: 0, ...(c & 1 ? { answers: true } : {}) }, why)
        trace(`creates m${b % 5}: ${put.ok}`)
        if (put.ok) wrote(put)
      } else if (kind < 40) {
        const id = `m${b % 5}`
        const rev = (store.marks.get(id)?.rev ?? 0) - (c % 3 === 0 ? 1 : 0)
        const put = store.marks.update(id, rev, { n: c }, why)
        must(
          put.ok === (rev > 0 && c % 3 !== 0),
          () => `an update of ${id} at revision ${rev} was ${put.ok ? 'taken in' : 'refused'}`,
        )
        if (put.ok) wrote(put)
      } else if (kind < 50) {
        const message = {
          id: `msg_${b}`,
          from: 'user',
          to: reader,
          timestamp: '',
          type: 'info' as const,
          content: `${c}`,
        }
        const before = box.last
        const write = box.append({ message, origin: 'daemon' }, why)
        must(write.index === before + 1, () => `entry ${write.index} of ${reader} follows ${before}`)
        wrote(write)
      } else if (kind < 56) {
        const before = box.cursor(reader)
        wrote(box.ack(reader, b % 16, why, c & 1 ? { turn: 1, indexes: [b % 16, c % 16] } : undefined))
        must(box.cursor(reader) >= before, () => `the cursor of ${reader} went back`)
      } else if (kind < 60) wrote(box.trim(Math.min(b % 16, box.cursor(reader)), why))
      else if (kind === 60) {
        trace('the disk fails')
        journal.fail('ENOSPC')
      } else wrote(store.note(why))
      const [first = [], second = []] = now.seen
      must(first.join() === second.join(), () => `one listener saw ${first}, the other ${second}`)
      if ((kind & 3) === 0) await null
    }
    await null
    must(lies === 0, () => 'a write was rejected though the disk took it')
    must(disk.entries.length >= promised, () => `${promised} was promised, and ${disk.entries.length} are there`)
  },
}
