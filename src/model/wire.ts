import { wellFormed } from '../lib/text.ts'
import type { ModelConfig } from '../protocol/config.ts'
import type { ChatMessage, TurnRequest } from './model.ts'

type Json = Record<string, unknown>

/**
 * Parameters that endpoints disagree on, switched at most once each when one is refused, and remembered:
 * which name the output limit goes under (or none), and which optional ones are left out.
 */
export interface Switches {
  readonly limit: 'max_tokens' | 'max_completion_tokens' | 'none'
  readonly tried: readonly string[]
  readonly without: readonly string[]
}

export const firstSwitches = (config: ModelConfig): Switches => {
  const limit = config.quirks?.maxTokensField ?? 'max_tokens'
  return { limit, tried: [limit], without: config.quirks?.streamUsage === false ? ['stream_options'] : [] }
}

const optional = ['parallel_tool_calls', 'temperature', 'stream_options'] as const

/** What to leave out or rename after `message` (of a 400 or 422), or null when it is about something else. */
export const switched = (now: Switches, param: string | null, message: string, sent: Json): Switches | null => {
  const complains =
    /unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|invalid|extra|does not support/i
  if (param === null && !complains.test(message)) return null
  const named = (name: string): boolean => param === name || new RegExp(`\\b${name}\\b`).test(message)
  if (now.limit !== 'none' && Object.hasOwn(sent, now.limit) && named(now.limit)) {
    const other = now.limit === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
    const limit = now.tried.includes(other) ? 'none' : other
    return { ...now, limit, tried: [...now.tried, limit] }
  }
  const name = optional.find(each => Object.hasOwn(sent, each) && named(each))
  return name === undefined ? null : { ...now, without: [...now.without, name] }
}

const one = (message: ChatMessage): Json => {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: wellFormed(message.text) }
    case 'tool':
      return { role: 'tool', tool_call_id: message.callId, content: wellFormed(message.text) }
    case 'assistant':
      return {
        role: 'assistant',
        content: message.text === '' ? null : wellFormed(message.text),
        ...(message.calls.length === 0
          ? {}
          : {
              tool_calls: message.calls.map(call => ({
                id: call.id,
                type: 'function',
                // A call that could not be read goes back as an empty one: its result says what was wrong.
                function: { name: wellFormed(call.name) || 'unknown', arguments: call.arguments ?? '{}' },
              })),
            }),
      }
  }
}

/** Without tools in the request a provider refuses calls in the history, so they are told in words. */
const inWords = (message: ChatMessage): ChatMessage => {
  if (message.role === 'tool') return { role: 'user', text: `(result of ${message.name})\n${message.text}` }
  if (message.role !== 'assistant' || message.calls.length === 0) return message
  const calls = message.calls.map(call => `(called ${call.name} with ${call.arguments ?? 'unreadable arguments'})`)
  return { role: 'assistant', text: [message.text, ...calls].filter(Boolean).join('\n'), calls: [] }
}

/** The messages as sent: well-formed, none empty, no two of the user's in a row (strict templates refuse that). */
export const wireMessages = (request: Pick<TurnRequest, 'system' | 'messages' | 'tools'>): Json[] => {
  const said = request.tools.length > 0 ? request.messages : request.messages.map(inWords)
  const out: Json[] = [{ role: 'system', content: wellFormed(request.system) }]
  for (const message of said) {
    if (message.role === 'assistant' && message.text === '' && message.calls.length === 0) continue
    const next = one(message)
    const last = out.at(-1)
    if (next.role === 'user' && last?.role === 'user') last.content = `${last.content}\n\n${next.content}`
    else out.push(next)
  }
  return out
}

export const wireBody = (request: TurnRequest, config: ModelConfig, switches: Switches): Json => {
  const body: Json = {
    model: config.name,
    // What stays the same comes first, so that a request begins with all the bytes of the one before it.
    ...(request.tools.length === 0
      ? {}
      : {
          tools: request.tools.map(({ name, description, parameters }) => ({
            type: 'function',
            function: { name, description, parameters },
          })),
        }),
    messages: wireMessages(request),
    stream: true,
    stream_options: { include_usage: true },
  }
  if (config.maxOutputTokens !== undefined && switches.limit !== 'none') body[switches.limit] = config.maxOutputTokens
  if (config.temperature !== undefined) body.temperature = config.temperature
  if (config.quirks?.parallelToolCalls !== undefined && request.tools.length > 0)
    body.parallel_tool_calls = config.quirks.parallelToolCalls
  for (const name of switches.without) delete body[name]
  return body
}
