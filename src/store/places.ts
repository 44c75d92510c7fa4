import { accessSync, constants, lstatSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { errnoOf, forbidden, misplaced } from '../lib/files.ts'
import { ok, type Result } from '../lib/result.ts'
import { layout } from './root.ts'

/**
 * Is every folder of the team root a folder that may be written in, and every file of the program's own a file, as far as
 * they are there? The first that is not is a `config` fault that names it and the remedy. Touches nothing. A
 * teammate's home is that teammate's own affair.
 */
export const checkPlaces = (root: string): Result<null> => {
  const at = layout(root)
  const folders = [
    at.root,
    at.run,
    at.journal,
    at.sessions,
    at.logs,
    at.tasks,
    at.taskArchive,
    at.taskDropped,
    at.messages,
    at.requests,
    at.messageArchive,
    at.transcripts,
    at.team,
  ]
  for (const path of folders) {
    const fine = check(path, 'folder')
    if (!fine.ok) return fine
  }
  for (const path of [at.daemonLog, at.upLog, at.holder, at.models]) {
    const fine = check(path, 'file')
    if (!fine.ok) return fine
  }
  return ok(null)
}

const check = (path: string, wanted: 'folder' | 'file'): Result<null> => {
  let stat: Stats | undefined
  try {
    stat = statSync(path, { throwIfNoEntry: false })
    // A link that leads nowhere: what is made through it would fail, or come to lie who knows where.
    if (!stat && !lstatSync(path, { throwIfNoEntry: false })) return ok(null)
  } catch (error) {
    const code = errnoOf(error)
    if (code === undefined) throw error
    return code === 'ELOOP'
      ? wrong(path, 'a link that leads to itself', wanted)
      : noRight(dirname(path), 'enter', error)
  }
  if (!stat) return wrong(path, 'a link that leads nowhere', wanted)
  if (wanted === 'folder' ? !stat.isDirectory() : !stat.isFile()) return wrong(path, kindOf(stat), wanted)
  try {
    accessSync(path, constants.R_OK | constants.W_OK | (wanted === 'folder' ? constants.X_OK : 0))
    return ok(null)
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return noRight(path, wanted === 'folder' ? 'write in' : 'write', error)
  }
}

const wrong = (path: string, what: string, wanted: 'folder' | 'file'): Result<null> => ({
  ok: false,
  fault: misplaced(path, what, wanted),
})

const noRight = (path: string, what: string, cause: unknown): Result<null> => ({
  ok: false,
  fault: forbidden(path, what, cause),
})

const kindOf = (stat: Stats): string =>
  stat.isDirectory() ? 'a folder' : stat.isFile() ? 'a file' : stat.isFIFO() ? 'a pipe' : 'neither a file nor a folder'
