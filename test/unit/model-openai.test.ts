import { afterEach, describe, expect, test } from 'vitest'
import type { ChatMessage, ToolSchema } from '../../src/model/model.ts'
import { openaiModel } from '../../src/model/openai.ts'
import { resetAfter } from '../../src/model/reset.ts'
import { type Reply, type ScriptedServer, startScripted, strictFault } from '../../src/model/scripted.ts'
import type { ModelConfig } from '../../src/protocol/config.ts'
import { knownOf, type Learned, sayKnown } from '../../src/protocol/quirks.ts'

let server: ScriptedServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const tools: ToolSchema[] = [{ name: 'ls', description: 'list', parameters: { type: 'object', properties: {} } }]
const user: ChatMessage[] = [{ role: 'user', text: 'hello' }]

const open = async (
  script: Parameters<typeof startScripted>[0],
  config: ModelConfig = {},
  idleMs = 3_600_000,
  learned: Learned = {},
) => {
  server = await startScripted(script)
  const taught: { what: Learned; why: string }[] = []
  const model = openaiModel({
    config: { name: 'm', baseURL: server.baseURL, ...config },
    apiKey: 'sk-secret-1',
    idleMs,
    learned,
    onLearned: (what, why) => taught.push({ what, why }),
  })
  const turn = (messages = user, signal = new AbortController().signal, with_ = tools) =>
    model.turn({ system: 'you are a test', messages, tools: with_, signal })
  return { server, turn, model, taught }
}

describe('answers', () => {
  test('a stream of text and calls, its usage, and a whole completion in place of a stream', async () => {
    const reply = { text: 'looking', calls: [{ name: 'ls', args: { path: '.' }, id: 'c1' }] }
    const { server, turn } = await open([reply, { ...reply, plain: true }])
    const expected = {
      stop: 'calls',
      text: 'looking',
      calls: [{ id: 'c1', name: 'ls', arguments: '{"path":"."}' }],
      usage: { input: 100, cachedInput: 0, output: 10 },
    }
    expect(await turn()).toEqual(expected)
    expect(await turn()).toEqual(expected)
    expect(server.headers[0]?.authorization).toBe('Bearer sk-secret-1')
    expect(server.requests[0]).toMatchObject({ stream: true, stream_options: { include_usage: true } })
  })
  test('F17 ill-formed text in the history is healed when sent; F19 no tools means none in any form', async () => {
    const history: ChatMessage[] = [
      { role: 'user', text: 'half \ud83d' },
      { role: 'user', text: 'and more' },
      { role: 'assistant', text: '', calls: [{ id: 'a', name: 'ls', arguments: null, fault: 'cut' }] },
      { role: 'tool', callId: 'a', name: 'ls', text: '\udc00' },
    ]
    const { server, turn } = await open(['one', 'two'])
    expect((await turn(history)).stop).toBe('end')
    expect((await turn(history, undefined, [])).stop).toBe('end')
    expect(server.requests[1]).not.toHaveProperty('tools')
    expect(JSON.stringify(server.requests[1])).not.toContain('tool_calls')
  })
  test('the strict server itself refuses what strict providers refuse', () => {
    const base = { model: 'm', messages: [{ role: 'user', content: 'x' }] }
    const call = {
      role: 'assistant',
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'ls', arguments: '{}' } }],
    }
    const tool = { type: 'function', function: { name: 'ls', parameters: { type: 'object' } } }
    const result = { role: 'tool', tool_call_id: 'a', content: 'x' }
    expect(strictFault(base)).toBeNull()
    expect(strictFault({ ...base, tools: [] })).toMatch(/empty/)
    expect(strictFault({ ...base, messages: [call, result], tools: [tool] })).toBeNull()
    expect(strictFault({ ...base, messages: [call, result] })).toMatch(/no tools/)
    expect(strictFault({ ...base, messages: [call], tools: [tool] })).toMatch(/without a result/)
    expect(strictFault({ ...base, messages: [call, ...base.messages, result], tools: [tool] })).toMatch(/right after/)
    expect(strictFault({ ...base, messages: [result] })).toMatch(/no call/)
    expect(strictFault({ ...base, messages: [{ role: 'user', content: '\ud83d' }] })).toMatch(/ill-formed/)
  })
})

describe('faults', () => {
  const fault = async (reply: Reply, config: ModelConfig = {}) => {
    const { turn } = await open([reply], config)
    const got = await turn()
    expect(got.stop).toBe('error')
    await server?.close()
    return got.fault
  }
  test('F11 Retry-After in both forms; a bad value is none; a used-up quota is told apart', async () => {
    const limited = (headers: Record<string, string>) => fault({ status: 429, headers })
    expect(await limited({ 'retry-after': '2' })).toMatchObject({ kind: 'rate_limit', retryAfterMs: 2000 })
    const inTen = new Date(Date.now() + 10_000).toUTCString()
    const dated = (await limited({ 'retry-after': inTen }))?.retryAfterMs ?? 0
    expect(dated).toBeGreaterThan(5000)
    expect(dated).toBeLessThanOrEqual(10_000)
    for (const bad of ['-1', 'abc']) expect((await limited({ 'retry-after': bad }))?.retryAfterMs).toBeUndefined()
    expect((await limited({}))?.retryAfterMs).toBeUndefined()
    expect(await fault({ status: 429, body: { error: { code: 'insufficient_quota', message: 'no' } } })).toMatchObject({
      kind: 'quota',
    })
    expect(resetAfter(name => (name === 'retry-after-ms' ? '1500' : '9'), '', 0)?.ms).toBe(1500)
    expect(resetAfter(() => 'Thu, 01 Jan 1970 00:00:05 GMT', '', 10_000)?.ms).toBe(0)
  })
  test('F11 the time at which a limit is there again is read from its headers, its body and its words; nonsense is none', async () => {
    const now = Date.parse('2026-03-01T00:00:00Z')
    const inMs = (headers: Record<string, string>, text = '') => resetAfter(name => headers[name], text, now)?.ms
    const used = (of: string, reset: string) => ({
      [`x-ratelimit-remaining-${of}`]: '0',
      [`x-ratelimit-reset-${of}`]: reset,
    })
    expect(inMs(used('requests', '6m0s'))).toBe(360_000)
    expect(inMs({ ...used('requests', '120ms'), ...used('tokens', '1h2m3.5s') })).toBe(3_723_500)
    // Of two limits the one that is used up.
    expect(
      inMs({ ...used('tokens', '2s'), 'x-ratelimit-remaining-requests': '7', 'x-ratelimit-reset-requests': '1h0m0s' }),
    ).toBe(2000)
    expect(
      inMs({
        'anthropic-ratelimit-input-tokens-remaining': '0',
        'anthropic-ratelimit-input-tokens-reset': '2026-03-01T00:01:30Z',
      }),
    ).toBe(90_000)
    expect(inMs({ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now + 5000) })).toBe(5000)
    expect(inMs({ 'ratelimit-remaining': '0', 'ratelimit-reset': '17' })).toBe(17_000)
    expect(inMs({ 'ratelimit-remaining': '3', 'ratelimit-reset': '17' })).toBeUndefined()
    expect(inMs({}, '{"details":[{"@type":"RetryInfo","retryDelay":"34.5s"}]}')).toBe(34_500)
    expect(inMs({}, '{"type":"usage_limit_reached","resets_at":1772323500,"resets_in_seconds":300}')).toBe(300_000)
    expect(inMs({}, `usage limit reached|${now / 1000 + 60}`)).toBe(60_000)
    expect(inMs({}, 'Rate limit reached. Please try again in 7m12.3s. Visit us.')).toBe(432_300)
    expect(inMs({}, 'Please retry in 2 hours 5 minutes.')).toBe(7_500_000)
    for (const text of ['try again in a while', 'resets in 3 bananas', 'retry in -5s', '"resets_at": "soon"'])
      expect(inMs({}, text)).toBeUndefined()
    expect(inMs({ 'retry-after': '-1', ...used('requests', 'later') })).toBeUndefined()

    const google = {
      code: 429,
      message: 'You exceeded your current quota. Please retry in 34s.',
      status: 'RESOURCE_EXHAUSTED',
    }
    expect(await fault({ status: 429, body: { error: google } })).toMatchObject({
      kind: 'rate_limit',
      retryAfterMs: 34_000,
    })
    const paid = { code: 'insufficient_quota', message: 'You exceeded your current quota. Please retry in 34s.' }
    expect(await fault({ status: 429, body: { error: paid } })).toMatchObject({ kind: 'quota' })
    const plan = { type: 'usage_limit_reached', message: 'The usage limit has been reached', resets_in_seconds: 9000 }
    expect(await fault({ status: 429, body: { error: plan } })).toMatchObject({
      kind: 'rate_limit',
      retryAfterMs: 9_000_000,
    })
  })
  test('each kind of failure has its own', async () => {
    expect(await fault({ status: 500 })).toMatchObject({ kind: 'overloaded', status: 500 })
    expect(await fault({ status: 401, body: { error: { message: 'bad key sk-secret-1' } } })).toMatchObject({
      kind: 'auth',
      message: expect.not.stringContaining('sk-secret-1'),
    })
    expect(await fault({ status: 404 })).toMatchObject({ kind: 'bad_request' })
    expect(
      await fault({
        status: 400,
        body: { error: { code: 'context_length_exceeded', message: 'maximum context length is 8' } },
      }),
    ).toMatchObject({ kind: 'overflow' })
    // Google: errors in a list, a bad key as a bad request, its words for a window. Anthropic: an empty account as one.
    const google = (message: string) => fault({ status: 400, body: [{ error: { code: 400, message } }] })
    expect(await google('API key not valid. Please pass a valid API key.')).toMatchObject({ kind: 'auth' })
    expect(await google('The input token count (9) exceeds the maximum number of tokens allowed (8).')).toMatchObject({
      kind: 'overflow',
    })
    expect(await google('no such thing')).toMatchObject({
      kind: 'bad_request',
      message: expect.stringContaining('no such'),
    })
    expect(await fault({ status: 500, body: [] })).toMatchObject({ kind: 'overloaded' })
    expect(
      await fault({ status: 400, body: { error: { message: 'Your credit balance is too low to access the API' } } }),
    ).toMatchObject({ kind: 'quota' })
    expect(await fault({ drop: true })).toMatchObject({ kind: 'network' })
    expect(await fault({ chunks: [{ choices: [{ delta: { content: 'a' } }] }], ends: 'cut' })).toMatchObject({
      kind: 'network',
    })
    expect(await fault({ raw: 'data: {"choi\n\n' })).toMatchObject({ kind: 'malformed' })
    expect(await fault({ raw: '<html>', type: 'application/json' })).toMatchObject({ kind: 'malformed' })
    expect(await fault({ raw: 'data: {"error":{"message":"rate limit reached"}}\n\n' })).toMatchObject({
      kind: 'rate_limit',
    })
    expect(await fault({ raw: '{"error":{"message":"engine died"}}', type: 'application/json' })).toMatchObject({
      kind: 'overloaded',
    })
    expect(await fault('x', { baseURL: 'http://127.0.0.1:1/v1' })).toMatchObject({ kind: 'network' })
  })
  test('F07 answers without a choice are malformed', async () => {
    for (const chunk of [{ choices: [] }, { choices: null }, {}, { choices: [{ message: null }] }])
      expect(await fault({ chunks: [chunk] })).toMatchObject({ kind: 'malformed' })
  })
  test('F13 a stalled stream ends by the idle time-out, with keep-alives too, and aborts at once', async () => {
    const piece = { choices: [{ delta: { content: 'a' } }] }
    for (const keepAliveMs of [60_000, 5]) {
      const { turn } = await open([{ chunks: [piece, piece, piece], ends: 'hang', keepAliveMs }], {}, 60)
      expect((await turn()).fault).toMatchObject({ kind: 'timeout' })
      await server?.close()
    }
    const { model } = await open([{ chunks: [piece], ends: 'hang' }], {}, 60_000)
    const ender = new AbortController()
    const started = model.turn({
      system: 's',
      messages: user,
      tools,
      signal: ender.signal,
      onText: () => ender.abort(),
    })
    expect((await started).fault).toMatchObject({ kind: 'aborted' })
  })
  test('F21 a refused parameter is switched once and remembered', async () => {
    const refuse = (message: string): Reply => ({ status: 400, body: { error: { message } } })
    const script =
      (taken: string) =>
      (request: Readonly<Record<string, unknown>>): Reply => {
        const other = taken === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
        return other in request ? refuse(`Unsupported parameter: '${other}', use '${taken}' instead.`) : 'fine'
      }
    const one = await open(script('max_completion_tokens'), { maxOutputTokens: 9 })
    expect((await one.turn()).text).toBe('fine')
    expect((await one.turn()).text).toBe('fine')
    expect(one.server.requests).toHaveLength(3)
    expect(one.server.requests[2]).toMatchObject({ max_completion_tokens: 9 })
    await server?.close()
    const two = await open(script('max_tokens'), {
      maxOutputTokens: 9,
      quirks: { maxTokensField: 'max_completion_tokens' },
    })
    expect((await two.turn()).text).toBe('fine')
    expect(two.server.requests).toHaveLength(2)
    await server?.close()
    const three = await open(
      request => {
        for (const name of [
          'parallel_tool_calls',
          'temperature',
          'stream_options',
          'max_tokens',
          'max_completion_tokens',
        ])
          if (name in request) return refuse(`${name} is not supported`)
        return 'fine'
      },
      { maxOutputTokens: 9, temperature: 0.1, quirks: { parallelToolCalls: false } },
    )
    expect((await three.turn()).text).toBe('fine')
    await server?.close()
    const never = await open(() => refuse('max_tokens is not supported'), { maxOutputTokens: 9 })
    expect((await never.turn()).fault).toMatchObject({ kind: 'bad_request' })
    expect(never.server.requests.length).toBeLessThan(4)
  })
})

describe('F21 what an endpoint teaches', () => {
  const refuse = (message: string): Reply => ({ status: 400, body: { error: { message } } })
  const history: ChatMessage[] = [
    { role: 'user', text: 'x' },
    { role: 'assistant', text: '', calls: [{ id: 'a', name: 'ls', arguments: '{}' }], reasoning: 'hm' },
    { role: 'tool', callId: 'a', name: 'ls', text: 'y' },
    { role: 'assistant', text: '', calls: [{ id: 'b', name: 'ls', arguments: '{}' }] },
    { role: 'tool', callId: 'b', name: 'ls', text: 'y' },
  ]
  const thoughts = (request: Readonly<Record<string, unknown>> | undefined) =>
    ((request?.messages ?? []) as { role: string; reasoning_content?: string }[])
      .filter(({ role }) => role === 'assistant')
      .map(message => message.reasoning_content)

  test('it is told once the endpoint took the request, all of it at once, without the key', async () => {
    const script = (request: Readonly<Record<string, unknown>>): Reply => {
      for (const name of ['max_tokens', 'temperature', 'stream_options'])
        if (name in request) return refuse(`Unsupported parameter: '${name}' (key sk-secret-1)`)
      return 'fine'
    }
    const one = await open(script, { maxOutputTokens: 9, temperature: 1 })
    expect((await one.turn()).text).toBe('fine')
    expect(one.taught).toEqual([
      {
        what: { maxTokensField: 'max_completion_tokens', temperature: false, streamUsage: false },
        why: expect.not.stringContaining('sk-secret-1'),
      },
    ])
    expect((await one.turn()).text).toBe('fine')
    expect(one.taught).toHaveLength(1)
    expect(one.server.requests).toHaveLength(5)
  })
  test('a switch that did not help is neither told nor kept', async () => {
    const { server, turn, taught } = await open([refuse('max_tokens is invalid'), { status: 500 }, 'fine'], {
      maxOutputTokens: 9,
    })
    expect((await turn()).fault).toMatchObject({ kind: 'overloaded' })
    expect(taught).toEqual([])
    expect((await turn()).text).toBe('fine')
    expect(server.requests[2]).toHaveProperty('max_tokens')
  })
  test('what was learned before is done from the first request on, and config.json counts before it', async () => {
    const learned: Learned = { maxTokensField: 'none', role: 'developer', temperature: false, streamUsage: false }
    const one = await open(['fine'], { maxOutputTokens: 9, temperature: 1 }, undefined, learned)
    await one.turn()
    for (const name of ['max_tokens', 'max_completion_tokens', 'temperature', 'stream_options'])
      expect(one.server.requests[0]).not.toHaveProperty(name)
    expect(one.server.requests[0]?.messages[0]?.role).toBe('developer')
    await server?.close()
    const quirks = { maxTokensField: 'max_tokens', role: 'system', temperature: true, streamUsage: true } as const
    const two = await open(['fine'], { maxOutputTokens: 9, temperature: 1, quirks }, undefined, learned)
    await two.turn()
    expect(two.server.requests[0]).toMatchObject({ max_tokens: 9, temperature: 1, stream_options: {} })
    expect(two.server.requests[0]?.messages[0]?.role).toBe('system')
    const parallel = await open(['fine'], { quirks: { parallelToolCalls: true } }, undefined, {
      parallelToolCalls: 'refused',
    })
    await parallel.turn()
    expect(parallel.server.requests[0]).not.toHaveProperty('parallel_tool_calls')
  })
  test('the role of the first message is switched both ways, and not in circles', async () => {
    const only = (role: string) => (request: Readonly<Record<string, unknown>>) =>
      (request.messages as { role: string }[])[0]?.role === role
        ? 'fine'
        : refuse(`messages[0].role does not support '${role === 'system' ? 'developer' : 'system'}' with this model`)
    const one = await open(only('developer'))
    expect((await one.turn()).text).toBe('fine')
    expect(one.taught).toMatchObject([{ what: { role: 'developer' } }])
    await server?.close()
    const two = await open(only('system'), {}, undefined, { role: 'developer' })
    expect((await two.turn()).text).toBe('fine')
    expect(two.taught).toMatchObject([{ what: { role: 'system' } }])
    await server?.close()
    const neither = await open(request =>
      refuse(`role '${(request.messages as { role: string }[])[0]?.role}' is not supported`),
    )
    expect((await neither.turn()).fault).toMatchObject({ kind: 'bad_request' })
    expect(neither.server.requests).toHaveLength(2)
  })
  test('thoughts go back where the endpoint asks for them, with every call, and stay away where it refuses them', async () => {
    const wants = await open(request =>
      thoughts(request).every(each => each !== undefined)
        ? 'fine'
        : refuse('The reasoning_content in the thinking mode must be passed back to the API.'),
    )
    expect((await wants.turn(history)).text).toBe('fine')
    expect(thoughts(wants.server.requests[1])).toEqual(['hm', ''])
    expect(wants.taught).toMatchObject([{ what: { reasoningBack: true } }])
    await server?.close()
    const missing = await open([refuse('Missing `reasoning_content` field in the assistant message at index 1'), 'ok'])
    expect((await missing.turn(history)).text).toBe('ok')
    await server?.close()
    const refuses = await open(
      request =>
        thoughts(request).some(each => each !== undefined)
          ? refuse('messages[1]: reasoning_content is not supported in the input')
          : 'fine',
      { quirks: { reasoningBack: true } },
    )
    expect((await refuses.turn(history)).text).toBe('fine')
    expect(refuses.taught).toMatchObject([{ what: { reasoningBack: false } }])
    await server?.close()
    const never = await open(() => refuse('reasoning_content must be passed back'), {})
    expect((await never.turn(history)).fault).toMatchObject({ kind: 'bad_request' })
    expect(never.server.requests).toHaveLength(2)
  })
  test("thoughts and what calls carry are for the model that gave them; a missing signature is put as Google's word for it", async () => {
    const extra = { google: { thought_signature: 'sig' } }
    const said = (model: string): ChatMessage[] => [
      { role: 'user', text: 'x' },
      {
        role: 'assistant',
        text: '',
        calls: [
          { id: 'a', name: 'ls', arguments: '{}', extra },
          { id: 'b', name: 'ls', arguments: '{}' },
        ],
        reasoning: 'hm',
        model,
      },
      { role: 'tool', callId: 'a', name: 'ls', text: 'y' },
      { role: 'tool', callId: 'b', name: 'ls', text: 'y' },
    ]
    type Sent = { readonly tool_calls?: readonly { readonly extra_content?: unknown }[]; reasoning_content?: string }
    const sent = (request: Readonly<Record<string, unknown>> | undefined) =>
      (request?.messages as Sent[] | undefined)?.find(each => each.tool_calls)
    const { server, turn, taught } = await open(
      request =>
        sent(request)?.tool_calls?.[0]?.extra_content
          ? 'fine'
          : ([
              {
                status: 400,
                // Google's errors come as a list.
                body: [{ error: { message: 'Function call is missing a thought_signature in functionCall parts.' } }],
              },
            ][0] ?? 'never'),
      { provider: 'google', quirks: { reasoningBack: true } },
    )
    expect((await turn(said('google/m'))).text).toBe('fine')
    expect(sent(server.requests[0])?.tool_calls).toMatchObject([{ extra_content: extra }, { id: 'b' }])
    expect(sent(server.requests[0])?.tool_calls?.[1]).not.toHaveProperty('extra_content')
    expect(sent(server.requests[0])?.reasoning_content).toBe('hm')
    expect(taught).toEqual([])
    expect((await turn(said('deepseek/other'))).text).toBe('fine')
    expect(sent(server.requests[1])?.tool_calls?.[0]).not.toHaveProperty('extra_content')
    expect(sent(server.requests[1])?.reasoning_content).toBe('')
    expect(taught).toMatchObject([{ what: { signCalls: true } }])
    expect(JSON.stringify(sent(server.requests[2]))).toContain('skip_thought_signature_validator')
  })
  test('who says so is told in words', () => {
    const known = knownOf({ temperature: false }, { role: 'developer', temperature: true }, { reasoningBack: true })
    expect(sayKnown(known)).toEqual([
      'no temperature (config)',
      'the role developer (learned)',
      'thoughts go back (preset)',
    ])
  })
})

describe('an answer without bound', () => {
  const big = 'x'.repeat(9_000_000)
  const call = (args: string) => ({
    choices: [{ delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'ls', arguments: args } }] } }],
  })
  const give = async (reply: Reply, config: ModelConfig = {}) => {
    const { turn } = await open([reply], config)
    const got = await turn()
    await server?.close()
    return got
  }
  const given = {
    stop: 'error',
    calls: [],
    fault: { kind: 'unusable', message: expect.stringContaining('larger than') },
  }

  test('a giant argument in one line of a stream, in pieces or in a whole body is given up, and nothing is run', async () => {
    expect(await give({ chunks: [call(big)], ends: 'hang' })).toMatchObject(given)
    expect(await give({ raw: `data: ${big.repeat(4)}` })).toMatchObject(given)
    expect(await give({ chunks: Array.from({ length: 10 }, () => call(big.slice(0, 900_000))) })).toMatchObject(given)
    const whole = JSON.stringify({ choices: [{ message: { content: big.repeat(4) } }] })
    expect(await give({ raw: whole, type: 'application/json' })).toMatchObject(given)
    const thought = { choices: [{ delta: { reasoning_content: big.slice(0, 900_000) } }] }
    expect(await give({ chunks: Array.from({ length: 10 }, () => thought), ends: 'hang' })).toMatchObject(given)
    const empty = {
      choices: [{ delta: { tool_calls: Array.from({ length: 9000 }, (_, i) => ({ index: i, id: `c${i}` })) } }],
    }
    expect(await give({ chunks: [empty], ends: 'hang' })).toMatchObject(given)
  })
  test('the bound follows maxOutputTokens; what is below it is taken whole', async () => {
    const text = (n: number) => ({ choices: [{ delta: { content: big.slice(0, n) }, finish_reason: 'stop' }] })
    expect((await give({ chunks: [text(900_000)] }, { maxOutputTokens: 9 })).text).toHaveLength(900_000)
    expect(await give({ chunks: [text(600_000), text(600_000)] }, { maxOutputTokens: 9 })).toMatchObject(given)
    // Many events in one piece of the body, each small.
    expect((await give({ chunks: Array.from({ length: 20_000 }, () => text(100)) })).text).toHaveLength(2_000_000)
  })
  test('the body of an error is read as far as it says something', async () => {
    const got = await give({ status: 500, body: { error: { message: `engine died ${big}` } } })
    expect(got.fault).toMatchObject({
      kind: 'overloaded',
      status: 500,
      message: expect.stringContaining('engine died'),
    })
  })
})

describe('faults inside a 200', () => {
  test('an error in the stream, or in place of an answer, whose code is a status is taken for that', async () => {
    const error = (code: unknown): object => ({ error: { message: 'No auth credentials found', code } })
    const { turn } = await open([
      { chunks: [error(401)] },
      { raw: JSON.stringify(error(401)), type: 'application/json' },
      { chunks: [error('404')] },
      { chunks: [error(502)] },
      { chunks: [error('server_error')] },
      { chunks: [error(7)] },
    ])
    const kinds = ['auth', 'auth', 'bad_request', 'overloaded', 'overloaded', 'overloaded']
    for (const kind of kinds) expect((await turn()).fault?.kind).toBe(kind)
  })
  test('a web page in place of an answer points to the address', async () => {
    const { turn } = await open([{ raw: '<html>Log in</html>', type: 'text/html; charset=utf-8' }])
    expect((await turn()).fault).toMatchObject({ kind: 'malformed', message: expect.stringContaining('model.baseURL') })
  })
})
