import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { execa } from 'execa'
import { bindGit } from '../../git/run.ts'
import { type Clock, delay, clock as systemClock } from '../../lib/clock.ts'
import { ok, type Result } from '../../lib/result.ts'
import { layout } from '../../store/root.ts'
import { oneLine } from '../render/text.ts'
import { type Command, type DaemonChild, runTeam, startDaemonChild } from './child.ts'
import { differences, readFacts, type Summary, summarize } from './facts.ts'
import { decideAll, type Person } from './human.ts'
import { Progress } from './progress.ts'
import { type DemoFolders, makeDemo } from './repo.ts'
import { demoTasks, demoTeam, dropText } from './tasks.ts'

export interface DemoOptions {
  /** Whether its folder stays, to be looked at. One that did not go as expected always stays. */
  readonly keep: boolean
  /** Only the summary, as JSON, on stdout. */
  readonly json: boolean
  /** The program and arguments that run the `team` command; the one that runs now when left out. */
  readonly team?: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly clock?: Clock
  /** A line of text for a person, or of JSON. */
  readonly say?: (line: string) => void
  /** Decides in place of the demo's policy; what comes of it is then not held against what the demo means to show. */
  readonly person?: Person | null
  /** All of it must be done by then. */
  readonly limitMs?: number
}

/** What a demo came to: what `--json` prints. */
export interface Outcome extends Summary {
  readonly ok: boolean
  readonly seconds: number
  readonly tests: { readonly passed: number; readonly failed: number }
  /** Where all of it lies; null when it was taken away. */
  readonly folder: string | null
  readonly problems: readonly string[]
}

/**
 * Runs a throwaway team on a small real repository, from dropped tasks to landed work, through the real command: `team up`
 * as a child process, approvals over its socket, `team down`, `team land`. Needs no key and no network. The summary is
 * computed from the files that are left. Returns the exit code: 0 when everything came as it should, else 1.
 */
export const runDemo = async (options: DemoOptions): Promise<number> => {
  const clock = options.clock ?? systemClock
  const say = options.say ?? ((line: string) => void process.stdout.write(`${line}\n`))
  const began = clock.mono()
  const tell = options.json ? () => undefined : say
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'team-demo-')))
  const stop = new AbortController()
  const person = options.person ?? null
  const limit = AbortSignal.timeout(options.limitMs ?? (person ? 3_600_000 : 180_000))
  const onSignal = () => stop.abort(new Error('it was interrupted'))
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  try {
    const env = scrubbed(options.env ?? process.env)
    const team = options.team ?? [process.execPath, process.argv[1] ?? 'team']
    const show = (who: string, what: string) =>
      tell(`${((clock.mono() - began) / 1000).toFixed(1).padStart(5)} s  ${who.padEnd(10)}  ${oneLine(what, 110)}`)
    tell(`A team of ${demoTeam.length}, ${demoTasks.length} tasks, one small repository; no key, no network: ${dir}`)
    const run: Run = { dir, command: { team, env, clock }, show, signal: AbortSignal.any([stop.signal, limit]), person }
    const done = await perform(run)
    const problems = done.ok ? done.value.problems : [done.fault.message, ...(person ? [] : asFar(dir))]
    const stays = options.keep || problems.length > 0
    const outcome: Outcome = {
      ok: problems.length === 0,
      seconds: Math.round((clock.mono() - began) / 100) / 10,
      ...summarize(readFacts(join(dir, 'tally-team'))),
      tests: done.ok ? done.value.tests : { passed: 0, failed: 0 },
      folder: stays ? dir : null,
      problems,
    }
    if (!stays) rmSync(dir, { recursive: true, force: true })
    if (options.json) say(JSON.stringify(outcome, null, 2))
    else for (const line of lines(outcome, spoken(team))) say(line)
    return outcome.ok ? 0 : 1
  } finally {
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
}

interface Run {
  readonly dir: string
  readonly command: Command
  readonly show: (who: string, what: string) => void
  readonly signal: AbortSignal
  readonly person: Person | null
}

interface Performed {
  readonly tests: Outcome['tests']
  readonly problems: readonly string[]
}

const perform = async (run: Run): Promise<Result<Performed>> => {
  const { dir, command, show } = run
  const made = await makeDemo(dir, command.env)
  if (!made.ok) return made
  const { root, workspace } = made.value
  const log = (name: string) => join(dir, `${name}.log`)
  const up = await startDaemonChild(command, root, log('up'), 30_000)
  if (!up.ok) return up
  const worked = await work(run, made.value, up.value)
  if (!worked.ok) {
    await up.value.stop(30_000)
    return worked
  }
  const down = await runTeam(command, root, ['down'], log('down'))
  if (!down.ok) {
    await up.value.stop(2000)
    return down
  }
  // After `down` the daemon ends by itself; one that does not is ended, and its exit code tells.
  await Promise.race([up.value.ended, delay(10_000, undefined, true)])
  const ended = await up.value.stop(2000)
  show('team down', down.value.trim().split('\n').join('; '))
  const landed = await runTeam(command, root, ['land'], log('land'))
  if (!landed.ok) return landed
  show('team land', landed.value.trim().split('\n')[0] ?? '')
  const tests = await runTests(workspace, command.env)
  const state = await landing(run, made.value)
  const problems = [
    ...(ended.exit === 0 ? [] : [`team up ended with ${ended.signal ?? `exit ${ended.exit}`}`]),
    ...(run.person ? [] : differences(readFacts(root))),
    ...(state.ok ? state.value : [state.fault.message]),
    ...(tests.passed > 0 && tests.failed === 0 ? [] : [`the repository's tests: ${JSON.stringify(tests)}`]),
  ]
  return ok({ tests, problems })
}

/** Drops the tasks into the running team and stands in for the human until all have ended. */
const work = async (run: Run, { root }: DemoFolders, daemon: DaemonChild): Promise<Result<void>> => {
  const progress = new Progress()
  const { tasks } = layout(root)
  mkdirSync(tasks, { recursive: true })
  // Backwards: a task may be dropped before those that it waits for.
  for (const task of [...demoTasks].reverse()) writeFileSync(join(tasks, `${task.key}.md`), dropText(task))
  const early = new AbortController()
  void daemon.ended.then(end => early.abort(new Error(`team up ended too early: ${end.signal ?? `exit ${end.exit}`}`)))
  const done = await decideAll(
    daemon.client,
    entry => {
      const line = progress.line(entry)
      if (line) run.show(line.who, line.what)
    },
    AbortSignal.any([run.signal, early.signal]),
    run.person,
  )
  daemon.client.close()
  return done
}

/** The repository's own tests, as they are on the base branch now. */
const runTests = async (workspace: string, env: Readonly<Record<string, string>>): Promise<Outcome['tests']> => {
  const { stdout } = await execa(process.execPath, ['--test', '--test-reporter=tap'], {
    cwd: workspace,
    env,
    extendEnv: false,
    reject: false,
    timeout: 60_000,
  })
  const count = (what: string) => Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(stdout)?.[1] ?? 0)
  return { passed: count('pass'), failed: count('fail') }
}

/** Whether the base branch is where the trunk is, and the work tree clean. */
const landing = async (run: Run, { root, workspace }: DemoFolders): Promise<Result<string[]>> => {
  const git = bindGit({ env: run.command.env })
  const [base, trunk, status] = await Promise.all([
    git(['rev-parse', 'main^{tree}'], { cwd: workspace }),
    git(['rev-parse', 'team/trunk^{tree}'], { gitDir: layout(root).hub }),
    git(['status', '--porcelain'], { cwd: workspace }),
  ])
  if (!base.ok) return base
  if (!trunk.ok) return trunk
  if (!status.ok) return status
  return ok([
    ...(base.value.stdout === trunk.value.stdout ? [] : ['main is not what the trunk is']),
    ...(status.value.stdout === '' ? [] : [`the repository is not clean: ${status.value.stdout.trim()}`]),
  ])
}

/** How far it came, for a run that broke off. */
const asFar = (dir: string): string[] => {
  const facts = readFacts(join(dir, 'tally-team'))
  return facts.tasks.size === 0 ? [] : differences(facts)
}

/** What the command needs of the environment; no key, and nothing that points git or team elsewhere. */
const scrubbed = (env: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'XDG_RUNTIME_DIR'].flatMap(name => {
      const value = env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )

/** The command as it can be typed again: by its name where it was called by that, else as it was called. */
const spoken = (team: readonly string[]): string => {
  const path = team.at(-1) ?? ''
  if (basename(path) === 'team') return 'team'
  return `node ${/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`}`
}

const lines = (outcome: Outcome, team: string): string[] => {
  const { tasks, notDone, merges, messages, shutdowns, tests, folder } = outcome
  const sentBack =
    [...merges.returned, ...merges.rejected].map(each => `${each.task} (${oneLine(each.why, 80)})`).join(', ') || 'none'
  return [
    '',
    `From the files, after ${outcome.seconds} s:`,
    `  tasks      ${tasks.completed} of ${tasks.dropped} completed, ${tasks.merged} merged and verified`,
    ...notDone.map(each => `  not done   ${each.task}: ${oneLine(each.why, 160)}`),
    `  merges     ${merges.approved} approved; ${notDone.length === 0 ? 'sent back and mended' : 'sent back'}: ${sentBack}`,
    `  decisions  plans approved ${outcome.plans.approved}, questions answered ${outcome.questions.answered}, permissions granted ${outcome.permissions.granted}, leases held ${outcome.leases.held} (${outcome.leases.waited} waited for)`,
    `  messages   ${messages.all}, of them ${messages.betweenTeammates} between teammates; dead letters ${outcome.deadLetters}`,
    `  shutdown   ${shutdowns.approved} of ${demoTeam.length} teammates agreed, after ${shutdowns.rejected} had said no`,
    `  tests      ${tests.passed} passed, ${tests.failed} failed, on main after team land`,
    ...outcome.problems.map(problem => `  NOT AS EXPECTED: ${problem}`),
    ...(folder !== null
      ? [
          '',
          'Where to look:',
          `  ${join(folder, 'tally')}: the repository; git log --graph shows the merges`,
          `  ${join(folder, 'tally-team')}: the team root; .tasks/ .messages/ .transcripts/ team/<name>/`,
          `  cd ${join(folder, 'tally')} && ${team} status`,
          '  and in the same way: task list, task graph, logs, requests --all, inbox',
        ]
      : []),
  ]
}
