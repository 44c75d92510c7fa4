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
  'page.write',
  'page.written',
  'page.move',
  'page.moved',
  'inbox.append',
  'inbox.appended',
  'inbox.rotated',
  'drop.taken',
  'drop.moved',
  'session.write',
  'session.written',
  'session.rotate',
  'ref.move',
  'ref.moved',
] as const
export type Point = (typeof points)[number]

let armed: { readonly point: string; left: number } | null = null
/** What was armed, for the threads of this process. */
export let armedAt: string | undefined

/** `journal.written:17`: the process is killed when it comes to that point for the 17th time. Of each thread for itself. */
export const arm = (what: string | undefined): void => {
  armedAt = what
  const [point, count = '1'] = what?.split(':') ?? []
  armed = point === undefined || point === '' ? null : { point, left: Number(count) }
}

export const reach = (point: Point): void => {
  if (armed === null || armed.point !== point || --armed.left > 0) return
  process.kill(process.pid, 'SIGKILL')
}
