import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { swapFile } from '../../src/store/files/stamp.ts'
import { tempRoot } from '../support/folders.ts'

let root: string
let remove: () => void
beforeEach(() => {
  ;({ root, remove } = tempRoot())
})
afterEach(() => remove())

test('whether a file may be written over is asked when the new text lies ready: what a hand wrote by then stays', () => {
  const path = join(root, 'task_1.json')
  const folder = join(root, 'archive')
  mkdirSync(folder)
  writeFileSync(path, 'old')
  const ready: string[][] = []
  const written = swapFile(
    path,
    'new',
    () => {
      ready.push(readdirSync(folder))
      writeFileSync(path, 'by hand')
      return false
    },
    folder,
  )
  expect(written).toBeNull()
  expect(ready).toEqual([['.task_1.json.tmp']])
  expect(readFileSync(path, 'utf8')).toBe('by hand')
  // Nothing is left beside it, and the next time it goes through.
  expect(readdirSync(folder)).toEqual([])
  expect(swapFile(path, 'new', () => true, folder)).not.toBeNull()
  expect(readFileSync(path, 'utf8')).toBe('new')
})
