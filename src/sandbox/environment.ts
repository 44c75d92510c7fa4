import { homedir, tmpdir } from 'node:os'
import { insideHome, insidePath, nodeFolder } from './bwrap.ts'
import { markVariable } from './leftover.ts'

export interface EnvironmentOptions {
  readonly name: string
  readonly sandboxed: boolean
  /** On top of what stands here, from whoever made the shell; PATH and HOME count only outside the sandbox. */
  readonly extra: Readonly<Record<string, string>>
  readonly mark: string
  readonly secrets: readonly string[]
}

/**
 * The whole environment of a command: nothing of the daemon's own passes through, so no key does. git gets the
 * teammate's name and none of the person's settings. A variable whose value is a secret is left out.
 */
export const commandEnvironment = (options: EnvironmentOptions): Record<string, string> => {
  const { name, sandboxed, extra, mark, secrets } = options
  const folder = nodeFolder()
  const path = folder === null ? insidePath : `${folder}:${insidePath}`
  const env: Record<string, string> = {
    LANG: 'C.UTF-8',
    TERM: 'dumb',
    ...extra,
    PATH: sandboxed ? path : (extra.PATH ?? path),
    HOME: sandboxed ? insideHome : (extra.HOME ?? homedir()),
    TMPDIR: sandboxed ? '/tmp' : tmpdir(),
    TEAM_NAME: name,
    [markVariable]: mark,
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: `${name}@team.invalid`,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: `${name}@team.invalid`,
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
  }
  for (const [key, value] of Object.entries(env))
    if (secrets.some(secret => secret.length > 0 && value.includes(secret))) delete env[key]
  return env
}
