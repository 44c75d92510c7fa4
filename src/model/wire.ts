import { wellFormed } from '../lib/text.ts'
import type { ModelConfig } from '../protocol/config.ts'
import type { Capabilities, Learned } from '../protocol/quirks.ts'
import type { ChatMessage, TurnRequest } from './model.ts'

type Json = Record<string, unknown>

/** What is known of an endpoint, and what it taught since, with its words. `tried`: the names of the limit that it was sent. */
export interface Switches {
  readonly can: Capabilities
  readonly taught: Learned
  readonly tried: readonly string[]
  readonly why: string
}

export const firstSwitches = (can: Capabilities): Switches => ({
  can,
  taught: {},
  tried: [can.maxTokensField],
  why: '',
})

const thoughts = 'reasoning_content'
const wants = /must be|missing|required|passed back|sent back/i
const complains =
  /unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|invalid|extra|does not support|not one of|should not|must not/i

/**
 * What to leave out, rename or add after `message` (of a 400 or 422), or null when it is about something else. Each is switched
 * once: an endpoint that refuses both ways is not asked in circles.
 */
export const switched = (now: Switches, param: string | null, message: string, sent: Json): Switches | null => {
  const named = (name: string): boolean => param === name || new RegExp(`\\b${name}\\b`).test(message)
  const learn = (taught: Learned, can: Partial<Capabilities>): Switches => ({
    ...now,
    can: { ...now.can, ...can },
    taught: { ...now.taught, ...taught },
    why: message,
  })
  if (now.taught.reasoningBack === undefined && named(thoughts)) {
    const reasoningBack = !now.can.reasoningBack
    // It is either asked for or refused, and the one that is done already was not meant.
    if (reasoningBack ? wants.test(message) : complains.test(message) && !wants.test(message))
      return learn({ reasoningBack }, { reasoningBack })
  }
  if (!now.can.signCalls && named('thought_signature') && wants.test(message))
    return learn({ signCalls: true }, { signCalls: true })
  if (param === null && !complains.test(message)) return null
  const { can } = now
  const limit = can.maxTokensField
  if (limit !== 'none' && Object.hasOwn(sent, limit) && named(limit)) {
    const other = limit === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
    const maxTokensField = now.tried.includes(other) ? 'none' : other
    return { ...learn({ maxTokensField }, { maxTokensField }), tried: [...now.tried, maxTokensField] }
  }
  if (Object.hasOwn(sent, 'parallel_tool_calls') && named('parallel_tool_calls'))
    return learn({ parallelToolCalls: 'refused' }, { parallelToolCalls: null })
  if (Object.hasOwn(sent, 'temperature') && named('temperature'))
    return learn({ temperature: false }, { temperature: false })
  if (Object.hasOwn(sent, 'stream_options') && (named('stream_options') || named('include_usage')))
    return learn({ streamUsage: false }, { streamUsage: false })
  if (now.taught.role === undefined && /\brole/i.test(`${param} ${message}`) && named(can.role)) {
    const role = can.role === 'system' ? 'developer' : 'system'
    return learn({ role }, { role })
  }
  return null
}

/** By Google's documentation: a call that no model of its own made, so that there is no signature. */
const unsigned = { google: { thought_signature: 'skip_thought_signature_validator' } }

const one = (message: ChatMessage, can: Capabilities, label: string): Json => {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: wellFormed(message.text) }
    case 'tool':
      return { role: 'tool', tool_call_id: message.callId, content: wellFormed(message.text) }
    case 'assistant': {
      const isOwn = message.model === undefined || message.model === label
      const extras = message.calls.map(({ extra }) => (isOwn ? extra : undefined))
      // The first of calls made at once carries the signature of all.
      if (can.signCalls && extras.length > 0) extras[0] ??= unsigned
      return {
        role: 'assistant',
        content: message.text === '' ? null : wellFormed(message.text),
        ...(message.calls.length === 0
          ? {}
          : {
              tool_calls: message.calls.map((call, i) => ({
                id: call.id,
                type: 'function',
                // A call that could not be read goes back as an empty one: its result says what was wrong.
                function: { name: wellFormed(call.name) || 'unknown', arguments: call.arguments ?? '{}' },
                ...(extras[i] === undefined ? {} : { extra_content: extras[i] }),
              })),
              ...(can.reasoningBack ? { [thoughts]: wellFormed((isOwn ? message.reasoning : undefined) ?? '') } : {}),
            }),
      }
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
export const wireMessages = (
  request: Pick<TurnRequest, 'system' | 'messages' | 'tools'>,
  can: Capabilities,
  label: string,
): Json[] => {
  const said = request.tools.length > 0 ? request.messages : request.messages.map(inWords)
  const out: Json[] = [{ role: can.role, content: wellFormed(request.system) }]
  for (const message of said) {
    if (message.role === 'assistant' && message.text === '' && message.calls.length === 0) continue
    const next = one(message, can, label)
    const last = out.at(-1)
    if (next.role === 'user' && last?.role === 'user') last.content = `${last.content}\n\n${next.content}`
    else out.push(next)
  }
  return out
}

export const wireBody = (request: TurnRequest, config: ModelConfig, can: Capabilities, label: string): Json => {
  const hasTools = request.tools.length > 0
  const body: Json = {
    model: config.name,
    // What stays the same comes first, so that a request begins with all the bytes of the one before it.
    ...(hasTools
      ? {
          tools: request.tools.map(({ name, description, parameters }) => ({
            type: 'function',
            function: { name, description, parameters },
          })),
        }
      : {}),
    messages: wireMessages(request, can, label),
    stream: true,
    ...(can.streamUsage ? { stream_options: { include_usage: true } } : {}),
  }
  if (config.maxOutputTokens !== undefined && can.maxTokensField !== 'none')
    body[can.maxTokensField] = config.maxOutputTokens
  if (config.temperature !== undefined && can.temperature) body.temperature = config.temperature
  if (can.parallelToolCalls !== null && hasTools) body.parallel_tool_calls = can.parallelToolCalls
  return body
}
