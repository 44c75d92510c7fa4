import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Config, members } from '../../src/protocol/config.ts'
import { Task } from '../../src/protocol/task.ts'
import { match, ReadyList, unfit } from '../../src/supervisor/schedule.ts'

const at = '2026-05-14T10:00:00.000Z'
const task = (id: string, more: Partial<Task> = {}): Task =>
  Task.parse({ id, title: id, createdAt: at, updatedAt: at, ...more })
const team = (...mates: object[]) => members(Config.parse({ teammates: mates }))
const pairs = (tasks: Task[], mates: ReturnType<typeof team>, alive: (name: string) => boolean = () => true) =>
  match(tasks, mates, alive, () => true).map(pair => `${pair.task.id}:${pair.member.name}`)

describe('who gets what', () => {
  it('gives an assigned task to its assignee alone', () => {
    const [a, b] = [team({ name: 'a' }), team({ name: 'b' })]
    expect(pairs([task('1', { assignee: 'b' })], a)).toEqual([])
    expect(pairs([task('1', { assignee: 'b' }), task('2')], [...a, ...b])).toEqual(['1:b', '2:a'])
  })

  it('never gives work that needs writing to a read-only teammate', () => {
    const mates = team({ name: 'reader', tools: ['ls', 'read_file', 'grep', 'message', 'request'] })
    expect(pairs([task('1'), task('2', { needs: [] })], mates)).toEqual(['2:reader'])
    expect(unfit(task('1'), mates[0] as (typeof mates)[number], () => true)).toContain('write')
  })

  it('prefers whose skills match, and one who has been idle longest among equals', () => {
    const mates = team({ name: 'a' }, { name: 'b', skills: ['react'] }, { name: 'c' })
    expect(pairs([task('1', { skills: ['react'] }), task('2')], mates)).toEqual(['1:b', '2:a'])
  })

  it('brings a task that was sent back to its owner, and to others only when that one is gone', () => {
    const mates = team({ name: 'a' })
    expect(pairs([task('1', { owner: 'b' })], mates)).toEqual([])
    expect(pairs([task('1', { owner: 'b' })], mates, name => name !== 'b')).toEqual(['1:a'])
  })

  it('gives a teammate without autoClaim only what is assigned to it', () => {
    const mates = team({ name: 'a', autoClaim: false })
    expect(pairs([task('1'), task('2', { assignee: 'a' })], mates)).toEqual(['2:a'])
  })
})

describe('the ready list', () => {
  it('is in the order sent back, priority, age, whatever comes and goes', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(20), fc.integer({ min: -2, max: 2 }), fc.boolean(), fc.boolean()), { maxLength: 80 }),
        steps => {
          const list = new ReadyList()
          const model = new Map<string, { rank: number; priority: number; age: number }>()
          const ages = new Map<string, number>()
          for (const [n, priority, returned, add] of steps) {
            const id = String(n)
            if (add) {
              if (!ages.has(id)) ages.set(id, ages.size)
              list.add(task(id, { priority, owner: returned ? 'a' : null }))
              model.set(id, { rank: returned ? 0 : 1, priority, age: ages.get(id) ?? 0 })
            } else {
              list.remove(id)
              model.delete(id)
            }
          }
          const wanted = [...model]
            .sort(([, x], [, y]) => x.rank - y.rank || y.priority - x.priority || x.age - y.age)
            .map(([id]) => id)
          expect([...list]).toEqual(wanted)
          expect(list.size).toBe(wanted.length)
        },
      ),
    )
  })
})
