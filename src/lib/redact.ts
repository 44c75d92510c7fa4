/** A block of lines that is one secret is looked for in so much of what came line by line. */
const longestBlock = 16_384

/** What stands where a secret stood. */
export const redacted = '[redacted]'

/**
 * Shapes of keys that are secrets whoever they belong to. Kept to forms that nothing else has: a false hit would corrupt
 * what a teammate reads.
 */
const shapes =
  /(?<![A-Za-z0-9])(?:sk-(?:[A-Za-z]+-)*[A-Za-z0-9_]*\d[A-Za-z0-9_-]{19,}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}|glpat-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{34,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})(?![A-Za-z0-9])|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g

/** Shorter values would hit ordinary words. */
const shortest = 6

/**
 * A function that replaces secrets in text: each of `values` exactly (also as it stands in JSON, a URL or base64), and
 * common shapes of keys. Values shorter than 6 characters are left alone. Longest first, so that none is half replaced.
 */
export const makeRedactor = (values: readonly string[]): ((text: string) => string) => {
  const exact = [...new Set(values.filter(value => value.trim().length >= shortest).flatMap(variants))].sort(
    (a, b) => b.length - a.length,
  )
  const known =
    exact.length > 0
      ? new RegExp(exact.map(value => value.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')).join('|'), 'g')
      : null
  return text => (known ? text.replace(known, redacted) : text).replace(shapes, redacted)
}

const variants = (value: string): string[] => {
  const forms = [value, value.trim(), JSON.stringify(value).slice(1, -1), encodeURIComponent(value)]
  // Base64 of a value at any offset shares its middle only; the whole alone is what `base64` of a key prints.
  const base64 = [value, `${value}\n`].map(text => Buffer.from(text).toString('base64').replace(/=+$/, ''))
  return [...forms, ...base64]
}

/**
 * Redacts a stream of pieces, holding back as much as a secret may be cut in two by a piece's end. `push` gives what is
 * safe to pass on, `end` the rest. `longest` is the length of the longest secret; a longer one may show in part. `byLine`: a
 * line is passed on as soon as it is whole, for somebody who reads along; a secret with a line end in it may show in part.
 */
export const redactStream = (redact: (text: string) => string, longest: number, byLine = false) => {
  let held = ''
  /** Would a cut here go through a secret? Only its surroundings can tell. */
  const isInside = (at: number): boolean => {
    const before = held.slice(Math.max(0, at - (byLine ? Math.max(longest, longestBlock) : longest)), at)
    // At the end anything might follow: a block that is still open swallows it.
    const after = held.slice(at, at + longest) || '.'
    return redact(before + after) !== redact(before) + redact(after)
  }
  return {
    push(piece: string): string {
      held += piece
      let at = held.length - longest
      if (at < longest) at = 0
      if (byLine) at = Math.max(at, held.lastIndexOf('\n') + 1)
      if (at === 0) return ''
      while (at > 0 && isInside(at)) at -= Math.ceil(longest / 4)
      // Nor through a surrogate pair.
      if (at > 0 && /[\uD800-\uDBFF]/.test(held[at - 1] ?? '')) at--
      if (at <= 0) return ''
      const passed = redact(held.slice(0, at))
      held = held.slice(at)
      return passed
    },
    end(): string {
      const passed = redact(held)
      held = ''
      return passed
    },
  }
}
