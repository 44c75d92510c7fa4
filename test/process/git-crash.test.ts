import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openHub } from '../../src/git/hub.ts'
import { unwrap } from '../../src/lib/result.ts'
import { bundle } from '../support/bundle.ts'
import { initRepo, repoAt, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
beforeEach(() => {
  folder = tempFolder()
})
afterEach(() => folder.remove())

/** Runs the child until it said `lines` lines, kills it `ms` later; all that it said. */
const killed = (entry: string, args: string[], lines: number, ms: number): Promise<string[]> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [entry, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    let err = ''
    let timer: NodeJS.Timeout | undefined
    const look = () => {
      if (out.split('\n').length > lines) timer ??= setTimeout(() => child.kill('SIGKILL'), ms)
    }
    child.stdout.on('data', data => {
      out += data
      look()
    })
    child.stderr.on('data', data => {
      err += data
    })
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      if (signal === 'SIGKILL') resolve(out.split('\n').slice(0, -1))
      else reject(new Error(`the child ended by itself (${code}): ${err}`))
    })
    look()
  })

test('killed at any point, the next start finds a whole hub with every merge that was told, and a whole clone', async () => {
  const repo = initRepo(join(folder.dir, 'ws'))
  const root = join(folder.dir, 'root')
  const entry = bundle(join(import.meta.dirname, '../support/git-child.ts'))
  // Two while the hub is being made, two while the clone is, the rest somewhere in the first merges.
  const points = [
    [0, 230],
    [0, 300],
    [1, 10],
    [1, 60],
    [2, 15],
    [2, 45],
    [3, 80],
    [3, 120],
  ] as const
  let told = 0
  for (const [lines, ms] of points) {
    const said = await killed(entry, [repo.dir, root], lines, ms)
    const hub = unwrap(await openHub({ workspace: repo.dir, hubDir: join(root, 'hub.git'), trunk: 'team/trunk' }))
    const merged = said.flatMap(line => (line.startsWith('merged ') ? [line.split(' ')] : []))
    told += merged.length
    for (const [, commit, head = ''] of merged) expect(unwrap(await hub.mergeOf(head))).toBe(commit)
    unwrap(await hub.ensureClone('alice', join(root, 'repo')))
    expect(readdirSync(root).sort()).toEqual(['hub.git', 'repo'])
    repoAt(hub.dir).git('fsck', '--connectivity-only', '--no-dangling')
    repoAt(join(root, 'repo')).git('rev-parse', 'HEAD')
  }
  expect(told).toBeGreaterThanOrEqual(6)
})
