import type { Cli } from './cli.ts'

/** Asks the person at the terminal for one line; null when they end the input instead, or when `signal` is aborted first. */
export const ask = (cli: Cli, question: string, signal?: AbortSignal): Promise<string | null> =>
  new Promise(resolve => {
    // An end that was seen already is not told of again.
    if (process.stdin.readableEnded || signal?.aborted) return resolve(null)
    process.stderr.write(cli.paint.bold(question))
    let said = ''
    const done = (answer: string | null) => {
      process.stdin.off('data', more).off('end', end).pause()
      signal?.removeEventListener('abort', end)
      resolve(answer)
    }
    const more = (chunk: Buffer | string) => {
      said += chunk.toString()
      const line = said.indexOf('\n')
      if (line >= 0) done(said.slice(0, line).replace(/\r$/, ''))
    }
    const end = () => done(null)
    signal?.addEventListener('abort', end)
    process.stdin.on('data', more).on('end', end).resume()
  })
