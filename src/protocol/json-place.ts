/** Where a text stops being JSON, for the messages that people read: the engine's own name no place for every error. */
export interface JsonFault {
  /** In UTF-16 units from the start. */
  readonly offset: number
  readonly reason: string
}

const space = /[ \t\r\n]*/y
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const word = /true|false|null/y
const deepest = 500

/** The first place where `text` is not one JSON value; null when it is one. */
export const jsonFault = (text: string): JsonFault | null => {
  let at = 0
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at
    if (!pattern.test(text)) return false
    at = pattern.lastIndex
    return true
  }
  const fault = (wanted: string): JsonFault => ({
    offset: at,
    reason: at >= text.length ? `the text ends where ${wanted} belongs` : `${shown(text, at)} where ${wanted} belongs`,
  })
  const stringFault = (wanted: string): JsonFault | null => {
    if (text[at] !== '"') return fault(wanted)
    // A loop, since a pattern with alternatives overflows on a string of some megabytes.
    for (let i = at + 1; i < text.length; i++) {
      const char = text[i] as string
      if (char === '"') {
        at = i + 1
        return null
      }
      if (char < ' ') return { offset: i, reason: 'a string is not closed on its line (write a line break as \\n)' }
      if (char !== '\\') continue
      if (!/^(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.test(text.slice(i + 1, i + 6)))
        return { offset: i, reason: `a string has the unknown escape ${JSON.stringify(text.slice(i, i + 2))}` }
      i++
    }
    return { offset: text.length, reason: 'the text ends within a string' }
  }
  const value = (depth: number): JsonFault | null => {
    if (depth > deepest) return { offset: at, reason: `nested deeper than ${deepest} levels` }
    const opener = text[at]
    if (opener !== '{' && opener !== '[') {
      if (opener === '"') return stringFault('a value')
      return skip(word) || skip(number) ? null : fault('a value')
    }
    const closer = opener === '{' ? '}' : ']'
    at++
    skip(space)
    if (text[at] === closer) {
      at++
      return null
    }
    for (;;) {
      if (opener === '{') {
        const bad = stringFault('a key in double quotes')
        if (bad) return bad
        skip(space)
        if (text[at] !== ':') return fault('a colon')
        at++
        skip(space)
      }
      const bad = value(depth + 1)
      if (bad) return bad
      skip(space)
      if (text[at] === closer) {
        at++
        return null
      }
      if (text[at] !== ',') return fault(`a comma or ${closer}`)
      at++
      skip(space)
    }
  }
  skip(space)
  const bad = value(0)
  if (bad) return bad
  skip(space)
  return at < text.length ? fault('the end of the text') : null
}

const shown = (text: string, at: number): string => JSON.stringify(String.fromCodePoint(text.codePointAt(at) ?? 0xfffd))

/** Line and column (from 1) of an offset. */
export const place = (text: string, offset: number): string => {
  const before = text.slice(0, offset)
  const start = before.lastIndexOf('\n') + 1
  return `line ${before.split('\n').length}, column ${offset - start + 1}`
}
