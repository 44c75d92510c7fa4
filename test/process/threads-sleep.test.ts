import { spawn } from 'node:child_process'
import { expect, test } from 'vitest'
import { delay } from '../../src/lib/clock.ts'
import { bundle } from '../support/bundle.ts'
import { threadEntry, until } from '../support/threads.ts'

test('C09 threads are not taken for dead because the whole process was stopped for longer than a heartbeat', async () => {
  const entry = bundle(new URL('../support/threads-child.ts', import.meta.url))
  const child = spawn(process.execPath, [entry, threadEntry], { stdio: ['pipe', 'pipe', 'inherit'] })
  const gone = new Promise<number | null>(resolve => child.once('exit', code => resolve(code)))
  try {
    let heard = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      heard += text
    })
    const ticks = () => heard.split('tick').length
    await until(() => heard.includes('alice idle'))
    child.kill('SIGSTOP')
    await delay(3_000)
    const before = ticks()
    child.kill('SIGCONT')
    // Well past another heartbeat after it woke up.
    await until(() => ticks() >= before + 15)
    expect(heard.split('\n').filter(line => line.startsWith('alice'))).toEqual(['alice starting', 'alice idle'])
    child.stdin.end()
    expect(await gone).toBe(0)
  } finally {
    child.kill('SIGKILL')
  }
})
