import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import type { Restored, SavedShown as Saved } from '../protocol/work.ts'
import { brokenPart } from './damage.ts'
import { halfMade, readInside } from './inside.ts'
import { type HubRepository, moveRef, readRef, refs } from './repository.ts'
import { type Git, takeFromHub } from './run.ts'

const rescueTop = `${refs.rescue}/`
const oldTop = 'refs/team/old/'
const stamped = /^(.*)-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-[0-9a-f]+$/

/** Branch and time, from the name that the switch gave it. */
const named = (name: string): { branch: string | null; at: string | null } => {
  const parts = stamped.exec(name)
  if (!parts) return { branch: null, at: null }
  const [, branch = '', ...t] = parts
  return { branch: branch === 'detached' ? null : branch, at: `${t[0]}-${t[1]}-${t[2]}T${t[3]}:${t[4]}:${t[5]}.000Z` }
}

const uncommitted = /^(Uncommitted work|Staged) on /

/**
 * All that was saved aside, newest first: what the hub holds, and what lies in these clones (by their teammates' names) alone.
 * Of a clone files are read, and git is not run there.
 */
export const listSaved = async (git: Git, clones: ReadonlyMap<string, string>): Promise<Result<Saved[]>> => {
  const listed = await git([
    'for-each-ref',
    '--format=%(refname)%00%(objectname)%00%(committerdate:iso-strict)%00%(subject)%00',
    rescueTop,
    oldTop,
  ])
  if (!listed.ok) return listed
  const rows = listed.value.stdout.split('\0\n').filter(row => row !== '')
  const inHub = rows.map((row): Saved => {
    const [ref = '', commit = '', at = '', subject = ''] = row.split('\0')
    const base = { id: commit.slice(0, 10), ref, commit, isInCloneAlone: false }
    if (ref.startsWith(oldTop)) {
      const branch = dirname(ref.slice(oldTop.length))
      return { ...base, kind: 'replaced', teammate: null, branch, at: asIso(at) }
    }
    const [teammate = '', ...rest] = ref.slice(rescueTop.length).split('/')
    const own = named(rest.join('/'))
    return {
      ...base,
      kind: uncommitted.test(subject) ? 'uncommitted' : 'commits',
      teammate,
      branch: own.branch,
      at: own.at ?? asIso(at),
    }
  })
  const known = new Set(inHub.map(({ ref }) => ref))
  const alone = [...clones].flatMap(([teammate, dir]) =>
    savedInClone(dir).flatMap(({ name, commit }): Saved[] => {
      const ref = `${rescueTop}${teammate}/${name}`
      if (known.has(ref)) return []
      return [
        { id: commit.slice(0, 10), ref, commit, kind: 'uncommitted', teammate, ...named(name), isInCloneAlone: true },
      ]
    }),
  )
  return ok([...inHub, ...alone].sort((a, b) => (b.at ?? '').localeCompare(a.at ?? '') || a.ref.localeCompare(b.ref)))
}

const asIso = (at: string): string | null => {
  const ms = Date.parse(at)
  return Number.isNaN(ms) ? null : new Date(ms).toISOString()
}

/** By teammate, the clones that lie in this folder of homes: those of who is not on the team any more too. */
export const clonesIn = (team: string): Map<string, string> => {
  const names = existsSync(team) ? readdirSync(team) : []
  const all = names.map(name => [name, join(team, name, 'repo')] as const)
  return new Map(all.filter(([, dir]) => existsSync(join(dir, '.git', 'team-clone'))))
}

/** The refs below `refs/team/rescue` of a clone that git works in, without running it; no link is followed. */
const savedInClone = (dir: string): { name: string; commit: string }[] => {
  if (!existsSync(join(dir, '.git')) || brokenPart(dir) !== null) return []
  const found = new Map<string, string>()
  for (const line of (readInside(dir, '.git/packed-refs') ?? '').split('\n')) {
    const [, commit, name] = /^([0-9a-f]{40,64}) refs\/team\/rescue\/(.+)$/.exec(line) ?? []
    if (commit !== undefined && name !== undefined) found.set(name, commit)
  }
  const look = (below: string): void => {
    const at = `.git/${refs.rescue}${below}`
    if (!lstatSync(join(dir, at), { throwIfNoEntry: false })?.isDirectory()) return
    for (const entry of readdirSync(join(dir, at), { withFileTypes: true })) {
      if (entry.isDirectory()) look(`${below}/${entry.name}`)
      const text = entry.isFile() ? readInside(dir, `${at}/${entry.name}`)?.trim() : undefined
      if (text !== undefined && /^[0-9a-f]{40,64}$/.test(text)) found.set(`${below}/${entry.name}`.slice(1), text)
    }
  }
  look('')
  return [...found].map(([name, commit]) => ({ name, commit }))
}

/** The one that is meant by the beginning of its commit, by its ref or by the end of that. Faults: `unknown`, `usage` (several are). */
export const findSaved = (all: readonly Saved[], asked: string): Result<Saved> => {
  const isHex = /^[0-9a-f]{4,64}$/.test(asked)
  const found = all.filter(
    ({ ref, commit }) => ref === asked || ref.endsWith(`/${asked}`) || (isHex && commit.startsWith(asked)),
  )
  const [one] = found
  if (!one) return fail('unknown', `nothing was saved aside as ${asked}`, 'team rescue list shows what was')
  return found.every(({ commit }) => commit === one.commit)
    ? ok(one)
    : fail('usage', `${asked} may be any of ${found.map(({ id }) => id).join(', ')}`, 'give more of it')
}

/**
 * Makes a branch of the person's repository that stands at a commit of the hub. One that is there already is never moved: a fault
 * `refused`, but where it stands at this very commit. Nothing is checked out, and no hook runs.
 */
export const restoreAsBranch = (hub: HubRepository, ref: string, commit: string, branch: string) =>
  hub.inTurn(async (): Promise<Result<Restored>> => {
    const { top } = hub.workspace
    const git: Git = (args, more) =>
      hub.anywhere(['-c', 'core.hooksPath=/dev/null', ...args], { cwd: top, as: 'user', ...more })
    const valid = await git(['check-ref-format', '--branch', branch], { codes: [0, 1, 128] })
    if (!valid.ok) return valid
    if (valid.value.code !== 0 || valid.value.stdout.trim() !== branch)
      return fail('usage', `"${branch}" cannot be a branch's name`)
    const name = refs.branch(branch)
    const done: Restored = { commit, branch, folder: null }
    const there = await readRef(git, name)
    if (!there.ok) return there
    if (there.value === commit) return ok(done)
    if (there.value !== null)
      return fail(
        'refused',
        `${top} has a branch ${branch} already, at ${there.value.slice(0, 10)}: it is left as it is`,
        'give another name by --branch',
      )
    const taken = await git([...takeFromHub, hub.dir, ref])
    if (!taken.ok) return taken
    const made = await moveRef(git, name, commit, '0'.repeat(commit.length), 'team rescue restore')
    return made.ok ? ok(done) : fail('refused', made.fault.message, 'give another name by --branch', made.fault)
  })

const ifWritable = (folder: string): Result<null> => {
  try {
    accessSync(folder, constants.W_OK)
    return ok(null)
  } catch (cause) {
    return fail('refused', `${folder} cannot be written to`, 'name a folder elsewhere', cause)
  }
}

/** Writes the files of a commit of the hub to a folder that is not there yet, or is empty: whole, or not at all. */
export const restoreAsFolder = async (
  hub: HubRepository,
  commit: string,
  folder: string,
): Promise<Result<Restored>> => {
  const parent = dirname(folder)
  if (!existsSync(parent) || !statSync(parent).isDirectory()) return fail('usage', `there is no folder ${parent}`)
  const writable = ifWritable(parent)
  if (!writable.ok) return writable
  const stat = lstatSync(folder, { throwIfNoEntry: false })
  if (stat && !(stat.isDirectory() && readdirSync(folder).length === 0))
    return fail('refused', `${folder} is there already: it is left as it is`, 'name a new folder, or an empty one')
  // What a crash left beside it stays there: in a person's folder nothing is removed by its name.
  const fresh = halfMade(folder)
  mkdirSync(fresh)
  const index = `${fresh}.index`
  const vars = { GIT_INDEX_FILE: index }
  const written = await hub.git(['read-tree', commit], { vars })
  const out = written.ok
    ? await hub.git(['checkout-index', '-a', '-q'], { vars, cwd: fresh, workTree: fresh })
    : written
  rmSync(index, { force: true })
  if (!out.ok) {
    rmSync(fresh, { recursive: true, force: true })
    return out
  }
  if (stat) rmdirSync(folder)
  renameSync(fresh, folder)
  return ok({ commit, branch: null, folder })
}
