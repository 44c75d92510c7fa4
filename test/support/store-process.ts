import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { bundle } from './bundle.ts'

export type Said = Readonly<Record<string, unknown>>

/** A child process that holds roots on command (`store-child.ts`). */
export class StoreProcess {
  readonly child: ChildProcess
  readonly said: Said[] = []
  readonly #waiting = new Set<() => void>()
  #isOver = false

  constructor() {
    const child = spawn(process.execPath, [bundle(new URL('./store-child.ts', import.meta.url))], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.child = child
    let held = ''
    child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
      const lines = (held + piece).split('\n')
      held = lines.pop() ?? ''
      for (const line of lines) this.said.push(JSON.parse(line) as Said)
      for (const wake of this.#waiting) wake()
    })
    child.once('close', () => {
      this.#isOver = true
      for (const wake of this.#waiting) wake()
    })
  }

  get pid(): number {
    if (this.child.pid === undefined) throw new Error('the process did not start')
    return this.child.pid
  }

  tell(...words: string[]): void {
    this.child.stdin?.write(`${words.join('\t')}\n`)
  }

  /** The first thing said, from the `from`th on, that satisfies `is`. */
  async until(is: (said: Said) => boolean, from = 0): Promise<Said> {
    for (;;) {
      const found = this.said.slice(from).find(is)
      if (found) return found
      if (this.#isOver) throw new Error(`the process ended, having said ${JSON.stringify(this.said.slice(-3))}`)
      await new Promise<void>(resolve => {
        const wake = () => {
          this.#waiting.delete(wake)
          resolve()
        }
        this.#waiting.add(wake)
      })
    }
  }

  /** Sends a command and returns the next thing said. */
  ask(...words: string[]): Promise<Said> {
    const from = this.said.length
    this.tell(...words)
    return this.until(() => true, from)
  }

  /** kill -9, and everything that was said before it. */
  async kill(): Promise<void> {
    if (this.#isOver) return
    const closed = once(this.child, 'close')
    this.child.kill('SIGKILL')
    await closed
  }
}
