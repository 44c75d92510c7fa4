import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import { isWithin, realOrSame, realPath } from './path.ts'

/** One mount of a workspace view. Containment is judged against `real`, so the link behind a mount is inside. */
export interface Mount {
  /** Path in the view, without a leading slash: `repo`, `out`, `skills/csv-report`, `TASK.md`. */
  readonly at: string
  /** The real file or folder behind it, absolute, symlinks resolved. */
  readonly real: string
  readonly access: 'read' | 'append' | 'write'
  /** Real paths below `real` that are not part of it (run state, in dir mode with the workspace at the team root). */
  readonly hidden: readonly string[]
}

/** One teammate's workspace view: `home` is team/<name>, its mounts the only files that exist for it. */
export interface View {
  readonly name: string
  readonly home: string
  readonly mounts: readonly Mount[]
  /** Where commands run: the real path of `repo`. */
  readonly cwd: string
  /** Extra real paths that commands may read (the hub's objects, shared by the clone). */
  readonly readable: readonly string[]
  /** Real folders that stand at a place in the sandbox's home, writable and kept when a command ends; without a sandbox none. */
  readonly caches?: readonly { readonly real: string; readonly at: string }[]
  /**
   * The real path of `path` (relative to the view's top, or absolute inside a mount), after `..`, absolute paths and every
   * symlink were resolved, of the last existing ancestor too. Outside every mount, hidden, or of too little access: a fault
   * whose message says which mounts there are.
   */
  resolve(path: string, access: 'read' | 'append' | 'write'): Result<{ real: string; mount: Mount; shown: string }>
}

export interface ViewOptions {
  readonly name: string
  /** The team root. */
  readonly root: string
  /** The repository or folder the team works on; in `dir` mode it is what `repo` shows. */
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  /** What `data` in config.json names, absolute. */
  readonly dataPaths: readonly string[]
  /** The bare copy that clones borrow objects from; null where there is none. */
  readonly hub: string | null
}

/** What of a team root no command and no file tool ever sees, in dir mode with the workspace at or above the root. */
const rootHidden = ['.messages', '.tasks', '.team', '.transcripts', 'config.json', 'team']

/**
 * The view of one teammate. Looks at the disk once: skills are those linked now, and links are resolved now. Make it
 * again where these may have changed (`prepareHome` first). Never throws for what is missing.
 */
export const makeView = (options: ViewOptions): View => {
  const { name, mode } = options
  const root = realOrSame(options.root)
  const home = realOrSame(join(root, 'team', name))
  const repo = mode === 'dir' ? realOrSame(options.workspace) : join(home, 'repo')
  const read = (at: string, real = join(home, at)): Mount => ({ at, real, access: 'read', hidden: [] })
  const hidden = isWithin(repo, root) ? rootHidden.map(entry => join(root, entry)) : []
  const mounts: Mount[] = [
    read('AGENTS.md'),
    read('TASK.md'),
    { at: 'NOTES.md', real: join(home, 'NOTES.md'), access: 'append', hidden: [] },
    read('memory.md'),
    read('skills'),
    ...linkedSkills(home).map(skill => read(skill.at, skill.real)),
    read('data'),
    ...dataNames(options.dataPaths).map(entry => read(`data/${entry.at}`, realOrSame(entry.path))),
    { at: 'out', real: join(home, 'out'), access: 'write', hidden: [] },
    { at: 'repo', real: repo, access: 'write', hidden },
    ...(mode === 'dir' ? guardedGit(repo) : []),
  ]
  // The team's rules and skills are told to every teammate anyway; shown, git does not take them for deleted.
  const shared = hidden.length > 0 ? [join(root, 'team', 'AGENTS.md'), join(root, 'team', 'skills')] : []
  const readable = [...(options.hub === null ? [] : [realOrSame(options.hub)]), ...shared]
  return { name, home, mounts, cwd: repo, readable, resolve: resolver(home, mounts) }
}

/** A view that can be made again where it stands: who holds it sees what there is after `look`. */
export interface LiveView extends View {
  look(): void
}

/** The view of one teammate for as long as it lives, made as `makeView` makes it, and again at each `look`. */
export const liveView = (options: ViewOptions): LiveView => {
  let now = makeView(options)
  return {
    name: now.name,
    home: now.home,
    cwd: now.cwd,
    get mounts() {
      return now.mounts
    },
    get readable() {
      return now.readable
    },
    resolve: (path, access) => now.resolve(path, access),
    look() {
      now = makeView(options)
    },
  }
}

/** Is `path` the top of the view itself, which is no mount but the list of them? */
export const isTop = (view: View, path: string): boolean => {
  const real = realPath(view.home, path === '/' ? '.' : path)
  return real.ok && real.value === view.home && !view.mounts.some(mount => mount.real === view.home)
}

/** The names under `data/` of what config.json lists: the base name, numbered where two are alike. */
export const dataNames = (paths: readonly string[]): readonly { at: string; path: string }[] => {
  const taken = new Set<string>()
  return paths.map(path => {
    const base = basename(path) || 'root'
    let at = base
    for (let n = 2; taken.has(at); n++) at = `${base}-${n}`
    taken.add(at)
    return { at, path }
  })
}

/** Skills that are links (the team's); a teammate's own lie in the `skills` mount itself. A loop or a dead link is none. */
const linkedSkills = (home: string): { at: string; real: string }[] => {
  const folder = join(home, 'skills')
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true })
    .filter(entry => entry.isSymbolicLink())
    .flatMap(entry => {
      const real = realPath(folder, entry.name)
      return real.ok && statSync(real.value, { throwIfNoEntry: false })?.isDirectory()
        ? [{ at: `skills/${entry.name}`, real: real.value }]
        : []
    })
    .sort((a, b) => (a.at < b.at ? -1 : 1))
}

/**
 * In dir mode `repo` may be the person's own repository. What git runs from it (hooks, config) stays read-only, or a
 * teammate's file would be run as the person at their next commit. `.git` is a mount so that it cannot be moved away.
 */
const guardedGit = (repo: string): Mount[] => {
  const git = join(repo, '.git')
  const stat = statSync(git, { throwIfNoEntry: false })
  if (!stat) return []
  if (!stat.isDirectory()) return [{ at: 'repo/.git', real: git, access: 'read', hidden: [] }]
  const guarded = ['hooks', 'config', 'config.worktree'].filter(entry => existsSync(join(git, entry)))
  return [
    { at: 'repo/.git', real: git, access: 'write', hidden: [] },
    ...guarded.map(entry => ({
      at: `repo/.git/${entry}`,
      real: join(git, entry),
      access: 'read' as const,
      hidden: [],
    })),
  ]
}

const rank = { read: 0, append: 1, write: 2 } as const

const resolver =
  (home: string, mounts: readonly Mount[]): View['resolve'] =>
  (path, access) => {
    const found = realPath(home, path)
    if (!found.ok) return found
    const real = found.value
    const mount = deepest(mounts, real)
    if (!mount) return fail('refused', `${path} is outside the workspace view`, hint(mounts, path))
    const rest = relative(mount.real, real)
    const shown = rest === '' ? mount.at : `${mount.at}/${rest}`
    if (rank[mount.access] < rank[access]) {
      if (mount.at === 'memory.md')
        return fail('refused', 'memory.md is written by the tool memory alone', 'save there with memory, action save')
      const why = mount.access === 'append' ? 'can only be appended to (write_file adds at its end)' : `is read-only`
      return fail('refused', `${shown} ${why}`, `you may write in ${writable(mounts)}`)
    }
    return ok({ real, mount, shown })
  }

/** The mount that `real` belongs to: the one whose real root is nearest above it, unless it is hidden there. */
const deepest = (mounts: readonly Mount[], real: string): Mount | undefined => {
  let best: Mount | undefined
  for (const mount of mounts)
    if (isWithin(mount.real, real) && (!best || mount.real.length > best.real.length)) best = mount
  return best?.hidden.some(path => isWithin(path, real)) ? undefined : best
}

const writable = (mounts: readonly Mount[]): string =>
  mounts
    .filter(mount => mount.access === 'write' && !mount.at.includes('/'))
    .map(mount => `${mount.at}/`)
    .join(', ')

const hint = (mounts: readonly Mount[], path: string): string => {
  const all = mounts
    .filter(mount => !mount.at.includes('/'))
    .map(mount => `${mount.at} (${mount.access})`)
    .join(', ')
  // What a command calls src/x is repo/src/x here: the commonest slip, worth a word.
  const repo = mounts.find(mount => mount.at === 'repo')
  const inRepo = repo && !path.startsWith('/') ? realPath(repo.real, path) : undefined
  const slip =
    inRepo?.ok && repo && deepest(mounts, inRepo.value) && existsSync(inRepo.value)
      ? `did you mean ${join('repo', relative(repo.real, inRepo.value))}? `
      : ''
  return `${slip}paths start at the view's top, where there are: ${all}`
}
