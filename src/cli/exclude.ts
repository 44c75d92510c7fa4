import { execFile } from 'node:child_process'
import { appendFile, mkdir, readFile } from 'node:fs/promises'
import { dirname, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { ok, type Result } from '../lib/result.ts'
import { repositoryAround } from '../store/config-file.ts'
import type { Env } from './cli.ts'

const run = promisify(execFile)

/** What a team writes while it runs; config.json, team/AGENTS.md and team/skills are a person's and may be committed. */
const patterns = [
  '/.team/',
  '/.transcripts/',
  '/.tasks/*',
  '!/.tasks/README*',
  '/.messages/*',
  '!/.messages/README*',
  '/team/*/',
  '!/team/skills/',
  '/team/memory.md',
]

/**
 * Keeps `git status` clean where the team root lies in a repository: run files are excluded locally, by .git/info/exclude,
 * which is never committed. Does nothing elsewhere, and nothing twice. Answers whether something was added.
 */
export const excludeRunFiles = async (root: string, env: Env): Promise<Result<boolean>> => {
  const top = repositoryAround(root)
  if (top === null) return ok(false)
  const asked = await run(
    'git',
    ['-c', 'safe.directory=*', 'rev-parse', '--git-path', 'info/exclude', '--show-toplevel'],
    {
      cwd: root,
      env: { PATH: env.PATH ?? '/usr/bin:/bin', HOME: env.HOME ?? '/', LC_ALL: 'C', GIT_OPTIONAL_LOCKS: '0' },
    },
  ).catch(() => null) // A bare repository has no work tree to keep clean, and without git nothing shows a status.
  if (asked === null) return ok(false)
  const [path = '', work = ''] = asked.stdout.split('\n')
  const file = resolve(root, path)
  const below = relative(work, root)
  const prefix = below === '' ? '' : `/${below.split('/').map(literal).join('/')}`
  const wanted = patterns.map(pattern =>
    pattern.startsWith('!') ? `!${prefix}${pattern.slice(1)}` : `${prefix}${pattern}`,
  )
  const old = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return ''
    throw cause
  })
  const lines = new Set(old.split(/\r?\n/))
  if (wanted.every(line => lines.has(line))) return ok(false)
  await mkdir(dirname(file), { recursive: true })
  await appendFile(
    file,
    `${old === '' || old.endsWith('\n') ? '' : '\n'}# run files of the team in ${below === '' ? 'this folder' : below}\n${wanted.join('\n')}\n`,
  )
  return ok(true)
}

/** A path as a pattern that means just itself. */
const literal = (part: string): string => part.replace(/[\\*?[\]!# ]/g, c => `\\${c}`)
