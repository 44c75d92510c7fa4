import { linkSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Session } from '../../src/agent/session.ts'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { folder } from '../support/agent.ts'

let home: ReturnType<typeof folder>
let file: string
let told: string[]
let session: Session
beforeEach(() => {
  home = folder()
  file = join(home.path, 'sessions', 'alice.jsonl')
  told = []
  session = unwrap(Session.open(file, clock, { tell: text => told.push(text) }))
  session.begin('you are a test', false)
  session.take([{ k: 'note', text: 'before' }])
})
afterEach(() => {
  session.close()
  home.remove()
})

const notes = () => readFileSync(file, 'utf8').match(/before|after|later/g)

test('a file or its whole folder that is removed while it is in use is written anew with all that stood in it, and that is told', () => {
  rmSync(file)
  session.take([{ k: 'note', text: 'after' }])
  expect(notes()).toEqual(['before', 'after'])
  rmSync(dirname(file), { recursive: true })
  session.take([{ k: 'note', text: 'later' }])
  expect(notes()).toEqual(['before', 'after', 'later'])
  expect(told).toEqual([expect.stringContaining(`${file} was removed`), expect.stringContaining('written anew')])
  const again = unwrap(Session.open(file, clock))
  expect(again.context.messages).toEqual(session.context.messages)
  again.close()
})

test('a file that another one took the place of is left alone: nothing goes on from there', () => {
  const other = `${file}.other`
  writeFileSync(other, 'of another\n')
  renameSync(other, file)
  expect(() => session.take([{ k: 'note', text: 'after' }])).toThrow(`${file} was replaced`)
  expect(readFileSync(file, 'utf8')).toBe('of another\n')
  expect(told).toEqual([])
})

test('a session that was being put away when its thread died is put away once: no file holds a history a second time', () => {
  session.close()
  // Killed after the old file had got its second name, and before the new one took its place.
  linkSync(file, join(dirname(file), 'alice.1.jsonl'))
  writeFileSync(join(dirname(file), '.alice.next'), 'half')
  session = unwrap(Session.open(file, clock, { rotateBytes: 1 }))
  expect(readdirSync(dirname(file)).sort()).toEqual(['alice.1.jsonl', 'alice.jsonl'])
  session.begin('you are a test', false)
  session.begin('you are a test', false)
  expect(readdirSync(dirname(file)).sort()).toEqual(['alice.1.jsonl', 'alice.2.jsonl', 'alice.jsonl'])
  const kept = (n: number) => readFileSync(join(dirname(file), `alice.${n}.jsonl`), 'utf8')
  expect([kept(1).includes('before'), kept(2).includes('before'), notes()]).toEqual([true, false, null])
})
