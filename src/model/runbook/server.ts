import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as z from 'zod'
import { type Clock, clock as systemClock } from '../../lib/clock.ts'
import { fail, ok, type Result } from '../../lib/result.ts'
import { ChatRequest, readConversation } from './conversation.ts'
import { reply } from './reply.ts'
import { streamed, whole } from './wire.ts'

export interface RunbookServer {
  /** For the openai client: `http://127.0.0.1:<port>/v1`. Any key is accepted, none is read. */
  readonly baseURL: string
  /** Ends the connections too. */
  close(): Promise<void>
}

/** Conversations are bounded by the context window; this only keeps a stray client from filling the memory. */
const maxBody = 64 * 1024 * 1024

/**
 * Serves the runbook executor as an OpenAI-compatible chat-completions endpoint on a free loopback port, streaming and plain.
 * It runs nothing itself: it answers with tool calls, and whoever asked runs them. Rejects when no port can be opened.
 */
export const startRunbook = async (clock: Clock = systemClock): Promise<RunbookServer> => {
  let answered = 0
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').split('?')[0]?.replace(/\/+$/, '')
    // A client that goes away in the middle is its own affair.
    request.on('error', () => response.destroy())
    response.on('error', () => response.destroy())
    if (request.method === 'GET' && path === '/v1/models') send(response, 200, models)
    else if (request.method === 'POST' && path === '/v1/chat/completions')
      receive(request, text => {
        const id = `chatcmpl-runbook-${++answered}`
        complete(response, text, { id, created: Math.floor(clock.wall() / 1000) })
      })
    else refuse(response, 404, `nothing is served at ${request.method ?? ''} ${path ?? ''}: POST /v1/chat/completions`)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    baseURL: `http://127.0.0.1:${port}/v1`,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const models = { object: 'list', data: [{ id: 'runbook', object: 'model', created: 0, owned_by: 'team' }] }

/** The whole body as text, or null when it is larger than `maxBody`. */
const receive = (request: IncomingMessage, then: (text: string | null) => void): void => {
  const chunks: Buffer[] = []
  let size = 0
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= maxBody) chunks.push(chunk)
    else chunks.length = 0
  })
  request.on('end', () => then(size <= maxBody ? Buffer.concat(chunks).toString('utf8') : null))
}

const complete = (response: ServerResponse, text: string | null, head: { id: string; created: number }): void => {
  if (text === null) {
    refuse(response, 413, `the request is larger than ${maxBody} bytes`)
    return
  }
  const parsed = parse(text)
  if (!parsed.ok) {
    refuse(response, 400, parsed.fault.message)
    return
  }
  const request = parsed.value
  const said = reply(readConversation(request))
  const full = { ...head, model: request.model }
  if (!request.stream) {
    send(response, 200, whole(said, full, text.length))
    return
  }
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' })
  for (const chunk of streamed(said, full, text.length, request)) response.write(`data: ${JSON.stringify(chunk)}\n\n`)
  response.end('data: [DONE]\n\n')
}

const parse = (text: string): Result<ChatRequest> => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return fail('invalid', `the body is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
  const parsed = ChatRequest.safeParse(json)
  return parsed.success ? ok(parsed.data) : fail('invalid', z.prettifyError(parsed.error))
}

const send = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
  response.end(JSON.stringify(body))
}

const refuse = (response: ServerResponse, status: number, message: string): void =>
  send(response, status, { error: { message, type: 'invalid_request_error', param: null, code: null } })
