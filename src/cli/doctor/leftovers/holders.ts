import { lstatSync, readdirSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { endLeftovers, findMarked, teamMarker } from '../../../sandbox/leftover.ts'
import { knock } from '../../../store/files/knock.ts'
import { layout } from '../../../store/root.ts'
import { socketPlace } from '../../../store/rpc/socket-path.ts'
import { type Leftover, toBackup } from './leftover.ts'

/** Sockets of holders that are gone, and commands that outlived them. */
export const leftRunning = async (root: string): Promise<Leftover[]> => [...(await sockets(root)), ...processes(root)]

/** The name of a holder that is gone, the lock of a take-over, what it was writing. Not to be asked while somebody holds the root. */
export const leftByHolder = (root: string): Leftover[] => {
  const { run, journal, holder } = layout(root)
  const halves = [run, journal].flatMap(folder =>
    readdirSync(folder)
      .filter(name => /^\.[0-9a-f]{12}\.tmp$/.test(name))
      .map(name => ({ what: 'half-written file', path: join(folder, name), detail: 'never took its name' })),
  )
  return [
    { what: 'holder', path: holder, detail: 'names a holder that is gone' },
    { what: 'holder', path: join(run, 'holder.lock'), detail: 'was left by a take-over that was cut off' },
    ...halves,
  ].flatMap(({ what, path, detail }) =>
    lstatSync(path, { throwIfNoEntry: false })
      ? [
          {
            what,
            state: 'warn',
            detail: `${relative(root, path)} ${detail}`,
            // Whoever holds the root does that, as `--fix` does to mend anything.
            fix: 'removed, as the root is taken',
            mend: async () => null,
          },
        ]
      : [],
  )
}

/** Sockets of this root at which nobody listens. */
const sockets = async (root: string): Promise<Leftover[]> => {
  const place = socketPlace(root)
  const prefix = basename(place.own(''))
  if (!lstatSync(place.folder, { throwIfNoEntry: false })?.isDirectory()) return []
  const mine = readdirSync(place.folder)
    .filter(
      name =>
        name === basename(place.known) ||
        (name.startsWith(prefix) && /^[0-9a-f]{6}\+?$/.test(name.slice(prefix.length))),
    )
    .map(name => join(place.folder, name))
  const found: Leftover[] = []
  for (const path of mine) {
    if (!lstatSync(path, { throwIfNoEntry: false })?.isSocket()) continue
    const answer = await knock(path)
    if (answer.is === 'alive') answer.leave()
    if (answer.is !== 'dead') continue
    found.push({
      ...toBackup(path, { what: 'socket', state: 'warn', detail: `${path}: nobody listens there` }),
      fix: 'removed: nothing is in it',
    })
  }
  return found
}

/** Commands of the team that run on while nobody holds the root. */
const processes = (root: string): Leftover[] =>
  findMarked(teamMarker(root, '')).map(({ pid, command }) => ({
    what: 'process',
    state: 'warn',
    detail: `pid ${pid} was started by the team and outlived it: ${command}`,
    fix: 'ended: asked, then killed',
    mend: async backup => {
      const ended = await endLeftovers(teamMarker(root, ''), 2000)
      backup.note(`pid ${pid} was ended: ${command}`)
      return ended.some(each => each.pid === pid && each.alive) ? 'it lives on' : null
    },
  }))
