// Twenty approved branches on their way to the trunk: in batches that are halved when they are red, against one by one.
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folder, now, output, product } from '../lib.mjs'
import { must } from '../team.mjs'

const branches = 20
/** Of the branches, the one whose work makes the result red. */
const bad = 11
const verifySeconds = 1
const trunk = 'team/trunk'

const modules = async () => {
  const names = {
    hub: 'src/git/hub.ts',
    config: 'src/protocol/config.ts',
    memory: 'src/store/memory.ts',
    core: 'src/supervisor/core.ts',
    log: 'src/supervisor/log.ts',
    notices: 'src/supervisor/notices.ts',
    proof: 'src/supervisor/proof.ts',
    shell: 'src/sandbox/make-shell.ts',
    clock: 'src/lib/clock.ts',
  }
  const loaded = await Promise.all(Object.values(names).map(product))
  return Object.fromEntries(Object.keys(names).map((name, i) => [name, loaded[i]]))
}

/** A repository of a hundred files, its hub, and a branch for each task that adds one file. */
const makeHub = async (top, { openHub }, env, isBad) => {
  const workspace = join(top, 'ws')
  mkdirSync(workspace)
  const git = (...args) => execFileSync('git', args, { cwd: workspace, env, stdio: ['ignore', 'pipe', 'pipe'] })
  git('init', '-q', '-b', 'main')
  for (let n = 0; n < 100; n++) writeFileSync(join(workspace, `${n}.txt`), `${n}\n`.repeat(100))
  git('add', '-A')
  git('-c', 'user.name=ann', '-c', 'user.email=ann@example.invalid', 'commit', '-q', '-m', 'Start')
  const hub = must(await openHub({ workspace, hubDir: join(top, 'root', '.team', 'hub.git'), trunk, env }))
  const from = await hub.trunk()
  const data = text => `data ${Buffer.byteLength(text)}\n${text}\n`
  const commits = Array.from({ length: branches }, (_, i) => {
    const name = isBad && i === bad - 1 ? 'bad' : `work-${i + 1}`
    return [
      `commit refs/heads/team/task-${i + 1}`,
      'committer ann <ann@example.invalid> 1700000000 +0000',
      `${data('Work')}from ${from}`,
      `M 644 inline ${name}\n${data(`${name}\n`)}`,
    ].join('\n')
  })
  execFileSync('git', [`--git-dir=${hub.dir}`, 'fast-import', '--quiet'], {
    input: `${commits.join('\n')}\ndone\n`,
    env,
  })
  return hub
}

/** All that is asked before the first merge is begun, then the time until the last one has come to its end. */
const drain = async (all, mergeBatch, isBad) => {
  const top = folder('queue')
  const env = { PATH: process.env.PATH ?? '', HOME: top, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' }
  const hub = await makeHub(top, all.hub, env, isBad)
  const { clock } = all.clock
  const store = all.memory.openMemoryStore(clock)
  let verified = 0
  store.onEntry(({ event }) => {
    if (event === 'verify.ended') verified++
  })
  const config = all.config.Config.parse({
    teammates: [{ name: 'ann' }],
    approvals: { merge_request: 'auto' },
    verify: `sleep ${verifySeconds} && test ! -e bad`,
    limits: { mergeBatch },
  })
  const root = join(top, 'root')
  const core = all.core.makeCore(
    {
      store,
      root,
      workspace: hub.workspace.dir,
      mode: 'git',
      sandboxed: false,
      config,
      members: all.config.members(config),
      clock,
      hub,
    },
    () => null,
  )
  const notices = new all.notices.Notices(
    core,
    all.log.openLog(root, join(root, 'log'), text => text, clock),
  )
  const proof = new all.proof.Proof({
    core,
    notices,
    hidden: [],
    signal: new AbortController().signal,
    shell: view =>
      all.shell.makeShell({
        view,
        probe: { kind: 'none', detail: 'not looked for', remedy: null },
        mode: 'off',
        permissions: config.permissions,
        env,
        marker: 'bench-queue',
      }),
  })
  const advance = id => proof.advance(id, moved => (moved ? advance(id) : undefined))
  const approved = () => core.requests.all().filter(({ status }) => status === 'approved').length
  let open
  const held = proof.inLane(
    () =>
      new Promise(resolve => {
        open = resolve
      }),
  )
  const { ids } = must(
    core.tasks.add(
      Array.from({ length: branches }, (_, i) => ({ title: `Work ${i + 1}` })),
      { by: 'human' },
    ),
  )
  const allApproved = new Promise(resolve => {
    store.requests.watch(() => approved() === branches && resolve())
  })
  for (const [i, id] of ids.entries()) {
    const branch = `team/task-${i + 1}`
    must(core.tasks.move(id, 'ann', { move: 'start', owner: 'ann', branch }))
    must(core.tasks.move(id, 'ann', { move: 'claim', head: must(await hub.branchHead(branch)), summary: 'done' }))
    advance(id)
  }
  await allApproved
  const from = now()
  open()
  await held
  while (proof.busy) await proof.settled()
  const seconds = (now() - from) / 1000
  const merged = ids.filter(id => core.tasks.get(id)?.value.status === 'completed').length
  if (merged !== (isBad ? branches - 1 : branches)) throw new Error(`${merged} of ${branches} were merged`)
  return { seconds, verified, merged }
}

export default {
  title: 'The queue of approved merges',
  method:
    `${branches} branches of one commit each, all approved, then the time until the last has come to its end: merged, verified on the merged result, on the trunk; ` +
    `or sent back. \`verify\` takes ${verifySeconds} s and nothing of the processor; each has a clean checkout of 100 files. With one bad branch, the ${bad}th: found by halves, ` +
    'and run on the trunk alone as well. The real queue on real git, records in memory, no sandbox. `limits.mergeBatch` is 1 for one by one, 8 where it is not set.',
  turns: 3,
  base: 'one by one, green',
  columns: [
    { key: 'seconds', label: 'total, s', ratio: true },
    { key: 'verified', label: 'runs of verify' },
    { key: 'merged', label: 'merged' },
  ],
  async prepare() {
    const all = await modules()
    const variants = [false, true].flatMap(isBad =>
      [1, 8, branches].map(batch => ({
        name: `${batch === 1 ? 'one by one' : `batches of ${batch}`}, ${isBad ? 'one bad' : 'green'}`,
        measure: () => drain(all, batch, isBad),
      })),
    )
    return {
      variants,
      missing: [],
      versions: { git: output('git', 'version')?.replace('git version ', '') },
      close: async () => {},
    }
  },
}
