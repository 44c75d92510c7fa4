import { Worker } from 'node:worker_threads'
import type { Clock } from '../lib/clock.ts'
import { FromThread, type ThreadData, type ToThread } from '../protocol/thread.ts'
import { Gate, Lines } from './output.ts'

export interface ThreadOptions {
  /** The built JavaScript file that it runs. */
  readonly entry: string
  readonly data: ThreadData
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>
  readonly heapMb: number
  readonly clock: Clock
  /** It is loaded and runs; called once. */
  onOnline(): void
  /**
   * Everything it says, parsed. What it prints and what could not be parsed comes as `event` messages of type `warning`,
   * a bounded number a second, the last of them after the end.
   */
  onMessage(message: FromThread): void
  /** It is gone, all it had said before has been handed on. `why` is what a person is to read when nobody asked for it. */
  onEnd(why: string): void
}

/** One run of a teammate's thread, from spawn to exit. */
export interface Thread {
  post(message: ToThread): void
  /** Ends it whatever it does, an endless loop included. `why` is kept unless a reason is known already. */
  kill(why: string): void
  /** Resolves after `onEnd`. Never rejects. */
  readonly ended: Promise<void>
}

/** Spawns a thread. A file that cannot be loaded is an end like any other. */
export const openThread = (o: ThreadOptions): Thread => {
  const worker = new Worker(o.entry, {
    name: o.data.name,
    workerData: o.data,
    env: { ...o.env },
    argv: [],
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: o.heapMb },
  })
  let cause: string | null = null
  const gate = new Gate(o.clock)
  const warn = (info: Record<string, unknown>) => {
    const missed = gate.pass()
    if (missed === null) return
    o.onMessage({ t: 'event', event: 'warning', info: missed === 0 ? info : { ...info, leftOut: missed } })
  }

  worker.once('online', () => o.onOnline())
  worker.on('message', (value: unknown) => {
    const parsed = FromThread.safeParse(value)
    if (parsed.success) return o.onMessage(parsed.data)
    const [issue] = parsed.error.issues
    const at = issue?.path.length ? `${issue.path.join('.')}: ` : ''
    warn({ problem: `a malformed message was ignored: ${at}${issue?.message ?? 'invalid'}` })
  })
  worker.on('messageerror', error => warn({ problem: `an unreadable message was ignored: ${error.message}` }))
  worker.on('error', (thrown: unknown) => {
    cause ??= describe(thrown)
  })
  for (const stream of ['stdout', 'stderr'] as const) {
    const lines = new Lines(text => warn({ stream, text }))
    worker[stream].on('data', (chunk: Buffer) => lines.write(chunk))
    worker[stream].on('end', () => lines.end())
  }
  const ended = new Promise<void>(resolve => {
    worker.once('exit', code => {
      o.onEnd(cause ?? (code === 0 ? 'it ended without a word' : `it exited with code ${code}`))
      resolve()
    })
  })

  return {
    ended,
    post: message => worker.postMessage(message),
    kill: why => {
      cause ??= why
      void worker.terminate()
    },
  }
}

const describe = (thrown: unknown): string => {
  if (!(thrown instanceof Error)) return `it threw ${String(thrown)}`
  if ((thrown as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY') return 'its heap grew over the limit'
  return `${thrown.name}: ${thrown.message}`
}
