/**
 * Edit distance with transpositions of neighbours (optimal string alignment), for "did you mean".
 * Source: the dynamic programme of Damerau (1964) and Levenshtein (1966). O(n·m), for short names only.
 */
export const distance = (a: string, b: string): number => {
  const rows: number[][] = Array.from({ length: a.length + 1 }, (_, i) => [i])
  for (let j = 0; j <= b.length; j++) (rows[0] as number[])[j] = j
  for (let i = 1; i <= a.length; i++) {
    const row = rows[i] as number[]
    const above = rows[i - 1] as number[]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let best = Math.min((above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, ((rows[i - 2] as number[])[j - 2] ?? 0) + 1)
      row[j] = best
    }
  }
  return rows[a.length]?.[b.length] ?? 0
}

/**
 * The nearest of `names` to `word`, or undefined when none is near enough to be a slip of the hand. Of equally near ones the
 * one of like length: two letters swapped are a commoner slip than one too many.
 */
export const nearest = (word: string, names: Iterable<string>): string | undefined => {
  let best: string | undefined
  let least = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const name of names) {
    const unlike = Math.min(0.9, Math.abs(word.length - name.length) / 10)
    const d = distance(word.toLowerCase(), name.toLowerCase()) + unlike
    if (d < least) {
      least = d
      best = name
    }
  }
  return best
}

/** Well-formed UTF-16: a lone surrogate becomes U+FFFD, since providers refuse ill-formed text. */
export const wellFormed = (text: string): string =>
  text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD')

/** At most `max` UTF-16 units of `text`, never ending inside a surrogate pair. */
export const cut = (text: string, max: number): string => {
  if (text.length <= max) return text
  const last = text.charCodeAt(max - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max)
}

/** A slug of `title` for file names: letters and digits of any script, joined by `-`, at most 40 characters. */
export const slug = (title: string): string =>
  cut(
    title
      .normalize('NFKC')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}]+/gu, '-')
      .replace(/^-+|-+$/g, ''),
    40,
  ) || 'task'

/** The text as one line: each run of spaces, line breaks and control characters is one space, none at the ends. */
export const asOneLine = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, ' ').trim()

/** The text without the Markdown heading it begins with, where that says just `title`, which then stands above it already. */
export const withoutHeading = (text: string, title: string): string => {
  const start = text.search(/\S/)
  const end = text.indexOf('\n', start)
  const line = text.slice(Math.max(start, 0), end === -1 ? undefined : end).trim()
  // A title is short; so a line that is not is none.
  const heading = line.length > 1000 ? undefined : /^#{1,6}[ \t]+(.*?)[ \t]*#*$/.exec(line)?.[1]
  if (heading === undefined || asOneLine(heading) !== title) return text
  return end === -1 ? '' : text.slice(end).replace(/^(?:[ \t\r]*\n)+/, '')
}

/** The beginning of a text as one line of at most `max` UTF-16 units, cut between words where there are any. */
export const firstWords = (text: string, max = 80): string => {
  const line = asOneLine(text)
  if (line.length <= max) return line
  const kept = cut(line, max - 1)
  const space = line[kept.length] === ' ' ? kept.length : kept.lastIndexOf(' ')
  return `${space > max / 2 ? kept.slice(0, space) : kept}…`
}
