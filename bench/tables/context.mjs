// What a long session sends, with its conversation kept short and without, and how much of it a prompt cache can know already.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import * as z from 'zod'
import { loadLoop, openSession, runLoop } from '../agent.mjs'
import { folder, versionOf } from '../lib.mjs'

const turns = 200
const window = 128_000

/** What a tool gives: code-like text, 0.5 to 8 KB, the same in each run. */
const output = i =>
  Array.from(
    { length: 8 + ((i * 37) % 120) },
    (_, j) => `${i}:${j}: const v${(i * j) % 97} = f(${i * 7919 + j}, 'k${j}')`,
  ).join('\n')

/** What is said with each call; every third writes 2 KB into its arguments, as one that edits a file does. */
const step = at => JSON.stringify({ at, ...(at % 3 === 0 ? { text: output(at + 3).slice(0, 2048) } : {}) })

const summary = n =>
  ['Goal', 'Decisions', 'State', 'Open', 'Files']
    .map(part => `## ${part}\n${`What of ${part} still holds after ${n} steps, as far as it matters. `.repeat(6)}`)
    .join('\n')

const weights = new Map()
const weigh = text => {
  if (!weights.has(text)) weights.set(text, countTokens(text))
  return weights.get(text)
}

/** Bytes that both begin with. */
const shared = (a, b) => {
  const most = Math.min(a.length, b.length)
  let low = 0
  let high = most
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (a.compare(b, 0, middle, 0, middle) === 0) low = middle
    else high = middle - 1
  }
  return low
}

/** The endpoint: counts what it is sent as o200k does, and holds each request against the one before. */
const endpoint = async () => {
  const seen = { sent: 0, largest: 0, bytes: 0, same: 0, steadyBytes: 0, steadySame: 0, rewrites: 0 }
  let before = null
  let calls = 0
  const server = createServer(async (req, res) => {
    const parts = []
    for await (const part of req) parts.push(part)
    const { messages, tools } = JSON.parse(Buffer.concat(parts).toString('utf8'))
    const input = [tools, ...messages].reduce((sum, part) => sum + weigh(JSON.stringify(part)), 0)
    // In the order in which providers cache: tools, system message, conversation; without the end of the list.
    const bytes = Buffer.from(JSON.stringify([tools, messages]).slice(0, -2))
    seen.sent += input
    seen.largest = Math.max(seen.largest, input)
    if (before) {
      const same = shared(before, bytes)
      const isRewritten = same < before.length && !before.isQuestion
      seen.bytes += bytes.length
      seen.same += same
      if (isRewritten) seen.rewrites++
      else if (!before.isQuestion) {
        seen.steadyBytes += bytes.length
        seen.steadySame += same
      }
    }
    const isQuestion = messages.at(-1).content?.includes('Write a summary from which') ?? false
    // What follows a question for a summary goes on from the conversation or from its summary: a rewrite, told by the journal.
    before = Object.assign(bytes, { isQuestion })
    const choice = isQuestion
      ? { message: { role: 'assistant', content: summary(calls) }, finish_reason: 'stop' }
      : calls >= turns
        ? { message: { role: 'assistant', content: 'Done.' }, finish_reason: 'stop' }
        : {
            message: {
              role: 'assistant',
              content: `Step ${calls}: I look at the next one.`,
              tool_calls: [
                { id: `call_${calls}`, type: 'function', function: { name: 'look', arguments: step(calls++) } },
              ],
            },
            finish_reason: 'tool_calls',
          }
    res.writeHead(200, { 'content-type': 'application/json' })
    const usage = { prompt_tokens: input, completion_tokens: 30, total_tokens: input + 30 }
    res.end(
      JSON.stringify({ id: 'a', object: 'chat.completion', model: 'm', choices: [{ index: 0, ...choice }], usage }),
    )
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  const close = () => new Promise(resolve => server.close(resolve).closeAllConnections())
  return { baseURL: `http://127.0.0.1:${server.address().port}/v1`, seen, close }
}

export default {
  title: 'A session of 200 turns',
  method:
    `The loop of the product's teammates and its journal; a scripted model calls a tool ${turns} times, which gives 0.5 to 8 KB each; every third call carries 2 KB itself. ` +
    `Window ${window.toLocaleString('en')} tokens, where the conversation is kept within it. Tokens as o200k counts what is sent (tools, system message, conversation), ` +
    'the questions for a summary included. The same bytes: those that the request before began with too, which a prompt cache knows; ' +
    'outside rewrites: without the requests right after results were dropped or the conversation was put together. The figures are the same in each run.',
  turns: 1,
  base: 'all kept',
  columns: [
    { key: 'sent', label: 'tokens sent', ratio: true },
    { key: 'largest', label: 'largest request, tokens' },
    { key: 'rewrites', label: 'rewrites' },
    { key: 'same', label: 'the same bytes, %' },
    { key: 'steady', label: 'outside rewrites, %' },
  ],
  async prepare() {
    const loop = await loadLoop()
    const look = loop.defineTool({
      name: 'look',
      description: 'Shows one.',
      input: z.object({ at: z.number(), text: z.string().optional() }),
      run: ({ at }) => loop.said(output(at)),
    })
    const system = 'You are a teammate. '.repeat(200)
    const measure = how => async () => {
      const { baseURL, seen, close } = await endpoint()
      const home = folder('context')
      const session = openSession(loop, home, system)
      const compaction = new loop.Compaction({
        session,
        schemas: [look.schema],
        window,
        answer: undefined,
        retell: async () => ({ system, items: [] }),
        save: () =>
          loop.writeTranscript(join(home, '.transcripts'), {
            teammate: 'm',
            task: null,
            title: 'bench',
            how: null,
            at: new Date(0).toISOString(),
            messages: session.whole(),
          }),
        on: {
          done: () => undefined,
          failed: why => {
            throw new Error(why)
          },
        },
      })
      await runLoop(loop, {
        session,
        baseURL,
        tools: [look],
        text: 'Look at everything.',
        ...(how === 'all' ? {} : { window }),
        ...(how === 'auto' ? { compaction } : {}),
      })
      session.close()
      await close()
      const entries = readFileSync(session.file, 'utf8')
        .trim()
        .split('\n')
        .map(line => JSON.parse(line).k)
      const count = k => entries.filter(each => each === k).length
      // What the endpoint saw as rewritten, and what the journal says was: a difference would be a prefix that moved for no reason.
      if (seen.rewrites > count('dropped'))
        throw new Error(
          `${seen.rewrites} requests began anew, and the journal has ${count('dropped')} batches of dropped results`,
        )
      return {
        sent: seen.sent,
        largest: seen.largest,
        rewrites: seen.rewrites + count('compacted'),
        same: (100 * seen.same) / seen.bytes,
        steady: (100 * seen.steadySame) / seen.steadyBytes,
      }
    }
    return {
      versions: { 'gpt-tokenizer': versionOf('gpt-tokenizer') },
      variants: [
        { name: 'all kept', measure: measure('all') },
        { name: 'old results dropped (micro)', measure: measure('micro') },
        { name: 'and put together (micro, auto)', measure: measure('auto') },
      ],
      missing: [],
      close: async () => {},
    }
  },
}
