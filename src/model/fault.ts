import { APIConnectionError, APIConnectionTimeoutError, APIError, APIUserAbortError } from 'openai/error'
import type { ModelFault, ModelFaultKind } from './model.ts'
import { resetAfter } from './reset.ts'

const quota =
  /insufficient_quota|exceeded your current quota|billing|insufficient (?:balance|credit)|credit balance|out of credits/i
const overflow =
  /context_length_exceeded|context[ _](?:length|window|size)|maximum context|prompt is too long|input (?:is )?too long|too many (?:input )?tokens|reduce the length|exceeds the maximum number of tokens/i
/** What some endpoints call a bad request. */
const badKey = /api[ _]key (?:not valid|invalid|not found|expired)|api_key_invalid|invalid api key/i
const noCredit = /credit balance is too low/i

const byStatus = (status: number | undefined, text: string): ModelFaultKind => {
  if (status === 402 || ((status === undefined || status === 403 || status === 429) && quota.test(text))) return 'quota'
  if (status === 429 || (status === undefined && /rate.?limit|too many requests|\b429\b/i.test(text)))
    return 'rate_limit'
  if (status === 400 && noCredit.test(text)) return 'quota'
  if (status === 401 || status === 403 || (status === 400 && badKey.test(text))) return 'auth'
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
    // One that comes in the middle of a stream has no status: some endpoints say it in the code.
    const status = typeof error.status === 'number' ? error.status : httpError(error.code)
    const text = `${error.code ?? ''} ${error.type ?? ''} ${error.message}`
    const kind = byStatus(status, text)
    if (kind === 'auth' || kind === 'bad_request' || kind === 'overflow') return say(kind, error.message, { status })
    const reset = resetAfter(name => error.headers?.get(name), `${text} ${JSON.stringify(error.error ?? '')}`, wallMs)
    // A quota that is there again at a stated time is a limit; one that is paid for is not, whatever else is said.
    const isLimit =
      kind === 'quota' && reset?.explicit === true && error.code !== 'insufficient_quota' && status !== 402
    return say(isLimit ? 'rate_limit' : kind, error.message, { status, retryAfterMs: reset?.ms })
  }
  if (error instanceof SyntaxError) return say('malformed', `the answer was no valid JSON: ${error.message}`)
  // undici says `TypeError: terminated` when the server goes away in the middle of a stream.
  return say('network', `the answer broke off: ${deepest(error)}`)
}

const httpError = (code: unknown): number | undefined => {
  const status = typeof code === 'number' || /^\d{3}$/.test(String(code)) ? Number(code) : Number.NaN
  return Number.isInteger(status) && status >= 400 && status < 600 ? status : undefined
}

const deepest = (error: Error): string => {
  let at = error
  for (let depth = 0; depth < 5 && at.cause instanceof Error; depth++) at = at.cause
  const code = (at as NodeJS.ErrnoException).code
  return at.message || code || at.name
}
