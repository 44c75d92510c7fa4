import { writeSync } from 'node:fs'

/**
 * Named moments between two acts on the disk. `npm run torture` kills the process at one of them; else they cost a comparison.
 * Each is where a promise is half kept: written and not flushed, renamed and not told, decided and not carried out.
 */
export const points = [
  'journal.write',
  'journal.written',
  'journal.durable',
  'journal.roll',
  'epoch.begin',
  'epoch.begun',
  'holder.named',
  'file.write',
  'file.written',
  'memory.write',
  'memory.written',
  'page.write',
  'page.written',
  'page.move',
  'page.moved',
  'inbox.append',
  'inbox.appended',
  'inbox.rotate',
  'inbox.rotated',
  'drop.taken',
  'drop.moved',
  'session.write',
  'session.written',
  'session.rotate',
  'session.rotated',
  'compact.saved',
  'compact.asked',
  'ref.move',
  'ref.moved',
  'effect.intent',
  'effect.intended',
  'effect.act',
  'effect.acted',
  'effect.done',
  'effect.ended',
] as const
export type Point = (typeof points)[number]

/** The variable of the environment that arms a process. */
export const killVariable = 'TEAM_KILL_AT'

interface Armed {
  readonly point: string
  left: number
}
let armed: { readonly kills: Armed[]; readonly exits: Armed[] } | null = null
/** What was armed, for the threads of this process. */
export let armedAt: string | undefined

/**
 * `journal.written:17`: the process is killed when it comes to that point for the 17th time, `*:17` at the 17th point of any
 * name. `session.write:3:exit`: a teammate's thread ends there, and no other one. Several stand with commas between them. Each
 * thread counts for itself.
 */
export const arm = (what: string | undefined, where: 'process' | 'thread' = 'process'): void => {
  armedAt = what
  armed = null
  for (const each of what?.split(',') ?? []) {
    const [point = '', count = '1', how] = each.split(':')
    if (point === '') continue
    armed ??= { kills: [], exits: [] }
    if (how !== 'exit') armed.kills.push({ point, left: Number(count) })
    else if (where === 'thread') armed.exits.push({ point, left: Number(count) })
  }
}

export const reach = (point: Point): void => {
  if (armed === null) return
  const isDue = (each: Armed) => (each.point === point || each.point === '*') && --each.left === 0
  if (armed.kills.some(isDue)) {
    say(`killed at ${point}`)
    process.kill(process.pid, 'SIGKILL')
  }
  if (armed.exits.some(isDue)) {
    say(`thread ended at ${point}`)
    process.exit(1)
  }
}

/** Past every buffer, which nobody will flush any more. */
const say = (text: string): void => {
  writeSync(2, `${text}\n`)
}
