import { randomBytes } from 'node:crypto'
import { closeSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { lock } from 'proper-lockfile'
import { type Clock, delay } from '../../lib/clock.ts'
import { errnoOf } from '../../lib/files.ts'
import { reach } from '../../lib/points.ts'
import { type Fault, fail, ok, type Result } from '../../lib/result.ts'
import { RpcServer } from '../rpc/server.ts'
import { readHolderFile, type SocketPlace, socketName, socketNamed } from '../rpc/socket-path.ts'
import { epochPath, formatVersion, type Header, type Host, listJournal, readHeader } from './epochs.ts'
import { beginEpoch } from './journal.ts'
import { type Knock, knock } from './knock.ts'
import { type Replay, replay } from './replay.ts'

export interface Contender {
  /** The real path of the root. */
  readonly root: string
  readonly place: SocketPlace
  readonly me: Omit<Host, 'socket'>
  readonly clock: Clock
  readonly takeover: boolean
}

/** What the winner has: the epoch, and a socket that listens already. */
export interface Taken {
  readonly replay: Replay
  readonly header: Header
  readonly fd: number
  readonly bytes: number
  readonly server: RpcServer
}

type Standing =
  /** The number of the epoch to begin: the one after all that there were when the last holder was found gone. */
  | { readonly is: 'free'; readonly next: number }
  | { readonly is: 'held'; readonly header: Header; readonly alive: Extract<Knock, { is: 'alive' }> }

export const teamFolder = (root: string): string => join(root, '.team')
export const journalFolder = (root: string): string => join(root, '.team', 'journal')

const newest = (folder: string): Result<{ header: Header | null; next: number }> => {
  const { epochs, snapshots } = listJournal(folder)
  const next = Math.max(0, ...epochs, ...snapshots) + 1
  for (const epoch of epochs.reverse()) {
    const header = readHeader(folder, epoch)
    if (!header.ok) return header
    if (header.value) return ok({ header: header.value, next })
  }
  return ok({ header: null, next })
}

export const held = (root: string, { kind, pid, host }: Pick<Header, 'kind' | 'pid' | 'host'>): Fault =>
  kind === 'daemon'
    ? fail('held', `a daemon runs for ${root} already: pid ${pid} on ${host}`, 'see it with: team status').fault
    : fail('held', `a command holds ${root}: pid ${pid} on ${host}`, 'try again when it has ended').fault

/** Who holds the root now. Reads and knocks only. */
export const standing = async (who: Contender): Promise<Result<Standing>> => {
  const folder = journalFolder(who.root)
  const found = newest(folder)
  if (!found.ok) return found
  const { header, next } = found.value
  const path = header && socketNamed(who.place, header.socket)
  if (header && path !== null) {
    const answer = await knock(path)
    if (answer.is === 'alive') return ok({ is: 'held', header, alive: answer })
    if (answer.is === 'barred')
      return fail('held', `${who.root} may be held by pid ${header.pid} of another user`, undefined, answer.cause)
  }
  if (who.takeover) return ok({ is: 'free', next })
  const elsewhere = [header?.host, readHolderFile(who.root)?.host].find(
    host => host !== undefined && host !== who.me.host,
  )
  if (elsewhere === undefined) return ok({ is: 'free', next })
  // Nobody listens on this host. That says nothing of another one, unless the holder there said goodbye.
  const past = replay(folder, who.clock)
  if (!past.ok) return past
  return past.value.ended
    ? ok({ is: 'free', next })
    : fail(
        'held',
        `${who.root} was last held on host ${elsewhere}, which may still be running`,
        'when it is not, take over with: team up --takeover',
      )
}

/**
 * Takes the root over from a holder that is gone: begins the next epoch, with a socket that listens before anyone can see
 * the epoch. So of any number of contenders one wins, and the others find it alive. null when another one
 * was faster. `first` is the epoch that nobody had begun when the last holder was found gone.
 */
const takeOver = async (who: Contender, first: number): Promise<Result<Taken | null>> => {
  const folder = journalFolder(who.root)
  let past = replay(folder, who.clock, first)
  if (!past.ok) return past
  const server = await RpcServer.listen(who.place.own(randomBytes(3).toString('hex')))
  let isTaken = false
  try {
    for (let epoch = first; past.ok; epoch++) {
      const { head, segments, state, rest } = past.value
      const bytes = segments.at(-1)?.bytes ?? 0
      const header: Header = {
        v: formatVersion,
        epoch,
        ...who.me,
        socket: socketName(who.place, server.path),
        seq: state.seq,
        prev: head && { epoch: head.epoch, bytes },
      }
      reach('epoch.begin')
      const begun = beginEpoch(folder, header)
      if (!begun) return ok(null)
      reach('epoch.begun')
      // A holder on another host may have written, and acknowledged, until the epoch was begun; nothing after that counts.
      if (!head || readFileSync(epochPath(folder, head.epoch)).subarray(bytes).equals(rest)) {
        if (head) removeSockets(who.place, head.socket, server.path)
        isTaken = true
        return ok({ replay: past.value, header, server, ...begun })
      }
      closeSync(begun.fd)
      past = replay(folder, who.clock, first)
    }
    return past
  } finally {
    if (!isTaken) await server.close()
  }
}

/** Removes what dead holders left: the last one's own socket, and those of contenders that died at it long ago. */
const removeSockets = (place: SocketPlace, last: string, mine: string): void => {
  const path = socketNamed(place, last)
  if (path !== null && path !== mine) for (const each of [path, `${path}+`]) rmSync(each, { force: true })
  const youngest = statSync(mine).mtimeMs - 3_600_000
  const prefix = basename(place.own(''))
  for (const name of readdirSync(place.folder)) {
    if (!name.startsWith(prefix) || !/^[0-9a-f]{6}\+?$/.test(name.slice(prefix.length))) continue
    const stat = statSync(join(place.folder, name), { throwIfNoEntry: false })
    if (stat?.isSocket() && stat.mtimeMs < youngest) rmSync(join(place.folder, name), { force: true })
  }
}

const lockOf = (team: string): string => join(team, 'holder.lock')
const staleMs = 5000

/** Removes the lock of a contender that died at it and whom the holder did without: nobody waits for it any more. */
export const removeOldLock = (team: string, clock: Clock): void => {
  const stat = statSync(lockOf(team), { throwIfNoEntry: false })
  if (stat && clock.wall() - stat.mtimeMs > staleMs) rmSync(lockOf(team), { recursive: true, force: true })
}

/**
 * Runs `act` while no other contender does, as a rule. It only keeps take-overs quiet: a lock that is old is broken by
 * whoever waits for it, perhaps by two at once, and a lock that cannot be had in time is done without. Which of them
 * becomes the holder is decided by the epoch alone.
 */
export const quietly = async <T>(team: string, clock: Clock, act: () => Promise<T>): Promise<T> => {
  const until = clock.mono() + 1500
  let release: (() => Promise<void>) | undefined
  while (!release && clock.mono() < until) {
    try {
      release = await lock(team, {
        realpath: true,
        lockfilePath: lockOf(team),
        stale: staleMs,
        update: 1000,
        retries: 0,
        // Losing it is no harm, see above.
        onCompromised: () => {},
      })
    } catch (error) {
      const code = errnoOf(error)
      // ENOENT: another contender removed an old lock between two looks at it.
      if (code !== 'ELOCKED' && code !== 'ENOENT') throw error
      await delay(5 + Math.random() * 25)
    }
  }
  try {
    return await act()
  } finally {
    await release?.().catch(error => {
      const code = (error as NodeJS.ErrnoException).code
      if (code !== 'ERELEASED' && code !== 'ENOTACQUIRED' && code !== 'ECOMPROMISED') throw error
    })
  }
}

/** Whether the holder is on its way out: it wrote its last line, and listens for a moment more. */
const saidGoodbye = (who: Contender): boolean => {
  const past = replay(journalFolder(who.root), who.clock)
  return past.ok && past.value.ended
}

/**
 * Becomes the holder. A living daemon is not waited for; a living command is, up to `waitMs`, and so is
 * a daemon that is ending. Nothing is written unless
 * the root can be taken.
 */
export const contend = async (who: Contender, waitMs: number): Promise<Result<Taken>> => {
  const until = who.clock.mono() + waitMs
  const team = dirname(journalFolder(who.root))
  for (;;) {
    const seen = await standing(who)
    if (!seen.ok) return seen
    if (seen.value.is === 'held') {
      const { header, alive } = seen.value
      const left = until - who.clock.mono()
      const wait = new AbortController()
      const isEnding = header.kind === 'cli' || saidGoodbye(who)
      if (isEnding && left > 0)
        await Promise.race([alive.gone, delay(Math.min(left, 250), wait.signal).catch(() => {})])
      wait.abort()
      alive.leave()
      if (!isEnding || left <= 0) return { ok: false, fault: held(who.root, header) }
      continue
    }
    const taken = await quietly(team, who.clock, async (): Promise<Result<Taken | null>> => {
      const still = await standing(who)
      if (!still.ok) return still
      if (still.value.is === 'free') return takeOver(who, still.value.next)
      still.value.alive.leave()
      return ok(null)
    })
    if (!taken.ok) return taken
    if (taken.value) return ok(taken.value)
  }
}
