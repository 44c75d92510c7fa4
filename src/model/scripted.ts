import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

/** What the scripted endpoint answers one request with. */
export type Reply =
  | string
  | {
      readonly text?: string
      readonly reasoning?: string
      /** `args` as an object is written as a JSON string; as a string it is sent as it stands. */
      readonly calls?: readonly { readonly name: string; readonly args: unknown; readonly id?: string }[]
      readonly finish?: string | null
      readonly usage?: unknown
      /** One whole JSON completion in place of a stream. */
      readonly plain?: boolean
    }
  /** Chunks as they go over the wire. `ends` says how: properly, with the connection cut, or never. */
  | {
      readonly chunks: readonly unknown[] | AsyncIterable<unknown>
      readonly ends?: 'done' | 'cut' | 'hang'
      /** Comment lines while it hangs, so that bytes flow and content does not. */
      readonly keepAliveMs?: number
    }
  | { readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  /** The body as it stands, with status 200. */
  | { readonly raw: string; readonly type?: string }
  /** The connection is closed without an answer. */
  | { readonly drop: true }

/** A recorded request. What stands here was claimed by the client; `strictFault` says whether it is so. */
export interface ScriptedRequest {
  readonly model: string
  readonly messages: readonly {
    readonly role: string
    readonly content?: string | null
    readonly tool_call_id?: string
    readonly tool_calls?: readonly {
      readonly id: string
      readonly type: string
      readonly function: { readonly name: string; readonly arguments: string }
    }[]
  }[]
  readonly tools?: readonly {
    readonly type: string
    readonly function: { readonly name: string; readonly parameters: Readonly<Record<string, unknown>> }
  }[]
  readonly stream?: boolean
  readonly stream_options?: { readonly include_usage?: boolean }
  readonly [other: string]: unknown
}

export interface ScriptedServer {
  readonly baseURL: string
  /** Bodies of the chat completions asked for, in order. */
  readonly requests: ScriptedRequest[]
  /** The same as they came over the wire. */
  readonly bodies: string[]
  readonly headers: IncomingMessage['headers'][]
  close(): Promise<void>
}

export interface ScriptedOptions {
  /** Answer 400 where a strict provider would (default true). */
  readonly strict?: boolean
}

const wellFormed = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/

/** What a strict provider would refuse in this request, or null. */
export const strictFault = (body: ScriptedRequest): string | null => {
  if (typeof body?.model !== 'string' || body.model === '') return 'model must be a non-empty string'
  const messages = body.messages
  if (!Array.isArray(messages) || messages.length === 0) return 'messages must be a non-empty array'
  if ('tools' in body && (!Array.isArray(body.tools) || body.tools.length === 0)) return 'tools must not be empty'
  if ('tool_choice' in body && !('tools' in body)) return 'tool_choice without tools'
  if ('parallel_tool_calls' in body && !('tools' in body)) return 'parallel_tool_calls without tools'
  for (const [i, tool] of (body.tools ?? []).entries()) {
    const fn = tool?.function
    if (tool?.type !== 'function' || !/^[A-Za-z0-9_-]{1,64}$/.test(fn?.name ?? '')) return `tools[${i}] is no function`
    if (fn.parameters?.type !== 'object' || 'oneOf' in fn.parameters || '$schema' in fn.parameters)
      return `tools[${i}].function.parameters must be a plain object schema`
  }
  let waiting: string[] = []
  for (const [i, message] of messages.entries()) {
    const at = `messages[${i}]`
    if (message.role === 'tool') {
      if (!waiting.includes(message.tool_call_id)) return `${at}: no call ${message.tool_call_id} waits for a result`
      waiting = waiting.filter(id => id !== message.tool_call_id)
      if (typeof message.content !== 'string') return `${at}: content must be a string`
    } else if (waiting.length > 0) return `${at}: calls without a result right after them: ${waiting.join(', ')}`
    if ((message.role === 'system' || message.role === 'developer') && i > 0)
      return `${at}: ${message.role} must come first`
    if (!['system', 'developer', 'user', 'assistant', 'tool'].includes(message.role))
      return `${at}: unknown role ${message.role}`
    if (message.role === 'user' && (typeof message.content !== 'string' || message.content === ''))
      return `${at}: user content must be a non-empty string`
    if (message.role === 'user' && messages[i - 1]?.role === 'user') return `${at}: two user messages in a row`
    if (message.role === 'assistant') {
      const calls = message.tool_calls
      if (calls === undefined && !message.content) return `${at}: assistant with neither content nor tool_calls`
      if (calls !== undefined && (!Array.isArray(calls) || calls.length === 0))
        return `${at}: tool_calls must not be empty`
      if (calls !== undefined && !('tools' in body)) return `${at}: tool_calls in the history but no tools`
      for (const call of calls ?? []) {
        if (typeof call.id !== 'string' || call.id === '' || waiting.includes(call.id)) return `${at}: bad call id`
        if (typeof call.function?.name !== 'string' || call.function.name === '') return `${at}: a call without a name`
        try {
          const args: unknown = JSON.parse(call.function.arguments)
          if (typeof args !== 'object' || args === null || Array.isArray(args)) return `${at}: arguments are no object`
        } catch {
          return `${at}: arguments are not valid JSON`
        }
        waiting.push(call.id)
      }
    }
    if (typeof message.content === 'string' && wellFormed.test(message.content)) return `${at}: ill-formed text`
  }
  return waiting.length > 0 ? `calls without a result: ${waiting.join(', ')}` : null
}

/**
 * A chat-completions server on loopback that answers from a script: a list (one reply a request; past its end 400), or
 * a function of the request and its number (from 0). For tests: it stands in for the model and nothing else.
 */
export const startScripted = async (
  script: readonly Reply[] | ((request: ScriptedRequest, n: number) => Reply | Promise<Reply>),
  options: ScriptedOptions = {},
): Promise<ScriptedServer> => {
  const requests: ScriptedRequest[] = []
  const bodies: string[] = []
  const headers: IncomingMessage['headers'][] = []
  const timers = new Set<NodeJS.Timeout>()
  const next = typeof script === 'function' ? script : (_: ScriptedRequest, n: number) => script[n]

  const answer = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const parts: Buffer[] = []
    for await (const part of req) parts.push(part as Buffer)
    const text = Buffer.concat(parts).toString('utf8')
    const body: ScriptedRequest = JSON.parse(text)
    const n = requests.push(body) - 1
    bodies.push(text)
    headers.push(req.headers)
    const fault = options.strict === false ? null : strictFault(body)
    const reply = fault === null ? await next(body, n) : refuse(400, fault)
    await send(res, reply ?? refuse(400, `the script has no reply for request ${n + 1}`), body)
  }

  const send = async (res: ServerResponse, said: Reply, body: ScriptedRequest): Promise<void> => {
    const reply = typeof said === 'string' ? { text: said } : said
    if ('drop' in reply) return void res.destroy()
    if ('raw' in reply)
      return void res.writeHead(200, { 'content-type': reply.type ?? 'text/event-stream' }).end(reply.raw)
    if ('status' in reply)
      return void res
        .writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers })
        .end(JSON.stringify(reply.body ?? { error: { message: `status ${reply.status}` } }))
    if ('chunks' in reply) {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      for await (const chunk of reply.chunks) res.write(`data: ${JSON.stringify(chunk)}\n\n`)
      if (reply.ends === 'cut') return void setImmediate(() => res.destroy())
      if (reply.ends === 'hang') {
        const timer = setInterval(() => res.write(': keep-alive\n\n'), reply.keepAliveMs ?? 60_000)
        timers.add(timer)
        res.on('close', () => {
          clearInterval(timer)
          timers.delete(timer)
        })
        return
      }
      return void res.end('data: [DONE]\n\n')
    }
    const calls = reply.calls?.map((call, index) => ({
      index,
      id: call.id ?? `call_${requests.length}_${index}`,
      type: 'function',
      function: { name: call.name, arguments: typeof call.args === 'string' ? call.args : JSON.stringify(call.args) },
    }))
    const message = {
      role: 'assistant',
      content: reply.text ?? null,
      ...(reply.reasoning === undefined ? {} : { reasoning_content: reply.reasoning }),
      ...(calls ? { tool_calls: calls } : {}),
    }
    const finish = reply.finish === undefined ? (calls?.length ? 'tool_calls' : 'stop') : reply.finish
    const usage = reply.usage ?? { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
    const base = { id: 'chatcmpl-scripted', created: 0, model: body.model }
    if (reply.plain || body.stream !== true) {
      await send(
        res,
        {
          raw: JSON.stringify({
            ...base,
            object: 'chat.completion',
            choices: [{ index: 0, message, finish_reason: finish }],
            usage,
          }),
          type: 'application/json',
        },
        body,
      )
      return
    }
    const chunk = (delta: unknown, finish_reason: string | null) => ({
      ...base,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, finish_reason }],
    })
    const chunks: unknown[] = [chunk(message, null), chunk({}, finish)]
    if (body.stream_options?.include_usage)
      chunks.push({ ...base, object: 'chat.completion.chunk', choices: [], usage })
    await send(res, { chunks }, body)
  }

  const server = createServer((req, res) => {
    if (req.method !== 'POST' || !req.url?.endsWith('/chat/completions')) return void res.writeHead(404).end('{}')
    answer(req, res).catch(thrown => {
      if (!res.headersSent) res.writeHead(500, { 'content-type': 'application/json' })
      res.end(JSON.stringify({ error: { message: `the script failed: ${thrown}` } }))
    })
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    baseURL: `http://127.0.0.1:${port}/v1`,
    requests,
    bodies,
    headers,
    close: () =>
      new Promise(resolve => {
        for (const timer of timers) clearInterval(timer)
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const refuse = (status: number, message: string): Reply => ({
  status,
  body: { error: { message, type: 'invalid_request_error' } },
})
