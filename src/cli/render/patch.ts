import type { Paint } from './text.ts'

/** A patch with colours, where there are any. */
export const coloured = (patch: string, c: Paint): string =>
  c.isColorSupported
    ? patch
        .split('\n')
        .map(line => {
          if (/^(?:diff |index |--- |\+\+\+ )/.test(line)) return c.bold(line)
          if (line.startsWith('+')) return c.green(line)
          if (line.startsWith('-')) return c.red(line)
          return line.startsWith('@@') ? c.cyan(line) : line
        })
        .join('\n')
    : patch
