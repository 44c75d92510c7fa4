import pc from 'picocolors'

/** Colours on a terminal only, and never where NO_COLOR says so. */
export type Paint = ReturnType<typeof pc.createColors>
export const paint = (colours: boolean): Paint => pc.createColors(colours)

/**
 * Text of models, files and repositories made harmless for a terminal: control characters, which could move its cursor or
 * change its title, become visible pictures of themselves, and what turns text around or takes no room (so that one command
 * looks like another) a mark. Newlines and tabs stay; a CR before a newline goes.
 */
export const harmless = (text: string): string =>
  text
    .replace(/\r\n/g, '\n')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
    .replace(/[\u0000-\u0008\u000B-\u001F]/g, c => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g, '\uFFFD')
    .replace(/[\u00AD\u180E\u200B\u2060-\u2064\uFEFF\u{E0000}-\u{E007F}]/gu, '\uFFFD')

/** The same in one line, at most `max` columns. */
export const oneLine = (text: string, max = 100): string => {
  const line = harmless(text).replace(/\s+/g, ' ').trim()
  if (width(line) <= max) return line
  let kept = ''
  let used = 1
  for (const c of line) {
    used += width(c)
    if (used > max) break
    kept += c
  }
  return `${kept}…`
}

/** JSON that is as harmless: the same value, with what a terminal might act on written as escapes. */
export const jsonText = (value: unknown, space?: number): string =>
  JSON.stringify(value, null, space).replace(
    /[\u007F-\u009F\u2028-\u202E\u2066-\u2069]/g,
    c => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Columns that `text` takes on a terminal: East Asian wide characters and emoji two, combining marks none. */
export const width = (text: string): number => {
  let columns = 0
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes take no room
  for (const c of text.replace(/\u001B\[[\d;]*m/g, '')) {
    if (/\p{M}|\u200B|\u200D|\uFE0F/u.test(c)) continue
    columns +=
      /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Extended_Pictographic}(?<=[\u{1F000}-\u{1FAFF}])/u.test(
        c,
      )
        ? 2
        : 1
  }
  return columns
}

/** Rows in columns, two spaces apart; the last column is not padded. */
export const table = (rows: readonly (readonly string[])[], indent = ''): string => {
  const widths: number[] = []
  for (const row of rows) for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, width(cell))
  return rows
    .map(row => {
      const cells = row.map((cell, i) =>
        i === row.length - 1 ? cell : cell + ' '.repeat((widths[i] ?? 0) - width(cell)),
      )
      return `${indent}${cells.join('  ')}`.trimEnd()
    })
    .join('\n')
}

/** The same with text of whatever length in the last column, cut so that each row is one line of a screen `columns` wide. */
export const fitted = (rows: readonly (readonly string[])[], indent: string, columns: number): string => {
  const last = Math.max(...rows.map(row => row.length)) - 1
  const widest = (i: number): number => Math.max(...rows.map(row => width(row[i] ?? '')))
  const before = Array.from({ length: last }, (_, i) => widest(i) + 2).reduce((sum, each) => sum + each, width(indent))
  const room = Math.max(12, columns - before)
  return table(
    rows.map(row => row.map((cell, i) => (i === last ? oneLine(cell, room) : cell))),
    indent,
  )
}

/** How long: `12 s`, `3 min`, `2 h 5 min`, `4 d`; `-` where it is not known. */
export const span = (ms: number): string => {
  if (Number.isNaN(ms)) return '-'
  const s = Math.max(0, Math.round(ms / 1000))
  if (s < 60) return `${s} s`
  const min = Math.floor(s / 60)
  if (min < 60) return `${min} min`
  const h = Math.floor(min / 60)
  return h < 48 ? `${h} h${min % 60 === 0 ? '' : ` ${min % 60} min`}` : `${Math.floor(h / 24)} d`
}

/** `950`, `12.3k`, `4.5M`. */
export const count = (n: number): string =>
  n < 1000 ? String(n) : n < 999_500 ? `${(n / 1000).toFixed(n < 99_500 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`

/** `1 task`, `2 tasks`. */
export const plural = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`

/** Local time of day, with the date when it is not today's. */
export const when = (stamp: string, now: number): string => {
  const at = new Date(stamp)
  if (Number.isNaN(at.getTime())) return oneLine(stamp, 40)
  const two = (n: number) => String(n).padStart(2, '0')
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
  const today = new Date(now)
  const same = at.toDateString() === today.toDateString()
  return same ? time : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`
}

/** Each line of `text` behind `indent`. */
export const indented = (text: string, indent: string): string =>
  harmless(text)
    .split('\n')
    .map(line => `${indent}${line}`.trimEnd())
    .join('\n')
