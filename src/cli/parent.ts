import { type ChildProcess, spawn } from 'node:child_process'
import { type Clock, delay } from '../lib/clock.ts'

/** What a child says to its parent last: it ends of its own will, so that there is nothing to start again. */
export const endWord = { t: 'end' } as const

/** What a child says once a task is at work in it: how it dies from then on is told to the next one. */
export const worksWord = { t: 'works' } as const
/** What a child says that knows which task the death of the one before was of: that is counted, and comes to an end. */
export const countedWord = { t: 'counted' } as const

/** What a child says last that the disk does not let go on: full, failing. That may be over in a while. */
export const diskWord = { t: 'disk' } as const

/** After so many deaths in a row, none of them known to a task or after a while of peace, it is not tried again. */
export const mostDeaths = 8
/** Alive for so long, the deaths before are forgotten. */
const peaceMs = 60_000
/** Before each restart: a second, doubling, a minute at most. */
export const restartDelay = (deaths: number): number => Math.min(60_000, 1000 * 2 ** (deaths - 1))

export interface ParentOptions {
  /** The program, its first arguments and those of `team up`. */
  readonly command: readonly [string, ...string[]]
  readonly clock: Clock
  readonly say: (line: string) => void
  /** Passes on what the child says, to whoever detached this process. */
  readonly relay: (word: unknown) => void
  /** What is passed on to it: with `hangUp` the end of the terminal too. */
  readonly hangUp: boolean
  /** For tests with a time of their own. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
}

/**
 * Runs the daemon as a child, and again when it died: killed by a signal or by node itself (a thread's heap may take the whole
 * process along) or the disk did not let it go on, and not by its own word. Gives its exit code back; 1 when it is given up. A daemon that never got ready is
 * not tried again: its words say what is wrong.
 */
export const runParent = async (o: ParentOptions): Promise<number> => {
  const wait = o.wait ?? delay
  const stop = new AbortController()
  let child: ChildProcess | undefined
  let wasReady = false
  /** It came as far as to work: whatever ends it then is nothing that its own words told before. */
  let stood = false
  const signals = ['SIGINT', 'SIGTERM', ...(o.hangUp ? (['SIGHUP'] as const) : [])] as const
  const pass = (signal: NodeJS.Signals): void => {
    stop.abort()
    child?.kill(signal)
  }
  for (const signal of signals) process.on(signal, pass)
  try {
    let died: string | null = null
    // `deaths`: in a row, by which the next one waits. `unknown`: of these, the ones that no task was found for.
    for (let deaths = 0, unknown = 0; ; ) {
      const began = o.clock.mono()
      const [program, ...args] = o.command
      const life = spawn(program, [...args, `--child=${deaths}`, ...(died === null ? [] : [`--died=${died}`])], {
        stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
        // A session of its own: the terminal's Ctrl-C comes to this process alone, which passes it on, once.
        detached: true,
      })
      child = life
      let isOver = false
      let isDisk = false
      let works = false
      life.on('message', (word: { readonly t?: unknown }) => {
        if (word.t === endWord.t) isOver = true
        else if (word.t === diskWord.t) isDisk = true
        else if (word.t === worksWord.t) works = true
        else if (word.t === countedWord.t) unknown = Math.max(0, unknown - 1)
        else if (word.t === 'ready' && wasReady) return
        else o.relay(word)
        if (word.t === 'ready') wasReady = true
        stood ||= works || wasReady
      })
      const { code, signal } = await new Promise<{ code: number | null; signal: NodeJS.Signals | null }>(resolve => {
        // The machine has no room for one more process: in a while it may.
        life.once('error', ({ message }) => {
          o.say(`the daemon cannot be started: ${message}`)
          resolve({ code: 1, signal: null })
        })
        life.once('exit', (code, signal) => resolve({ code, signal }))
      })
      if (isOver || !stood || stop.signal.aborted) return code ?? 1
      if (o.clock.mono() - began >= peaceMs) {
        deaths = 0
        unknown = 0
      }
      deaths++
      if (!isDisk) unknown++
      const how = signal ?? `exit ${code}`
      died = works && !isDisk ? how : null
      if (unknown > mostDeaths) {
        o.say(`the daemon died ${deaths} times in a row (${how}), and is not started again: team up when you know why`)
        return 1
      }
      const ms = restartDelay(deaths)
      o.say(
        `the daemon ${isDisk ? 'cannot go on' : `died (${how})`}; it is started again in ${ms / 1000} s, nothing that it acknowledged is lost`,
      )
      await wait(ms, stop.signal).catch(() => undefined)
      if (stop.signal.aborted) return 1
    }
  } finally {
    for (const signal of signals) process.off(signal, pass)
  }
}

/**
 * Is this a `team up` that is to run under a parent? Its arguments are all known, none of which ask for something else (help, a
 * detached one, which has its own).
 */
export const parented = (argv: readonly string[], env: Readonly<Record<string, string | undefined>>): boolean => {
  if (env.TEAM_PARENT === 'off') return false
  let isUp = false
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i] ?? ''
    if (arg === '--root') i++
    else if (arg === 'up' && !isUp) isUp = true
    else if (!/^--(root=.*|once|takeover|verbose|detached|color|no-color)$/.test(arg)) return false
  }
  return isUp
}
