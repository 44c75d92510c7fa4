/** How a tool's plain text is read: the first line is the outcome, the rest is content. */

export const isError = (result: string): boolean => /^error\b/i.test(result)

/** A session that was cut in the middle of a call answers it so after the restart. */
export const isInterrupted = (result: string | null): boolean =>
  result === null || /^(?:error:\s*)?interrupted\b/i.test(result)

/** The same for a call that had not started: as if it had not been made. */
export const isUnstarted = (result: string | null): boolean => /^error: not run\b/i.test(result ?? '')

export interface Ran {
  /** null: it was ended, or no exit code could be read. */
  readonly exit: number | null
  readonly outcome: string
  readonly output: string
}

/** What a command did; null when nothing ran (refused, or the tool itself failed). */
export const readRun = (result: string): Ran | null => {
  const end = result.indexOf('\n')
  const outcome = (end < 0 ? result : result.slice(0, end)).trim()
  const exit = /\bexit(?:ed)?(?: (?:code|status|with))*[ :=]*(\d{1,3})\b/i.exec(outcome)
  if (isError(result) && !exit) return null
  return { exit: exit ? Number(exit[1]) : null, outcome, output: end < 0 ? '' : result.slice(end + 1) }
}

/** Expected lines that no line of the output is equal to; `…` in an expected line stands for any text. */
export const missingLines = (expect: readonly string[], output: string): string[] => {
  const lines = output.split('\n').map(line => line.trim())
  return expect.filter(wanted => {
    const parts = wanted.split('…')
    return !lines.some(line => matches(parts, line))
  })
}

const matches = (parts: readonly string[], line: string): boolean => {
  const [first = '', ...rest] = parts
  const last = rest.pop()
  if (last === undefined) return line === first
  if (!line.startsWith(first)) return false
  let at = first.length
  for (const part of rest) {
    const found = line.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return line.length - last.length >= at && line.endsWith(last)
}

/** The last lines of a text, at most 20 and 2,000 characters. */
export const tail = (text: string): string => {
  const lines = text.trimEnd().split('\n').slice(-20).join('\n')
  return lines.length > 2000 ? `…${lines.slice(-2000).replace(/^[\uDC00-\uDFFF]/, '')}` : lines
}
