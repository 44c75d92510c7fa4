import { APIConnectionError, APIConnectionTimeoutError, APIError, APIUserAbortError } from 'openai/error'
import type { ModelFault, ModelFaultKind } from './model.ts'

const quota =
  /insufficient_quota|exceeded your current quota|billing|insufficient (?:balance|credit)|credit balance|out of credits/i
const overflow =
  /context_length_exceeded|context[ _](?:length|window|size)|maximum context|prompt is too long|input (?:is )?too long|too many (?:input )?tokens|reduce the length/i

/** `Retry-After` in milliseconds: `retry-after-ms`, seconds, or an HTTP date; undefined where it makes no sense. */
export const retryAfter = (header: (name: string) => string | null | undefined, wallMs: number): number | undefined => {
  const ms = Number(header('retry-after-ms') ?? Number.NaN)
  if (Number.isFinite(ms) && ms >= 0) return ms
  const value = header('retry-after')?.trim()
  if (!value) return undefined
  const seconds = Number(value)
  if (Number.isFinite(seconds)) return seconds >= 0 ? seconds * 1000 : undefined
  // A date has a word in it; Date.parse would take `-1` for a year.
  const date = /[a-z]{3}/i.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - wallMs)
}

const byStatus = (status: number | undefined, text: string): ModelFaultKind => {
  if (status === 402 || ((status === undefined || status === 403 || status === 429) && quota.test(text))) return 'quota'
  if (status === 429 || (status === undefined && /rate.?limit|too many requests|\b429\b/i.test(text)))
    return 'rate_limit'
  if (status === 401 || status === 403) return 'auth'
  if (status === 413 || ((status === undefined || status < 500) && overflow.test(text))) return 'overflow'
  if (status === 408) return 'timeout'
  if (status === undefined || status === 409 || status === 425 || status >= 500) return 'overloaded'
  return 'bad_request'
}

/** Anything the client threw, as a fault. `hide` takes the key out of what a server repeats of it. */
export const readFault = (thrown: unknown, wallMs: number, hide: (text: string) => string): ModelFault => {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown))
  const say = (kind: ModelFaultKind, text: string, more: Partial<ModelFault> = {}): ModelFault => ({
    kind,
    message: hide(text).replace(/\s+/g, ' ').slice(0, 500),
    ...more,
  })
  if (error instanceof APIUserAbortError || error.name === 'AbortError') return say('aborted', 'the call was aborted')
  if (error instanceof APIConnectionTimeoutError) return say('timeout', 'the endpoint did not answer in time')
  if (error instanceof APIConnectionError) return say('network', `no connection to the endpoint: ${deepest(error)}`)
  if (error instanceof APIError) {
    const status = typeof error.status === 'number' ? error.status : undefined
    const text = `${error.code ?? ''} ${error.type ?? ''} ${error.message}`
    const retryAfterMs = retryAfter(name => error.headers?.get(name), wallMs)
    return say(byStatus(status, text), error.message, { status, retryAfterMs })
  }
  if (error instanceof SyntaxError) return say('malformed', `the answer was no valid JSON: ${error.message}`)
  // undici says `TypeError: terminated` when the server goes away in the middle of a stream.
  return say('network', `the answer broke off: ${deepest(error)}`)
}

const deepest = (error: Error): string => {
  let at = error
  for (let depth = 0; depth < 5 && at.cause instanceof Error; depth++) at = at.cause
  const code = (at as NodeJS.ErrnoException).code
  return at.message || code || at.name
}
