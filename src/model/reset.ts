type Header = (name: string) => string | null | undefined

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const part = /(\d+(?:\.\d+)?)\s*(ms|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?)\b/g

/** `6m0s`, `1.5s`, `120ms`, `2 hours 5 minutes` in milliseconds; undefined for anything else. */
const duration = (text: string): number | undefined => {
  const parts = [...text.replace(/(?<=[a-z])(?=\d)/g, ' ').matchAll(part)]
  if (
    parts.length === 0 ||
    text
      .replace(/(?<=[a-z])(?=\d)/g, ' ')
      .replace(part, '')
      .trim() !== ''
  )
    return undefined
  return parts.reduce((sum, [, n, unit = '']) => sum + Number(n) * (units[unit] ?? units[unit[0] ?? ''] ?? 0), 0)
}

/** A moment or a length of time, in milliseconds from now: seconds, a Unix time in seconds or milliseconds, a date, a duration. */
const fromNow = (value: string | null | undefined, wallMs: number): number | undefined => {
  const text = value?.trim() ?? ''
  if (/^\d+(\.\d+)?$/.test(text)) {
    const n = Number(text)
    return n > 1e11 ? Math.max(0, n - wallMs) : n > 1e9 ? Math.max(0, n * 1000 - wallMs) : n * 1000
  }
  // A date has a word or a T in it; Date.parse would take `-1` for a year.
  const date = /[a-z]{3}|\dT\d/i.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(date) ? duration(text) : Math.max(0, date - wallMs)
}

/** How endpoints say it in the body of a refusal, or in its words. */
const said = [
  /"retryDelay"\s*:\s*"([\d.]+s)"/,
  /"resets?_in_seconds"\s*:\s*"?(\d+)/,
  /"resets?_at"\s*:\s*"?([^",}\s]+)/,
  /limit reached\|(\d{10,13})/,
  /(?:try again|retry|resets?) in:? ((?:\d+(?:\.\d+)?\s*(?:ms|[a-z]+)\s*)+)/i,
]

/** What limits there are by header, each with what remains of it. The names of providers, as their documentation has them. */
const kinds = ['requests', 'tokens', 'input-tokens', 'output-tokens']
const limits = [
  ...kinds.map(kind => [`x-ratelimit-remaining-${kind}`, `x-ratelimit-reset-${kind}`] as const),
  ...kinds.map(kind => [`anthropic-ratelimit-${kind}-remaining`, `anthropic-ratelimit-${kind}-reset`] as const),
  ['x-ratelimit-remaining', 'x-ratelimit-reset'],
  ['ratelimit-remaining', 'ratelimit-reset'],
] as const

/**
 * When a refused call may be made again, in milliseconds from now: by what the answer says of this refusal (`retry-after-ms`,
 * `Retry-After`, its body or words); `explicit` then. Else by the headers of the limits that are used up. Undefined where nothing
 * makes sense.
 */
export const resetAfter = (
  header: Header,
  text: string,
  wallMs: number,
): { readonly ms: number; readonly explicit: boolean } | undefined => {
  const asked = Number(header('retry-after-ms') ?? Number.NaN)
  if (Number.isFinite(asked) && asked >= 0) return { ms: asked, explicit: true }
  const after = fromNow(header('retry-after'), wallMs)
  if (after !== undefined) return { ms: after, explicit: true }
  for (const pattern of said) {
    const ms = fromNow(pattern.exec(text)?.[1]?.replace(/[.,]$/, ''), wallMs)
    if (ms !== undefined) return { ms, explicit: true }
  }
  const used = limits.flatMap(([remaining, reset]) =>
    header(remaining)?.trim() === '0' ? (fromNow(header(reset), wallMs) ?? []) : [],
  )
  return used.length === 0 ? undefined : { ms: Math.max(...used), explicit: false }
}
