import { realpathSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import { type Fault, type FaultCode, fail, ok, type Result } from '../../lib/result.ts'
import type { JournalEntry, Words } from '../../protocol/event.ts'
import type { Call, RpcMethod, RpcParams, RpcResults } from '../../protocol/rpc.ts'
import { lineBytes, lineCutter } from './lines.ts'
import { clientSocket } from './socket-path.ts'

// This file is loaded before `team status` answers: nothing heavy may be imported here, types only.

export interface Client {
  readonly call: Call
  /**
   * Journal entries as they happen, after `params.after`, on a connection of its own; with `params.words` the words of the teammate
   * between them. Resolves with nothing when `signal`
   * is aborted, with a fault when the holder refuses or goes away.
   */
  follow(
    params: Omit<RpcParams<'events'>, 'follow'>,
    onEntry: (entry: JournalEntry) => void,
    signal: AbortSignal,
    onWords?: (words: Words) => void,
  ): Promise<Result<void>>
  /** Ends the connection; calls that wait are answered with a fault of code `closed`. */
  close(): void
}

const offline = (root: string, cause?: unknown) =>
  fail('offline', `no daemon runs for ${root}`, 'start it with: team up', cause)

/** Connects to the holder of `root`. `offline` when nobody listens; never waits for a busy one to answer. */
export const connect = async (root: string): Promise<Result<Client>> => {
  const opened = await open(root)
  if (!opened.ok) return opened
  const connection = opened.value
  return ok({
    call: async <M extends RpcMethod>(method: M, params: RpcParams<M>) =>
      (await connection.ask(method, params)) as Result<RpcResults[M]>,
    follow: async (params, onEntry, signal, onWords) => {
      if (signal.aborted) return ok(undefined)
      const own = await open(root)
      if (!own.ok) return own
      const stop = () => own.value.close()
      signal.addEventListener('abort', stop, { once: true })
      const answer = await own.value.ask('events', { ...params, follow: true }, { onEntry, onWords })
      signal.removeEventListener('abort', stop)
      own.value.close()
      return signal.aborted || answer.ok ? ok(undefined) : answer
    },
    close: () => connection.close(),
  })
}

const open = (root: string): Promise<Result<Connection>> =>
  new Promise(resolve => {
    let path: string
    try {
      path = clientSocket(realpathSync(root))
    } catch (error) {
      resolve(offline(root, error))
      return
    }
    const socket = createConnection(path)
    const refused = (error: NodeJS.ErrnoException) =>
      resolve(
        error.code === 'EACCES' || error.code === 'EPERM'
          ? fail(
              'refused',
              `you may not talk to the daemon of ${root}: it belongs to another user, or you may not enter .team`,
              undefined,
              error,
            )
          : error.code === 'EAGAIN'
            ? fail('io', `the daemon of ${root} does not take connections now`, 'is it stopped?', error)
            : offline(root, error),
      )
    socket.once('error', refused)
    socket.once('connect', () => {
      socket.off('error', refused)
      resolve(ok(new Connection(socket)))
    })
  })

interface Listener {
  readonly onEntry?: ((entry: JournalEntry) => void) | undefined
  readonly onWords?: ((words: Words) => void) | undefined
}
interface Waiting extends Listener {
  readonly resolve: (result: Result<unknown>) => void
}

class Connection {
  readonly #socket: Socket
  readonly #waiting = new Map<number, Waiting>()
  #id = 0
  #end: Fault | null = null

  constructor(socket: Socket) {
    this.#socket = socket
    const lost = (cause?: unknown) =>
      this.#over(fail('offline', 'the daemon ended before it answered', undefined, cause).fault)
    socket.on('error', lost)
    socket.on('close', () => lost())
    socket.on(
      'data',
      lineCutter(
        line => this.#take(line),
        () => this.#over(fail('invalid', `the daemon sent more than ${lineBytes} bytes in one line`).fault),
      ),
    )
  }

  ask(method: string, params: unknown, listener: Listener = {}): Promise<Result<unknown>> {
    if (this.#end) return Promise.resolve({ ok: false, fault: this.#end })
    const id = ++this.#id
    const line = `${JSON.stringify({ id, method, params })}\n`
    if (Buffer.byteLength(line) > lineBytes)
      return Promise.resolve(fail('usage', `that is longer than the ${lineBytes} bytes a request may have`))
    return new Promise(resolve => {
      this.#waiting.set(id, { resolve, ...listener })
      this.#socket.write(line)
    })
  }

  close(): void {
    this.#over(fail('closed', 'the connection was closed').fault)
  }

  #over(fault: Fault): void {
    this.#end ??= fault
    this.#socket.destroy()
    for (const { resolve } of this.#waiting.values()) resolve({ ok: false, fault: this.#end })
    this.#waiting.clear()
  }

  #take(line: string): void {
    const message = parse(line)
    if (!message) {
      this.#over(fail('invalid', 'the daemon sent a line that is no answer').fault)
      return
    }
    const waiting = this.#waiting.get(message.id)
    if (!waiting) {
      // Id 0 answers a line that the holder could not read: no call of ours can count on an answer any more.
      if (message.kind === 'fault' && message.id === 0) this.#over(message.fault)
      return
    }
    if (message.kind === 'entry') {
      waiting.onEntry?.(message.entry)
      return
    }
    if (message.kind === 'words') {
      waiting.onWords?.(message.words)
      return
    }
    this.#waiting.delete(message.id)
    waiting.resolve(message.kind === 'value' ? ok(message.value) : { ok: false, fault: message.fault })
  }
}

type FromHolder =
  | { readonly kind: 'value'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'fault'; readonly id: number; readonly fault: Fault }
  | { readonly kind: 'entry'; readonly id: number; readonly entry: JournalEntry }
  | { readonly kind: 'words'; readonly id: number; readonly words: Words }

/** By hand, for speed: what comes here was made by the same program, at the other end of a socket of the same user. */
const parse = (line: string): FromHolder | null => {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return null
  }
  if (typeof value !== 'object' || value === null) return null
  const message = value as Record<string, unknown>
  const { id } = message
  if (typeof id !== 'number') return null
  if (message.ok === true) return { kind: 'value', id, value: message.value }
  if (typeof message.entry === 'object' && message.entry !== null)
    return { kind: 'entry', id, entry: message.entry as JournalEntry }
  if (typeof message.words === 'object' && message.words !== null)
    return { kind: 'words', id, words: message.words as Words }
  if (message.ok !== false || typeof message.fault !== 'object' || message.fault === null) return null
  const { code, message: text, hint } = message.fault as Record<string, unknown>
  if (typeof code !== 'string' || typeof text !== 'string') return null
  return {
    kind: 'fault',
    id,
    fault: { code: code as FaultCode, message: text, ...(typeof hint === 'string' ? { hint } : {}) },
  }
}
