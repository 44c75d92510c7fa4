import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import { layout } from '../store/root.ts'
import type { Core } from './core.ts'
import { check, folderView } from './verify.ts'

/**
 * Makes a fresh checkout usable: copies the files that config.json's `copy` names from the workspace, then runs `setup` in it,
 * in the sandbox. `what` it is for says whose caches it shares. Answers the patterns that name nothing there. A failure says which of the two, with the end of the output.
 */
export const setUp = async (
  core: Core,
  dir: string,
  shellFor: (view: View) => Shell,
  signal: AbortSignal,
  what: 'clones' | 'checks' = 'clones',
): Promise<Result<{ missing: readonly string[] }>> => {
  const { copy, setup, limits } = core.config
  let missing: readonly string[] = []
  if (core.hub && copy.length > 0) {
    const copied = core.hub.copy(dir, copy)
    if (!copied.ok) return copied
    missing = copied.value.missing
  }
  if (setup === undefined) return ok({ missing })
  const shell = shellFor(
    await folderView('setup', dir, { readable: core.hub ? [core.hub.dir] : [], caches: cachesFor(core, what) }),
  )
  try {
    const result = await check(
      shell,
      [setup],
      { seconds: limits.setupSeconds, outputBytes: limits.outputBytes, outputMaxBytes: limits.outputMaxBytes },
      signal,
    )
    if (result.ok) return ok({ missing })
    return fail(
      'invalid',
      `setup \`${setup}\` ${result.couldNotRun ? 'could not run' : `exited ${result.exitCode}`}: ${result.tail.slice(-1000)}`,
    )
  } finally {
    await shell.stop(2000)
  }
}

/**
 * The folders that stay from one set-up to the next. Those of clones and of checks are apart: what a teammate has not had
 * approved may run in the set-up of its clone, and is to have no way into a check. All lie side by side, so that none can
 * be made a link by what runs in another.
 */
const cachesFor = ({ root, config }: Core, what: 'clones' | 'checks'): { real: string; at: string }[] =>
  config.caches.map(given => {
    const at = given.replace(/^~\//, '')
    const real = join(layout(root).caches, what, encodeURIComponent(at))
    mkdirSync(real, { recursive: true })
    return { real, at }
  })
