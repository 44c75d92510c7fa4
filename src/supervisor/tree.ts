import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import type { Core } from './core.ts'
import { setUp } from './setup.ts'
import { type Check, check, folderView } from './verify.ts'

/** What the gate in front of the trunk works with. */
export interface Gate {
  readonly core: Core
  readonly shell: (view: View) => Shell
  readonly signal: AbortSignal
}

/** What is proven: the task's id, or the base's head, and the tree where it is one of git. Said with the events of the check. */
export type Proven = ({ readonly task: string } | { readonly base: string }) & { readonly tree?: string }

/**
 * The gate that everything passes on its way to the trunk: a clean checkout of the tree in a folder of its own, set up, and the
 * commands run there in the sandbox. Green at once where there are none.
 */
export const checkTree = async (
  gate: Gate,
  proven: Proven,
  tree: string,
  commands: readonly string[],
): Promise<Check> => {
  const { hub, root } = gate.core
  if (!hub || commands.length === 0) return { ok: true, couldNotRun: false, command: '', exitCode: 0, ms: 0, tail: '' }
  const name = 'task' in proven ? proven.task : 'base'
  const dir = join(root, '.team', 'verify', `${name}-${randomBytes(4).toString('hex')}`)
  const couldNot = (command: string, tail: string): Check => ({
    ok: false,
    couldNotRun: true,
    command,
    exitCode: null,
    ms: 0,
    tail,
  })
  try {
    const out = await hub.checkout(tree, dir)
    if (!out.ok) return couldNot('checkout', out.fault.message)
    const ready = await setUp(gate.core, dir, gate.shell, gate.signal, 'checks')
    if (!ready.ok) return couldNot('setup', ready.fault.message)
    return await checkIn(gate, { ...proven, tree }, await folderView('verify', dir, { readable: [hub.dir] }), commands)
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
): Promise<Check> => {
  const { limits } = core.config
  const { outputBytes, outputMaxBytes } = limits
  const shell = shellFor(view)
  core.store.note({ event: 'verify.started', by: 'supervisor', info: { ...proven, commands } })
  try {
    const result = await check(shell, commands, { seconds: limits.verifySeconds, outputBytes, outputMaxBytes }, signal)
    const { ok, command, exitCode, ms } = result
    const info = { ...proven, ok, command, exitCode, ms: Math.round(ms) }
    core.store.note({ event: 'verify.ended', by: 'supervisor', info })
    return result
  } finally {
    await shell.stop(2000)
  }
}
