// What a loop of model and tool costs beside the model: the product's, the bare one, and frameworks, against one instant server.
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { loadLoop, openSession, runLoop } from '../agent.mjs'
import { folder, now, versionOf } from '../lib.mjs'

const turns = 200
/** With a long conversation before them; fewer, since each costs more. */
const longTurns = 20
const system = 'You are a teammate. You act by calling tools.'
const description = 'Adds two numbers.'

/** About 200,000 tokens of conversation: what was said in turns, code-like text of varying length. */
const history = (() => {
  const messages = []
  const line = i => `const value${i} = compute(${i * 31}, "${(i * 7919).toString(36)}") // step ${i} of the plan\n`
  for (let i = 0, tokens = 0; tokens < 200_000; i++) {
    const text = Array.from({ length: 30 + (i % 7) }, (_, j) => line(i * 50 + j)).join('')
    messages.push({ role: i % 2 === 0 ? 'user' : 'assistant', text })
    // As o200k counts this text; which is what matters, about 2.9 characters a token.
    tokens += text.length / 2.9
  }
  return messages.length % 2 === 0
    ? messages
    : messages.slice(1).map((m, i) => ({ ...m, role: i % 2 ? 'assistant' : 'user' }))
})()

export default {
  title: 'A turn of the loop',
  method:
    `One process, one server on loopback (in another) that answers at once: ${turns} calls of a tool that adds two numbers, with a small ` +
    `conversation, and ${longTurns} behind one of about 200,000 tokens (${history.length} messages). Milliseconds a turn, everything in it: ` +
    'request, answer, tool. The product: the loop of its teammates with arguments validated and its journal flushed to the disk twice a ' +
    'turn and more. Bare: the openai package, streaming, JSON.parse and nothing else; nothing is kept. Frameworks as their documentation ' +
    'has them, without tracing; they do not stream, and keep nothing on a disk.',
  turns: 5,
  base: 'bare loop, openai package',
  columns: [
    { key: 'small', label: 'ms a turn, small', ratio: true },
    { key: 'long', label: 'ms a turn, 200k tokens', ratio: true },
  ],
  async prepare() {
    process.env.OPENAI_API_KEY = 'none'
    process.env.LANGSMITH_TRACING = 'false'
    const server = fork(fileURLToPath(new URL('./loop-child.mjs', import.meta.url)))
    const port = await new Promise(resolve => server.once('message', resolve))
    let runs = 0
    const endpoint = calls => `http://127.0.0.1:${port}/${++runs}/${calls}/v1`

    const { default: OpenAI } = await import('openai')
    const z = await import('zod')
    const shape = z.object({ a: z.number(), b: z.number() })
    const parameters = {
      type: 'object',
      properties: { a: { type: 'number' }, b: { type: 'number' } },
      required: ['a', 'b'],
      additionalProperties: false,
    }

    const bare = async (baseURL, before) => {
      const client = new OpenAI({ baseURL, maxRetries: 0 })
      const tools = [{ type: 'function', function: { name: 'add', description, parameters } }]
      const messages = [
        { role: 'system', content: system },
        ...before.map(({ role, text }) => ({ role, content: text })),
        { role: 'user', content: 'go' },
      ]
      for (;;) {
        const stream = await client.chat.completions.create({
          model: 'm',
          messages,
          tools,
          stream: true,
          stream_options: { include_usage: true },
        })
        let content = ''
        const calls = []
        for await (const { choices } of stream) {
          const delta = choices[0]?.delta
          content += delta?.content ?? ''
          for (const { index, id, function: fn } of delta?.tool_calls ?? []) {
            calls[index] ??= { id, type: 'function', function: { name: fn.name, arguments: '' } }
            calls[index].function.arguments += fn.arguments ?? ''
          }
        }
        if (calls.length === 0) return content
        messages.push({ role: 'assistant', content: content || null, tool_calls: calls })
        for (const call of calls) {
          const { a, b } = JSON.parse(call.function.arguments)
          messages.push({ role: 'tool', tool_call_id: call.id, content: String(a + b) })
        }
      }
    }

    const loop = await loadLoop()
    const add = loop.defineTool({ name: 'add', description, input: shape, run: ({ a, b }) => loop.said(String(a + b)) })
    const ours = async (baseURL, before) => {
      const session = openSession(loop, folder('loop'), system)
      const usage = { input: 1, cachedInput: 0, output: 1 }
      for (const { role, text } of before)
        if (role === 'user') session.take([{ k: 'note', text }])
        else session.append({ k: 'assistant', text, calls: [], usage })
      return { run: () => runLoop(loop, { session, baseURL, tools: [add], text: 'go' }), end: () => session.close() }
    }

    const agents = await import('@openai/agents')
    agents.setTracingDisabled(true)
    const agentsTool = agents.tool({
      name: 'add',
      description,
      parameters: shape,
      execute: async ({ a, b }) => String(a + b),
    })
    const openaiAgents = async (baseURL, before) => {
      const client = new OpenAI({ baseURL, maxRetries: 0 })
      const model = new agents.OpenAIChatCompletionsModel(client, 'm')
      const agent = new agents.Agent({ name: 'teammate', instructions: system, model, tools: [agentsTool] })
      const input = [
        ...before.map(m => (m.role === 'user' ? agents.user(m.text) : agents.assistant(m.text))),
        agents.user('go'),
      ]
      await agents.run(agent, input, { maxTurns: 1000 })
    }

    const { createReactAgent } = await import('@langchain/langgraph/prebuilt')
    const { MemorySaver } = await import('@langchain/langgraph')
    const { ChatOpenAI } = await import('@langchain/openai')
    const { tool } = await import('@langchain/core/tools')
    const graphTool = tool(async ({ a, b }) => String(a + b), { name: 'add', description, schema: shape })
    let threads = 0
    const langGraph = saver => async (baseURL, before) => {
      const llm = new ChatOpenAI({ model: 'm', apiKey: 'none', configuration: { baseURL }, maxRetries: 0 })
      const agent = createReactAgent({ llm, tools: [graphTool], prompt: system, checkpointSaver: saver?.() })
      const messages = [...before.map(({ role, text }) => ({ role, content: text })), { role: 'user', content: 'go' }]
      await agent.invoke({ messages }, { recursionLimit: 5000, configurable: { thread_id: String(++threads) } })
    }

    /** Milliseconds a turn. What is made ready before the first request of the product (its journal of before) is not counted. */
    const time = async (run, calls, before) => {
      const baseURL = endpoint(calls)
      const made = run === ours ? await ours(baseURL, before) : { run: () => run(baseURL, before), end: () => {} }
      const from = now()
      await made.run()
      const ms = now() - from
      made.end()
      return ms / (calls + 1)
    }
    const variant = (name, run) => ({
      name,
      measure: async () => ({ small: await time(run, turns, []), long: await time(run, longTurns, history) }),
    })
    return {
      versions: {
        openai: versionOf('openai'),
        '@openai/agents': versionOf('@openai/agents'),
        '@langchain/langgraph': versionOf('@langchain/langgraph'),
        '@langchain/openai': versionOf('@langchain/openai'),
      },
      variants: [
        variant('bare loop, openai package', bare),
        variant("the product's loop, journal flushed", ours),
        variant('@openai/agents run()', openaiAgents),
        variant('LangGraph createReactAgent', langGraph()),
        variant(
          'LangGraph with MemorySaver',
          langGraph(() => new MemorySaver()),
        ),
      ],
      missing: [],
      close: async () => server.disconnect(),
    }
  },
}
