import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fits } from '../support/fits.ts'

const team = fileURLToPath(new URL('../../dist/team.cjs', import.meta.url))

let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'demo-e2e-'))
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

/** Runs `team demo` to its end, with temporary files below a folder of its own. `within` runs it inside something. */
const demo = async (name: string, args: string[], within: string[] = []) => {
  const tmp = join(dir, name)
  mkdirSync(tmp)
  const [program = '', ...rest] = [...within, process.execPath, team, 'demo', ...args]
  const child = spawn(program, rest, {
    cwd: tmp,
    env: { ...process.env, TMPDIR: tmp },
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
  it('comes to landed work that passes its tests, one conflict and one red check mended, and takes its folder away when asked', async () => {
    const { out, err, exit } = await demo('plain', ['--json', '--no-keep'])
    fits('demo', out)
    const summary = JSON.parse(out)
    expect({ problems: summary.problems, err, exit }).toEqual({ problems: [], err: '', exit: 0 })
    expect(summary).toMatchObject({
      ok: true,
      tasks: { dropped: 8, completed: 8, merged: 8 },
      merges: { approved: 10 },
      plans: { approved: 1 },
      questions: { answered: 2 },
      permissions: { granted: 1 },
      leases: { held: 2, waited: 1 },
      shutdowns: { approved: 4, rejected: 1 },
      tests: { passed: 15, failed: 0 },
      deadLetters: 0,
    })
    expect(summary.merges.returned.map((each: { task: string }) => each.task).sort()).toEqual(['spread', 'table'])
    expect(readdirSync(join(dir, 'plain'))).toEqual([])
  })

  it('works where bubblewrap does not, tells what happens, and says where to look', async () => {
    // Inside this one no other namespace can be made; where it does not start itself, there is no need for it.
    const closed = ['bwrap', '--dev-bind', '/', '/', '--unshare-user', '--disable-userns']
    const works = spawnSync(closed[0] ?? '', [...closed.slice(1), 'true']).status === 0
    const { out, exit } = await demo('bare', [], works ? closed : [])
    expect({ exit, trouble: out.split('\n').filter(line => line.includes('NOT AS EXPECTED')) }).toEqual({
      exit: 0,
      trouble: [],
    })
    expect(out).toMatch(/supervisor {2}sends table back: .*conflicts/)
    expect(out).toMatch(/writer +mends table/)
    expect(out).toMatch(/15 passed, 0 failed/)
    const folder = /^ {2}(\/.*)\/tally: the repository/m.exec(out)?.[1] ?? ''
    expect(readFileSync(join(folder, 'up.log'), 'utf8')).toContain('no sandbox works here (')
    expect(existsSync(join(folder, 'tally', 'bin', 'tally.js'))).toBe(true)
  })
})
