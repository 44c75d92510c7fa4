import { existsSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import * as z from 'zod'
import { errnoOf, readPlain, unreadable } from '../lib/files.ts'
import { type Jsonc, parseJsonc } from '../lib/jsonc.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import { Config, defaultTools, type Member, members, needsPrice } from '../protocol/config.ts'
import { leadNames, reservedNames } from '../protocol/ids.ts'
import { type RequestType, requestTypes } from '../protocol/request-types.ts'

export interface LoadedConfig {
  readonly config: Config
  readonly members: readonly Member[]
  /** What is odd but no reason to refuse, one line each. */
  readonly warnings: readonly string[]
  /** Absolute, symlinks resolved; there. */
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  /** What `data` names, absolute; only what is there. */
  readonly dataPaths: readonly string[]
}

/** Keys and values that are promised for later: named as such, never as a slip of the hand. */
const planned: Readonly<Record<string, readonly string[]>> = {
  '': ['hooks', 'notify'],
}

/** One thing that is wrong: where (a path into the config), and what, with the remedy if there is one. */
interface Problem {
  readonly path: readonly PropertyKey[]
  readonly text: string
  /** The key itself is at fault, not its value. */
  readonly key?: boolean
}

/**
 * Reads and validates `<root>/config.json`, without ever writing it. Fault `config` names file, line, column and key path of
 * each problem (the first three are spelled out), with the nearest known key where one was probably meant.
 */
export const loadConfig = (root: string): Result<LoadedConfig> => {
  const file = join(root, 'config.json')
  let text: string
  try {
    text = readPlain(file).toString('utf8')
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return fail('config', `there is no ${file}`, 'Run `team init` to make one.', cause)
    const fault = unreadable(file, cause)
    if (fault === undefined) throw cause
    return { ok: false, fault: { ...fault, code: 'config' } }
  }
  const source = parseJsonc(text)
  if (!source.ok) return fail('config', `${file}: ${source.fault.message}`, 'Mend it there; nothing was done.')
  const parsed = Config.safeParse(source.value.value)
  if (!parsed.success) {
    // Unknown keys first: a key missing elsewhere is mostly one of them, misspelt.
    const slips = parsed.error.issues.toSorted(
      (a, b) => Number(b.code === 'unrecognized_keys') - Number(a.code === 'unrecognized_keys'),
    )
    return refuse(
      file,
      source.value,
      slips.flatMap(issue => explain(issue, source.value)),
    )
  }
  const config = parsed.data
  const all = members(config)
  const problems = [...names(config, all), ...references(config, all), ...unpriced(config)]
  const place = workspaceOf(root, config)
  if ('text' in place) problems.push(place)
  if (problems.length > 0 || 'text' in place) return refuse(file, source.value, problems)
  const warnings: string[] = []
  const dataPaths: string[] = []
  const links = new Map<string, string>()
  for (const entry of config.data) {
    const path = resolve(root, entry)
    const twin = links.get(basename(path))
    if (!existsSync(path)) warnings.push(`config.json: data names ${entry}, which does not exist (${path})`)
    else if (twin !== undefined)
      warnings.push(
        `config.json: data names ${entry} and ${twin}, which would both be data/${basename(path)}; the first is used`,
      )
    else {
      links.set(basename(path), entry)
      dataPaths.push(path)
    }
  }
  for (const { name, fallbacks, capsCost } of all)
    if (!capsCost && fallbacks.some(({ isCheaper }) => isCheaper))
      warnings.push(`config.json: model.cheaper of ${name} does nothing: no budget caps a cost that counts for it`)
  if (place.mode === 'dir')
    for (const key of ['setup', 'copy'] as const)
      if (config[key]?.length) warnings.push(`config.json: ${key} is for clones and does nothing in dir mode`)
  return ok({ config, members: all, warnings, workspace: place.workspace, mode: place.mode, dataPaths })
}

const refuse = (file: string, source: Jsonc, problems: readonly Problem[]): Result<never> => {
  const lines = problems.map(problem => {
    const { line, column } = problem.key ? source.keyAt(problem.path) : source.at(problem.path)
    return `${line}:${column} ${shownPath(problem.path)}: ${problem.text}`
  })
  const more = lines.length > 3 ? `; and ${lines.length - 3} more` : ''
  return fail('config', `${file}:${lines.slice(0, 3).join('; ')}${more}`, 'Mend it there; nothing was done.')
}

/** `teammates[1].name`; the whole file is `config`. */
const shownPath = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (shown, part) =>
      typeof part === 'number' ? `${shown}[${part}]` : shown === '' ? String(part) : `${shown}.${String(part)}`,
    '',
  ) || 'config'

/** A zod issue in words, its value shown. */
const explain = (issue: z.core.$ZodIssue, source: Jsonc): Problem[] => {
  if (issue.code === 'unrecognized_keys') {
    const known = knownKeys(issue.path)
    const where = issue.path.filter(part => typeof part === 'string').join('.')
    return issue.keys.map(key => {
      const path = [...issue.path, key]
      if (planned[where]?.includes(key))
        return { path, key: true, text: 'not supported by this version yet; remove it' }
      const near = nearest(key, known)
      return { path, key: true, text: `unknown key${meant(near, known)}` }
    })
  }
  const value = issue.path.reduce<unknown>(
    (at, part) => (typeof at === 'object' && at !== null ? (at as Record<PropertyKey, unknown>)[part] : undefined),
    source.value,
  )
  if (value === undefined) return [{ path: issue.path, text: `missing (${lower(issue.message)})` }]
  const shown = JSON.stringify(value)
  return [{ path: issue.path, text: `${lower(issue.message)}${shown.length <= 80 ? `, not ${shown}` : ''}` }]
}

const lower = (message: string): string =>
  message
    .replace(/^Invalid input: /, '')
    .replace(/, received .*$/, '')
    .replace(/^[A-Z](?=[a-z])/, c => c.toLowerCase())

/** The keys that the schema knows at `path`. */
const knownKeys = (path: readonly PropertyKey[]): string[] => {
  let at: unknown = z.toJSONSchema(Config, { io: 'input', unrepresentable: 'any' })
  for (const part of path) {
    const node = at as { properties?: Record<string, unknown>; items?: unknown }
    at = typeof part === 'number' ? node.items : node.properties?.[String(part)]
  }
  return Object.keys((at as { properties?: object } | undefined)?.properties ?? {})
}

const names = (config: Config, all: readonly Member[]): Problem[] => {
  const problems: Problem[] = []
  const seen = new Map<string, number>()
  config.teammates.forEach((mate, i) => {
    const path = ['teammates', i, 'name']
    if ((reservedNames as readonly string[]).includes(mate.name))
      problems.push({ path, text: `${JSON.stringify(mate.name)} is reserved; choose another name` })
    if ((leadNames as readonly string[]).includes(mate.name) && config.lead !== mate.name)
      problems.push({
        path,
        text: `${JSON.stringify(mate.name)} is only for the lead; add "lead": ${JSON.stringify(mate.name)} or choose another name`,
      })
    const own = mate.count === 1 ? [mate.name] : Array.from({ length: mate.count }, (_, n) => `${mate.name}-${n + 1}`)
    for (const name of own) {
      const other = seen.get(name.toLowerCase())
      if (other !== undefined)
        problems.push({
          path,
          text: `${JSON.stringify(name)} is the name of teammates[${other}] already (upper and lower case count as equal)`,
        })
      else seen.set(name.toLowerCase(), i)
    }
    if (own.some(name => name.length > 63))
      problems.push({ path, text: 'with its number the name is longer than 63 characters' })
  })
  if (config.lead !== undefined && !all.some(member => member.lead))
    problems.push({ path: ['lead'], text: nobody(config.lead, all) })
  return problems
}

const nobody = (name: string, all: readonly Member[]): string => {
  const names = all.map(member => member.name)
  const near = nearest(name, names)
  return `nobody is named ${JSON.stringify(name)}${meant(near, names, 'there are')}`
}

/** What belongs behind a word that is none of `known`. In brackets, where it is a question: other words may follow. */
const meant = (near: string | undefined, known: readonly string[], are = 'known here:'): string =>
  near === undefined ? `; ${are} ${known.join(', ')}` : ` (did you mean ${JSON.stringify(near)}?)`

const references = (config: Config, all: readonly Member[]): Problem[] => {
  const problems: Problem[] = []
  for (const [type, decider] of Object.entries(config.approvals)) {
    if (decider === 'auto' && requestTypes[type as RequestType].approvals === 'no auto')
      problems.push({
        path: ['approvals', type],
        text: 'this is never decided by itself: human, lead or a teammate decides',
      })
    if (['human', 'lead', 'auto'].includes(decider)) continue
    if (!all.some(member => member.name === decider))
      problems.push({
        path: ['approvals', type],
        text: `human, lead, auto or a teammate decides; ${nobody(decider, all)}`,
      })
  }
  config.teammates.forEach((mate, i) => {
    mate.tools?.forEach((tool, j) => {
      if ((defaultTools as readonly string[]).includes(tool)) return
      const near = nearest(tool, defaultTools)
      const text = `there is no tool ${JSON.stringify(tool)}${meant(near, defaultTools, 'there are')}`
      problems.push({ path: ['teammates', i, 'tools', j], text })
    })
  })
  return problems
}

/** What a model costs must be known where a cap is on that; the runbook executor costs nothing. */
const unpriced = (config: Config): Problem[] => {
  const { team, teammate, task } = config.budget
  const onAll = team.cost !== undefined || task.cost !== undefined
  return config.teammates.flatMap((mate, i): Problem[] => {
    const model = { ...config.model, ...mate.model }
    const isCapped = onAll || (mate.budget?.cost ?? teammate.cost) !== undefined
    // What `auto` comes to is known when the team starts, and looked at there.
    const isAuto = (model.provider ?? 'auto') === 'auto' && model.baseURL === undefined && model.apiKeyEnv === undefined
    if (!isCapped) return []
    const path = mate.model === undefined ? ['teammates', i] : ['teammates', i, 'model']
    const first: Problem[] =
      model.price !== undefined || model.provider === 'runbook' || isAuto ? [] : [{ path, text: needsPrice }]
    // What another model costs is never taken over from the first.
    const own = mate.model?.fallbacks !== undefined
    const unsaid = (model.fallbacks ?? []).findIndex(({ price }) => price === undefined)
    if (unsaid !== -1) {
      const at = [...(own ? ['teammates', i, 'model'] : ['model']), 'fallbacks', unsaid]
      first.push({ path: at, text: needsPrice })
    }
    if (model.cheaper && model.cheaper.price === undefined) {
      const at = [...(mate.model?.cheaper ? ['teammates', i, 'model'] : ['model']), 'cheaper']
      first.push({ path: at, text: needsPrice })
    }
    return first
  })
}

/**
 * Where the team works, and how. Without `mode`: git where the workspace is a repository, or (when `workspace` says so
 * expressly) a folder in one; a team root that merely lies in a repository works on itself as a directory.
 */
const workspaceOf = (root: string, config: Config): { workspace: string; mode: 'git' | 'dir' } | Problem => {
  const path = resolve(root, config.workspace ?? '.')
  if (!existsSync(path) || !statSync(path).isDirectory())
    return { path: ['workspace'], text: `${path} is no directory` }
  const workspace = realpathSync(path)
  if (config.mode === 'dir') return { workspace, mode: 'dir' }
  const inside = repositoryAround(workspace)
  if (config.mode === 'git')
    return inside === null
      ? {
          path: ['mode'],
          text: `git, but ${workspace} is in no git repository; set "mode": "dir", or "workspace" to a repository`,
        }
      : { workspace, mode: 'git' }
  const git = inside !== null && (inside === workspace || config.workspace !== undefined)
  return { workspace, mode: git ? 'git' : 'dir' }
}

/** The top of the repository that `dir` lies in (its own folder when bare), or null. */
export const repositoryAround = (dir: string): string | null => {
  for (let at = dir; ; at = dirname(at)) {
    if (existsSync(join(at, '.git'))) return at
    if (['HEAD', 'objects', 'refs'].every(name => existsSync(join(at, name)))) return at
    if (dirname(at) === at) return null
  }
}
