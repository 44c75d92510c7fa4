import { lstatSync, readdirSync, readFileSync, readlinkSync, statSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { globToRegExp, isGlob } from '../lib/glob.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { addExcludes, excludePattern } from './clone.ts'
import { folderInside, placeInside } from './inside.ts'

export interface CopyReport {
  /** Relative paths that were copied now. */
  readonly copied: readonly string[]
  /** Patterns that name nothing in the workspace. */
  readonly missing: readonly string[]
}

/** Every path below `top` but the git folder's, folders included; a nested repository's git folder neither. */
function* walk(top: string, below = ''): Generator<string> {
  for (const entry of readdirSync(join(top, below), { withFileTypes: true })) {
    if (entry.name === '.git') continue
    const rel = below === '' ? entry.name : `${below}/${entry.name}`
    yield rel
    if (entry.isDirectory()) yield* walk(top, rel)
  }
}

const matches = (workspace: string, pattern: string): string[] => {
  if (!isGlob(pattern)) return lstatSync(join(workspace, pattern), { throwIfNoEntry: false }) ? [pattern] : []
  const wanted = globToRegExp(pattern)
  return [...walk(workspace)].filter(path => wanted.test(path))
}

/**
 * Copies what `patterns` (files, folders or globs, relative to the workspace) name into a teammate's clone: real copies, so that a
 * change there never reaches the workspace. What stands in the clone already is left alone, and what was copied is kept out of its
 * `git status`. A link that a pattern names is followed; links inside a folder stay links. A `config` fault for a pattern that leaves the workspace.
 */
export const copyFiles = (workspace: string, clone: string, patterns: readonly string[]): Result<CopyReport> => {
  const copied: string[] = []
  const missing: string[] = []
  for (const given of patterns) {
    const pattern = given.replace(/^(\.\/)+/, '').replace(/\/+$/, '')
    const parts = pattern.split('/')
    if (parts.includes('') || parts.includes('..') || parts.includes('.git'))
      return fail(
        'config',
        `"${given}" (copy in config.json) is not a path inside the workspace`,
        'name it relative to the workspace',
      )
    const found = matches(workspace, pattern)
    if (found.length === 0) missing.push(given)
    for (const path of found) {
      const done = copyOne(workspace, clone, path, true, copied)
      if (!done.ok) return done
    }
  }
  if (!lstatSync(join(clone, '.git'), { throwIfNoEntry: false })?.isDirectory()) return ok({ copied, missing })
  const excluded = addExcludes(clone, copied.map(excludePattern))
  return excluded.ok ? ok({ copied, missing }) : excluded
}

const copyOne = (workspace: string, clone: string, path: string, follow: boolean, copied: string[]): Result<null> => {
  const source = join(workspace, path)
  const stat = follow ? statSync(source, { throwIfNoEntry: false }) : lstatSync(source, { throwIfNoEntry: false })
  if (stat?.isDirectory()) {
    for (const entry of readdirSync(source)) {
      if (entry === '.git') continue
      const done = copyOne(workspace, clone, `${path}/${entry}`, false, copied)
      if (!done.ok) return done
    }
    return ok(null)
  }
  if (lstatSync(join(clone, path), { throwIfNoEntry: false })) return ok(null)
  if (stat?.isFile()) {
    const placed = placeInside(clone, path, readFileSync(source), stat.mode & 0o777)
    if (!placed.ok) return placed
    copied.push(path)
  } else if (stat?.isSymbolicLink()) {
    const parent = folderInside(clone, dirname(path))
    if (!parent.ok) return parent
    symlinkSync(readlinkSync(source), join(clone, path))
    copied.push(path)
  }
  return ok(null)
}
