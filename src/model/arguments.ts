import { wellFormed } from '../lib/text.ts'

/** A call's arguments as a JSON string of an object, or why they could not be read as one. */
export type Arguments = { readonly arguments: string } | { readonly arguments: null; readonly fault: string }

/** Not given at all, as against given and null. */
export const absent = Symbol('absent')

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Lone surrogates hide in escapes (`\ud83d`) too, where only parsing finds them. */
const write = (value: Record<string, unknown>): Arguments => ({
  arguments: JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'string' ? wellFormed(inner) : inner)),
})

const bad = (fault: string): Arguments => ({ arguments: null, fault })

/**
 * What a model sent as arguments, made one thing: an object stays one, a string is parsed (a doubly encoded one twice),
 * nothing or an empty string is no arguments. Everything else is a fault, in words for the model. `cutOff` says that the
 * answer ended early, so that what is missing is not taken for "no arguments".
 */
export const readArguments = (raw: unknown, cutOff: boolean): Arguments => {
  if (isObject(raw)) return write(raw)
  if (raw === null) return bad('the arguments were null; send a JSON object')
  if (raw !== absent && typeof raw !== 'string') return bad(`the arguments were ${kind(raw)}; send a JSON object`)
  const text = raw === absent ? '' : raw.trim()
  if (text === '')
    return cutOff ? bad('the answer was cut off before the arguments; nothing was run') : { arguments: '{}' }
  let value: unknown = text
  for (let depth = 0; depth < 3 && typeof value === 'string'; depth++)
    try {
      value = value.trim() === '' ? {} : JSON.parse(value)
    } catch (thrown) {
      const why = thrown instanceof Error ? thrown.message : String(thrown)
      return bad(
        cutOff
          ? 'the arguments were cut off at the output limit, so nothing was run; send less in one call, in several smaller steps'
          : `the arguments are not valid JSON (${why}), so nothing was run; send a JSON object`,
      )
    }
  return isObject(value) ? write(value) : bad(`the arguments were ${kind(value)}; send a JSON object`)
}

const kind = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`
