import type { Cli } from './cli.ts'

/** Asks the person at the terminal for one line; null when they end the input instead. */
export const ask = (cli: Cli, question: string): Promise<string | null> =>
  new Promise(resolve => {
    process.stderr.write(cli.paint.bold(question))
    let said = ''
    const done = (answer: string | null) => {
      process.stdin.off('data', more).off('end', end).pause()
      resolve(answer)
    }
    const more = (chunk: Buffer | string) => {
      said += chunk.toString()
      const line = said.indexOf('\n')
      if (line >= 0) done(said.slice(0, line).replace(/\r$/, ''))
    }
    const end = () => done(null)
    process.stdin.on('data', more).on('end', end).resume()
  })
