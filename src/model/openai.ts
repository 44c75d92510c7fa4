import { randomBytes } from 'node:crypto'
import OpenAI from 'openai'
import { APIError } from 'openai/error'
import { Stream } from 'openai/streaming'
import { type Clock, maxDelay, clock as realClock, timerMs } from '../lib/clock.ts'
import { labelOf } from '../protocol/fallbacks.ts'
import { Assembly } from './assemble.ts'
import { AnswerTooLarge, answerBound, boundResponse, isJson } from './bound.ts'
import { readFault } from './fault.ts'
import type { Model, ModelFault, ModelOptions, Turn, TurnRequest } from './model.ts'
import { capabilitiesFor } from './presets.ts'
import { firstSwitches, type Switches, switched, wireBody } from './wire.ts'

/** An id that every provider takes back: nine letters and digits. */
const newId = (): string => randomBytes(12).toString('base64').replace(/[+/=]/g, 'x').slice(0, 9)

const failed = (fault: ModelFault): Turn => ({ text: '', calls: [], stop: 'error', fault, usage: null })

/**
 * Any OpenAI-compatible chat-completions endpoint. Streams; reads a whole completion as well where a server sends one.
 * One call is one request, except that what it refuses of its form is switched at once, and told once the endpoint took that. Ends with a `timeout` fault when
 * nothing of an answer came for `idleMs` (keep-alives are nothing), with `aborted` as soon as the signal fires.
 */
export const openaiModel = (options: ModelOptions, time: Clock = realClock): Model => {
  const { config, apiKey } = options
  const bound = answerBound(config)
  const client = new OpenAI({
    // The client insists on a key; endpoints that need none ignore this one.
    apiKey: apiKey || 'none',
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    baseURL: config.baseURL ?? null,
    maxRetries: 0,
    timeout: maxDelay,
    logLevel: 'off',
    fetch: async (url, init) => boundResponse(await fetch(url, init), bound),
  })
  const hide = (text: string): string => (apiKey ? text.replaceAll(apiKey, '[key]') : text)
  const label = options.label ?? labelOf(config)
  let can = capabilitiesFor(config, options.learned ?? {})

  const once = async (request: TurnRequest, switches: Switches): Promise<Turn> => {
    const body = wireBody(request, config, switches.can, label)
    const ender = new AbortController()
    const stop = () => ender.abort()
    request.signal.addEventListener('abort', stop, { once: true })
    let idle = false
    const watch = () =>
      setTimeout(() => {
        idle = true
        ender.abort()
      }, timerMs(options.idleMs))
    let timer = watch()
    const assembly = new Assembly(newId)
    try {
      const response = await client
        .post('/chat/completions', {
          body,
          signal: ender.signal,
          stream: true,
          headers: { accept: 'text/event-stream, application/json' },
        })
        .asResponse()
      const pieces = isJson(response.headers)
        ? [wholeAnswer(await response.json(), response.headers)]
        : // The stream aborts its own controller when it breaks off, so it does not get ours.
          Stream.fromSSEResponse<unknown>(response, new AbortController(), client)
      for await (const piece of pieces) {
        const { content, text } = assembly.add(piece)
        if (content) {
          clearTimeout(timer)
          timer = watch()
          request.onContent?.()
        }
        if (assembly.size > bound.answer) throw new AnswerTooLarge(bound.answer)
        if (text !== '') request.onText?.(text)
      }
      // The client ends a stream quietly when it is aborted, so that must be asked.
      if (ender.signal.aborted) return failed(ended(idle, options.idleMs))
      // Only now is it sure that the refusal meant what was switched.
      if (switches.why !== '') {
        can = switches.can
        options.onLearned?.(switches.taught, hide(switches.why).slice(0, 500))
      }
      return asHtml(response.headers, assembly.end())
    } catch (thrown) {
      if (ender.signal.aborted) return failed(ended(idle, options.idleMs))
      if (thrown instanceof AnswerTooLarge) {
        // The rest is not waited for. Asked again it would come again, and cost the same.
        ender.abort()
        return failed({ kind: 'unusable', message: thrown.message })
      }
      const next = refusedParameter(thrown, switches, body)
      if (next) return await once(request, next)
      return failed(readFault(thrown, time.wall(), hide))
    } finally {
      clearTimeout(timer)
      request.signal.removeEventListener('abort', stop)
    }
  }

  const refusedParameter = (thrown: unknown, switches: Switches, body: Record<string, unknown>) =>
    thrown instanceof APIError && (thrown.status === 400 || thrown.status === 422)
      ? switched(switches, thrown.param ?? null, thrown.message, body)
      : null

  return {
    label,
    async turn(request) {
      if (request.signal.aborted) return failed(ended(false, 0))
      return once(request, firstSwitches(can))
    },
  }
}

const ended = (idle: boolean, idleMs: number): ModelFault =>
  idle
    ? { kind: 'timeout', message: `nothing of an answer came for ${Math.round(idleMs / 100) / 10} s` }
    : { kind: 'aborted', message: 'the call was aborted' }

/** A page in place of an answer comes from a wrong address far more often than from an endpoint. */
const asHtml = (headers: Headers, turn: Turn): Turn =>
  turn.fault?.kind === 'malformed' && /\bhtml\b/i.test(headers.get('content-type') ?? '')
    ? { ...turn, fault: { ...turn.fault, message: 'a web page came in place of an answer: is model.baseURL right?' } }
    : turn

/** A 200 that carries an error object is an error all the same. */
const wholeAnswer = (body: unknown, headers: Headers): unknown => {
  const error = typeof body === 'object' && body !== null && 'error' in body ? body.error : null
  if (error)
    throw new APIError(undefined, typeof error === 'object' ? error : { message: String(error) }, undefined, headers)
  return body
}
