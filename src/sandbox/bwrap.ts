import { existsSync, lstatSync, readlinkSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isWithin, realOrSame } from './path.ts'
import type { View } from './view.ts'

/** Where programs are looked for inside. */
export const insidePath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
/** A home of its own, empty at the start of each command. */
export const insideHome = '/home/agent'

export interface BwrapOptions {
  readonly view: View
  /** As the probe found it, such as `0.8.0`. */
  readonly version: string
  /** The host's network, whole; else none at all. */
  readonly network: boolean
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** Of the system's folders and settings what programs need to run; no settings of a person, no keys. */
const settings = [
  'passwd group ssl ca-certificates pki alternatives ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf',
  'localtime timezone os-release debian_version mime.types protocols services login.defs magic terminfo',
]
  .join(' ')
  .split(' ')
const networkSettings = ['resolv.conf', 'hosts', 'gai.conf', 'host.conf']

/**
 * Arguments for bubblewrap up to and with `--`: an allowlist, never the whole root. System folders and the toolchain are
 * read-only, the view's mounts stand at their real paths (so that links and the clone's alternates hold), everything else
 * does not exist. No capability, no user namespace below, own process, network, IPC and host name space; all processes
 * end with bubblewrap, and it with the thread that started it. Looks at the disk for what exists; starts nothing.
 */
export const bwrapArgs = ({ view, version, network, cwd, env }: BwrapOptions): string[] => {
  const recent = atLeast(version, 0, 8)
  const tmpfs = (at: string) => [...(recent ? ['--size', '1073741824'] : []), '--tmpfs', at]
  return [
    ...systemMounts(),
    ...['--dir', '/etc'],
    ...[...settings, ...(network ? networkSettings : [])].flatMap(name => readTry(`/etc/${name}`)),
    ...['--dev', '/dev', '--proc', '/proc'],
    ...tmpfs('/tmp'),
    ...tmpfs(insideHome),
    ...cacheMounts(view),
    ...toolchain(view).flatMap(readTry),
    ...viewMounts(view),
    ...['--remount-ro', '/', '--chdir', cwd],
    ...['--unshare-all', '--unshare-user', '--uid', '1000', '--gid', '1000', '--cap-drop', 'ALL'],
    ...(network ? ['--share-net'] : []),
    ...(recent ? ['--disable-userns'] : []),
    ...['--die-with-parent', '--new-session', '--clearenv'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    '--',
  ]
}

/** The arguments that make a probe's sandbox: the same as above over one read-only folder. */
export const probeView = (folder: string): View => ({
  name: 'probe',
  home: folder,
  mounts: [],
  cwd: folder,
  readable: [folder],
  resolve: () => {
    throw new Error('a probe resolves no paths')
  },
})

const readTry = (path: string): string[] => ['--ro-bind-try', path, path]

const systemMounts = (): string[] =>
  ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store'].flatMap(path => {
    const stat = lstatSync(path, { throwIfNoEntry: false })
    if (!stat) return []
    return stat.isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
  })

/** node as it runs here, where it is not the system's: its whole prefix, unless that would show a person's files. */
const toolchain = (view: View): string[] => {
  const node = realOrSame(process.execPath)
  const prefix = dirname(dirname(node))
  if (isWithin('/usr', node)) return []
  const isPrefix =
    prefix !== '/' &&
    !isWithin(prefix, view.home) &&
    (existsSync(join(prefix, 'lib/node_modules')) || existsSync(join(prefix, 'package.json')))
  return isPrefix ? [prefix] : [node]
}

/** The folder of this very node inside and outside, to stand first in PATH; null where the system's is it. */
export const nodeFolder = (): string | null => {
  const node = realOrSame(process.execPath)
  return isWithin('/usr', node) ? null : dirname(node)
}

/** Outermost first: one may lie in another. */
const cacheMounts = ({ caches = [] }: View): string[] =>
  [...caches].sort((a, b) => (a.at < b.at ? -1 : 1)).flatMap(({ real, at }) => ['--bind', real, join(insideHome, at)])

const viewMounts = (view: View): string[] => {
  const parentsFirst = [...view.mounts].sort((a, b) => (a.real < b.real ? -1 : a.real > b.real ? 1 : 0))
  const bound: string[] = []
  const args: string[] = []
  const bind = (kind: '--bind' | '--ro-bind', real: string) => {
    if (!existsSync(real)) return
    args.push(kind, real, real)
    bound.push(real)
  }
  // The home shows its mounts and takes nothing besides.
  const isHomeOwn = view.mounts.length > 0 && !view.mounts.some(mount => isWithin(mount.real, view.home))
  if (isHomeOwn) args.push('--tmpfs', view.home)
  // Outermost first, so that what lies deeper is laid over it: binds, then what they hide, then what stands out of that.
  const hides = view.mounts.flatMap(mount => mount.hidden)
  const isHidden = (real: string) => hides.some(path => isWithin(path, real))
  for (const mount of parentsFirst)
    if (!isHidden(mount.real)) bind(mount.access === 'read' ? '--ro-bind' : '--bind', mount.real)
  const masked = hides.filter(path => existsSync(path))
  for (const path of masked)
    args.push(
      ...mask(
        path,
        parentsFirst.some(mount => isWithin(path, mount.real)),
      ),
    )
  for (const path of view.readable) bind('--ro-bind', path)
  for (const mount of parentsFirst)
    if (isHidden(mount.real)) bind(mount.access === 'read' ? '--ro-bind' : '--bind', mount.real)
  // The view's own names for what stands elsewhere (repo in dir mode), unless a bound folder holds the link itself.
  for (const mount of view.mounts) {
    const at = join(view.home, mount.at)
    const holder = [...bound, ...masked]
      .filter(path => isWithin(path, dirname(at)))
      .sort((a, b) => b.length - a.length)[0]
    const isThere =
      at === mount.real || mount.at.startsWith('repo/') || (holder !== undefined && bound.includes(holder))
    // A link to a folder around itself would lead what follows links round and round.
    if (!isThere && !isWithin(mount.real, at) && existsSync(mount.real)) args.push('--symlink', mount.real, at)
  }
  // Made read-only last: links and mount points had to be made in them.
  if (isHomeOwn) args.push('--remount-ro', view.home)
  for (const path of masked) if (statSync(path).isDirectory()) args.push('--remount-ro', path)
  return args
}

/**
 * Hides a path without making it look deleted to git, which would then commit that: a file that may not be opened, a
 * folder that can be listed, and is empty, but not entered. What walks the tree (`node --test`, `find`) passes,
 * and what git knows in it cannot be looked up. A folder that holds mounts of the view must be passable.
 */
const mask = (path: string, isPassable: boolean): string[] =>
  statSync(path).isDirectory()
    ? ['--perms', isPassable ? '0755' : '0444', '--tmpfs', path]
    : ['--ro-bind', '/dev/null', path]

/** Is a version like `0.8.0` at least `major.minor`? */
const atLeast = (version: string, major: number, minor: number): boolean => {
  const [a = 0, b = 0] = version.split('.').map(Number)
  return a > major || (a === major && b >= minor)
}
