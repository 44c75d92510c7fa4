// A clone, a switch of task and a merge, on a repository of 10,000 files, against plain git commands that do the same.
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folder, median, now, output, product } from '../lib.mjs'
import { must } from '../team.mjs'

const files = 10_000
const folders = 200
/** Switches and merges of one turn, of which the median counts. */
const tasks = 5
const trunk = 'team/trunk'

const gitEnv = home => ({
  PATH: process.env.PATH,
  HOME: home,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  ...Object.fromEntries(
    ['AUTHOR', 'COMMITTER'].flatMap(who => [
      [`GIT_${who}_NAME`, 'ann'],
      [`GIT_${who}_EMAIL`, 'ann@example.invalid'],
    ]),
  ),
})
const gitIn =
  (cwd, home) =>
  (...args) =>
    execFileSync('git', ['-c', 'gc.auto=0', ...args], {
      cwd,
      env: gitEnv(home),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim()

/** Two kilobytes a file, each its own. */
const content = n =>
  Array.from({ length: 40 }, (_, line) => `file ${n}, line ${line}, ${(n * 7919 + line) % 1_000_003}\n`).join('')
const pathOf = n => join(`dir-${String(n % folders).padStart(3, '0')}`, `file-${n}.txt`)

const makeRepository = top => {
  const dir = join(top, 'ws')
  mkdirSync(dir)
  const git = gitIn(dir, top)
  git('init', '-q', '-b', 'main')
  for (let n = 0; n < folders; n++) mkdirSync(join(dir, `dir-${String(n).padStart(3, '0')}`))
  for (let n = 0; n < files; n++) writeFileSync(join(dir, pathOf(n)), content(n))
  git('add', '-A')
  git('commit', '-q', '-m', 'Start')
  return dir
}

/** What a task does between the switch and the merge: the same for every variant, and not measured. */
const work = (clone, git, n) => {
  for (let i = 0; i < 10; i++)
    writeFileSync(join(clone, pathOf((n * 31 + i * 977) % files)), `${content(n)}task ${n}\n`)
  git('commit', '-q', '-a', '-m', `Task ${n}`)
}

/** Times of one turn: a clone, then task after task in it. `steps` are the variant's own acts on the same repository. */
const turn = async (top, n, steps) => {
  const clone = join(top, `clone-${n}`)
  const timed = async act => {
    const from = now()
    await act()
    return now() - from
  }
  const made = await timed(() => steps.clone(clone, n))
  const git = gitIn(clone, top)
  const switched = []
  const merged = []
  for (let i = 0; i < tasks; i++) {
    const id = n * tasks + i
    switched.push(await timed(() => steps.switchTo(clone, id)))
    work(clone, git, id)
    merged.push(await timed(() => steps.merge(clone, id)))
  }
  return { clone: made, switch: median(switched), merge: median(merged) }
}

const plain = (top, workspace) => {
  const hub = join(top, 'plain.git')
  execFileSync('git', ['clone', '-q', '--bare', '--no-hardlinks', workspace, hub], { env: gitEnv(top) })
  const inHub = gitIn(hub, top)
  // The team's hub is one pack as well.
  inHub('repack', '-a', '-d', '-q')
  inHub('branch', trunk, 'main')
  return {
    clone: clone =>
      execFileSync('git', ['clone', '-q', '--shared', '--branch', trunk, hub, clone], { env: gitEnv(top) }),
    switchTo(clone, id) {
      const git = gitIn(clone, top)
      git('fetch', '-q', 'origin', trunk)
      git('switch', '-q', '--no-track', '-c', `task-${id}`, `origin/${trunk}`)
    },
    merge(clone, id) {
      inHub('fetch', '-q', clone, `task-${id}:task-${id}`)
      const onto = inHub('rev-parse', trunk)
      const tree = inHub('merge-tree', '--write-tree', trunk, `task-${id}`)
      const commit = inHub('commit-tree', tree, '-p', onto, '-p', `task-${id}`, '-m', `Merge task ${id}`)
      inHub('update-ref', `refs/heads/${trunk}`, commit, onto)
    },
  }
}

/** As people do it by hand: a full clone, and `git merge` in a work tree. */
const byHand = (top, workspace) => {
  const main = join(top, 'main')
  execFileSync('git', ['clone', '-q', workspace, main], { env: gitEnv(top) })
  const inMain = gitIn(main, top)
  inMain('repack', '-a', '-d', '-q')
  return {
    clone: clone => execFileSync('git', ['clone', '-q', '--no-hardlinks', main, clone], { env: gitEnv(top) }),
    switchTo(clone, id) {
      const git = gitIn(clone, top)
      git('fetch', '-q', 'origin', 'main')
      git('switch', '-q', '--no-track', '-c', `task-${id}`, 'origin/main')
    },
    merge(clone, id) {
      inMain('fetch', '-q', clone, `task-${id}`)
      inMain('merge', '-q', '--no-ff', '-m', `Merge task ${id}`, 'FETCH_HEAD')
    },
  }
}

const team = async (top, workspace) => {
  const { openHub } = await product('src/git/hub.ts')
  const { switchScript } = await product('src/git/branch.ts')
  const hub = must(
    await openHub({
      workspace,
      hubDir: join(top, 'root', '.team', 'hub.git'),
      trunk,
      env: { PATH: process.env.PATH, HOME: top },
    }),
  )
  return {
    clone: async (clone, n) => must(await hub.ensureClone(`ann-${n}`, clone)),
    async switchTo(clone, id) {
      const script = switchScript({
        branch: `team/task-${id}`,
        start: await hub.trunk(),
        resume: must(await hub.branchHead(`team/task-${id}`)),
        hub: hub.dir,
        trunkRef: `refs/heads/${trunk}`,
        mergeTrunk: null,
      })
      execFileSync('sh', ['-c', script], { cwd: clone, env: gitEnv(top), stdio: 'pipe' })
    },
    async merge(clone, id) {
      const { head } = must(await hub.fetchBranch(clone, `team/task-${id}`))
      if (must(await hub.unmergeable(head)).length > 0) throw new Error('the work cannot be merged')
      const seen = must(await hub.preview(head))
      if (!seen.clean) throw new Error('the tasks of one clone conflict')
      must(await hub.merge({ head, tree: seen.tree, onto: seen.onto, message: `Merge task ${id}` }))
    },
  }
}

export default {
  title: 'Git: a clone, a switch, a merge',
  method:
    `A repository of ${files} files in ${folders} folders, 20 MB. Clone: a teammate's clone with its files. Switch: from one task's branch to the ` +
    'next one, at the trunk as it is now. Merge: a branch that changed ten files, from the clone to the trunk; no verify, no sandbox. ' +
    'The plain commands do the same: `git clone --shared`; `git fetch`, `git switch -c`; `git fetch`, `merge-tree`, `commit-tree`, `update-ref`. ' +
    'By hand: a clone with objects of its own, and `git merge` in a work tree. The team also saves what is uncommitted, flushes every object and ref ' +
    `to the disk, looks for what must not be merged, and computes each merge again before the trunk moves. Median of ${tasks} tasks a turn.`,
  turns: 5,
  base: 'plain git',
  columns: [
    { key: 'clone', label: 'clone, ms', ratio: true },
    { key: 'switch', label: 'switch, ms', ratio: true },
    { key: 'merge', label: 'merge, ms', ratio: true },
  ],
  async prepare() {
    const top = folder('git')
    const workspace = makeRepository(top)
    const variant = (name, steps) => {
      const place = join(top, name.replaceAll(' ', '-'))
      mkdirSync(place)
      let n = 0
      return { name, measure: () => turn(place, n++, steps) }
    }
    return {
      variants: [
        variant('plain git', plain(top, workspace)),
        variant('plain git, by hand', byHand(top, workspace)),
        variant('the team', await team(top, workspace)),
      ],
      missing: [],
      versions: { git: output('git', 'version')?.replace('git version ', '') },
      close: async () => {},
    }
  },
}
