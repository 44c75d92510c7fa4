import { existsSync, realpathSync } from 'node:fs'
import { hostname } from 'node:os'
import { bindGit } from '../../git/run.ts'
import { iso } from '../../lib/clock.ts'
import { fail, ok, type Result } from '../../lib/result.ts'
import { hold, openReadOnly } from '../../store/index.ts'
import { type LoadedConfig, layout } from '../../store/root.ts'
import { readHolderFile } from '../../store/rpc/socket-path.ts'
import type { Store } from '../../store/store.ts'
import { holdForAMoment } from '../../supervisor/offline.ts'
import type { Cli } from '../cli.ts'
import { connectDaemon } from '../connect-daemon.ts'
import { plural } from '../render/text.ts'
import { version } from '../version.ts'
import { leftFiles } from './leftovers/files.ts'
import { leftByHolder, leftRunning } from './leftovers/holders.ts'
import { Backup, type Leftover, type Place } from './leftovers/leftover.ts'
import { leftInRepositories } from './leftovers/repositories.ts'
import type { Check } from './machine.ts'

const remedy = 'team doctor --fix mends it, after a backup.'

/** What older or broken runs left in a root whose journal can be read, and what would be done about it. Changes nothing. */
export const leftoverChecks = async (cli: Cli, given: string, config: LoadedConfig): Promise<Check[]> => {
  if (!existsSync(layout(given).journal)) return []
  const root = realpathSync(given)
  const free = await isFree(root)
  if (!free.ok)
    return [{ what: 'leftovers', state: 'ok', detail: 'looked for only while nobody holds the root', remedy: null }]
  const opened = openReadOnly(root, cli.clock)
  if (!opened.ok) return []
  const found = [
    ...leftByHolder(root),
    ...(await leftRunning(root)),
    ...(await leftIn(placeOf(cli, root, config, opened.value.store))),
  ]
  return found.length === 0
    ? [{ what: 'leftovers', state: 'ok', detail: 'none', remedy: null }]
    : found.map(each => ({
        what: each.what,
        state: each.state,
        detail: each.detail,
        remedy: each.remedy ?? remedy,
        fix: each.fix,
      }))
}

/**
 * Mends what `leftoverChecks` finds, while it holds the root. Faults: `refused` while a daemon runs, and those of holding a
 * root. Everything that is taken away lies in the backup, which the last check names.
 */
export const mendLeftovers = async (cli: Cli, given: string, config: LoadedConfig): Promise<Result<Check[]>> => {
  if (!existsSync(layout(given).journal)) return ok([])
  const root = realpathSync(given)
  const free = await isFree(root)
  if (!free.ok) return free
  const before = leftByHolder(root)
  const held = await hold(root, 'cli', { version, clock: cli.clock })
  if (!held.ok) return held
  const backup = new Backup(root, iso(cli.clock.wall()))
  const checks: Check[] = []
  try {
    const { store } = held.value
    const found = [...before, ...(await leftRunning(root)), ...(await leftIn(placeOf(cli, root, config, store)))]
    for (const each of found) checks.push(await mended(each, backup))
    const count = checks.filter(check => check.fixed).length
    if (count > 0) {
      const text = `team doctor --fix mended ${plural(count, 'leftover')}; what was taken away lies in ${backup.folder}`
      store.note({ event: 'warning', by: 'human', info: { text } })
    }
  } finally {
    await held.value.release()
  }
  if (checks.some(check => check.fixed && /page$/.test(check.what))) {
    const { workspace, mode, members } = config
    const options = { root, workspace, mode, config: config.config, members, version, clock: cli.clock, env: cli.env }
    // Writes the pages anew, as every command does that changes something.
    const again = await holdForAMoment(options)
    if (!again.ok) return again
    await again.value.close()
  }
  if (checks.length === 0) return ok([{ what: 'leftovers', state: 'ok', detail: 'none', remedy: null }])
  const kept = { what: 'backup', state: 'ok', detail: backup.folder, remedy: null } as const
  return ok(backup.isUsed ? [...checks, kept] : checks)
}

const leftIn = async (place: Place): Promise<Leftover[]> => [...leftFiles(place), ...(await leftInRepositories(place))]

const mended = async (left: Leftover, backup: Backup): Promise<Check> => {
  const { what, state, detail, fix, mend } = left
  if (mend === null) return { what, state, detail, remedy: left.remedy ?? null, fix, fixed: false }
  const why = await mend(backup).catch((error: Error) => error.message)
  return why === null
    ? { what, state: 'ok', detail: `${detail}: ${fix}`, remedy: null, fix, fixed: true }
    : { what, state, detail: `${detail}; it could not be mended: ${why}`, remedy: null, fix, fixed: false }
}

const placeOf = (cli: Cli, root: string, config: LoadedConfig, store: Store): Place => {
  const gitDir = layout(root).hub
  const hasHub = config.mode === 'git' && existsSync(gitDir)
  return { root, store, config, git: hasHub ? bindGit({ env: cli.env, gitDir }) : null }
}

/** Does nobody hold the root, as far as can be told without taking it? What looks like a leftover is in use else. */
const isFree = async (root: string): Promise<Result<null>> => {
  const running = await connectDaemon(root)
  if (running.ok) {
    running.value.client.close()
    return fail('refused', `a daemon runs for ${root}: what it uses is no leftover`, 'stop it first: team down')
  }
  if (running.fault.code !== 'offline') return running
  const host = readHolderFile(root)?.host
  return host === undefined || host === hostname()
    ? ok(null)
    : fail('refused', `${root} was last held on host ${host}, which may still be running`)
}
