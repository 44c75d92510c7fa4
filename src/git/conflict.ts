import { ok, type Result } from '../lib/result.ts'
import { type HubRepository, mergeBase } from './repository.ts'
import { zParts } from './run.ts'

/** Where two sides meet that do not come together, in detail. */
export interface Conflict {
  /** Of the first paths in conflict: the parts in question, between git's marks; none of a file that is binary, or gone on one side. */
  readonly files: readonly { readonly path: string; readonly hunks: readonly string[] }[]
  /** What came to the trunk since the branch left it and touches these paths, newest first. */
  readonly since: readonly {
    readonly commit: string
    readonly subject: string
    readonly files: readonly string[]
  }[]
}

const most = { files: 10, since: 10, blobBytes: 1024 * 1024 }

/** What conflicts between the trunk's commit `onto` and `head`, in these paths; the whole of no large file is looked at. */
export const conflict = async (
  hub: HubRepository,
  what: { head: string; onto: string; files: readonly string[] },
): Promise<Result<Conflict>> => {
  const { head, onto } = what
  const merged = await hub.git(['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages', onto, head], {
    codes: [0, 1],
  })
  if (!merged.ok) return merged
  const tree = zParts(merged.value.stdout)[0] ?? ''
  const files: { path: string; hunks: string[] }[] = []
  for (const path of what.files.slice(0, most.files)) {
    const blob = await hub.git(['cat-file', 'blob', `${tree}:${path}`], {
      codes: [0, 128],
      maxBytes: most.blobBytes,
    })
    if (!blob.ok) return blob
    files.push({ path, hunks: blob.value.code === 0 ? hunksOf(blob.value.stdout) : [] })
  }
  const base = await mergeBase(hub.git, onto, head)
  if (!base.ok) return base
  if (base.value === null) return ok({ files, since: [] })
  const log = await hub.git([
    '--literal-pathspecs',
    'log',
    '--first-parent',
    '-m',
    '--no-renames',
    '--name-only',
    '-z',
    '--format=%x01%H%x00%s',
    `--max-count=${most.since}`,
    `${base.value}..${onto}`,
    '--',
    ...what.files,
  ])
  if (!log.ok) return log
  const since = log.value.stdout
    .split('\x01')
    .slice(1)
    .map(entry => {
      const [commit = '', subject = '', ...names] = entry.split('\0')
      return { commit, subject, files: names.map(name => name.replace(/^\n/, '')).filter(name => name !== '') }
    })
  return ok({ files, since })
}

/** The parts of a text that stand between git's marks, which are said to be of the trunk's and of the branch's side. */
const hunksOf = (text: string): string[] => {
  const hunks: string[] = []
  let open: string[] | null = null
  for (const line of text.split('\n')) {
    if (/^<{7} /.test(line)) open = ['<<<<<<< the trunk']
    else if (open && /^>{7} /.test(line)) {
      hunks.push([...open, '>>>>>>> your branch'].join('\n'))
      open = null
    } else open?.push(line)
  }
  return hunks
}
