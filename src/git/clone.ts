import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import { brokenPart, setAside } from './damage.ts'
import { halfMade, placeInside, readInside, removeHalfMade } from './inside.ts'
import { type HubRepository, needRef, refs } from './repository.ts'
import { fetchArgs, line, zParts } from './run.ts'
import { hooksFolder } from './workspace.ts'

export interface CloneReport {
  /** It was made just now. */
  readonly made: boolean
  /** What was put right in one that stood there already, in words. */
  readonly mended: readonly string[]
  /** Where one of this team lies now that git could not work in any more; null where there was none. */
  readonly aside: string | null
  /** What a person should know: hooks that git would run but that are not there. */
  readonly warnings: readonly string[]
}

/** Stands in a clone's git folder and says whose it is; without it the folder is somebody else's. */
const marker = '.git/team-clone'
const alternates = '.git/objects/info/alternates'

/**
 * A teammate's clone at `dest`: a repository of its own, standing detached at the trunk, that borrows the hub's objects. Its one
 * remote is `hub`, with the trunk as `hub/trunk`; nothing can be pushed there. The workspace's hooks and excludes are copied in.
 * One that stands there already is adopted, work, index and branches untouched; one that is damaged, or that misses in a new
 * hub what it borrowed from another one, is set aside, whole, and made anew. Made aside and renamed, so never half-made.
 * A fault is this teammate's alone: `refused` when a folder is in the way that is no clone of this team.
 */
export const ensureClone = async (hub: HubRepository, name: string, dest: string): Promise<Result<CloneReport>> =>
  hub.inTurn(async () => {
    mkdirSync(dirname(dest), { recursive: true })
    removeHalfMade(dest)
    let way = clearWay(hub, dest)
    if (!way.ok) return way
    const mended: string[] = []
    if (way.value === 'clone' && hub.isNew) {
      const borrowed = borrow(hub, dest)
      const whole = borrowed.ok ? await isWhole(hub, dest) : borrowed
      if (!whole.ok) return whole
      if (!whole.value) way = ok('damaged')
    }
    const aside = way.value === 'damaged' ? setAside(dest) : null
    const makes = way.value !== 'clone'
    if (makes) {
      const made = await makeClone(hub, name, dest)
      if (!made.ok) return made
    } else {
      const objects = borrow(hub, dest)
      if (!objects.ok) return objects
      if (objects.value) mended.push("the borrowed objects' place")
    }
    const hooks = await copyHooks(hub, dest)
    if (!hooks.ok) return hooks
    if (hooks.value.changed > 0 && !makes) mended.push(`${hooks.value.changed} hook files`)
    const excludes = await copyExcludes(hub, dest, hooks.value.exclude)
    if (!excludes.ok) return excludes
    return ok({ made: makes, mended, aside, warnings: hooks.value.warnings })
  })

/** Lets a clone borrow from this hub; true when that was changed. */
const borrow = (hub: HubRepository, dest: string): Result<boolean> =>
  placeInside(dest, alternates, `${join(hub.dir, 'objects')}\n`, 0o644)

/** Has a clone, with what it borrows here, all that its HEAD leads to? Nothing of it stays in the hub. */
const isWhole = async (hub: HubRepository, clone: string): Promise<Result<boolean>> => {
  if (!checkClone(hub, clone).ok) return ok(false)
  const ref = refs.incoming('whole')
  const taken = await hub.git([...fetchArgs, clone, `+HEAD:${ref}`], { codes: [0, 1, 128] })
  if (!taken.ok || taken.value.code !== 0) return taken.ok ? ok(false) : taken
  const gone = await hub.git(['update-ref', '-d', ref])
  return gone.ok ? ok(true) : gone
}

/** What stands at `dest`: nothing (made so where that loses nothing), or a clone of this team, sound or not. */
const clearWay = (hub: HubRepository, dest: string): Result<'nothing' | 'clone' | 'damaged'> => {
  const stat = lstatSync(dest, { throwIfNoEntry: false })
  if (stat === undefined) return ok('nothing')
  if (stat.isSymbolicLink()) {
    // The link to the shared directory that dir mode leaves behind; removing a link removes no work.
    if (existsSync(dest) && [hub.workspace.dir, hub.workspace.top].includes(realpathSync(dest))) {
      unlinkSync(dest)
      return ok('nothing')
    }
    return fail('refused', `${dest} is a link to ${readlinkSync(dest)}`, 'move it away, then start again')
  }
  if (!stat.isDirectory()) return fail('refused', `${dest} is not a folder`, 'move it away, then start again')
  if (readdirSync(dest).length === 0) {
    rmdirSync(dest)
    return ok('nothing')
  }
  if (readInside(dest, marker) === null)
    return fail('refused', `${dest} is no clone that this team made`, 'move it away, then start again')
  return ok(brokenPart(dest) === null ? 'clone' : 'damaged')
}

const makeClone = async (hub: HubRepository, name: string, dest: string): Promise<Result<null>> => {
  const trunk = await needRef(hub.git, hub.trunkRef, `the trunk ${hub.trunkName}`)
  if (!trunk.ok) return trunk
  const fresh = halfMade(dest)
  mkdirSync(fresh)
  const run = (args: readonly string[]) => hub.anywhere(args, { cwd: fresh })
  const init = await run(['init', '-q', '--template=', `--object-format=${hub.workspace.objectFormat}`, '.'])
  const steps = async (): Promise<Result<unknown>> => {
    if (!init.ok) return init
    for (const folder of ['hooks', 'info', 'objects/info']) mkdirSync(join(fresh, '.git', folder), { recursive: true })
    writeFileSync(join(fresh, alternates), `${join(hub.dir, 'objects')}\n`)
    writeFileSync(join(fresh, marker), `${name}\n`)
    writeFileSync(join(fresh, '.git/config'), cloneConfig(hub, name), { flag: 'a' })
    const tracked = await run(['update-ref', 'refs/remotes/hub/trunk', trunk.value])
    return tracked.ok ? run(['checkout', '-q', '--detach', trunk.value]) : tracked
  }
  const done = await steps()
  if (!done.ok) {
    rmSync(fresh, { recursive: true, force: true })
    return done
  }
  renameSync(fresh, dest)
  return ok(null)
}

/** A value as git's configuration format takes it, whatever is in it. */
const quoted = (value: string): string =>
  `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n').replaceAll('\t', '\\t')}"`

const cloneConfig = (hub: HubRepository, name: string): string =>
  [
    '[user]',
    `\tname = ${name}`,
    `\temail = ${name}@team.invalid`,
    '[remote "hub"]',
    `\turl = ${quoted(hub.dir)}`,
    // Answers a push with words rather than with a lock error: git names the helper that it has not.
    '\tpushurl = the-supervisor-fetches-your-branch://no-push',
    `\tfetch = ${quoted(`+${hub.trunkRef}:refs/remotes/hub/trunk`)}`,
    '\ttagOpt = --no-tags',
    '[gc]',
    '\tauto = 0',
    '[maintenance]',
    '\tauto = false',
    '[core]',
    '\tquotePath = false',
    '[commit]',
    '\tgpgSign = false',
    '[advice]',
    '\tdetachedHead = false',
    '\taddEmbeddedRepo = false',
    '',
  ].join('\n')

const checkFolder = (dest: string): Result<null> => {
  const broken = brokenPart(dest)
  return broken === null
    ? ok(null)
    : fail(
        'refused',
        `${join(dest, broken.path)} ${broken.what}: this clone was changed from within`,
        'move the clone away; a new one is made',
      )
}

/** Whether the supervisor may fetch from this clone: the clone's own folders, borrowing from this hub and from nothing else. */
export const checkClone = (hub: HubRepository, dest: string): Result<null> => {
  if (!lstatSync(dest, { throwIfNoEntry: false })?.isDirectory())
    return fail('refused', `${dest} is not a folder`, 'restart the teammate; its clone is made again')
  const sound = checkFolder(dest)
  if (!sound.ok) return sound
  return readInside(dest, alternates) === `${join(hub.dir, 'objects')}\n`
    ? ok(null)
    : fail('refused', `${join(dest, alternates)} does not name the hub alone`, 'restart the teammate; it is mended')
}

interface Hooks {
  readonly changed: number
  readonly exclude: readonly string[]
  readonly warnings: readonly string[]
}

/** Every file below `dir`, relative, links followed to files only; a hooks folder is small, so past 500 the rest is left. */
const filesBelow = (dir: string, below = ''): string[] =>
  readdirSync(join(dir, below), { withFileTypes: true })
    .flatMap(entry => {
      const rel = join(below, entry.name)
      if (entry.isDirectory()) return filesBelow(dir, rel)
      return statSync(join(dir, rel), { throwIfNoEntry: false })?.isFile() && !rel.endsWith('.sample') ? [rel] : []
    })
    .slice(0, 500)

/**
 * The workspace's hooks, so that they run on the teammate's commits. A folder of `core.hooksPath` inside the work tree keeps its
 * place (hooks find each other by it), and only what the repository does not track is copied there.
 */
const copyHooks = async (hub: HubRepository, dest: string): Promise<Result<Hooks>> => {
  const folder = await hooksFolder(hub.anywhere, hub.workspace)
  if (!folder.ok) return folder
  const { dir, exists, inTree } = folder.value
  if (!exists) {
    const usual = dir === join(hub.workspace.commonDir, 'hooks')
    const warnings = usual ? [] : [`core.hooksPath names ${dir}, which does not exist: no hooks run on commits`]
    return ok({ changed: 0, exclude: [], warnings })
  }
  const to = inTree ?? '.git/hooks'
  const tracked = new Set<string>()
  if (inTree !== null) {
    const listed = await hub.git([
      'ls-tree',
      '-r',
      '-z',
      '--name-only',
      '--full-tree',
      hub.trunkRef,
      '--',
      `${inTree}/`,
    ])
    if (!listed.ok) return listed
    for (const path of zParts(listed.value.stdout)) tracked.add(path)
    // The same relative place, in the clone's own configuration (written once: the clone may overrule it later, and verify is the gate).
    const told = await tellHooksPath(dest, inTree)
    if (!told.ok) return told
  }
  let changed = 0
  const exclude: string[] = []
  for (const rel of filesBelow(dir)) {
    const path = `${to}/${rel.split(sep).join('/')}`
    if (tracked.has(path)) continue
    const source = join(dir, rel)
    const placed = placeInside(dest, path, readFileSync(source), (statSync(source).mode & 0o777) | 0o600)
    if (!placed.ok) return placed
    if (placed.value) changed++
    if (inTree !== null) exclude.push(path)
  }
  return ok({ changed, exclude, warnings: [] })
}

const tellHooksPath = async (dest: string, inTree: string): Promise<Result<null>> => {
  const config = readInside(dest, '.git/config')
  if (config === null)
    return fail('refused', `${join(dest, '.git/config')} is not a file`, 'move the clone away; a new one is made')
  if (/^\s*hooksPath\s*=/im.test(config)) return ok(null)
  const told = placeInside(dest, '.git/config', `${config}[core]\n\thooksPath = ${quoted(inTree)}\n`, 0o644)
  return told.ok ? ok(null) : told
}

/** A path as an exclude pattern that means it alone. */
export const excludePattern = (path: string): string => `/${path.replace(/[\\*?[\] ]/g, '\\$&')}`

const begin = '# what the workspace ignores besides its .gitignore'

/** What the person ignores outside `.gitignore`, and what was copied in, so that the clone's status shows the teammate's work alone. */
const copyExcludes = async (hub: HubRepository, dest: string, also: readonly string[]): Promise<Result<null>> => {
  const named = await hub.anywhere(['config', '--get', '--type=path', 'core.excludesFile'], {
    cwd: hub.workspace.top,
    as: 'user',
    codes: [0, 1],
  })
  if (!named.ok) return named
  const usual = join(hub.env.XDG_CONFIG_HOME || join(hub.env.HOME ?? '/', '.config'), 'git/ignore')
  const sources = [named.value.code === 0 ? line(named.value) : usual, join(hub.workspace.commonDir, 'info/exclude')]
  const theirs = sources.flatMap(path => {
    const stat = statSync(path, { throwIfNoEntry: false })
    return stat?.isFile() ? [readFileSync(path, 'utf8').trimEnd()] : []
  })
  return addExcludes(dest, [begin, ...theirs, ...also.map(excludePattern)])
}

/** Adds lines to a clone's own excludes, each once. */
export const addExcludes = (dest: string, lines: readonly string[]): Result<null> => {
  const now = readInside(dest, '.git/info/exclude') ?? ''
  const has = new Set(now.split('\n'))
  const missing = lines.flatMap(text => text.split('\n')).filter(text => text !== '' && !has.has(text))
  if (missing.length === 0) return ok(null)
  const start = now === '' || now.endsWith('\n') ? now : `${now}\n`
  const placed = placeInside(dest, '.git/info/exclude', `${start}${[...new Set(missing)].join('\n')}\n`, 0o644)
  return placed.ok ? ok(null) : placed
}
