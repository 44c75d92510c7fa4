import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { bundle } from '../support/bundle.ts'
import { tempRoot } from '../support/folders.ts'

interface Settled {
  readonly contents: string[]
  readonly tasks: string[]
  readonly deadLetters: unknown[]
  readonly problems: unknown[]
}

/** Runs the holder until it ends or is killed; `said` grows while it runs. */
const holder = (root: string, mode: 'run' | 'settle') => {
  const path = bundle(new URL('../support/folders-child.ts', import.meta.url))
  const child = spawn(process.execPath, [path, root, mode], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  const said = (): Record<string, unknown>[] =>
    text
      .split('\n')
      .slice(0, -1)
      .map(line => JSON.parse(line))
  return { child, closed: once(child, 'close'), said }
}

test('A07 A13 whatever a kill -9 cuts, each foreign line, each sent message and each drop is there exactly once', async () => {
  const { root, remove } = tempRoot()
  try {
    const inbox = join(root, '.messages', 'alice.inbox.jsonl')
    mkdirSync(join(root, '.messages'))
    mkdirSync(join(root, '.tasks'))
    const sent: string[] = []
    let lines = 0
    let drops = 0
    for (let round = 0; round < 6; round++) {
      const { child, closed, said } = holder(root, 'run')
      while (!said().some(each => each.ready)) {
        if (child.exitCode !== null) throw new Error(`the holder ended with ${child.exitCode}`)
        await sleep(5)
      }
      const end = performance.now() + 50 + Math.random() * 250
      while (performance.now() < end) {
        const text = `n=${lines++}`
        appendFileSync(inbox, `${JSON.stringify({ from: 'x', to: 'alice', type: 'info', content: text })}\n`)
        if (lines % 7 === 0) writeFileSync(join(root, '.tasks', `drop-${drops}.json`), `{"title":"drop ${drops++}"}`)
        if (lines % 11 === 0) writeFileSync(join(root, '.tasks', `task_x${drops}.json`), `{"title":"drop ${drops++}"}`)
        await sleep(1)
      }
      child.kill('SIGKILL')
      await closed
      sent.push(...said().flatMap(each => (typeof each.sent === 'string' ? [each.sent] : [])))
    }
    const { closed, said } = holder(root, 'settle')
    expect((await closed)[0]).toBe(0)
    const settled = said().at(-1) as unknown as Settled
    expect(settled.problems).toEqual([])
    expect(settled.deadLetters).toEqual([])
    const own = settled.contents.filter(text => text.startsWith('msg_own'))
    expect(settled.contents.filter(text => text.startsWith('n='))).toHaveLength(lines)
    expect(new Set(settled.contents).size).toBe(settled.contents.length)
    expect(sent.length).toBeGreaterThan(0)
    expect(sent.filter(id => !own.includes(id))).toEqual([])
    expect(settled.tasks.sort()).toEqual(Array.from({ length: drops }, (_, i) => `drop ${i}`).sort())
    const shown = readFileSync(inbox, 'utf8')
      .split('\n')
      .filter(line => line.includes('"msg_own'))
    expect(shown.map(line => JSON.parse(line).id).sort()).toEqual(own.sort())
    expect(readdirSync(join(root, '.tasks')).filter(name => !name.startsWith('task_')).sort()).toEqual([
      'archive', 'dropped',
    ]) // biome-ignore format: a list
  } finally {
    remove()
  }
})
