import type { Readable } from 'node:stream'

/**
 * The lines of a stream as they come, cut at LF before they are decoded, without their line end; the last one counts without
 * its newline too. Ends with the stream or the signal. `prompt` is said on stderr before each.
 */
export async function* textLines(input: Readable, signal: AbortSignal, prompt: string): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0)
  const stop = () => input.destroy()
  signal.addEventListener('abort', stop, { once: true })
  const ask = () => {
    if (prompt !== '') process.stderr.write(prompt)
  }
  try {
    ask()
    for await (const chunk of input) {
      rest = Buffer.concat([rest, Buffer.from(chunk as Buffer)])
      for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
        const line = rest.subarray(0, end).toString('utf8').replace(/\r$/, '')
        rest = rest.subarray(end + 1)
        yield line
        ask()
      }
    }
    if (rest.length > 0) yield rest.toString('utf8')
  } catch (error) {
    // Whoever aborted destroyed the stream, and knows why.
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
