import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { type Clock, clock } from '../lib/clock.ts'
import { makeRedactor } from '../lib/redact.ts'
import type { Permissions } from '../protocol/config.ts'
import { bwrapArgs } from './bwrap.ts'
import { commandEnvironment } from './environment.ts'
import { endLeftovers, type Leftover } from './leftover.ts'
import { Running } from './running.ts'
import type { CommandResult, Probe, Refused, RunOptions, SandboxMode, Shell } from './shell.ts'
import type { View } from './view.ts'

export interface ShellOptions {
  readonly view: View
  readonly probe: Probe
  readonly mode: SandboxMode
  readonly permissions: Permissions
  /** Added to the scrubbed environment. Outside the sandbox, PATH and HOME are taken from here too. */
  readonly env?: Readonly<Record<string, string>>
  /** Values that no output, file or environment shows. */
  readonly secrets?: readonly string[]
  /** Marks the environment of every process started, so that those it left are known later; see `endLeftovers`. */
  readonly marker: string
  readonly clock?: Clock
  readonly onStart?: (started: { readonly mark: string; readonly pid: number; readonly command: string }) => void
  readonly onEnd?: (ended: { readonly mark: string; readonly left: readonly Leftover[] }) => void
}

/**
 * The shell of one view. In the sandbox deny and ask rules refuse and everything else runs; without one only what allow
 * rules match runs, and what the person wrote (`trusted`). Mode `required` without a sandbox runs nothing at all.
 */
export const makeShell = (options: ShellOptions): Shell => {
  const { view, probe, mode, permissions } = options
  const secrets = options.secrets ?? []
  const sandboxed = mode !== 'off' && probe.kind === 'bwrap'
  const version = /\d+\.\d+(\.\d+)?/.exec(probe.detail)?.[0] ?? '0'
  const shellMark = `${options.marker}.${randomBytes(4).toString('hex')}-`
  const redact = makeRedactor(secrets)
  // Longest of the values and of the known shapes; a private key block is caught by its first line.
  const longest = Math.max(512, ...secrets.map(secret => secret.length * 2))
  const live = new Set<Running>()
  let count = 0
  let rules: readonly Permissions[] = [permissions]

  const start = (run: RunOptions): Running => {
    const mark = `${shellMark}${++count}`
    const scrubbed = commandEnvironment({ name: view.name, sandboxed, extra: options.env ?? {}, mark, secrets })
    const env = { ...scrubbed, ...run.env }
    const cwd = run.cwd ?? view.cwd
    // The word alone, as an allow rule: commands in the sandbox see the host's network.
    const network = rules.every(({ allow }) => allow.includes('network'))
    const running = new Running({
      prefix: sandboxed ? ['bwrap', ...bwrapArgs({ view, version, network, cwd, env })] : [],
      cwd: sandboxed ? '/' : cwd,
      env,
      mark,
      run,
      redact,
      longest,
      clock: options.clock ?? clock,
    })
    live.add(running)
    if (running.pid !== undefined) options.onStart?.({ mark, pid: running.pid, command: redact(run.command) })
    return running
  }

  return {
    probe,
    mode,
    permissions,
    async run(run): Promise<CommandResult | Refused> {
      const refused = await refusal(run, { probe, mode, rules, sandboxed })
      if (refused) return refused
      for (const earlier of live) if (earlier.isOver()) live.delete(earlier)
      const cwd = run.cwd ?? view.cwd
      if (!existsSync(cwd)) return { refused: 'no folder', reason: `the working folder ${cwd} does not exist` }
      if (run.signal?.aborted) return neverStarted
      let running: Running
      try {
        running = start(run)
      } catch (error) {
        // Longer than the system takes, or with a NUL byte: said before any process is made.
        const code = (error as NodeJS.ErrnoException).code
        if (code !== 'E2BIG' && code !== 'ERR_INVALID_ARG_VALUE') throw error
        return {
          refused: 'not a command',
          reason: code === 'E2BIG' ? 'the command is longer than the system takes' : 'a command holds no NUL byte',
        }
      }
      run.onStart?.(running)
      const result = await running.result
      if (running.isOver()) live.delete(running)
      options.onEnd?.({ mark: running.mark, left: result.left })
      const why = running.neverRan(result)
      return why === null ? result : { refused: 'no sandbox', reason: `the sandbox could not be made: ${why}` }
    },
    tighten(later) {
      rules = [later, permissions]
    },
    async stop(graceMs) {
      await Promise.all([...live].map(running => running.end(graceMs)))
      live.clear()
      // What left its group, or a namespace that did not end: known by its mark.
      await endLeftovers(shellMark, Math.min(graceMs, 500), options.clock ?? clock)
    },
  }
}

const neverStarted: CommandResult = {
  exitCode: null,
  signal: null,
  output: '',
  bytes: 0,
  truncated: false,
  file: null,
  endedBy: 'abort',
  left: [],
  ms: 0,
}

interface Rules {
  readonly probe: Probe
  readonly mode: SandboxMode
  readonly rules: readonly Permissions[]
  readonly sandboxed: boolean
}

const refusal = async (run: RunOptions, { probe, mode, rules, sandboxed }: Rules): Promise<Refused | null> => {
  if (mode === 'required' && !sandboxed)
    return {
      refused: 'no sandbox',
      reason:
        `no sandbox (${probe.detail}), and config.json requires one: commands do not run. ${probe.remedy ? `A person can mend that: ${probe.remedy}.` : ''}`.trim(),
    }
  if (run.trusted) return null
  // Reading shell takes a large parser: loaded with the first command that has to be judged.
  const { obstacle } = await import('./rules.ts')
  const found = rules.map(each => obstacle(run.command, each, sandboxed)).find(each => each !== null)
  return found ? { refused: found.asks ? 'not allowed' : 'denied', reason: found.reason } : null
}
