import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { fail } from '../lib/result.ts'
import { cut } from '../lib/text.ts'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import { provesNothing, testsRun } from './tests-run.ts'

/** One command that was run to prove something. */
export interface Ran {
  readonly command: string
  readonly ok: boolean
  /** null when it was ended by a signal, or could not be run. */
  readonly exitCode: number | null
  readonly ms: number
  /** How many tests it executed, by its runner's word; null where no runner says so. */
  readonly tests: number | null
  /** The end of its output. */
  readonly tail: string
}

/** What became of the commands: the last one that ran, which decides, and all that ran. */
export interface Check extends Ran {
  /** It could not be run at all: that is no green, and not the owner's fault. */
  readonly couldNotRun: boolean
  readonly runs: readonly Ran[]
}

/** There was nothing to run, so nothing is wrong. */
export const nothingToRun: Check = {
  ok: true,
  couldNotRun: false,
  command: '',
  exitCode: 0,
  ms: 0,
  tests: null,
  tail: '',
  runs: [],
}

/** `command` (a word for what it is) could not be run, and why. */
export const couldNotRun = (command: string, why: string, before: readonly Ran[] = []): Check => {
  const ran: Ran = { command, ok: false, exitCode: null, ms: 0, tests: null, tail: why }
  return { ...ran, couldNotRun: true, runs: [...before, ran] }
}

/** How a command ended, in words that follow it. */
export const howEnded = ({ ok, exitCode }: Pick<Ran, 'ok' | 'exitCode'>): string =>
  exitCode === null ? 'was ended by a signal' : exitCode === 0 && !ok ? 'proves nothing' : `exited ${exitCode}`

/**
 * Runs the commands in order in the shell's folder and stops at the first that is not green. Trusted: they are the person's
 * words. `isProof`: one whose runner executed no test is not green. `isThorough`: none stops it but one that could not run.
 */
export const check = async (
  shell: Shell,
  commands: readonly string[],
  limits: { seconds: number; outputBytes: number; outputMaxBytes: number; isProof?: boolean; isThorough?: boolean },
  signal: AbortSignal,
): Promise<Check> => {
  const runs: Ran[] = []
  let last = nothingToRun
  for (const command of commands) {
    const result = await shell.run({
      command,
      timeoutMs: limits.seconds * 1000,
      signal,
      trusted: true,
      outputBytes: limits.outputBytes,
      outputMaxBytes: limits.outputMaxBytes,
    })
    if ('refused' in result) return couldNotRun(command, result.reason, runs)
    const tests = limits.isProof ? testsRun(result.output) : null
    const isGreen = result.exitCode === 0 && result.endedBy === 'itself'
    const nothing = isGreen ? provesNothing(command, tests) : null
    const why =
      result.endedBy === 'itself' ? '' : `\n(ended by ${result.endedBy} after ${Math.round(result.ms / 1000)} s)`
    const tail =
      result.output.length > 4000 ? `…${result.output.slice(-cut(result.output, 4000).length)}` : result.output
    const ran: Ran = {
      command,
      ok: isGreen && nothing === null,
      exitCode: result.exitCode,
      ms: result.ms,
      tests,
      tail: `${nothing === null ? '' : `${nothing}\n`}${tail.trimEnd()}${why}`,
    }
    runs.push(ran)
    last = { ...ran, couldNotRun: result.endedBy === 'abort', runs }
    if (last.couldNotRun || (!ran.ok && !limits.isThorough)) return last
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
