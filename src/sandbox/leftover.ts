import { readdirSync, readFileSync } from 'node:fs'
import { type Clock, clock, delay } from '../lib/clock.ts'
import { cut } from '../lib/text.ts'

/** A process that lives on after the command that started it. */
export interface Leftover {
  readonly pid: number
  readonly command: string
}

/**
 * The variable that marks every process of a command, inherited by its children. Its value is `<marker>.<shell>-<n>`, with
 * the marker that the shell was made with. Markers hold no `.` behind their last `#`.
 */
export const markVariable = 'TEAM_COMMAND'

/** The marker of a teammate's commands (or, with another `name`, of the supervisor's own) in this team root. */
export const teamMarker = (root: string, name: string): string => `${root}#${name}`

/**
 * Living processes whose environment carries `marker`; one that ends in `#` or `-` stands for all that begin so. A process
 * id alone is never trusted: it may be another program's by now. Linux only; elsewhere, and for processes that threw their
 * environment away or belong to another user, there is nothing to find.
 */
export const findMarked = (marker: string): Leftover[] =>
  processIds().flatMap(pid => (carries(pid, marker) ? [{ pid, command: commandOf(pid) }] : []))

/**
 * Ends everything that carries `marker` (see `findMarked`): TERM, then KILL for what is left after `graceMs`, and for what
 * appeared meanwhile. Resolves with what was found; `alive` for what lives on all the same.
 */
export const endLeftovers = async (
  marker: string,
  graceMs: number,
  time: Clock = clock,
): Promise<(Leftover & { alive: boolean })[]> => {
  const found = new Map(findMarked(marker).map(left => [left.pid, left]))
  if (found.size === 0) return []
  for (const pid of found.keys()) signal(pid, 'SIGTERM')
  let alive = await gone(marker, time.mono() + graceMs, time)
  const killUntil = time.mono() + 2_000
  while (alive.length > 0 && time.mono() < killUntil) {
    for (const left of alive) {
      found.set(left.pid, left)
      signal(left.pid, 'SIGKILL')
    }
    alive = await gone(marker, Math.min(time.mono() + 100, killUntil), time)
  }
  return [...found.values()].map(left => ({ ...left, alive: alive.some(({ pid }) => pid === left.pid) }))
}

/**
 * The shells, as markers for `endLeftovers`, whose commands live now and carry `marker`. What a shell made later starts is not
 * among them: a dead thread's leftovers are told from its successor's commands so.
 */
export const shellsOf = (marker: string): string[] => {
  const shells = processIds().flatMap(pid => {
    const [mark] = marksOf(pid, marker)
    return mark === undefined ? [] : [mark.slice(0, mark.lastIndexOf('-') + 1)]
  })
  return [...new Set(shells)]
}

const gone = async (marker: string, until: number, time: Clock): Promise<Leftover[]> => {
  for (let alive = findMarked(marker); ; alive = findMarked(marker)) {
    if (alive.length === 0 || time.mono() >= until) return alive
    await delay(20)
  }
}

/** Descendants of a process, nearest first, by parentage: what a namespace's first process is the ancestor of. */
export const descendants = (pid: number): Leftover[] => {
  const children = new Map<number, number[]>()
  for (const id of processIds()) {
    const parent = statOf(id)?.parent
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), id])
  }
  const found: Leftover[] = []
  for (let level = children.get(pid) ?? []; level.length > 0; level = level.flatMap(id => children.get(id) ?? []))
    for (const id of level) if (statOf(id)?.state !== 'Z') found.push({ pid: id, command: commandOf(id) })
  return found
}

/** A process, told from one that is given its number later. */
export interface Kin extends Leftover {
  /** Clock ticks since the machine was started. */
  readonly started: string
  readonly session: number
}

/** Living processes of the session that `pid` leads or led, and, where `descending`, its descendants by parentage. */
export const kinOf = (pid: number, descending: boolean): Kin[] => {
  const all = processIds().flatMap(id => {
    const stat = statOf(id)
    return stat ? [{ pid: id, ...stat }] : []
  })
  const kin = new Set([pid])
  for (let before = 0; descending && before < kin.size; ) {
    before = kin.size
    for (const one of all) if (kin.has(one.parent)) kin.add(one.pid)
  }
  return all.flatMap(({ pid: id, state, session, started }) =>
    state !== 'Z' && (session === pid || (id !== pid && kin.has(id)))
      ? [{ pid: id, command: commandOf(id), session, started }]
      : [],
  )
}

/** It lives, and its number was not given to another meanwhile. */
export const isStill = ({ pid, started }: Kin): boolean => {
  const stat = statOf(pid)
  return stat !== undefined && stat.state !== 'Z' && stat.started === started
}

/** Sends a signal; a process that is gone already is as good as signalled. */
export const signal = (pid: number, name: 'SIGTERM' | 'SIGKILL'): void => {
  try {
    process.kill(pid, name)
  } catch (thrown) {
    const code = (thrown as NodeJS.ErrnoException).code
    if (code !== 'ESRCH' && code !== 'EPERM') throw thrown
  }
}

const processIds = (): number[] => {
  try {
    return readdirSync('/proc')
      .filter(name => /^\d+$/.test(name))
      .map(Number)
  } catch {
    return [] // No /proc on this system: nothing to find, as documented.
  }
}

/** A file of /proc, or undefined when the process is gone or another user's. */
const proc = (pid: number, file: string): string | undefined => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return undefined
  }
}

/** In the moment of its exec a process shows an empty environment; it is looked at again then. Kernel threads stay empty. */
const environmentOf = (pid: number): string | undefined => {
  for (let look = 0; look < 3; look++) {
    const environment = proc(pid, 'environ')
    if (environment !== '') return environment
    const stat = statOf(pid)
    if (
      stat === undefined ||
      stat.state === 'Z' ||
      proc(pid, 'cmdline') === undefined ||
      stat.parent === 2 ||
      pid === 2
    )
      return undefined
    Atomics.wait(pause, 0, 0, 2)
  }
  return undefined
}
const pause = new Int32Array(new SharedArrayBuffer(4))

const carries = (pid: number, marker: string): boolean => marksOf(pid, marker).length > 0

/** The marks of a living process that `marker` stands for. */
const marksOf = (pid: number, marker: string): string[] => {
  const wanted = `${markVariable}=${marker}`
  const isOne = /[#-]$/.test(marker)
    ? (entry: string) => entry.startsWith(wanted)
    : (entry: string) => entry === wanted || entry.startsWith(`${wanted}.`)
  const environment = environmentOf(pid)
  if (!environment?.includes(markVariable)) return []
  const marks = Buffer.from(environment, 'latin1').toString('utf8').split('\0').filter(isOne)
  return marks.length > 0 && statOf(pid)?.state !== 'Z' ? marks.map(mark => mark.slice(markVariable.length + 1)) : []
}

const statOf = (pid: number): { state: string; parent: number; session: number; started: string } | undefined => {
  // The name in parentheses may hold anything, so read from the last one on.
  const fields = proc(pid, 'stat')?.split(') ').at(-1)?.split(' ') ?? []
  const [state, parent, , session] = fields
  const started = fields[19]
  return state === undefined || parent === undefined || started === undefined
    ? undefined
    : { state, parent: Number(parent), session: Number(session), started }
}

const commandOf = (pid: number): string => {
  const words = Buffer.from(proc(pid, 'cmdline') ?? '', 'latin1')
    .toString('utf8')
    .split('\0')
    .join(' ')
    .trim()
  return cut(words === '' ? (proc(pid, 'comm')?.trim() ?? '?') : words, 200)
}
