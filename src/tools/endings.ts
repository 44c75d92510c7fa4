/**
 * Line endings and byte order marks, kept as a file has them. Everything works on bytes held as Latin-1 text (one
 * character a byte), so that whatever else is in the file stays as it is, valid UTF-8 or not.
 */

/** A byte order mark, as Latin-1 text. */
export const bom = '\xEF\xBB\xBF'

/** A text as its UTF-8 bytes, one character each. */
export const asBytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

const counts = (bytes: string): { crlf: number; lf: number } => {
  const crlf = bytes.split('\r\n').length - 1
  return { crlf, lf: bytes.split('\n').length - 1 - crlf }
}

/** The ending most lines have. */
export const mainEnding = (bytes: string): '\r\n' | '\n' => {
  const { crlf, lf } = counts(bytes)
  return crlf > lf ? '\r\n' : '\n'
}

/**
 * The bytes to write for a whole new `content` of a file: BOM and line endings as before, unless the content has its own.
 * In a file of mixed endings the lines that stay at its beginning and end keep theirs. `kept` names what was kept.
 */
export const likeBefore = (content: string, before: Buffer | null): { bytes: Buffer; kept: string } => {
  let text = asBytes(content)
  const old = before?.toString('latin1') ?? ''
  const kept: string[] = []
  const { crlf, lf } = counts(old)
  if (crlf > 0 && !text.includes('\r\n')) {
    text = lf === 0 ? text.replaceAll('\n', '\r\n') : mixed(text, old)
    kept.push(lf === 0 ? 'CRLF' : 'line endings')
  }
  if (old.startsWith(bom) && !text.startsWith(bom)) {
    text = bom + text
    kept.push('BOM')
  }
  return { bytes: Buffer.from(text, 'latin1'), kept: kept.join(' and ') }
}

const mixed = (text: string, old: string): string => {
  const lines = (all: string) => all.split(/(?<=\n)/)
  const plain = (line: string) => line.replace(/\r\n$/, '\n')
  const before = lines(old.startsWith(bom) ? old.slice(bom.length) : old)
  const after = lines(text)
  let head = 0
  while (head < before.length && head < after.length && plain(before[head] ?? '') === after[head]) head++
  let tail = 0
  while (
    tail < before.length - head &&
    tail < after.length - head &&
    plain(before[before.length - 1 - tail] ?? '') === after[after.length - 1 - tail]
  )
    tail++
  const middle = after.slice(head, after.length - tail).map(line => line.replace(/\n$/, mainEnding(old)))
  return [...before.slice(0, head), ...middle, ...before.slice(before.length - tail)].join('')
}

/** A text in which each CRLF counts as LF, and for each of its characters (and its end) where it stands in the original. */
export const flatten = (bytes: string): { text: string; at: (index: number) => number } => {
  if (!bytes.includes('\r\n')) return { text: bytes, at: index => index }
  const text = bytes.replaceAll('\r\n', '\n')
  // Indices in `text` of the LFs that were CRLFs, in order: each before an index shifts it by one.
  const shifts: number[] = []
  for (let from = bytes.indexOf('\r\n'); from >= 0; from = bytes.indexOf('\r\n', from + 2))
    shifts.push(from - shifts.length)
  const before = (index: number): number => {
    let low = 0
    let high = shifts.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((shifts[middle] ?? 0) < index) low = middle + 1
      else high = middle
    }
    return low
  }
  return { text, at: index => index + before(index) }
}

/**
 * `replacement` (LF only) with the endings of the part it replaces: line by line where there were as many, then the
 * part's last one, else the file's main ending.
 */
export const endingsOf = (replacement: string, part: string, fallback: '\r\n' | '\n'): string => {
  const endings = part.match(/\r?\n/g) ?? []
  let n = 0
  return replacement.replaceAll('\n', () => endings[n++] ?? endings.at(-1) ?? fallback)
}
