// A chat-completions server on loopback that answers at once. POST /<run>/<calls>/v1/chat/completions: that many requests of one run
// are answered with a tool call, the next with text. It does not parse what it is sent.
import { createServer } from 'node:http'

const asked = new Map()
const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }

const server = createServer((req, res) => {
  const [, run, calls] = req.url.split('/')
  const parts = []
  req.on('data', part => parts.push(part))
  req.on('end', () => {
    const n = asked.get(run) ?? 0
    asked.set(run, n + 1)
    const isLast = n >= Number(calls)
    const finish = isLast ? 'stop' : 'tool_calls'
    const call = { id: `call_${n}`, type: 'function', function: { name: 'add', arguments: `{"a":${n},"b":1}` } }
    const base = { id: `answer-${n}`, created: 1, model: 'm' }
    if (!Buffer.concat(parts).includes('"stream":true')) {
      const message = { role: 'assistant', content: isLast ? 'Done.' : null, ...(isLast ? {} : { tool_calls: [call] }) }
      const choices = [{ index: 0, message, finish_reason: finish }]
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(JSON.stringify({ ...base, object: 'chat.completion', choices, usage }))
      return
    }
    const piece = (delta, finish_reason = null) =>
      `data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
    const pieces = isLast
      ? [piece({ role: 'assistant', content: 'Do' }), piece({ content: 'ne.' })]
      : [
          piece({
            role: 'assistant',
            content: null,
            tool_calls: [{ index: 0, ...call, function: { name: 'add', arguments: '' } }],
          }),
          ...[call.function.arguments.slice(0, 5), call.function.arguments.slice(5)].map(text =>
            piece({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
          ),
        ]
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const told = JSON.stringify({ ...base, object: 'chat.completion.chunk', choices: [], usage })
    res.end(`${pieces.join('')}${piece({}, finish)}data: ${told}\n\ndata: [DONE]\n\n`)
  })
})
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => process.send(server.address().port))
process.once('disconnect', () => process.exit())
