import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { type Watch, watchFolder } from '../../src/store/files/watch.ts'
import { foreign, tempRoot, until } from '../support/folders.ts'

let root: string
let remove: () => void
let watch: Watch | undefined
beforeEach(() => {
  ;({ root, remove } = tempRoot())
})
afterEach(async () => {
  await watch?.close()
  remove()
})

/** A reader that looks only when it is told to. The sweep is off unless asked for. */
const reader = (dir: string, sweepMs = 3_600_000) => {
  const path = join(dir, 'x.jsonl')
  const seen = { size: 0, hints: [] as (string | null)[] }
  watch = watchFolder(dir, {
    clock,
    sweepMs,
    onHint: file => {
      seen.hints.push(file)
      seen.size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
    },
  })
  return { path, seen, ready: watch.ready }
}

describe('watchFolder', () => {
  test('J01 the end of a burst of 5,000 appends of another process is told, without any sweep', async () => {
    const { path, seen, ready } = reader(root)
    await ready
    await foreign(
      `const fs = require('fs'); for (let i = 0; i < 5000; i++) fs.appendFileSync(process.argv[1], 'line ' + i + '\\n')`,
      [path],
    ).done
    await until('the last append', () => seen.size === statSync(path).size)
  })

  test('J01 of pairs of appends 1 to 50 ms apart the second is always told, without any sweep', async () => {
    const { path, seen, ready } = reader(root)
    await ready
    for (const gap of [1, 3, 5, 10, 20, 35, 50]) {
      await foreign(
        `const fs = require('fs'); const [path, gap] = process.argv.slice(1)
         fs.appendFileSync(path, 'first\\n'); setTimeout(() => fs.appendFileSync(path, 'second\\n'), Number(gap))`,
        [path, String(gap)],
      ).done
      await until(`the second of a pair ${gap} ms apart`, () => seen.size === statSync(path).size)
    }
  })

  test('J01 a writer that never pauses is followed while it writes', async () => {
    const { path, seen, ready } = reader(root)
    await ready
    const writer = foreign(
      `const fs = require('fs'); const [path, enough] = process.argv.slice(1)
       while (!fs.existsSync(enough)) fs.appendFileSync(path, 'line\\n')`,
      [path, join(root, 'enough')],
    )
    await until('a look while it writes', () => seen.size > 0)
    const early = seen.size
    await until('a later look while it writes', () => seen.size > early)
    writeFileSync(join(root, 'enough'), '')
    await writer.done
    await until('the last append', () => seen.size === statSync(path).size)
  })

  test('J03 a folder that is missing at the start is made, and watched from ready on', async () => {
    const { path, seen, ready } = reader(join(root, 'not', 'yet'))
    await ready
    expect(seen.hints).toEqual([null])
    writeFileSync(path, 'first')
    await until('the first file', () => seen.hints.includes('x.jsonl'))
  })

  test('J03 a folder that is removed and made again is heard again', async () => {
    const dir = join(root, 'dir')
    const { path, seen, ready } = reader(dir)
    await ready
    rmSync(dir, { recursive: true })
    mkdirSync(dir)
    await until('the new folder', () => seen.hints.filter(hint => hint === null).length > 1)
    seen.hints.length = 0
    appendFileSync(path, 'x')
    await until('a file in the new folder', () => seen.hints.includes('x.jsonl'))
  })

  test('one watch serves a folder of a thousand files', async () => {
    for (let i = 0; i < 1000; i++) writeFileSync(join(root, `${i}.json`), '')
    const before = inotifyWatches()
    const { ready } = reader(root)
    await ready
    expect(inotifyWatches() - before).toBeLessThan(10)
  })

  test('a sweep finds what no event told', async () => {
    const { seen, ready } = reader(root, 200)
    await ready
    await until('three sweeps', () => seen.hints.length > 3)
    expect(new Set(seen.hints)).toEqual(new Set([null]))
  })
})

/** How many watches this process holds, as the kernel counts them. */
const inotifyWatches = (): number => {
  const fds = readdirSync('/proc/self/fdinfo')
  let count = 0
  for (const fd of fds)
    try {
      count += readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')
        .split('\n')
        .filter(line => line.startsWith('inotify')).length
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  return count
}
