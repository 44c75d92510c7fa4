import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { probeSandbox } from '../../sandbox/probe.ts'
import type { Probe } from '../../sandbox/shell.ts'
import type { Env } from '../cli.ts'

const run = promisify(execFile)

export interface Check {
  readonly what: string
  /** `fail` must be mended; `warn` works, with less. */
  readonly state: 'ok' | 'warn' | 'fail'
  readonly detail: string
  readonly remedy: string | null
  /** Of a leftover: what `--fix` does with it. */
  readonly fix?: string
  /** Under `--fix`: was that done? */
  readonly fixed?: boolean
}

const good = (what: string, detail: string): Check => ({ what, state: 'ok', detail, remedy: null })

/** What a team needs of a machine, whichever team it is. */
export const machineChecks = async (env: Env): Promise<{ checks: Check[]; probe: Probe }> => {
  const probe = await probeSandbox()
  return {
    probe,
    checks: [
      node(),
      await git(env),
      probe.kind === 'none'
        ? { what: 'sandbox', state: 'warn', detail: probe.detail, remedy: probe.remedy }
        : good('sandbox', `${probe.detail} works: commands are kept inside`),
      ...watches(),
      ...openFiles(),
    ],
  }
}

const node = (): Check => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major > 20 || (major === 20 && minor >= 19)
    ? good('node', process.versions.node)
    : { what: 'node', state: 'fail', detail: process.versions.node, remedy: 'Install Node 20.19 or newer.' }
}

/** 2.38 brought `merge-tree --write-tree`, by which the trunk moves without a work tree. */
const git = async (env: Env): Promise<Check> => {
  const remedy = 'Install git 2.38 or newer.'
  try {
    const { stdout } = await run('git', ['--version'], {
      cwd: '/',
      env: { PATH: env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C' },
    })
    const [major = 0, minor = 0] = (/(\d+)\.(\d+)/.exec(stdout)?.slice(1) ?? []).map(Number)
    return major > 2 || (major === 2 && minor >= 38)
      ? good('git', stdout.trim())
      : { what: 'git', state: 'fail', detail: stdout.trim(), remedy }
  } catch (cause) {
    return { what: 'git', state: 'fail', detail: cause instanceof Error ? cause.message : String(cause), remedy }
  }
}

const watches = (): Check[] => {
  const read = (name: string): number | null => {
    try {
      return Number(readFileSync(`/proc/sys/fs/inotify/${name}`, 'utf8'))
    } catch {
      return null // No inotify: another system, with limits of its own.
    }
  }
  const files = read('max_user_watches')
  const instances = read('max_user_instances')
  if (files === null || instances === null) return []
  const detail = `${files} watches, ${instances} instances`
  if (files >= 8192 && instances >= 64) return [good('file watches', detail)]
  return [
    {
      what: 'file watches',
      state: 'warn',
      detail: `only ${detail}: changes may be seen by the slow sweep alone`,
      remedy: 'sysctl fs.inotify.max_user_watches=65536 fs.inotify.max_user_instances=256',
    },
  ]
}

const openFiles = (): Check[] => {
  let text: string
  try {
    text = readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return [] // No /proc: another system.
  }
  const soft = /^Max open files\s+(\S+)/m.exec(text)?.[1]
  if (soft === undefined) return []
  if (soft === 'unlimited' || Number(soft) >= 1024) return [good('open files', soft)]
  return [
    {
      what: 'open files',
      state: 'warn',
      detail: `only ${soft} at once`,
      remedy: 'Raise it before team up: ulimit -n 4096',
    },
  ]
}
