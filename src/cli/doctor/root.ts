import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ok, type Result } from '../../lib/result.ts'
import { knownFor, resolveModel } from '../../model/index.ts'
import type { ModelConfig } from '../../protocol/config.ts'
import { sayKnown } from '../../protocol/quirks.ts'
import type { Probe } from '../../sandbox/shell.ts'
import { openReadOnly } from '../../store/index.ts'
import { learnedOf, readLearned } from '../../store/learned.ts'
import { checkPlaces } from '../../store/places.ts'
import { type LoadedConfig, layout, loadConfig } from '../../store/root.ts'
import { clientSocket } from '../../store/rpc/socket-path.ts'
import { checkVersions } from '../../store/versions.ts'
import type { Cli } from '../cli.ts'
import { connectDaemon } from '../connect-daemon.ts'
import { resolveFallbacks } from '../models.ts'
import { plural } from '../render/text.ts'
import { leftoverChecks, mendLeftovers } from './leftovers.ts'
import type { Check } from './machine.ts'
import { repositoryChecks } from './repository.ts'
import { savedChecks } from './saved.ts'

const good = (what: string, detail: string): Check => ({ what, state: 'ok', detail, remedy: null })

/** What is to be said of one team root. Changes nothing, but with `isFixing` what older or broken runs left. */
export const rootChecks = async (cli: Cli, root: string, probe: Probe, isFixing: boolean): Promise<Result<Check[]>> => {
  const checks: Check[] = [writable(root)]
  const places = checkPlaces(root)
  if (!places.ok) {
    // What lies in them cannot be looked at before that is mended.
    checks.push({ what: 'folders', state: 'fail', detail: places.fault.message, remedy: places.fault.hint ?? null })
    return ok(checks)
  }
  const versions = checkVersions(root)
  if (!versions.ok) {
    checks.push({
      what: 'versions',
      state: 'fail',
      detail: versions.fault.message,
      remedy: versions.fault.hint ?? null,
    })
    return ok(checks)
  }
  const loaded = loadConfig(root)
  if (!loaded.ok) {
    checks.push({ what: 'config.json', state: 'fail', detail: loaded.fault.message, remedy: loaded.fault.hint ?? null })
    return ok(checks)
  }
  const { config, members, warnings, mode, workspace } = loaded.value
  checks.push(
    warnings.length === 0
      ? good('config.json', `${plural(members.length, 'teammate')}, ${mode} mode on ${workspace}`)
      : { what: 'config.json', state: 'warn', detail: warnings.join('; '), remedy: null },
  )
  if (config.sandbox === 'required' && probe.kind === 'none')
    checks.push({
      what: 'sandbox required',
      state: 'fail',
      detail: 'config.json requires a sandbox and none works here: commands and verify are refused',
      remedy: probe.remedy ?? 'Set "sandbox": "prefer" or "off" in config.json.',
    })
  checks.push(...models(cli, root, loaded.value), await daemon(root), ...(await journal(cli, root)), ...left(root))
  checks.push(...(await repositoryChecks(cli, root, loaded.value)))
  checks.push(...(await savedChecks(cli, root, loaded.value)))
  if (isFixing) {
    const mended = await mendLeftovers(cli, root, loaded.value)
    if (!mended.ok) return mended
    checks.push(...mended.value)
  } else checks.push(...(await leftoverChecks(cli, root, loaded.value)))
  return ok(checks)
}

const writable = (root: string): Check => {
  try {
    accessSync(root, constants.W_OK | constants.X_OK)
    return good('team root', root)
  } catch {
    return {
      what: 'team root',
      state: 'fail',
      detail: `${root} is not writable by you`,
      remedy: 'Give yourself write access.',
    }
  }
}

const models = (cli: Cli, root: string, { members }: LoadedConfig): Check[] => {
  const checks: Check[] = []
  const { models: learned, damage } = readLearned(root)
  if (damage !== null)
    checks.push({
      what: 'learned of models',
      state: 'warn',
      detail: damage,
      remedy: 'Delete it: what endpoints refuse is learned again.',
    })
  const seen = new Set<string>()
  for (const member of members) {
    const resolved = resolveModel(member.model, cli.env)
    if (!resolved.ok) {
      checks.push({
        what: `model of ${member.name}`,
        state: 'fail',
        detail: resolved.fault.message,
        remedy: resolved.fault.hint ?? null,
      })
      continue
    }
    const { config, needsRunbook } = resolved.value
    const say = (config: ModelConfig, what: string): void => {
      const label = `${config.name} at ${config.baseURL}`
      if (seen.has(`${what} ${label}`)) return
      seen.add(`${what} ${label}`)
      const known = sayKnown(knownFor(config, learnedOf(learned, config.baseURL, config.name)))
      checks.push(good(what, [label, ...known].join('; ')))
    }
    if (!needsRunbook) say(config, 'model')
    else if (!seen.has('runbook'))
      checks.push({
        what: 'model',
        state: 'warn',
        detail: 'none is set: only tasks written as runbooks can be carried out',
        remedy: 'export OPENAI_API_KEY=…, or set "model" in config.json.',
      })
    if (needsRunbook) seen.add('runbook')
    const fallbacks = resolveFallbacks(member, cli.env)
    if (fallbacks.ok)
      for (const [i, each] of fallbacks.value.entries())
        say(each.config, member.fallbacks[i]?.isCheaper ? 'cheaper model' : 'fallback')
    else {
      const { message, hint } = fallbacks.fault
      checks.push({ what: `fallbacks of ${member.name}`, state: 'fail', detail: message, remedy: hint ?? null })
    }
  }
  return checks
}

const daemon = async (root: string): Promise<Check> => {
  const running = await connectDaemon(root)
  if (running.ok) {
    running.value.client.close()
    const { pid, version } = running.value.hello
    return good('daemon', `running, pid ${pid}, version ${version}, socket ${clientSocket(root)}`)
  }
  return running.fault.code === 'offline'
    ? good('daemon', `not running; its socket will be ${clientSocket(root)}`)
    : { what: 'daemon', state: 'fail', detail: running.fault.message, remedy: running.fault.hint ?? null }
}

/** Whether it can be read, and the dead letters in it that nobody has looked at. */
const journal = async (cli: Cli, root: string): Promise<Check[]> => {
  const paths = layout(root)
  if (!existsSync(paths.journal)) return [good('journal', 'none yet')]
  const opened = await openReadOnly(root, cli.clock)
  if (!opened.ok)
    return [{ what: 'journal', state: 'fail', detail: opened.fault.message, remedy: opened.fault.hint ?? null }]
  const { store, asOf } = opened.value
  const checks = [
    good('journal', `readable, ${plural(store.tasks.size, 'task')}${asOf === null ? '' : `, last change ${asOf}`}`),
  ]
  if (store.deadLetters.last > store.deadLetters.cursor('user'))
    checks.push({
      what: 'dead letters',
      state: 'warn',
      detail: paths.deadLetters,
      remedy: 'team inbox --dead shows them with their reasons; with --ack they are marked as seen.',
    })
  return checks
}

const names = (dir: string): string[] => (existsSync(dir) ? readdirSync(dir) : [])

/** Files that wait for a person: refused drops and edits. */
const left = (root: string): Check[] => {
  const paths = layout(root)
  const checks: Check[] = []
  const refused = names(paths.tasks).filter(name => name.endsWith('.error.txt'))
  if (refused.length > 0)
    checks.push({
      what: 'refused drops',
      state: 'warn',
      detail: refused.map(name => join('.tasks', name)).join(', '),
      remedy: 'Read the reason there and mend or remove the file beside it.',
    })
  const edits = names(paths.tasks).filter(name => name.includes('.rejected-'))
  if (edits.length > 0)
    checks.push({
      what: 'refused edits',
      state: 'warn',
      detail: edits.map(name => join('.tasks', name)).join(', '),
      remedy: 'They were put back; remove these copies when you need them no more.',
    })
  const open = (['run', 'sessions', 'journal'] as const)
    .map(name => paths[name])
    .filter(dir => ((statSync(dir, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0)
  if (open.length > 0)
    checks.push({
      what: 'run state',
      state: 'warn',
      detail: `${open.join(', ')} can be read by others on this machine`,
      remedy: `chmod -R go= ${paths.run}`,
    })
  return checks
}
