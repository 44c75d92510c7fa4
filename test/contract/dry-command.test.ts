import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { bundle } from '../support/bundle.ts'

test('a command in which nothing goes on any more, and which has no result, says so and fails: it does not exit 0', () => {
  const entry = bundle(new URL('../support/dry-command.ts', import.meta.url))
  const ran = spawnSync(process.execPath, [entry], { encoding: 'utf8' })
  expect(ran).toMatchObject({ status: 1, stdout: '', stderr: expect.stringContaining('without a result') })
})
