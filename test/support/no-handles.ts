import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { git } from '../../src/git/run.ts'
import { clock } from '../../src/lib/clock.ts'
import { Running } from '../../src/sandbox/running.ts'

/** With so many file handles left, from none on: what a run of git and a command, held by another program or not, come to. */
const cwd = mkdtempSync(join(tmpdir(), 'no-handles-'))
const env = { PATH: process.env.PATH ?? '/usr/bin:/bin' }
const attempts = {
  git: async () => {
    const done = await git(['version'], { cwd, env })
    return done.ok ? String(done.value.code) : done.fault.message
  },
  command: () => command([]),
  held: () => command(['/usr/bin/env']),
}

const command = async (prefix: string[]): Promise<string> => {
  const running = new Running({
    prefix,
    cwd,
    env,
    mark: `${cwd}#none-1`,
    run: { command: 'true', timeoutMs: 20_000, outputBytes: 1000, outputMaxBytes: 1000 },
    redact: text => text,
    longest: 0,
    clock,
  })
  try {
    return String((await running.result).exitCode)
  } finally {
    await running.end(0)
  }
}

const told: Record<string, string[]> = {}
for (const [name, attempt] of Object.entries(attempts)) {
  const all: string[] = []
  for (let left = 0; left <= 14; left++) {
    const taken: number[] = []
    try {
      for (;;) taken.push(openSync('/dev/null', 'r'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EMFILE') throw error
    }
    for (const handle of taken.splice(0, left)) closeSync(handle)
    all.push(await attempt().catch((error: Error) => error.message))
    for (const handle of taken) closeSync(handle)
  }
  told[name] = all
}
rmSync(cwd, { recursive: true })
writeSync(1, JSON.stringify(told))
