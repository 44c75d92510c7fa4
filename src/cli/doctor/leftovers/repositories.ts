import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { cloneDamage } from '../../../git/damage.ts'
import type { Git } from '../../../git/run.ts'
import { taskBranch } from '../../../protocol/ids.ts'
import { layout } from '../../../store/root.ts'
import { type Leftover, type Place, refusal, toBackup } from './leftover.ts'

const folders = (at: string): string[] => {
  const stat = lstatSync(at, { throwIfNoEntry: false })
  if (!stat?.isDirectory()) return []
  return readdirSync(at, { withFileTypes: true }).flatMap(each => (each.isDirectory() ? [each.name] : []))
}

/** What is left in the hub, in clones, and of checkouts. Looks at files, and runs git in the hub alone. */
export const leftInRepositories = async (place: Place): Promise<Leftover[]> => [
  ...halfMade(place),
  ...clones(place),
  ...locks(place),
  ...checkouts(place),
  ...(place.git === null ? noHub(place) : await refs(place, place.git)),
]

/** Where clones are, a hub was. */
const noHub = ({ root, config }: Place): Leftover[] => {
  const { team, home } = layout(root)
  const isMissed =
    config.mode === 'git' && folders(team).some(name => existsSync(join(home(name), 'repo', '.git', 'team-clone')))
  return isMissed ? [ofPerson('warn', '.team/hub.git is gone', 'Put it back where you have it; else the')] : []
}

/** Something about the hub that is not mended by a program, since it may hold what nothing else does. */
const ofPerson = (state: 'warn' | 'fail', detail: string, act: string): Leftover => ({
  what: 'hub',
  state,
  detail,
  fix: 'nothing',
  remedy: `${act} next team up makes a new one from the workspace: what was merged and not landed is not on its trunk, and stays in the clones.`,
  mend: null,
})

/** Repositories that were being built when a run ended. */
const halfMade = ({ root }: Place): Leftover[] => {
  const { run, team } = layout(root)
  const places = [run, ...folders(team).map(name => join(team, name))]
  return places.flatMap(at =>
    folders(at)
      .filter(name => /^\.(hub\.git|repo)\.[0-9a-f]{8}\.new$/.test(name))
      .map(name =>
        toBackup(join(at, name), {
          what: 'half-made repository',
          state: 'warn',
          detail: `${relative(root, join(at, name))} was never finished`,
        }),
      ),
  )
}

/** Damaged ones. Those of who is not on the team stay for when it comes back. */
const clones = ({ root, config }: Place): Leftover[] => {
  if (config.mode !== 'git') return []
  const { home } = layout(root)
  return config.members.flatMap(({ name }) => {
    const clone = join(home(name), 'repo')
    if (!lstatSync(clone, { throwIfNoEntry: false })?.isDirectory()) return []
    const at = relative(root, clone)
    const damage = cloneDamage(clone)
    return damage === null
      ? []
      : [
          toBackup(clone, {
            what: 'clone',
            state: 'fail',
            detail: `${at} ${damage}`,
            after: 'the next team up makes it again',
          }),
        ]
  })
}

/** Locks of git: nobody works there while no daemon and no command of the team runs. */
const locks = ({ root, config }: Place): Leftover[] => {
  const { hub, home } = layout(root)
  const repositories =
    config.mode === 'git' ? [hub, ...config.members.map(({ name }) => join(home(name), 'repo', '.git'))] : []
  return repositories.flatMap(at =>
    locksIn(at).map(path =>
      toBackup(path, {
        what: 'git lock',
        state: 'warn',
        detail: `${relative(root, path)} was left by a git that is gone`,
      }),
    ),
  )
}

/** Files that end in `.lock`, wherever git makes some: not among objects, whose folders are many. */
const locksIn = (folder: string): string[] => {
  if (!lstatSync(folder, { throwIfNoEntry: false })?.isDirectory()) return []
  return readdirSync(folder, { withFileTypes: true }).flatMap(each => {
    const path = join(folder, each.name)
    if (each.isDirectory()) return each.name === 'objects' ? [] : locksIn(path)
    return each.isFile() && each.name.endsWith('.lock') ? [path] : []
  })
}

const checkouts = ({ root }: Place): Leftover[] => {
  const { verify } = layout(root)
  return folders(verify).map(name =>
    toBackup(join(verify, name), {
      what: 'checkout',
      state: 'warn',
      detail: `${relative(root, join(verify, name))}: a check that was cut off`,
    }),
  )
}

/** Branches of tasks that are gone, and what a fetch that was cut off left. Their commits stay, under `refs/team/old/doctor/`. */
const refs = async ({ store }: Place, git: Git): Promise<Leftover[]> => {
  const listed = await git([
    'for-each-ref',
    '--format=%(refname) %(objectname)',
    'refs/heads/team',
    'refs/team/incoming',
  ])
  if (!listed.ok)
    return [
      ofPerson(
        'fail',
        `its refs cannot be listed: ${listed.fault.message}`,
        'Mend .team/hub.git, or move it away: the',
      ),
    ]
  const known = new Set([...store.tasks.list()].map(([id]) => `refs/heads/${taskBranch(id)}`))
  return listed.value.stdout.split('\n').flatMap((line): Leftover[] => {
    const [ref = '', head = ''] = line.split(' ')
    const isIncoming = ref.startsWith('refs/team/incoming/')
    if (!isIncoming && (!ref.startsWith('refs/heads/team/task-') || known.has(ref))) return []
    const kept = `refs/team/old/doctor/${ref.slice('refs/'.length)}/${head}`
    return [
      {
        what: 'ref',
        state: 'warn',
        detail: `${ref} ${isIncoming ? 'was being fetched' : 'is the branch of a task that is gone'}`,
        fix: `kept as ${kept}`,
        mend: async backup => {
          const moves = [`update ${kept}\0${head}\0`, `delete ${ref}\0${head}`]
          const moved = await git(['update-ref', '-z', '--stdin'], { input: `${moves.join('\0')}\0` })
          if (moved.ok) backup.note(`${ref} ${head} is now ${kept}`)
          return refusal(moved)
        },
      },
    ]
  })
}
