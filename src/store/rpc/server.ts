import { chmodSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import type * as z from 'zod'
import { asFault, type Fault, fail, type Result } from '../../lib/result.ts'
import type { JournalEntry, Words } from '../../protocol/event.ts'
import { type Hello, RpcRequest, type WireFault } from '../../protocol/rpc.ts'
import { lineBytes, lineCutter } from './lines.ts'

export interface From {
  readonly actor: 'human'
  /** Sends an entry to the asker, ahead of the answer. */
  readonly stream: (entry: JournalEntry) => void
  /** The same with a piece of what a teammate writes. */
  readonly words: (words: Words) => void
  /** Aborted when the asker is gone, or the holder ends. */
  readonly signal: AbortSignal
}

/** Answers one request. It gets what was sent, unparsed; expected failures are values, a throw is answered as `internal`. */
export type RpcHandler = (method: string, params: unknown, from: From) => Promise<Result<unknown>>

/** More than this unread by an asker, and it is cut off: what is sent must not pile up in the holder. */
const backlogBytes = 2 * lineBytes

/** The holder's end of the socket. `hello` is answered by itself; all else by what `serve` is given. */
export class RpcServer {
  readonly path: string
  readonly #server: Server
  readonly #connections = new Set<Socket>()
  readonly #hello: Promise<() => Hello>
  readonly #handler: Promise<RpcHandler>
  #isServing = false
  #introduce: (hello: () => Hello) => void = () => {}
  #serve: (handler: RpcHandler) => void = () => {}

  private constructor(path: string) {
    this.path = path
    this.#hello = new Promise(resolve => {
      this.#introduce = resolve
    })
    this.#handler = new Promise(resolve => {
      this.#serve = resolve
    })
    this.#server = createServer(socket => this.#accept(socket))
  }

  /** Listens at `path`, for the user alone. Rejects with the system's error. */
  static async listen(path: string): Promise<RpcServer> {
    const server = new RpcServer(path)
    await new Promise<void>((resolve, reject) => {
      server.#server.once('error', reject)
      server.#server.listen(path, () => {
        server.#server.off('error', reject)
        resolve()
      })
    })
    chmodSync(path, 0o600)
    return server
  }

  /** Says who listens here. Called once, by who became the holder. */
  introduce(hello: () => Hello): void {
    this.#introduce(hello)
  }

  /** Answers requests from now on, those that wait already included. */
  serve(handler: RpcHandler): void {
    this.#isServing = true
    this.#serve(handler)
  }

  /** Stops listening and ends all connections, after what was written to them is out as far as they take it at once. */
  async close(): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    for (const socket of this.#connections) socket.destroySoon()
    // Who does not read is not waited for.
    await Promise.race([closed, new Promise<void>(resolve => setImmediate(() => setImmediate(resolve)))])
    for (const socket of this.#connections) socket.destroy()
    await closed
  }

  #accept(socket: Socket): void {
    this.#connections.add(socket)
    const gone = new AbortController()
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      this.#connections.delete(socket)
      gone.abort(new Error('the asker is gone'))
    })
    const send = (message: object): boolean => {
      if (socket.destroyed || !socket.writable) return true
      const line = `${JSON.stringify(message)}\n`
      if (Buffer.byteLength(line) > lineBytes) return false
      socket.write(line)
      if (socket.writableLength > backlogBytes) socket.destroy()
      return true
    }
    const refuse = (id: number, fault: Fault) => send({ id, ok: false, fault: wire(fault) })
    const onLine = (line: string) => {
      if (line.trim() === '') return
      let value: unknown
      try {
        value = JSON.parse(line)
      } catch (error) {
        refuse(0, fail('usage', `a request is one JSON object a line: ${asFault(error).message}`).fault)
        return
      }
      const request = RpcRequest.safeParse(value)
      if (!request.success) {
        refuse(idOf(value), fail('usage', 'a request is {"id": integer, "method": string, "params": object}').fault)
        return
      }
      const { id, method, params } = request.data
      const from: From = {
        actor: 'human',
        signal: gone.signal,
        stream: entry => void send({ id, entry }),
        words: words => void send({ id, words }),
      }
      void this.#answer(method, params, from).then(result => {
        if (!result.ok) refuse(id, result.fault)
        else if (!send({ id, ok: true, value: result.value ?? null }))
          refuse(id, fail('invalid', `the answer is longer than ${lineBytes} bytes`, 'ask for less').fault)
      })
    }
    const onOverflow = () => {
      refuse(0, fail('usage', `a request is at most ${lineBytes} bytes long`).fault)
      // What still comes is read and dropped: closed over unread bytes, the asker might never see the answer.
      socket.end()
    }
    socket.on('data', lineCutter(onLine, onOverflow))
  }

  async #answer(method: string, params: unknown, from: From): Promise<Result<unknown>> {
    const hello = await this.#hello
    const { kind, pid, root } = hello()
    if (method === 'hello') return { ok: true, value: hello() }
    // A command holds the root for its own change only. A daemon is about to serve, so its askers wait.
    if (kind === 'cli' && !this.#isServing)
      return fail('offline', `no daemon runs for ${root}; a command (pid ${pid}) holds it for a moment`)
    const handler = await this.#handler
    try {
      return await handler(method, params, from)
    } catch (error) {
      return { ok: false, fault: asFault(error) }
    }
  }
}

const wire = ({ code, message, hint }: Fault): z.infer<typeof WireFault> => ({
  code,
  message,
  ...(hint === undefined ? {} : { hint }),
})

const idOf = (value: unknown): number => {
  const id = typeof value === 'object' && value !== null && 'id' in value ? value.id : 0
  return typeof id === 'number' && Number.isInteger(id) ? id : 0
}
