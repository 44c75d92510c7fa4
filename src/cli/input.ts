import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { errnoOf } from '../lib/files.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { Cli } from './cli.ts'

/**
 * Text as it was given: on the command line, from stdin where it is `-`, or from a file; byte for byte, so nothing is
 * trimmed, and bytes that are no UTF-8 are refused, not replaced. Undefined where nothing was given.
 */
export const readText = async (
  cli: Cli,
  { text, file }: { text: string | undefined; file: string | undefined },
): Promise<Result<string | undefined>> => {
  if (file === undefined && text !== '-') return ok(text)
  const name = file === undefined || file === '-' ? 'stdin' : file
  let bytes: Buffer
  try {
    bytes = name === 'stdin' ? await stdin() : await readFile(resolve(cli.cwd, name))
  } catch (cause) {
    const why = errnoOf(cause)
    if (why === undefined) throw cause
    const words = { ENOENT: 'there is no such file', EISDIR: 'it is a folder', EACCES: 'you have no right to' }[why]
    return fail(
      'io',
      `cannot read ${name}: ${words ?? (cause as Error).message}`,
      'Give the path of a text file.',
      cause,
    )
  }
  try {
    return ok(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    return fail('usage', `${name} is not UTF-8 text`, 'Send the path of the file instead of its content.')
  }
}

const stdin = async (): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
