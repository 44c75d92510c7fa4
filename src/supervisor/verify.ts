import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { fail } from '../lib/result.ts'
import { cut } from '../lib/text.ts'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'

export interface Check {
  readonly ok: boolean
  /** It could not be run at all: that is no green, and not the owner's fault. */
  readonly couldNotRun: boolean
  readonly command: string
  readonly exitCode: number | null
  readonly ms: number
  /** The end of its output. */
  readonly tail: string
}

/** Runs the commands in order in the shell's folder and stops at the first that is not green. Trusted: they are the person's words. */
export const check = async (
  shell: Shell,
  commands: readonly string[],
  limits: { seconds: number; outputBytes: number; outputMaxBytes: number },
  signal: AbortSignal,
): Promise<Check> => {
  let last: Check = { ok: true, couldNotRun: false, command: '', exitCode: 0, ms: 0, tail: '' }
  for (const command of commands) {
    const result = await shell.run({
      command,
      timeoutMs: limits.seconds * 1000,
      signal,
      trusted: true,
      outputBytes: limits.outputBytes,
      outputMaxBytes: limits.outputMaxBytes,
    })
    if ('refused' in result)
      return { ok: false, couldNotRun: true, command, exitCode: null, ms: 0, tail: result.reason }
    const why =
      result.endedBy === 'itself' ? '' : `\n(ended by ${result.endedBy} after ${Math.round(result.ms / 1000)} s)`
    const tail =
      result.output.length > 4000 ? `…${result.output.slice(-cut(result.output, 4000).length)}` : result.output
    last = {
      ok: result.exitCode === 0 && result.endedBy === 'itself',
      couldNotRun: result.endedBy === 'abort',
      command,
      exitCode: result.exitCode,
      ms: result.ms,
      tail: tail.trimEnd() + why,
    }
    if (!last.ok) return last
  }
  return last
}

/** A view of one folder that a check may write to, and of nothing else. */
export const folderView = async (
  name: string,
  dir: string,
  more: { hidden?: readonly string[]; readable?: readonly string[]; caches?: View['caches'] } = {},
): Promise<View> => {
  await mkdir(dir, { recursive: true })
  const real = await realpath(dir)
  const mount = { at: 'repo', real, access: 'write' as const, hidden: more.hidden ?? [] }
  return {
    name,
    home: real,
    mounts: [mount],
    cwd: real,
    readable: more.readable ?? [],
    caches: more.caches ?? [],
    resolve: path => fail('refused', `${join(real, path)}: a check has no file tools`),
  }
}
