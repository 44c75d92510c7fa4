import type { ChatRequest } from './conversation.ts'
import type { Reply } from './reply.ts'

/** What stands in every answer of one call. */
export interface Head {
  readonly id: string
  /** Seconds since the Unix epoch. */
  readonly created: number
  readonly model: string
}

/** There is no tokenizer here: four characters a token is the usual estimate, and keeps a screen's figures plausible. */
const usage = (read: number, said: Reply) => {
  const [input, output] = [Math.ceil(read / 4), Math.ceil(JSON.stringify(said).length / 4)]
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
}

const finish = (said: Reply): string => ('text' in said ? 'stop' : 'tool_calls')
const wireCall = (call: { id: string; name: string }, args: string) => ({
  id: call.id,
  type: 'function',
  function: { name: call.name, arguments: args },
})

/** The answer as one `chat.completion`. `read` is the length of the request, in characters. */
export const whole = (said: Reply, head: Head, read: number): object => ({
  ...head,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message:
        'text' in said
          ? { role: 'assistant', content: said.text }
          : { role: 'assistant', content: null, tool_calls: [wireCall(said.call, JSON.stringify(said.call.args))] },
      finish_reason: finish(said),
    },
  ],
  usage: usage(read, said),
})

/** The answer as the `chat.completion.chunk`s of a stream, with a last one for the usage when that was asked for. */
export const streamed = (said: Reply, head: Head, read: number, request: ChatRequest): object[] => {
  const chunk = (more: object) => ({ ...head, object: 'chat.completion.chunk', ...more })
  const delta = (part: object, finish_reason: string | null = null) =>
    chunk({ choices: [{ index: 0, delta: part, finish_reason }] })
  const body =
    'text' in said
      ? pieces(said.text).map(content => delta({ content }))
      : [
          delta({ tool_calls: [{ index: 0, ...wireCall(said.call, '') }] }),
          ...pieces(JSON.stringify(said.call.args)).map(piece =>
            delta({ tool_calls: [{ index: 0, function: { arguments: piece } }] }),
          ),
        ]
  return [
    delta({ role: 'assistant', content: '' }),
    ...body,
    delta({}, finish(said)),
    ...(request.stream_options?.include_usage ? [chunk({ choices: [], usage: usage(read, said) })] : []),
  ]
}

/** A text in pieces as a model would stream it, none ending inside a surrogate pair. */
const pieces = (text: string): string[] => text.match(/[\s\S]{1,1024}(?<![\uD800-\uDBFF])/g) ?? []
