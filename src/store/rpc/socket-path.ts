import { lstatSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fail, ok, type Result } from '../../lib/result.ts'

/** The longest well-known path; a socket address holds 107 bytes, and the names beside it are up to 4 longer. */
const longest = 100

/** Where the holder of a root listens. All names lie in one folder, so that one can be renamed over another. */
export interface SocketPlace {
  readonly folder: string
  /** What clients connect to. */
  readonly known: string
  /** Whether the folder lies outside the root, because the root's path is too long for a socket. */
  readonly isOutside: boolean
  /** A name of a holder's own, made of 6 letters or digits. */
  readonly own: (tag: string) => string
}

/** The user's folder for run-time files: the session's where there is one, else the one for temporary files. */
const runtimeFolder = (uid: number): string => {
  const session = `/run/user/${uid}`
  return statSync(session, { throwIfNoEntry: false })?.uid === uid ? session : tmpdir()
}

/** The place for a root, given by its real path: in `.team`, else a short path made of the root's device and inode. */
export const socketPlace = (realRoot: string): SocketPlace => {
  const inside = join(realRoot, '.team')
  const known = join(inside, 'sock')
  if (Buffer.byteLength(known) <= longest)
    return { folder: inside, known, isOutside: false, own: tag => join(inside, `s.${tag}`) }
  const { dev, ino } = statSync(realRoot)
  const uid = process.getuid?.() ?? 0
  const outside = join(runtimeFolder(uid), `team-${uid}`)
  const own = (tag: string) => join(outside, `${dev}-${ino}.${tag}`)
  return { folder: outside, known: own('sock'), isOutside: true, own }
}

/** Makes the folder of a place outside the root; refused where it is not the user's alone. */
export const prepareSocketFolder = (place: SocketPlace): Result<void> => {
  if (!place.isOutside) return ok(undefined)
  mkdirSync(place.folder, { recursive: true, mode: 0o700 })
  return isPrivate(place.folder)
    ? ok(undefined)
    : fail('refused', `${place.folder} is not a folder of yours alone`, 'remove it, or make it yours with mode 0700')
}

const isPrivate = (folder: string): boolean => {
  const stat = lstatSync(folder, { throwIfNoEntry: false })
  return stat?.isDirectory() === true && stat.uid === (process.getuid?.() ?? 0) && (stat.mode & 0o077) === 0
}

/** How an epoch's header names its holder's own socket: by base name inside the root, which may be moved, else whole. */
export const socketName = (place: SocketPlace, own: string): string => (place.isOutside ? own : basename(own))

/** The path of a holder's own socket; null where the name is another root's (this one is a copy), so that nobody listens. */
export const socketNamed = (place: SocketPlace, name: string): string | null => {
  if (!name.includes('/')) return place.isOutside ? null : join(place.folder, name)
  return place.isOutside && basename(name).startsWith(basename(place.own(''))) ? name : null
}

/**
 * What a client connects to. For a socket outside the root the holder's own word is taken first, since both may see
 * different folders for temporary files; a socket in a folder that others can write is never used.
 */
export const clientSocket = (realRoot: string): string => {
  const place = socketPlace(realRoot)
  if (!place.isOutside) return place.known
  const told = readHolderFile(realRoot)?.socket
  const isOurs = told !== undefined && basename(told) === basename(place.known) && isPrivate(dirname(told))
  return isOurs ? told : place.known
}

/** holder.json: for people, and for clients of a root with a long path. What decides is the journal. */
export interface HolderFile {
  readonly pid: number
  readonly host: string
  readonly kind: string
  readonly startedAt: string
  readonly socket: string
}

export const holderFile = (realRoot: string): string => join(realRoot, '.team', 'holder.json')

/** What holder.json says, or undefined when there is none that can be read: it is never needed. */
export const readHolderFile = (realRoot: string): HolderFile | undefined => {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(holderFile(realRoot), 'utf8'))
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  const { pid, host, kind, startedAt, socket } = value as Record<string, unknown>
  return typeof pid === 'number' &&
    typeof host === 'string' &&
    typeof kind === 'string' &&
    typeof startedAt === 'string' &&
    typeof socket === 'string'
    ? { pid, host, kind, startedAt, socket }
    : undefined
}
