import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { asFault, fail, ok, type Result } from '../lib/result.ts'
import { realOrSame } from './path.ts'
import { dataNames } from './view.ts'

export interface HomeOptions {
  readonly name: string
  /** The team root. */
  readonly root: string
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  readonly dataPaths: readonly string[]
}

/**
 * Makes team/<name> ready: its folders, NOTES.md, the links to the team's skills, to `data` and (dir mode) to the
 * workspace. Can be called again at any time; takes away nothing but links that it could have made itself. In git mode
 * `repo/` is left to whoever makes the clone. Warnings are lines for a person; a fault means that this teammate cannot work.
 */
export const prepareHome = (options: HomeOptions): Result<{ warnings: string[] }> => {
  const home = join(options.root, 'team', options.name)
  const warnings: string[] = []
  try {
    for (const folder of ['out', 'skills', 'data']) mkdirSync(join(home, folder), { recursive: true })
    if (!existsSync(join(home, 'NOTES.md'))) writeFileSync(join(home, 'NOTES.md'), '# Notes\n', { flag: 'wx' })
    linkSkills(options, home, warnings)
    linkData(options, home, warnings)
    const repo = linkRepo(options, home)
    return repo.ok ? ok({ warnings }) : repo
  } catch (thrown) {
    const fault = asFault(thrown)
    return fail(fault.code, `team/${options.name} cannot be prepared: ${fault.message}`, undefined, thrown)
  }
}

/** Links what is new of the team's skills into a home, and takes away the links to what is gone. */
export const relinkSkills = (root: string, name: string): Result<null> => {
  const home = join(root, 'team', name)
  try {
    mkdirSync(join(home, 'skills'), { recursive: true })
    linkSkills({ root, name }, home, [])
    return ok(null)
  } catch (thrown) {
    const fault = asFault(thrown)
    return fail(fault.code, `the team's skills cannot be linked into team/${name}: ${fault.message}`, undefined, thrown)
  }
}

/** team/<name>/skills/<skill> → ../../skills/<skill>; an own folder of that name (whatever its case) wins. */
const linkSkills = (options: Pick<HomeOptions, 'root' | 'name'>, home: string, warnings: string[]): void => {
  const team = join(options.root, 'team', 'skills')
  const own = join(home, 'skills')
  const target = (skill: string) => `../../skills/${skill}`
  for (const entry of readdirSync(own, { withFileTypes: true }))
    if (entry.isSymbolicLink()) {
      const link = join(own, entry.name)
      // Only a link of the form made below, to a skill that is gone or has another case now.
      if (readlinkSync(link) === target(entry.name) && !existsSync(link)) unlinkSync(link)
    }
  if (!existsSync(team)) return
  const there = new Map(readdirSync(own).map(entry => [entry.toLowerCase(), entry]))
  for (const skill of readdirSync(team).sort()) {
    if (skill.startsWith('.') || !isFolder(join(team, skill))) continue
    const same = there.get(skill.toLowerCase())
    if (same === undefined) {
      symlinkSync(target(skill), join(own, skill))
      there.set(skill.toLowerCase(), skill)
    } else if (!isLinkTo(join(own, same), target(skill)))
      warnings.push(`team/${options.name}/skills/${same} is used instead of the team's skill ${skill}`)
  }
}

const linkData = (options: HomeOptions, home: string, warnings: string[]): void => {
  for (const { at, path } of dataNames(options.dataPaths)) {
    if (!existsSync(path)) warnings.push(`data: ${path} does not exist`)
    const link = join(home, 'data', at)
    const now = lstatSync(link, { throwIfNoEntry: false })
    if (now && !now.isSymbolicLink()) {
      warnings.push(`team/${options.name}/data/${at} stands where a link to ${path} belongs: move it away`)
      continue
    }
    if (now && readlinkSync(link) === path) continue
    if (now) unlinkSync(link)
    symlinkSync(path, link)
  }
}

const linkRepo = (options: HomeOptions, home: string): Result<null> => {
  const repo = join(home, 'repo')
  const workspace = realOrSame(options.workspace)
  const now = lstatSync(repo, { throwIfNoEntry: false })
  if (options.mode === 'git') {
    // Left from dir mode: the clone takes its place.
    if (now?.isSymbolicLink() && realOrSame(repo) === workspace) unlinkSync(repo)
    return ok(null)
  }
  if (now?.isSymbolicLink()) {
    if (realOrSame(repo) === workspace) return ok(null)
    unlinkSync(repo)
  } else if (now) {
    return fail(
      'config',
      `team/${options.name}/repo is a folder, and mode dir wants a link to ${workspace} there`,
      'move it away (it may hold work in git), or set "mode": "git"',
    )
  }
  symlinkSync(workspace, repo)
  return ok(null)
}

const isLinkTo = (path: string, target: string): boolean =>
  lstatSync(path).isSymbolicLink() && readlinkSync(path) === target

/** A link that leads to itself is no folder. */
const isFolder = (path: string): boolean => existsSync(path) && statSync(path).isDirectory()
