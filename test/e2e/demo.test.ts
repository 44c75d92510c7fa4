import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const team = fileURLToPath(new URL('../../dist/team.cjs', import.meta.url))

let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'demo-e2e-'))
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

/** Runs `team demo` to its end, with temporary files below a folder of its own. */
const demo = async (name: string, args: string[], path = process.env.PATH ?? '') => {
  const tmp = join(dir, name)
  mkdirSync(tmp)
  const child = spawn(process.execPath, [team, 'demo', ...args], {
    cwd: tmp,
    env: { ...process.env, PATH: path, TMPDIR: tmp },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const read = async (stream: AsyncIterable<Buffer>) => {
    let text = ''
    for await (const chunk of stream) text += chunk.toString('utf8')
    return text
  }
  const ended = new Promise<number | null>(resolve => child.once('close', code => resolve(code)))
  const [out, err, exit] = await Promise.all([read(child.stdout), read(child.stderr), ended])
  return { out, err, exit }
}

describe('team demo', () => {
  it('comes to landed work that passes its tests, one conflict and one red check mended, told from the files', async () => {
    const { out, err, exit } = await demo('plain', ['--json'])
    const summary = JSON.parse(out)
    expect({ problems: summary.problems, err, exit }).toEqual({ problems: [], err: '', exit: 0 })
    expect(summary).toMatchObject({
      ok: true,
      tasks: { dropped: 8, completed: 8, merged: 8 },
      merges: { approved: 10 },
      shutdowns: { approved: 4 },
      tests: { passed: 15, failed: 0 },
      deadLetters: 0,
    })
    expect(summary.merges.returned.map((each: { task: string }) => each.task).sort()).toEqual(['spread', 'table'])
    expect(existsSync(join(summary.folder, 'tally', 'bin', 'tally.js'))).toBe(true)
  })

  it('works where bubblewrap does not, tells what happens as it happens, and takes its folder away when asked', async () => {
    const bin = join(dir, 'bin')
    mkdirSync(bin)
    writeFileSync(join(bin, 'bwrap'), '#!/bin/sh\necho "no namespaces here" >&2\nexit 1\n', { mode: 0o755 })
    const { out, exit } = await demo('bare', ['--no-keep'], `${bin}:${process.env.PATH ?? ''}`)
    expect({ exit, trouble: out.split('\n').filter(line => line.includes('NOT AS EXPECTED')) }).toEqual({
      exit: 0,
      trouble: [],
    })
    expect(out).toMatch(/supervisor {2}sends table back: .*conflicts/)
    expect(out).toMatch(/writer +mends table/)
    expect(out).toMatch(/15 passed, 0 failed/)
    expect(existsSync(/: (\/.*)$/m.exec(out)?.[1] ?? '/')).toBe(false)
  })
})
