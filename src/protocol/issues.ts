import type * as z from 'zod'
import { nearest } from '../lib/text.ts'

/** A key path as people write it: `[2].blockedBy[0]`. */
export const keyPath = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : text === '' ? String(key) : `${text}.${String(key)}`),
    '',
  )

/** What a schema found wrong, one line for each thing: key path, reason, and the nearest of `known` for an unknown key. */
export const issueLines = (
  issues: readonly z.core.$ZodIssue[],
  known: readonly string[],
  under: readonly PropertyKey[] = [],
): string[] =>
  issues.flatMap(issue => {
    const path = [...under, ...issue.path]
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map(key => {
        const near = nearest(key, known)
        return `${keyPath([...path, key])}: unknown key${near === undefined ? '' : ` (did you mean "${near}"?)`}`
      })
    const where = keyPath(path)
    return [`${where === '' ? '' : `${where}: `}${reason(issue)}`]
  })

const reason = (issue: z.core.$ZodIssue): string => {
  if (issue.code !== 'invalid_union') return plain(issue.message)
  const inner = issue.errors.flat()
  // Of the ways to read the value, one that took its type says more than one that did not.
  const near = inner.filter(each => each.code !== 'invalid_type')
  const reasons = new Set((near.length > 0 ? near : inner).map(each => plain(each.message)))
  return reasons.size === 0 ? plain(issue.message) : [...reasons].join(', or ')
}

const plain = (message: string): string =>
  message
    .replace(/^Invalid input: expected (.*), received undefined$/, 'is missing (expected $1)')
    .replace(/^Invalid input: /, '')
    .replace(/^expected array, received/, 'expected a list ([…]), received')
    .replace(/^Too (?:big|small): expected (?:number|int) to be <=(.*)$/, 'must be at most $1')
    .replace(/^Too (?:big|small): expected (?:number|int) to be >=(.*)$/, 'must be at least $1')
    .replace(/^Invalid input$/, 'not valid')
