import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { type Fault, fail, faultCodes, ok, type Result } from '../lib/result.ts'
import type { Hello, TeammateStatus } from '../protocol/rpc.ts'
import { layout } from '../store/root.ts'
import { isStarting } from './all-started.ts'
import type { Cli } from './cli.ts'
import { daemonStatus } from './connect-daemon.ts'
import { countedWord, diskWord, endWord, worksWord } from './parent.ts'
import { oneLine } from './render/text.ts'

/** What the detached daemon tells the one that started it, over node's channel between them. */
const Word = z.union([
  z.object({ t: z.literal('ready'), pid: z.number() }),
  z.object({
    t: z.literal('fault'),
    code: z.enum(faultCodes),
    message: z.string(),
    hint: z.string().optional(),
  }),
])

/** The daemon's side of the channel. Each resolves when it was said, or when nobody is there to hear. */
export interface Ready {
  ready(hello: Hello): Promise<void>
  failed(fault: Fault): Promise<void>
  /** A task is at work in it. */
  works(): Promise<void>
  /** It is known what the one before died of. */
  counted(): Promise<void>
  /** It ends of its own will. */
  ended(): Promise<void>
  /** It ends since the disk does not let it go on. */
  disk(): Promise<void>
}

/** `isChild`: of a parent that hears it to its end. */
export const readyOf = (own: NodeJS.Process, isChild: boolean): Ready => {
  const say = (word: z.infer<typeof Word> | typeof endWord | typeof diskWord | typeof countedWord | typeof worksWord) =>
    new Promise<void>(resolve => {
      if (!own.send || !own.connected) return resolve()
      // Whoever started us may be gone already: that is no fault of ours, and nobody waits for the word.
      own.send(word, undefined, undefined, () => {
        if (own.connected && !isChild) own.disconnect()
        resolve()
      })
    })
  return {
    ready: hello => say({ t: 'ready', pid: hello.pid }),
    failed: ({ code, message, hint }) => say({ t: 'fault', code, message, ...(hint === undefined ? {} : { hint }) }),
    // Whoever only detached it would hear nothing after the first word.
    works: async () => (isChild ? say(worksWord) : undefined),
    counted: async () => (isChild ? say(countedWord) : undefined),
    ended: () => say(endWord),
    disk: () => say(diskWord),
  }
}

/** Starts the daemon in a session of its own and waits until it is ready, or passes on why it is not; names who does not run. */
export const detach = async (
  cli: Cli,
  root: string,
  args: { once: boolean; takeover: boolean; verbose: boolean },
): Promise<Result<number>> => {
  const log = layout(root).upLog
  mkdirSync(dirname(log), { recursive: true, mode: 0o700 })
  const fd = openSync(log, 'a', 0o600)
  const flags = (['once', 'takeover', 'verbose'] as const).filter(name => args[name]).map(name => `--${name}`)
  const child = spawn(process.execPath, [join(cli.dist, 'team.cjs'), 'up', '--detached', '--root', root, ...flags], {
    cwd: root,
    detached: true,
    stdio: ['ignore', fd, fd, 'ipc'],
    env: { ...cli.env },
  })
  closeSync(fd)
  const result = await new Promise<Result<number>>(resolve => {
    child.once('error', cause => resolve(fail('io', `cannot start the daemon: ${cause.message}`, undefined, cause)))
    child.once('exit', (code, signal) =>
      resolve(fail('internal', `the daemon ended (${signal ?? `exit ${code}`}) before it was ready`, `See ${log}`)),
    )
    child.on('message', (said: unknown) => {
      const word = Word.safeParse(said)
      if (!word.success) return
      if (word.data.t === 'ready') return resolve(ok(word.data.pid))
      const { code, message, hint } = word.data
      resolve(fail(code, message, hint))
    })
  })
  child.removeAllListeners()
  if (child.connected) child.disconnect()
  child.unref()
  if (!result.ok) return result
  // One that could not be made ready stops nobody else: it is said here, since nobody reads its log line now.
  const status = await daemonStatus(root)
  for (const mate of status.ok ? status.value.teammates : []) {
    const why = notThere(mate)
    if (why !== null) cli.out.note(`warning: ${mate.name} ${oneLine(why, 300)}`)
  }
  cli.out.say(`the daemon runs, pid ${result.value}: team status, team logs -f, team down`)
  return ok(0)
}

/** Why a teammate is not at work, or null where it is. */
const notThere = (mate: TeammateStatus): string | null => {
  const { state, reason, restarts } = mate
  if (state === 'failed') return `does not run: ${reason ?? 'it was given up'}`
  if (isStarting(mate)) return 'is still starting: team status shows when it is there'
  return state === 'starting' && restarts > 0
    ? `died as it started, and is tried again: ${reason ?? 'no reason given'}`
    : null
}
