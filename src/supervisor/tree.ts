import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import type { Core } from './core.ts'
import { setUp } from './setup.ts'
import { type Check, check, couldNotRun, folderView, nothingToRun } from './verify.ts'

/** What the gate in front of the trunk works with. */
export interface Gate {
  readonly core: Core
  readonly shell: (view: View) => Shell
  readonly signal: AbortSignal
}

/**
 * What is proven, said with the events of the check: a task, merged together with others or where its branch started; the
 * base's head; or the trunk as it is. And the tree, where it is one of git.
 */
export type Proven = (
  | { readonly task: string; readonly tasks?: readonly string[]; readonly base?: string }
  | { readonly base: string }
  | { readonly trunk: string }
) & { readonly tree?: string }

interface How {
  /** All commands are run, red ones or not. */
  readonly isThorough?: boolean
}

/**
 * The gate that everything passes on its way to the trunk: a clean checkout of the tree in a folder of its own, set up, and the
 * commands run there in the sandbox. Green at once where there are none.
 */
export const checkTree = async (
  gate: Gate,
  proven: Proven,
  tree: string,
  commands: readonly string[],
  how: How = {},
): Promise<Check> => {
  const { hub, root } = gate.core
  if (!hub || commands.length === 0) return nothingToRun
  const name = 'task' in proven ? proven.task : 'base' in proven ? 'base' : 'trunk'
  const dir = join(root, '.team', 'verify', `${name}-${randomBytes(4).toString('hex')}`)
  try {
    const out = await hub.checkout(tree, dir)
    if (!out.ok) return couldNotRun('checkout', out.fault.message)
    const ready = await setUp(gate.core, dir, gate.shell, gate.signal, 'checks')
    if (!ready.ok) return couldNotRun('setup', ready.fault.message)
    const view = await folderView('verify', dir, { readable: [hub.dir] })
    return await checkIn(gate, { ...proven, tree }, view, commands, how)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** Runs the commands in a view as it stands, told in the journal. */
export const checkIn = async (
  { core, shell: shellFor, signal }: Gate,
  proven: Proven,
  view: View,
  commands: readonly string[],
  how: How = {},
): Promise<Check> => {
  const { limits } = core.config
  const { outputBytes, outputMaxBytes } = limits
  const shell = shellFor(view)
  core.store.note({ event: 'verify.started', by: 'supervisor', info: { ...proven, commands } })
  try {
    const bounds = { seconds: limits.verifySeconds, outputBytes, outputMaxBytes, isProof: true, ...how }
    const result = await check(shell, commands, bounds, signal)
    const { ok, command, exitCode, ms, tests } = result
    const info = { ...proven, ok, command, exitCode, ms: Math.round(ms), tests }
    core.store.note({ event: 'verify.ended', by: 'supervisor', info })
    return result
  } finally {
    await shell.stop(2000)
  }
}
