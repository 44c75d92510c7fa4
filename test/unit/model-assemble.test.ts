import { describe, expect, test } from 'vitest'
import { readArguments } from '../../src/model/arguments.ts'
import { Assembly, readUsage } from '../../src/model/assemble.ts'

let made = 0
const assemble = (chunks: readonly unknown[]) => {
  const assembly = new Assembly(() => `made${++made}`)
  for (const chunk of chunks) assembly.add(chunk)
  return assembly.end()
}
const piece = (tool_calls: unknown, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { tool_calls }, finish_reason }],
})
const text = (content: unknown, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }],
})
const end = (finish_reason: string) => ({ choices: [{ index: 0, delta: {}, finish_reason }] })
const fn = (name: string | undefined, args: unknown) => ({ ...(name ? { name } : {}), arguments: args })
const read = (turn: ReturnType<typeof assemble>) => turn.calls.map(call => [call.name, call.arguments])

describe('F05 parallel calls are kept apart', () => {
  test('F05a two calls with the same index and different ids', () => {
    const turn = assemble([
      piece([{ index: 0, id: 'a', function: fn('ls', '{"path":') }]),
      piece([{ index: 0, function: fn(undefined, '"x"}') }]),
      piece([{ index: 0, id: 'b', function: fn('grep', '{"pattern":"y"}') }]),
      piece([{ index: 0, id: 'a', function: fn(undefined, ' ') }]),
      end('tool_calls'),
    ])
    expect(turn.stop).toBe('calls')
    expect(turn.calls).toEqual([
      { id: 'a', name: 'ls', arguments: '{"path":"x"}' },
      { id: 'b', name: 'grep', arguments: '{"pattern":"y"}' },
    ])
  })
  test('F05b indexes interleaved, the id only in the first piece', () => {
    const turn = assemble([
      piece([{ index: 0, id: 'a', function: fn('ls', '') }]),
      piece([{ index: 1, id: 'b', function: fn('grep', '') }]),
      piece([{ index: 0, function: fn(undefined, '{"path"') }]),
      piece([{ index: 1, function: fn(undefined, '{"pattern"') }]),
      piece([
        { index: 1, id: '', function: fn(undefined, ':"y"}') },
        { index: 0, id: null, function: { name: null, arguments: ':"x"}' } },
      ]),
      end('tool_calls'),
    ])
    expect(read(turn)).toEqual([
      ['ls', '{"path":"x"}'],
      ['grep', '{"pattern":"y"}'],
    ])
  })
  test('F05c no ids, index 0, a new name each', () => {
    const turn = assemble([
      piece([{ index: 0, function: fn('ls', '{"path":"1"}') }]),
      piece([{ index: 0, function: fn('ls', '{"path":"2"}') }]),
      piece([{ index: 0, function: fn('grep', '{"pattern":"3"}') }]),
      end('stop'),
    ])
    expect(read(turn)).toEqual([
      ['ls', '{"path":"1"}'],
      ['ls', '{"path":"2"}'],
      ['grep', '{"pattern":"3"}'],
    ])
    expect(new Set(turn.calls.map(call => call.id)).size).toBe(3)
  })
  test('F05d no index at all, one piece or many', () => {
    const calls = [1, 2, 3].map(n => ({ id: `c${n}`, function: fn('ls', `{"path":"${n}"}`) }))
    const expected = [1, 2, 3].map(n => ['ls', `{"path":"${n}"}`])
    expect(read(assemble([piece(calls), end('tool_calls')]))).toEqual(expected)
    expect(read(assemble([...calls.map(call => piece([call])), end('tool_calls')]))).toEqual(expected)
    const bare = calls.map(({ function: f }) => ({ function: f }))
    expect(read(assemble([piece(bare), end('tool_calls')]))).toEqual(expected)
    expect(read(assemble([{ choices: [{ message: { tool_calls: bare }, finish_reason: 'stop' }] }]))).toEqual(expected)
  })
  test('F05 a name or id repeated with each piece, a name in pieces, one id for two calls', () => {
    const repeated = [1, 2].map(() => piece([{ index: 0, id: 'a', function: fn('ls', '') }]))
    expect(
      read(assemble([...repeated, piece([{ index: 0, id: 'a', function: fn('ls', '{}') }]), end('stop')])),
    ).toEqual([['ls', '{}']])
    expect(
      read(
        assemble([
          piece([{ index: 0, id: 'a', function: fn('read_', '') }]),
          piece([{ index: 0, function: fn('file', '') }]),
          piece([{ index: 0, function: fn(undefined, '{"path":"x"}') }]),
          end('stop'),
        ]),
      ),
    ).toEqual([['read_file', '{"path":"x"}']])
    const twice = assemble([
      piece([{ index: 0, id: 'same', function: fn('ls', '{}') }]),
      piece([{ index: 1, id: 'same', function: fn('ls', '{}') }]),
      end('stop'),
    ])
    expect(twice.calls).toHaveLength(2)
    expect(twice.calls[0]?.id).not.toBe(twice.calls[1]?.id)
  })
})

describe('F05 shapes of the OpenAI layers of other protocols', () => {
  const whole = (name: string, args: unknown, more: object = {}) => ({
    type: 'function',
    function: { name, arguments: args },
    ...more,
  })
  test("Google's: whole calls in one chunk each, all index 0, ids empty or missing, finish stop in each, a signature with the first", () => {
    const extra_content = { google: { thought_signature: 'AY89+/=' } }
    const turn = assemble([
      piece([whole('ls', '{"path":"a"}', { index: 0, id: '', extra_content })], 'stop'),
      piece([whole('ls', '{"path":"b"}', { index: 0, id: '' })], 'stop'),
      piece([whole('grep', '{"pattern":"c"}', { index: 0 })], 'stop'),
      {
        choices: [{ delta: { content: null, role: 'assistant' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 5, completion_tokens: 1 },
      },
    ])
    expect(read(turn)).toEqual([
      ['ls', '{"path":"a"}'],
      ['ls', '{"path":"b"}'],
      ['grep', '{"pattern":"c"}'],
    ])
    expect(turn.calls.map(({ extra }) => extra)).toEqual([extra_content, undefined, undefined])
    expect(turn).toMatchObject({ stop: 'calls', usage: { input: 5 } })
  })
  test('a signature that comes apart from its call, and one that is no object', () => {
    const turn = assemble([
      piece([whole('ls', '', { index: 0, id: 'a' })]),
      piece([{ index: 0, function: { arguments: '{}' }, extra_content: { google: { thought_signature: 's' } } }]),
      piece([whole('ls', '{}', { index: 1, id: 'b', extra_content: 'x' })]),
    ])
    expect(turn.calls.map(({ extra }) => extra)).toEqual([{ google: { thought_signature: 's' } }, undefined])
  })
  test("Anthropic's: text first, the name with empty arguments, then pieces of them, null content, usage in the last chunk", () => {
    const turn = assemble([
      text('Looking. '),
      { choices: [{ delta: { content: null, tool_calls: [whole('ls', '', { index: 0, id: 'toolu_1' })] } }] },
      piece([{ index: 0, function: { arguments: '{"pa' } }]),
      piece([{ index: 0, function: { arguments: 'th":"x"}' } }]),
      piece([whole('grep', '', { index: 1, id: 'toolu_2' })]),
      piece([{ index: 1, function: { arguments: '{"pattern":"y"}' } }]),
      end('tool_calls'),
      { choices: [], usage: { prompt_tokens: 9, completion_tokens: 3, prompt_tokens_details: null } },
    ])
    expect(read(turn)).toEqual([
      ['ls', '{"path":"x"}'],
      ['grep', '{"pattern":"y"}'],
    ])
    expect(turn).toMatchObject({ text: 'Looking. ', usage: { input: 9, cachedInput: 0, output: 3 } })
  })
  test("Ollama's: arguments as an object, index 0 for each of several, the name again with each piece", () => {
    const turn = assemble([
      piece([whole('ls', { path: 'a' }, { index: 0, id: 'a' })]),
      piece([whole('ls', { path: 'b' }, { index: 0, id: 'b' })]),
      end('stop'),
    ])
    expect(read(turn)).toEqual([
      ['ls', '{"path":"a"}'],
      ['ls', '{"path":"b"}'],
    ])
  })
  test('usage in each chunk: the last one counts; thoughts under either name; no finish_reason at all', () => {
    const usage = (n: number) => ({ usage: { prompt_tokens: 10, completion_tokens: n } })
    const turn = assemble([
      { choices: [{ delta: { reasoning: 'h' } }], ...usage(1) },
      { choices: [{ delta: { reasoning_content: 'm' } }], ...usage(2) },
      { ...text('yes'), ...usage(3) },
      { choices: [], usage: null },
    ])
    expect(turn).toMatchObject({ text: 'yes', reasoning: 'hm', stop: 'end', usage: { output: 3 } })
  })
})

describe('F07 choices may be anything', () => {
  test('F07 no choice at all is a retryable fault', () => {
    for (const chunk of [{ choices: [] }, { choices: null }, {}, { choices: [{ message: null }] }, null, 'x', [1]]) {
      const turn = assemble([chunk])
      expect(turn).toMatchObject({ stop: 'error', fault: { kind: 'malformed' } })
    }
  })
  test('F07 a last chunk that holds only usage is fine', () => {
    const usage = { prompt_tokens: 7, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 5 } }
    const turn = assemble([text('hi'), end('stop'), { choices: [], usage }])
    expect(turn).toMatchObject({ stop: 'end', text: 'hi', usage: { input: 7, cachedInput: 5, output: 2 } })
  })
})

describe('F09 what came decides, not finish_reason', () => {
  test('F09 finish_reason contradicts the calls', () => {
    const call = [{ index: 0, id: 'a', function: fn('ls', '{"path":"."}') }]
    expect(assemble([piece([]), end('tool_calls')]).stop).toBe('empty')
    expect(assemble([text('done'), end('tool_calls')]).stop).toBe('end')
    expect(read(assemble([piece(call), end('stop')]))).toEqual([['ls', '{"path":"."}']])
    expect(read(assemble([piece(call)]))).toEqual([['ls', '{"path":"."}']])
    expect(
      read(assemble([{ choices: [{ delta: { function_call: fn('ls', '{}') }, finish_reason: 'function_call' }] }])),
    ).toEqual([['ls', '{}']])
    expect(assemble([text(''), end('content_filter')]).stop).toBe('filtered')
    expect(assemble([text(' \n'), end('stop')]).stop).toBe('empty')
    expect(assemble([text('half a sen'), end('length')]).stop).toBe('length')
  })
  test('F09 thoughts alone are no answer, and no part of one', () => {
    expect(assemble([text('<think>hm</think>\nyes'), end('stop')])).toMatchObject({
      text: 'yes',
      reasoning: 'hm',
      stop: 'end',
    })
    expect(assemble([text('<think>hm'), end('stop')])).toMatchObject({ text: '', stop: 'empty' })
    expect(assemble([{ choices: [{ delta: { reasoning_content: 'hm' } }] }, end('stop')])).toMatchObject({
      reasoning: 'hm',
      stop: 'empty',
    })
  })
})

describe('F01 cut-off arguments are never run', () => {
  test('F01 truncated JSON, under either finish_reason', () => {
    for (const finish of ['length', 'tool_calls']) {
      const turn = assemble([
        piece([{ index: 0, id: 'a', function: fn('ls', '{}') }]),
        piece([{ index: 1, id: 'b', function: fn('write_file', '{"path":"a.txt","content":"abc') }]),
        end(finish),
      ])
      expect(turn.calls[0]).toEqual({ id: 'a', name: 'ls', arguments: '{}' })
      expect(turn.calls[1]).toMatchObject({ id: 'b', arguments: null })
      expect(turn.calls[1]?.fault).toMatch(/nothing was run/)
    }
  })
  test('F01 arguments that had not begun when the answer was cut are not taken for none', () => {
    const turn = assemble([piece([{ index: 0, id: 'a', function: fn('ls', '') }]), end('length')])
    expect(turn.calls[0]).toMatchObject({ arguments: null })
  })
})

describe('F15 arguments of another type', () => {
  test('F15 an object and a doubly encoded one are read, empty is none, the rest is an error', () => {
    expect(readArguments({ path: 'a' }, false)).toEqual({ arguments: '{"path":"a"}' })
    expect(readArguments('"{\\"path\\":\\"a\\"}"', false)).toEqual({ arguments: '{"path":"a"}' })
    expect(readArguments('', false)).toEqual({ arguments: '{}' })
    for (const raw of [null, [], 'null', '[]', '5', 5, '"x"', '{]']) {
      const result = readArguments(raw, false)
      expect(result.arguments, JSON.stringify(raw)).toBeNull()
    }
  })
  test('F15 the same through the stream', () => {
    const calls = [{ path: 'a' }, '"{\\"path\\":\\"a\\"}"', '', null, []].map((args, index) => ({
      index,
      id: `c${index}`,
      function: fn('ls', args),
    }))
    const turn = assemble([piece(calls), end('tool_calls')])
    expect(turn.calls.map(call => call.arguments)).toEqual(['{"path":"a"}', '{"path":"a"}', '{}', null, null])
  })
  test('F17 a lone surrogate in an escape is healed', () => {
    expect(readArguments('{"a":"x\\ud83d"}', false)).toEqual({ arguments: '{"a":"x\uFFFD"}' })
    expect(assemble([text('x\ud83d'), end('stop')]).text).toBe('x\uFFFD')
    expect(assemble([text('x\ud83d'), text('\ude00'), end('stop')]).text).toBe('x\u{1F600}')
  })
})

test('usage that cannot be true is none', () => {
  for (const raw of [
    null,
    undefined,
    {},
    { total_tokens: 0 },
    { prompt_tokens: -1, completion_tokens: 1 },
    { prompt_tokens: 1e12, completion_tokens: 1 },
  ])
    expect(readUsage(raw)).toBeNull()
  expect(readUsage({ prompt_tokens: 3, completion_tokens: 0, prompt_cache_hit_tokens: 9 })).toEqual({
    input: 3,
    cachedInput: 3,
    output: 0,
  })
})

test('the words of an answer come piece by piece without the thoughts in front of them, and together are the answer', () => {
  const whole = ' <think>How <b>many</b>?</think>\n\nTwo <think> files'
  for (const size of [1, 2, 3, 7, 100]) {
    const assembly = new Assembly(() => 'made')
    const pieces = whole.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
    const words = pieces.map(each => assembly.add(text(each)).text)
    assembly.add(end('stop'))
    expect(words.join('')).toBe(assembly.end().text)
    expect(words.join('')).toBe('Two <think> files')
  }
  const plain = new Assembly(() => 'made')
  expect(['<', 'th', 'ree> ', 'x'].map(each => plain.add(text(each)).text)).toEqual(['', '', '<three> ', 'x'])
})
