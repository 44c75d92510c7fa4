import { createHash } from 'node:crypto'
import { error, type ToolResult } from '../agent/tool.ts'
import type { Fault } from '../lib/result.ts'

/** A fault as a tool's error, the path and the remedy with it. */
export const refused = (fault: Fault, path?: string): ToolResult =>
  error(`${path === undefined ? '' : `${path}: `}${fault.message}${fault.hint ? `; ${fault.hint}` : ''}`)

/** The revision of a file's content. */
export const revision = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** Is this inside a `.git`? Those files are git's own: hooks and settings there would be run, so file tools leave them alone. */
export const isGits = (shown: string): boolean => shown.split('/').some(part => part.toLowerCase() === '.git')
export const gitsOwn = (shown: string): ToolResult => error(`${shown} is git's own: change it with git commands`)

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
/** Text of bytes; null when they are no UTF-8. */
export const textOf = (bytes: Buffer): string | null => {
  try {
    return utf8.decode(bytes)
  } catch {
    return null
  }
}

/** `1 line`, `2 lines`. */
export const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`
