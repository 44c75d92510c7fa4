import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** What git children of tests see: nothing of the machine's own configuration. */
export const plainEnv = (home: string): Record<string, string> => ({
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  HOME: home,
  TMPDIR: tmpdir(),
  GIT_CONFIG_SYSTEM: '/dev/null',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.invalid',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.invalid',
})

/** A real repository in a temporary folder, worked on with the real git. */
export interface Repo {
  readonly dir: string
  /** Runs git there and returns what it printed, without the last newline. Throws when it fails. */
  git(...args: string[]): string
  write(files: Record<string, string | Buffer>): void
  /** Writes the files, adds everything and commits; the commit. */
  commit(message: string, files?: Record<string, string | Buffer>): string
}

export const repoAt = (dir: string): Repo => {
  const git = (...args: string[]) =>
    execFileSync('git', args, {
      cwd: dir,
      env: plainEnv(dir),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    }).replace(/\n$/, '')
  const write = (files: Record<string, string | Buffer>) => {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(dir, path)), { recursive: true })
      writeFileSync(join(dir, path), content)
    }
  }
  return {
    dir,
    git,
    write,
    commit(message, files = {}) {
      write(files)
      git('add', '-A')
      git('commit', '-q', '--allow-empty', '-m', message)
      return git('rev-parse', 'HEAD')
    },
  }
}

export const initRepo = (dir: string, files: Record<string, string | Buffer> = { 'a.txt': 'one\n' }): Repo => {
  mkdirSync(dir, { recursive: true })
  const repo = repoAt(dir)
  repo.git('init', '-q', '-b', 'main')
  if (Object.keys(files).length > 0) repo.commit('Start', files)
  return repo
}

export const tempFolder = (): { dir: string; remove(): void } => {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'team-test-')))
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}

/** Runs a script by `sh` in `cwd`, as the shell of a teammate does: both outputs together. */
export const sh = (script: string, cwd: string, name = 'alice'): string => {
  const env = {
    ...plainEnv(cwd),
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: `${name}@team.invalid`,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: `${name}@team.invalid`,
  }
  const done = spawnSync('sh', ['-c', `exec 2>&1\n${script}`], { cwd, env, encoding: 'utf8' })
  return done.stdout
}
