import { execFileSync } from 'node:child_process'
import { existsSync, realpathSync, statSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { errnoOf, readPlain } from '../lib/files.ts'
import { parseJsonc } from '../lib/jsonc.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'

export interface Search {
  /** `--root`, when given. */
  readonly root?: string | undefined
  readonly cwd: string
  /** Of which TEAM_ROOT, PATH and HOME are looked at. */
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * The team root that a command means, with symlinks resolved: `--root`, else TEAM_ROOT, else the nearest ancestor with a
 * config.json that has teammates, else `git config team.root` of the repository it stands in. Fault `config` where there is
 * none. Free of zod, since `team status` asks this before anything else is loaded.
 */
export const findRoot = ({ root, cwd, env }: Search): Result<string> => {
  const named = root !== undefined ? { path: root, by: '--root' } : { path: env.TEAM_ROOT ?? '', by: 'TEAM_ROOT' }
  if (named.path !== '') return given(resolve(cwd, named.path), named.by)
  if (root !== undefined) return fail('usage', '--root is empty', 'Give the directory that holds config.json.')
  let broken: string | undefined
  for (let at = resolve(cwd); ; at = dirname(at)) {
    const kind = looks(at)
    if (kind === 'root') return ok(realpathSync(at))
    if (kind === 'broken') broken ??= at
    if (dirname(at) === at) break
  }
  if (broken !== undefined) return ok(realpathSync(broken))
  const configured = fromGit(resolve(cwd), env)
  if (configured !== null) return given(configured, 'git config team.root')
  return fail(
    'config',
    `no team root here: neither ${resolve(cwd)} nor a folder above it has a config.json with teammates`,
    'Run `team init` to make one, or name it by --root or TEAM_ROOT.',
  )
}

const given = (path: string, by: string): Result<string> => {
  if (!existsSync(path) || !statSync(path).isDirectory())
    return fail('config', `${by} names ${path}, which is no directory`, 'Give the directory that holds config.json.')
  if (!existsSync(join(path, 'config.json')) && !wasRun(path))
    return fail('config', `${by} names ${path}, which has no config.json`, `Run \`team init ${path}\` to make one.`)
  return ok(realpathSync(path))
}

/** A team ran here, and may still: it is asked, and stopped, also where its config.json is gone. */
const wasRun = (dir: string): boolean => existsSync(join(dir, '.team', 'journal'))

/**
 * `root`: a config.json with a `teammates` array. `broken`: one that was surely meant as such (a slip in the key, or a
 * text that does not parse), so that its fault is told instead of "no team root".
 */
const looks = (dir: string): 'root' | 'broken' | 'no' => {
  let text: string
  try {
    text = readPlain(join(dir, 'config.json')).toString('utf8')
  } catch (error) {
    // One that cannot be read, or is gone, is told of where the folder is surely a team's; else it is somebody else's.
    return (errnoOf(error) === 'ENOENT' ? wasRun(dir) : existsSync(join(dir, '.team'))) ? 'broken' : 'no'
  }
  const parsed = parseJsonc(text)
  if (!parsed.ok) return text.includes('"teammates"') || existsSync(join(dir, '.team')) ? 'broken' : 'no'
  const { value } = parsed.value
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'no'
  if (Array.isArray((value as Record<string, unknown>).teammates)) return 'root'
  const slip = Object.keys(value).some(key => nearest(key, ['teammates']) !== undefined)
  return slip || existsSync(join(dir, '.team')) ? 'broken' : 'no'
}

/** `team.root` of the repository around `cwd`; a relative one counts from the repository's top. */
const fromGit = (cwd: string, env: Search['env']): string | null => {
  let at = cwd
  while (!existsSync(join(at, '.git'))) {
    if (dirname(at) === at) return null
    at = dirname(at)
  }
  try {
    const value = execFileSync('git', ['-c', 'safe.directory=*', 'config', '--local', '--get', 'team.root'], {
      cwd: at,
      env: { PATH: env.PATH ?? '/usr/bin:/bin', HOME: env.HOME ?? '/', LC_ALL: 'C', GIT_OPTIONAL_LOCKS: '0' },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 5000,
    }).replace(/\n$/, '')
    return value === '' ? null : isAbsolute(value) ? value : resolve(at, value)
  } catch {
    return null // git answers 1 where the key is not set, and is missing on some machines: no root by this way.
  }
}
