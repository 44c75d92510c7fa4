import { closeSync, ftruncateSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Page, pageWriter } from '../../src/store/files/pages.ts'
import type { Stamp } from '../../src/store/files/stamp.ts'
import { tempRoot } from '../support/folders.ts'

let root: string
let remove: () => void
let now = 0
const time = { wall: () => now, mono: () => now }
beforeEach(() => {
  ;({ root, remove } = tempRoot())
  now = 0
})
afterEach(() => remove())

/** Writes pages, and says what was saved too late. */
const writer = () => {
  const write = pageWriter(time)
  const states = new Map<string, Stamp>()
  return {
    page(name: string, text: string) {
      const page: Page = { path: join(root, name), text, known: states.get(name), isEdited: true }
      const [answer] = write([page])
      if (answer?.kind !== 'written') throw new Error(`not written: ${JSON.stringify(answer?.kind)}`)
      states.set(name, answer.stamp)
    },
    look(isLast = false) {
      const [answer] = write([{ isLast }])
      if (answer?.kind !== 'looked') throw new Error('no look')
      return { saves: answer.saves.map(each => Buffer.from(each.bytes).toString()), left: answer.left }
    },
  }
}
const save = (fd: number, text: string) => {
  ftruncateSync(fd)
  writeSync(fd, text, 0)
}

test('a save is told once it stands still, and once; who holds the file on is heard again', () => {
  const team = writer()
  team.page('a', 'one')
  const editor = openSync(join(root, 'a'), 'r+')
  team.page('a', 'two')
  expect(team.look()).toEqual({ saves: [], left: 1 })
  save(editor, 'by ha')
  expect(team.look().saves).toEqual([])
  now = 400
  save(editor, 'by hand')
  expect(team.look().saves).toEqual([])
  now = 800
  expect(team.look().saves).toEqual([])
  now = 900
  expect(team.look()).toEqual({ saves: ['by hand'], left: 1 })
  now = 2500
  save(editor, 'by hand again')
  expect(team.look()).toEqual({ saves: [], left: 1 })
  now = 3000
  expect(team.look()).toEqual({ saves: ['by hand again'], left: 1 })
  now = 5000
  expect(team.look()).toEqual({ saves: [], left: 0 })
  closeSync(editor)
})

test('the number of files that are held is bounded, and what stands in one that is let go is told', () => {
  const team = writer()
  for (let i = 0; i < 300; i++) team.page(`f${i}`, 'one')
  const editor = openSync(join(root, 'f0'), 'r+')
  team.page('f0', 'two')
  save(editor, 'by hand')
  closeSync(editor)
  for (let i = 1; i < 300; i++) team.page(`f${i}`, 'two')
  expect(team.look()).toEqual({ saves: ['by hand'], left: 256 })
  expect(team.look(true)).toEqual({ saves: [], left: 0 })
})

test('a file that nobody may have edited is not held', () => {
  const path = join(root, 'a')
  writeFileSync(path, 'one')
  const write = pageWriter(time)
  const [first] = write([{ path: join(root, 'b'), text: 'one', known: undefined }])
  if (first?.kind !== 'written') throw new Error('not written')
  write([{ path: join(root, 'b'), text: 'two', known: first.stamp }])
  expect(write([{ isLast: false }])).toEqual([{ kind: 'looked', saves: [], left: 0 }])
})
