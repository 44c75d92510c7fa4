import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkPlaces } from '../../src/store/places.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'team-places-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const folders = [
  '.tasks',
  '.tasks/archive',
  '.tasks/dropped',
  '.messages',
  '.messages/requests',
  '.messages/archive',
  '.team',
  '.team/journal',
  '.team/sessions',
  '.team/logs',
  '.transcripts',
  'team',
]

test.each(folders)('a file in the place of the folder %s is a fault that names it and the remedy', place => {
  const path = join(root, place)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, 'mine')
  const checked = checkPlaces(root)
  expect(checked.ok || checked.fault).toMatchObject({
    code: 'config',
    message: `${path} is a file, where a folder belongs`,
    hint: `Move it away: mv ${path} ${path}.old`,
  })
})

test('a new root, and one with every folder in its place, is fine', () => {
  expect(checkPlaces(root).ok).toBe(true)
  for (const place of folders) mkdirSync(join(root, place), { recursive: true })
  expect(checkPlaces(root).ok).toBe(true)
})
