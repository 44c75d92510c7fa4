import { existsSync } from 'node:fs'
import { recordedBase } from '../../git/repository.ts'
import { bindGit } from '../../git/run.ts'
import { inspectWorkspace, readBase } from '../../git/workspace.ts'
import { type LoadedConfig, layout } from '../../store/root.ts'
import type { Cli } from '../cli.ts'
import type { Check } from './machine.ts'

/** Whether the team can work on this repository, as `team up` would find, and whether its base is where it was. */
export const repositoryChecks = async (
  cli: Cli,
  root: string,
  { config, mode, workspace }: LoadedConfig,
): Promise<Check[]> => {
  if (mode !== 'git') return []
  const { hub } = layout(root)
  const git = bindGit({ env: cli.env })
  const known = existsSync(hub) ? await recordedBase(bindGit({ env: cli.env, gitDir: hub })) : undefined
  const found = await inspectWorkspace(git, workspace, config.base ?? known, known)
  const base = found.ok ? await readBase(git, found.value, hub) : found
  if (found.ok && base.ok)
    return [
      {
        what: 'repository',
        state: 'ok',
        detail: `${found.value.top}, base ${found.value.baseName} at ${base.value.slice(0, 12)}`,
        remedy: null,
      },
    ]
  const { message, hint } = base.ok ? { message: '', hint: undefined } : base.fault
  // Without a base a team that worked before goes on; one that cannot begin does not.
  return [{ what: 'repository', state: found.ok ? 'warn' : 'fail', detail: message, remedy: hint ?? null }]
}
