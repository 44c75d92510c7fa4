import { join } from 'node:path'
import { checkFirst } from '../git/hub.ts'
import type { Clock } from '../lib/clock.ts'
import { killVariable } from '../lib/points.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { Hello } from '../protocol/rpc.ts'
import { probeSandbox } from '../sandbox/probe.ts'
import type { Probe } from '../sandbox/shell.ts'
import { checkPlaces } from '../store/places.ts'
import { findRoot, type LoadedConfig, layout, loadConfig } from '../store/root.ts'
import { checkVersions } from '../store/versions.ts'
import { startDaemon } from '../supervisor/daemon.ts'
import type { Daemon } from '../supervisor/daemon-options.ts'
import { AllStarted } from './all-started.ts'
import { type Cli, type Commands, type Globals, handler, tell } from './cli.ts'
import { connectDaemon } from './connect-daemon.ts'
import { detach, type Ready, readyOf } from './detach.ts'
import { excludeRunFiles } from './exclude.ts'
import { openModels } from './models.ts'
import { leaveTerminal, screen } from './out.ts'
import { downLines } from './render/down.ts'
import { renderEvent } from './render/event.ts'
import { version } from './version.ts'

/** `team up`. */
export const up = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'up',
    'Run the daemon: in front, or detached with -d',
    y =>
      y
        .option('detach', {
          alias: 'd',
          type: 'boolean',
          default: false,
          describe: 'in the background; ready when this returns',
        })
        .option('once', {
          type: 'boolean',
          default: false,
          describe: 'end when nothing can go on without a person: 0 if all is done, else 1',
        })
        .option('takeover', {
          type: 'boolean',
          default: false,
          describe: 'your word that a holder on another host is dead',
        })
        .option('detached', { type: 'boolean', default: false, hidden: true })
        .option('child', { type: 'number', hidden: true })
        .option('died', { type: 'string', hidden: true })
        .option('parent', {
          type: 'boolean',
          default: true,
          describe: 'start the daemon again when it dies; --no-parent where a service manager does that',
        })
        .example('$0 up', 'in front: Ctrl-C asks everyone to shut down, a second one stops at once')
        .example('$0 up -d && $0 logs -f', 'in the background, and watch')
        .epilogue(
          'Ctrl-C, SIGTERM and (in front) the end of the terminal are all the same as team down: everyone is asked, one who rejects keeps the daemon running, a second signal stops at once. Detached it outlives the terminal. Output that nobody reads is dropped; the daemon goes on.',
        ),
    handler(cli, args => act(cli, args)),
  )

interface Up extends Globals {
  detach: boolean
  once: boolean
  takeover: boolean
  detached: boolean
  child: number | undefined
  died: string | undefined
}

const act = async (cli: Cli, args: Up): Promise<Result<number>> => {
  // Past a limit on the size of files a write is to fail with its reason, as on a full disk, and not to end the process.
  process.on('SIGXFSZ', () => undefined)
  const isChild = args.child !== undefined
  const ready = args.detached || isChild ? readyOf(process, isChild) : null
  const result = await start(cli, args, ready)
  // The first one of all tells what is wrong and leaves it at that; a later one is tried again.
  const isDisk = result.ok ? result.value.isDisk : result.fault.code === 'io' && (args.child ?? 0) > 0
  // Whoever detached this tells the fault; the log has it too.
  if (!result.ok && !isDisk) await ready?.failed(result.fault)
  if (isChild) await (isDisk ? ready?.disk() : ready?.ended())
  return result.ok ? ok(result.value.exit) : result
}

/** How `team up` ended. `isDisk`: since the disk did not let it go on. */
interface End {
  readonly exit: number
  readonly isDisk: boolean
}

const start = async (cli: Cli, args: Up, ready: Ready | null): Promise<Result<End>> => {
  const found = findRoot({ root: args.root, cwd: cli.cwd, env: cli.env })
  if (!found.ok) return found
  const root = found.value
  const running = await connectDaemon(root)
  if (running.ok) {
    running.value.client.close()
    return fail(
      'held',
      `a daemon runs for ${root} already, pid ${running.value.hello.pid}`,
      'See team status; stop it with team down.',
    )
  }
  const loaded = loadConfig(root)
  if (!loaded.ok) return loaded
  const places = checkPlaces(root)
  if (!places.ok) return places
  const versions = checkVersions(root)
  if (!versions.ok) return versions
  const { mode, workspace, config } = loaded.value
  // What cannot be worked on is refused before a first start has made anything.
  const workable =
    mode === 'git' ? await checkFirst({ ...config, workspace, hubDir: layout(root).hub, env: base(cli) }) : ok(null)
  if (!workable.ok) return workable
  if (args.detach && !args.detached) {
    const detached = await detach(cli, root, args)
    return detached.ok ? ok({ exit: detached.value, isDisk: false }) : detached
  }
  for (const warning of loaded.value.warnings) cli.out.note(`warning: ${warning}`)
  const probe = await probeSandbox()
  for (const line of sandboxLines(loaded.value, probe)) cli.out.note(line)
  const models = await openModels(loaded.value.members, cli.env)
  if (!models.ok) return models
  try {
    const show = screen(cli.out)
    const threads = new AllStarted(cli.clock)
    const signals = listen(cli.clock, { hangUp: !args.detached })
    const started = await startDaemon({
      root,
      workspace: loaded.value.workspace,
      mode: loaded.value.mode,
      config: loaded.value.config,
      members: models.value.members,
      endpoints: async members => {
        const reached = await models.value.resolve(members)
        return reached.ok
          ? ok({ ...reached.value, env: { ...base(cli), ...reached.value.env } })
          : fail('config', `config.json: ${reached.fault.message}`, reached.fault.hint)
      },
      dataPaths: loaded.value.dataPaths,
      secrets: models.value.secrets,
      threadEnv: { ...base(cli), ...models.value.env },
      threadEntry: join(cli.dist, 'teammate.js'),
      scribeEntry: join(cli.dist, 'scribe.js'),
      probe,
      version,
      clock: cli.clock,
      once: args.once,
      takeover: args.takeover,
      died: args.died ?? null,
      onDeathCounted: () => void ready?.counted(),
      onWork: () => void ready?.works(),
      onEntry: entry => {
        if (entry.event.startsWith('teammate.')) threads.changed()
        const line = renderEvent(entry, { now: cli.clock.wall(), paint: cli.paint, all: false })
        if (line !== null) show(line)
      },
    })
    if (!started.ok) return started
    const daemon = started.value
    signals.to(daemon, loaded.value.config.limits.graceSeconds * 1000, line => show(line))
    const excluded = await excludeRunFiles(root, cli.env)
    if (!excluded.ok) tell(cli, excluded.fault, args.verbose)
    await daemon.ready
    await threads.wait(daemon)
    if (!daemon.isEnding) {
      await ready?.ready(daemon.hello)
      show(readyLine(daemon.hello, loaded.value))
    }
    const { exit, reason, isDisk } = await daemon.done
    signals.end()
    show(`the daemon has stopped: ${reason}`)
    return ok({ exit, isDisk })
  } finally {
    await models.value.close()
  }
}

const readyLine = (hello: Hello, { members, mode, workspace }: LoadedConfig): string =>
  `ready, pid ${hello.pid}: ${members.map(member => member.name).join(', ')} on ${workspace} (${mode} mode)`

/** What a person must know before commands run, or do not. */
const sandboxLines = ({ config }: LoadedConfig, probe: Probe): string[] => {
  if (config.sandbox === 'off')
    return ['sandbox is off: authority is not defended on this machine (same user, same files)']
  if (probe.kind !== 'none') return []
  return config.sandbox === 'required'
    ? [
        `no sandbox works here (${probe.detail}), and config.json requires one: commands and verify are refused`,
        `      ${probe.remedy ?? ''}`,
      ]
    : [
        `no sandbox works here (${probe.detail}): only allowed commands run, and authority is not defended on this machine`,
      ]
}

/** The part of the environment that any program needs; everything else stays here. */
const base = (cli: Cli): Record<string, string> => {
  const kept: Record<string, string> = {}
  for (const name of ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', killVariable]) {
    const value = cli.env[name]
    if (value !== undefined) kept[name] = value
  }
  return kept
}

/**
 * SIGINT, SIGTERM and SIGHUP all go the way of `team down`; the second stops everyone by force. One that comes before the
 * daemon stands is kept for it. Two within a tenth of a second are one: a terminal may send Ctrl-C to a whole group, and
 * whoever started us passes it on.
 */
const listen = (clock: Clock, o: { hangUp: boolean }) => {
  const names = ['SIGINT', 'SIGTERM', ...(o.hangUp ? (['SIGHUP'] as const) : [])] as const
  let asked = 0
  let last = -1000
  let pass: ((force: boolean) => void) | null = null
  const onSignal = () => {
    const now = clock.mono()
    if (now - last < 100) return
    last = now
    asked++
    // Nothing stands yet that could be stopped in order; whatever a kill leaves, the next start puts right.
    if (pass === null && asked > 1) process.exit(1)
    pass?.(asked > 1)
  }
  const onHangUp = () => {
    if (o.hangUp && process.stdout.isTTY) leaveTerminal()
  }
  process.on('SIGHUP', onHangUp)
  for (const name of names) process.on(name, onSignal)
  return {
    to: (daemon: Daemon, graceMs: number, say: (line: string) => void) => {
      pass = force => {
        say(force ? 'stopping everyone at once' : 'asking everyone to shut down; once more stops at once')
        void daemon.down({ force, timeoutMs: force ? 0 : graceMs }).then(report => {
          if (!report.ok) say(report.fault.message)
          else if (!force) for (const line of downLines(report.value)) say(line)
          // One who rejected keeps the daemon: the next signal asks again.
          if (report.ok && report.value.rejected.length > 0) asked = 0
        })
      }
      if (asked > 0) pass(asked > 1)
    },
    /** The daemon has stopped: a key that still comes before the process is gone changes nothing, its exit code neither. */
    end: () => {
      pass = () => {}
    },
  }
}
