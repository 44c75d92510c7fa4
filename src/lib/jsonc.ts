import { fail, ok, type Result } from './result.ts'

/** 1-based, in UTF-16 units, as editors count. */
export interface Position {
  readonly line: number
  readonly column: number
}

export interface Jsonc {
  readonly value: unknown
  /** Where the value at `path` begins, or the nearest of its ancestors that is there. */
  at(path: readonly PropertyKey[]): Position
  /** Where the key `path` (its last part) stands; as `at` where there is no such key. */
  keyAt(path: readonly PropertyKey[]): Position
}

/** Deeper nesting than this is no configuration; it is refused before it can overflow the stack. */
const maxDepth = 100

/**
 * Reads JSON as people write it: a byte order mark, comments (both kinds) and trailing commas are fine, everything else is
 * strict. A key given twice is refused, since one of the two would be ignored. The fault's message ends with line and column.
 */
export const parseJsonc = (text: string): Result<Jsonc> => {
  const reader = new Reader(text)
  try {
    const value = reader.document()
    const nearestOf = (places: ReadonlyMap<string, number>, path: readonly PropertyKey[]): Position => {
      for (let length = path.length; length > 0; length--) {
        const offset = places.get(key(path.slice(0, length)))
        if (offset !== undefined) return position(text, offset)
      }
      return position(text, reader.values.get(key([])) ?? 0)
    }
    return ok({
      value,
      at: path => nearestOf(reader.values, path),
      keyAt: path => (reader.keys.has(key(path)) ? nearestOf(reader.keys, path) : nearestOf(reader.values, path)),
    })
  } catch (thrown) {
    if (!(thrown instanceof Unreadable)) throw thrown
    const { line, column } = position(text, thrown.offset)
    return fail('invalid', `${thrown.message} at line ${line}, column ${column}`)
  }
}

class Unreadable extends Error {
  readonly offset: number
  constructor(message: string, offset: number) {
    super(message)
    this.offset = offset
  }
}

const key = (path: readonly PropertyKey[]): string => JSON.stringify(path)

const position = (text: string, offset: number): Position => {
  const before = text.slice(text.startsWith('\uFEFF') ? 1 : 0, offset)
  const lines = before.split(/\r\n|\n|\r/)
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 }
}

class Reader {
  readonly values = new Map<string, number>()
  readonly keys = new Map<string, number>()
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
    if (text.startsWith('\uFEFF')) this.#at = 1
  }

  document(): unknown {
    const value = this.#value([])
    this.#space()
    if (this.#at < this.#text.length) throw this.#error('something follows the end of the value')
    return value
  }

  #error(message: string, offset = this.#at): Unreadable {
    return new Unreadable(message, offset)
  }

  /** Skips white space and comments. */
  #space(): void {
    for (;;) {
      while (/\s/.test(this.#text[this.#at] ?? 'x')) this.#at++
      if (this.#text.startsWith('//', this.#at)) {
        while (this.#at < this.#text.length && !/[\r\n]/.test(this.#text[this.#at] ?? '')) this.#at++
      } else if (this.#text.startsWith('/*', this.#at)) {
        const end = this.#text.indexOf('*/', this.#at + 2)
        if (end < 0) throw this.#error('a comment is not closed')
        this.#at = end + 2
      } else return
    }
  }

  #value(path: readonly PropertyKey[]): unknown {
    this.#space()
    if (path.length > maxDepth) throw this.#error('nested too deeply')
    this.values.set(key(path), this.#at)
    const c = this.#text[this.#at]
    if (c === undefined) throw this.#error('the text ends where a value is expected')
    if (c === '{') return this.#object(path)
    if (c === '[') return this.#array(path)
    if (c === '"') return this.#string()
    const word = /^[-+.\w]+/.exec(this.#text.slice(this.#at, this.#at + 400))?.[0]
    if (word === undefined) throw this.#error(`unexpected ${JSON.stringify(c)}`)
    if (!/^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)$/.test(word))
      throw this.#error(`${word} is no JSON value (text stands in double quotes)`)
    this.#at += word.length
    return JSON.parse(word) as unknown
  }

  #object(path: readonly PropertyKey[]): Record<string, unknown> {
    const object: Record<string, unknown> = {}
    this.#at++
    for (;;) {
      this.#space()
      const c = this.#text[this.#at]
      if (c === '}') {
        this.#at++
        return object
      }
      if (c !== '"')
        throw this.#error(c === undefined ? 'an object is not closed' : 'expected a key in double quotes or }')
      const start = this.#at
      const name = this.#string()
      if (Object.hasOwn(object, name)) throw this.#error(`the key ${JSON.stringify(name)} is given twice`, start)
      this.keys.set(key([...path, name]), start)
      this.#space()
      if (this.#text[this.#at] !== ':') throw this.#error(`expected : after the key ${JSON.stringify(name)}`)
      this.#at++
      // Defined, not assigned: `__proto__` is a key like any other.
      Object.defineProperty(object, name, {
        value: this.#value([...path, name]),
        enumerable: true,
        writable: true,
        configurable: true,
      })
      this.#separator('}', 'object')
    }
  }

  #array(path: readonly PropertyKey[]): unknown[] {
    const array: unknown[] = []
    this.#at++
    for (;;) {
      this.#space()
      if (this.#text[this.#at] === ']') {
        this.#at++
        return array
      }
      array.push(this.#value([...path, array.length]))
      this.#separator(']', 'array')
    }
  }

  /** A comma, or the closing bracket ahead. */
  #separator(close: string, what: string): void {
    this.#space()
    const c = this.#text[this.#at]
    if (c === ',') this.#at++
    else if (c === undefined) throw this.#error(`the ${what} is not closed`)
    else if (c !== close) throw this.#error(`expected , or ${close}`)
  }

  #string(): string {
    const start = this.#at
    for (let i = start + 1; ; i++) {
      const c = this.#text[i]
      if (c === undefined || c === '\n') throw this.#error('a text is not closed', start)
      if (c === '\\') i++
      else if (c === '"') {
        this.#at = i + 1
        try {
          return JSON.parse(this.#text.slice(start, i + 1)) as string
        } catch (cause) {
          throw this.#error(`a text is malformed (${cause instanceof Error ? cause.message : 'unreadable'})`, start)
        }
      }
    }
  }
}
