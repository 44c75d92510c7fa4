import { cpSync, existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { Session } from '../../../agent/session.ts'
import { clock } from '../../../lib/clock.ts'
import { listJournal, snapshotPath } from '../../../store/files/epochs.ts'
import { readSnapshot } from '../../../store/files/snapshot.ts'
import { layout } from '../../../store/root.ts'
import { type Leftover, type Place, toBackup } from './leftover.ts'

const names = (folder: string): string[] => {
  const stat = lstatSync(folder, { throwIfNoEntry: false })
  return stat?.isDirectory() ? readdirSync(folder) : []
}
const isFile = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isFile() === true

/** Files of the root that no run of today would have left. */
export const leftFiles = (place: Place): Leftover[] => [
  ...halfWritten(place),
  ...notes(place),
  ...taskPages(place),
  ...requestPages(place),
  ...sessions(place),
  ...snapshots(place),
  ...oversize(place),
]

/** What is written beside a file before it takes its name. Nobody writes while no daemon runs. A holder's own: `leftByHolder`. */
const halfWritten = ({ root, config }: Place): Leftover[] => {
  const paths = layout(root)
  const homes = config.members.flatMap(({ name }) => [paths.home(name), join(paths.home(name), 'out')])
  const replaced = /^\.[0-9a-f]{12}\.tmp$/
  const patterns: [string, RegExp][] = [
    ...[paths.sessions, root, ...homes].map((at): [string, RegExp] => [at, replaced]),
    [paths.journal, /^\.epoch-\d+-/],
    [paths.sessions, /^\..+\.next$/],
    ...[paths.tasks, paths.taskArchive, paths.requests].map((at): [string, RegExp] => [at, /^\..+\.json\.tmp$/]),
  ]
  return patterns.flatMap(([folder, pattern]) =>
    names(folder)
      .filter(name => pattern.test(name) && isFile(join(folder, name)))
      .map(name => {
        const path = join(folder, name)
        return toBackup(path, {
          what: 'half-written file',
          state: 'warn',
          detail: `${relative(root, path)} never took its name`,
        })
      }),
  )
}

/** Notes of refused drops, where the drop is gone. */
const notes = ({ root }: Place): Leftover[] => {
  const { tasks } = layout(root)
  return names(tasks).flatMap(name => {
    const file = name.slice(0, -'.error.txt'.length)
    const path = join(tasks, name)
    if (!name.endsWith('.error.txt') || existsSync(join(tasks, file)) || !isFile(path)) return []
    // A person may have a file of such a name.
    if (!readFileSync(path, 'utf8').startsWith(`${file} was not taken in:\n`)) return []
    return [
      toBackup(path, { what: 'note', state: 'warn', detail: `${relative(root, path)} is about a file that is gone` }),
    ]
  })
}

/** The object in a page; null for what is none. */
const pageOf = (path: string): Readonly<Record<string, unknown>> | null => {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null
  } catch {
    return null
  }
}

const shownAgain = 'written anew from the journal'

/** Pages that cannot be read, or say something else than the journal. An edit that no run has seen yet is none of them. */
const taskPages = ({ root, store }: Place): Leftover[] => {
  const { tasks, taskArchive } = layout(root)
  return [tasks, taskArchive].flatMap(folder =>
    names(folder).flatMap(name => {
      const id = /^task_(.+)\.json$/.exec(name)?.[1]
      const path = join(folder, name)
      const rec = id === undefined ? undefined : store.tasks.get(id)
      if (!rec || !isFile(path)) return []
      const page = pageOf(path)
      const at = relative(root, path)
      if (page === null)
        return [toBackup(path, { what: 'task page', state: 'warn', detail: `${at} cannot be read`, after: shownAgain })]
      const { rev } = page
      const twin = folder === taskArchive && isFile(join(tasks, name))
      if (twin) return [toBackup(path, { what: 'task page', state: 'warn', detail: `${at} is in .tasks too` })]
      return typeof rev === 'number' && rev > rec.rev
        ? [
            toBackup(path, {
              what: 'task page',
              state: 'warn',
              detail: `${at} is of revision ${rev}, and the journal has ${rec.rev}`,
              after: shownAgain,
            }),
          ]
        : []
    }),
  )
}

const requestPages = ({ root, store }: Place): Leftover[] => {
  const { requests } = layout(root)
  return names(requests).flatMap(name => {
    const id = /^(req_.+)\.json$/.exec(name)?.[1]
    const path = join(requests, name)
    if (id === undefined || !isFile(path)) return []
    const rec = store.requests.get(id)
    const page = pageOf(path)
    const at = relative(root, path)
    if (!rec) return [toBackup(path, { what: 'request page', state: 'warn', detail: `${at} is of no request` })]
    const isSame = page !== null && page.rev === rec.rev && page.status === rec.value.status
    return isSame
      ? []
      : [
          toBackup(path, {
            what: 'request page',
            state: 'warn',
            detail: `${at} ${page === null ? 'cannot be read' : 'is not as the journal has it'}`,
            after: shownAgain,
          }),
        ]
  })
}

/** Sessions that keep their teammate from starting. Those of who is not on the team stay for when it comes back. */
const sessions = ({ root, config }: Place): Leftover[] => {
  const folder = layout(root).sessions
  const known = new Set(config.members.map(member => member.name))
  return names(folder).flatMap(name => {
    const path = join(folder, name)
    const [, owner, n] = /^([a-z0-9][a-z0-9-]*)(\.\d+)?\.jsonl$/.exec(name) ?? []
    if (owner === undefined || !isFile(path)) return []
    const at = relative(root, path)
    if (!known.has(owner)) return []
    const damage = n === undefined ? damageOf(path) : null
    return damage === null
      ? []
      : [
          toBackup(path, {
            what: 'session',
            state: 'fail',
            detail: `${at} cannot be read: ${damage}`,
            after: `${owner} begins a new one, and keeps its task, notes and files`,
          }),
        ]
  })
}

/** What is wrong with a session, looked at in a copy: opening one cuts and answers what was open. */
const damageOf = (path: string): string | null => {
  const folder = mkdtempSync(join(tmpdir(), 'team-doctor-'))
  try {
    const copy = join(folder, basename(path))
    cpSync(path, copy)
    const opened = Session.open(copy, clock)
    if (!opened.ok) return opened.fault.message.replace(copy, basename(path))
    opened.value.close()
    return null
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const snapshots = ({ root }: Place): Leftover[] => {
  const { journal } = layout(root)
  return listJournal(journal).snapshots.flatMap(epoch => {
    const read = readSnapshot(journal, epoch)
    if (read.ok || read.fault.code === 'refused') return []
    const path = snapshotPath(journal, epoch)
    return [
      toBackup(path, {
        what: 'snapshot',
        state: 'warn',
        detail: `${relative(root, path)} cannot be read; an older one and the journal are used`,
      }),
    ]
  })
}

/** Bodies of long messages that no message and no session names any more. */
const oversize = ({ root, store }: Place): Leftover[] => {
  const { messageArchive, sessions: folder } = layout(root)
  const bodies = join(messageArchive, 'oversize')
  const found = names(bodies).filter(name => name.endsWith('.txt') && isFile(join(bodies, name)))
  if (found.length === 0) return []
  const texts = [
    ...store.inboxNames.flatMap(name =>
      store
        .inbox(name)
        .read(0)
        .map(({ value }) => value.message.content),
    ),
    ...names(folder).map(name => (isFile(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '')),
  ]
  return found
    .filter(name => !texts.some(text => text.includes(name)))
    .map(name =>
      toBackup(join(bodies, name), {
        what: 'long message',
        state: 'warn',
        detail: `${relative(root, join(bodies, name))} is named by no message and no session`,
      }),
    )
}
