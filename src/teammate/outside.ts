import { lstatSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type Environment, type Git, git, zParts } from '../git/run.ts'
import { ownScript } from '../git/script.ts'
import { errnoOf } from '../lib/files.ts'
import type { Shell } from '../sandbox/shell.ts'

/**
 * Without a sandbox a command can write wherever the person may. What it must leave alone is looked at before and after it: in
 * git mode the person's repository (HEAD, refs, its configuration and hooks, what git says of the files; ignored ones are not looked at), in every mode the
 * words that the team works by (config.json, AGENTS.md files, skills). In the sandbox none of it can be written, so there nothing
 * is looked at.
 */
export interface OutsideOptions {
  readonly root: string
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  readonly env: Environment
  /** Told what changed while this command ran, in words. */
  readonly onChange: (changes: readonly string[], command: string) => void
}

/** What was seen: by its name in words, a stamp that is another one once it changed; what git says of a file stands in front. */
type Seen = ReadonlyMap<string, string>

const most = 10

/** The same shell; a command during which something outside of the view changed says so at the end of its output. */
export const watchOutside = (shell: Shell, o: OutsideOptions): Shell => {
  if (shell.mode === 'required' || (shell.mode === 'prefer' && shell.probe.kind === 'bwrap')) return shell
  return {
    ...shell,
    async run(options) {
      const before = await look(o)
      const result = await shell.run(options)
      if ('refused' in result) return result
      const changes = changed(before, await look(o))
      if (changes.length === 0) return result
      const isOwn = options.trusted === true && options.command.startsWith(`${ownScript}\n`)
      o.onChange(changes, isOwn ? ownScript.slice(2) : options.command)
      return { ...result, output: `${result.output}\n${toldOutside(changes)}` }
    },
  }
}

export const toldOutside = (changes: readonly string[]): string =>
  `[outside of your view something changed while this ran: ${changes.join('; ')}. Work in repo/ and out/ alone. If it was your command, put it back as it was and say so; a person was told]`

const changed = (before: Seen, after: Seen): string[] => {
  const found = [...after].filter(([what, stamp]) => before.get(what) !== stamp)
  const gone = [...before.keys()].filter(what => !after.has(what))
  const all = [
    ...found.map(([what, stamp]) => `${what} ${before.has(what) ? 'changed' : appeared(stamp)}`),
    ...gone.map(what => `${what} ${disappeared(before.get(what) ?? '')}`),
  ].sort()
  return all.length <= most ? all : [...all.slice(0, most), `and ${all.length - most} more`]
}

const ofGit = (stamp: string): string | null => /^file (..) /.exec(stamp)?.[1] ?? null

/** A file of which git had nothing to say before. */
const appeared = (stamp: string): string => {
  const word = ofGit(stamp)
  if (word === null || word === '??' || word.startsWith('A')) return 'is new'
  return word.includes('D') ? 'is gone' : 'changed'
}

/** A file of which git has nothing to say any more: of one that it tracks, what was not committed is what is gone. */
const disappeared = (stamp: string): string => {
  const word = ofGit(stamp)
  return word === null || word === '??' ? 'is gone' : 'has nothing uncommitted any more'
}

const look = async (o: OutsideOptions): Promise<Seen> => {
  const seen = new Map<string, string>()
  rules(o.root, seen)
  if (o.mode === 'git') await repository(o, seen)
  return seen
}

/** What `read` gives; null where there is nothing (any more), or nothing that may be looked at. */
const ifThere = <T>(read: () => T): T | null => {
  try {
    return read()
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'EACCES', 'ELOOP'].includes(errnoOf(error) ?? '')) return null
    throw error
  }
}

const stamp = (path: string): string | null => {
  const stat = ifThere(() => lstatSync(path, { bigint: true }))
  return stat === null ? null : `${stat.ino} ${stat.size} ${stat.mode} ${stat.mtimeNs}`
}

const entriesOf = (dir: string) => ifThere(() => readdirSync(dir, { withFileTypes: true })) ?? []

/** The words that the team works by. */
const rules = (root: string, seen: Map<string, string>): void => {
  const add = (path: string) => {
    const found = stamp(path)
    if (found !== null) seen.set(relative(root, path), found)
  }
  const below = (dir: string, depth: number): void => {
    for (const entry of entriesOf(dir))
      if (entry.isDirectory() && depth < 4) below(join(dir, entry.name), depth + 1)
      // The links to the team's skills are the supervisor's, made whenever somebody joins.
      else if (entry.isFile()) add(join(dir, entry.name))
  }
  const team = join(root, 'team')
  add(join(root, 'config.json'))
  add(join(team, 'AGENTS.md'))
  below(join(team, 'skills'), 0)
  for (const home of entriesOf(team).filter(entry => entry.isDirectory() && entry.name !== 'skills')) {
    add(join(team, home.name, 'AGENTS.md'))
    below(join(team, home.name, 'skills'), 0)
  }
}

/** The person's repository, by git's own word: what is changed there already counts by its files' stamps. */
const repository = async ({ root, workspace, env }: OutsideOptions, seen: Map<string, string>): Promise<void> => {
  const ask: Git = args => git(args, { cwd: workspace, as: 'user', env })
  const [places, head, refs, status] = await Promise.all([
    ask(['rev-parse', '--path-format=absolute', '--show-toplevel', '--git-common-dir']),
    ask(['rev-parse', '--symbolic-full-name', 'HEAD']),
    ask(['for-each-ref', '--format=%(refname)%00%(objectname)']),
    ask(['status', '--porcelain=v1', '-z', '--no-renames', '--untracked-files=normal', '--ignore-submodules=all']),
  ])
  // A repository that git cannot read just now is looked at the next time: it is the person's, who may be at work there.
  if (!places.ok || !head.ok || !refs.ok || !status.ok) return
  seen.set(`HEAD of ${workspace}`, head.value.stdout)
  for (const row of refs.value.stdout.split('\n')) {
    const [name = '', commit = ''] = row.split('\0')
    if (name !== '') seen.set(`${name} of ${workspace}`, commit)
  }
  const [top = '', common = ''] = places.value.stdout.split('\n')
  const add = (path: string) => {
    const found = stamp(path)
    if (found !== null) seen.set(path, found)
  }
  for (const path of [
    ...['config', 'info/attributes', 'info/exclude'].map(name => join(common, name)),
    ...entriesOf(join(common, 'hooks')).map(({ name }) => join(common, 'hooks', name)),
  ])
    add(path)
  // What becomes of the hub's branches is the supervisor's; how git works there is nobody's to change.
  for (const name of ['config', 'info/attributes', 'hooks']) add(join(root, '.team', 'hub.git', name))
  for (const entry of zParts(status.value.stdout).slice(0, 1000)) {
    const path = join(top, entry.slice(3))
    seen.set(path, `file ${entry.slice(0, 2)} ${stamp(path)}`)
  }
}
