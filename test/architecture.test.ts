import { readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { posix } from 'node:path'
import { expect, test } from 'vitest'
import { type Import, parse, type Source, sources } from './support/source.ts'

/** The layers of src/, lowest first. A file imports from a lower one or from its own folder. */
const ranks = [
  ['lib'],
  ['protocol'],
  ['store', 'model', 'git', 'sandbox'],
  ['agent'],
  ['tools'],
  ['teammate', 'supervisor'],
  ['cli'],
]
/** The library's entry stands above all layers. */
const topFiles = new Set(['index.ts'])

const layerOf = (path: string): string => path.split('/')[0] ?? ''
const rankOf = (path: string): number =>
  topFiles.has(path) ? ranks.length : ranks.findIndex(rank => rank.includes(layerOf(path)))
const within = (path: string, ...places: string[]) =>
  places.some(place => (place.endsWith('/') ? path.startsWith(place) : path === place))
/** The file below src/ that a relative import names, or undefined for a package or a module of Node. */
const target = (from: Source, { specifier }: Import): string | undefined =>
  specifier.startsWith('.') ? posix.join(posix.dirname(from.path), specifier) : undefined
const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
const isBuiltin = (specifier: string) => specifier.startsWith('node:') || builtinModules.includes(specifier)

type Rule = (file: Source) => string[]

const importsWhere =
  (wrong: (file: Source, to: string | undefined, specifier: string) => boolean): Rule =>
  file =>
    file.imports.filter(each => wrong(file, target(file, each), each.specifier)).map(each => each.specifier)
const readsOf =
  (names: string[], ...places: string[]): Rule =>
  file =>
    within(file.path, ...places) ? [] : file.reads.filter(read => names.includes(read))

const rules = {
  'every file stands in a layer': file => (rankOf(file.path) === -1 ? ['no layer'] : []),
  'imports go down, or stay in the folder': importsWhere(
    (file, to) =>
      to !== undefined &&
      !(layerOf(to) === layerOf(file.path) && !topFiles.has(file.path)) &&
      !(rankOf(to) !== -1 && rankOf(to) < rankOf(file.path)),
  ),
  'the supervisor knows no agent, no tool and no model': importsWhere(
    (file, to) => layerOf(file.path) === 'supervisor' && to !== undefined && within(to, 'agent/', 'tools/', 'model/'),
  ),
  'the protocol touches no file, clock, thread, process or socket': file =>
    layerOf(file.path) !== 'protocol'
      ? []
      : [
          ...file.imports
            .filter(
              ({ specifier }) => isBuiltin(specifier) && !['node:path', 'node:crypto', 'node:util'].includes(specifier),
            )
            .map(({ specifier }) => specifier),
          ...file.reads.filter(read => read.startsWith('process.')),
        ],
  'threads are made and spoken to in few places': importsWhere(
    (file, _, specifier) =>
      /^(node:)?worker_threads$/.test(specifier) &&
      !within(file.path, 'teammate/', 'supervisor/thread.ts', 'supervisor/scribe.ts', 'supervisor/scribe-main.ts'),
  ),
  'the environment is read at the two entries only': readsOf(['process.env'], 'cli/', 'teammate/main.ts'),
  'the clocks are read in lib/clock.ts only': readsOf(
    ['Date.now', 'performance.now', 'process.hrtime', 'process.uptime', 'new Date()'],
    'lib/clock.ts',
  ),
  'nothing splits lines by readline': importsWhere((_, __, specifier) => /^(node:)?readline(\/|$)/.test(specifier)),
  'modules of Node are named with node:': importsWhere((_, __, specifier) => builtinModules.includes(specifier)),
  // The command's small file reaches the rest by its built name, so that the build leaves it out.
  'own files are imported with their .ts': importsWhere(
    (file, to) => to !== undefined && !to.endsWith('.ts') && !(file.path === 'cli/team.ts' && to === 'cli/main.js'),
  ),
  // The named export drags every locale along: 8 MB a thread.
  'zod is imported whole': file =>
    file.imports
      .filter(each => packageOf(each.specifier) === 'zod' && each.kind === 'static' && !each.whole)
      .map(each => each.specifier),
  'no file is longer than 400 lines': file => (file.lines > 400 ? [`${file.lines} lines`] : []),
  'names say what a thing is': file =>
    [posix.basename(file.path, '.ts'), ...file.classes].filter(name => /(manager|service|helper|util)s?$/i.test(name)),
} satisfies Record<string, Rule>

const all = sources()
const broken = (rule: Rule) => all.flatMap(file => rule(file).map(what => `${file.path}: ${what}`))

for (const [name, rule] of Object.entries(rules))
  test(name, () => {
    expect(all.length).toBeGreaterThan(20)
    expect(broken(rule)).toEqual([])
  })

/** Only in the command's bundle, where it is used by one command: 2 MB of its 30 MB, with its licence (scripts/build.mjs). */
const bundledOnly = ['gpt-tokenizer']

test('what runs is a dependency of the package, and every dependency is used', () => {
  const { dependencies, devDependencies } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  )
  const used = new Set(
    all
      .flatMap(file => file.imports)
      .filter(each => !each.specifier.startsWith('.') && !isBuiltin(each.specifier))
      .map(each => packageOf(each.specifier)),
  )
  expect([...used].sort()).toEqual([...Object.keys(dependencies), ...bundledOnly].sort())
  expect(Object.keys(devDependencies)).toEqual(expect.arrayContaining(bundledOnly))
  const users = all.filter(file => file.imports.some(each => bundledOnly.includes(packageOf(each.specifier))))
  expect(users.map(file => file.path)).toEqual(['cli/prefix.ts'])
})

test('the command answers status before it loads any package but the colours', () => {
  const byPath = new Map(all.map(file => [file.path, file]))
  const reached = new Set<string>()
  const packages: string[] = []
  const visit = (path: string) => {
    const file = byPath.get(path)
    if (!file) throw new Error(`src/${path} is imported and does not exist`)
    if (reached.has(path)) return
    reached.add(path)
    for (const each of file.imports.filter(({ kind }) => kind === 'static')) {
      const to = target(file, each)
      if (to !== undefined) visit(to)
      else if (!isBuiltin(each.specifier) && each.specifier !== 'picocolors')
        packages.push(`${path}: ${each.specifier}`)
    }
  }
  visit('cli/team.ts')
  expect(packages).toEqual([])
})

test('the rules find what they are there for', () => {
  const caught = (path: string, text: string) =>
    Object.entries(rules).flatMap(([name, rule]: [string, Rule]) => (rule(parse(path, text)).length ? [name] : []))
  const down = 'imports go down, or stay in the folder'
  expect(caught('helpers/a.ts', '')).toContain('every file stands in a layer')
  expect(caught('lib/a.ts', "import { b } from '../protocol/b.ts'")).toEqual([down])
  expect(caught('lib/a.ts', "import type { B } from '../protocol/b.ts'")).toEqual([down])
  expect(caught('lib/a.ts', "export * from '../protocol/b.ts'")).toEqual([down])
  expect(caught('git/a.ts', "import { b } from '../store/b.ts'")).toEqual([down])
  expect(caught('teammate/a.ts', "import { b } from '../supervisor/b.ts'")).toEqual([down])
  expect(caught('supervisor/a.ts', "const b = await import('../teammate/b.ts')")).toEqual([down])
  expect(caught('supervisor/a.ts', "import { b } from '../agent/b.ts'")).toEqual([
    'the supervisor knows no agent, no tool and no model',
  ])
  expect(caught('cli/a.ts', "import { b } from '../index.ts'")).toEqual([down])
  expect(caught('protocol/a.ts', "import { readFileSync } from 'node:fs'")).toHaveLength(1)
  expect(caught('protocol/a.ts', 'process.cwd()')).toHaveLength(1)
  expect(caught('agent/a.ts', "import { Worker } from 'node:worker_threads'")).toHaveLength(1)
  expect(caught('agent/a.ts', 'const { env } = process')).toHaveLength(1)
  expect(caught('agent/a.ts', "process['env'].HOME")).toHaveLength(1)
  expect(caught('agent/a.ts', 'Date.now()')).toHaveLength(1)
  expect(caught('agent/a.ts', 'new Date()')).toHaveLength(1)
  expect(caught('agent/a.ts', "import { createInterface } from 'node:readline/promises'")).toHaveLength(1)
  expect(caught('agent/a.ts', "import { readFileSync } from 'fs'")).toHaveLength(1)
  expect(caught('agent/a.ts', "import { b } from './b.js'")).toHaveLength(1)
  expect(caught('agent/a.ts', "import { z } from 'zod'")).toHaveLength(1)
  expect(caught('agent/a.ts', '\n'.repeat(400).concat('1'))).toHaveLength(1)
  expect(caught('agent/a.ts', 'export class SessionManager {}')).toHaveLength(1)
})

test('the rules let be what is allowed', () => {
  const caught = (path: string, text: string) => Object.values(rules).flatMap((rule: Rule) => rule(parse(path, text)))
  expect(caught('agent/a.ts', "// Date.now() and process.env\nconst text = 'node:readline, process.env'")).toEqual([])
  expect(caught('agent/a.ts', "import * as z from 'zod'\nimport { b } from './b.ts'\nnew Date(0)")).toEqual([])
  expect(caught('cli/a.ts', "import { b } from '../supervisor/b.ts'\nprocess.env.HOME")).toEqual([])
  expect(caught('index.ts', "export { b } from './cli/b.ts'")).toEqual([])
})

/** The packages that are loaded with a file of src/ before it does anything. */
const loadedWith = (...entries: string[]): string[] => {
  const files = new Map(all.map(file => [file.path, file]))
  const seen = new Set<string>()
  const packages = new Set<string>()
  const load = (path: string): void => {
    const file = files.get(path)
    if (seen.has(path) || !file) return
    seen.add(path)
    for (const each of file.imports.filter(({ kind }) => kind === 'static')) {
      const to = target(file, each)
      if (to !== undefined) load(to)
      else if (!isBuiltin(each.specifier)) packages.add(packageOf(each.specifier))
    }
  }
  for (const entry of entries) {
    expect(files.has(entry), entry).toBe(true)
    load(entry)
  }
  return [...packages].sort()
}

test('a command that finds a daemon loads no schema, parser, watcher or lock', () => {
  expect(loadedWith('cli/team.ts')).toEqual(['picocolors'])
  const families = ['task', 'inbox', 'send', 'requests', 'merge', 'restart', 'logs', 'status', 'down']
  expect(loadedWith('cli/main.ts', ...families.map(name => `cli/${name}.ts`))).toEqual(['picocolors', 'ulid', 'yargs'])
})

test('a teammate with nothing to do has loaded no model client and no shell parser', () => {
  expect(loadedWith('teammate/main.ts')).toEqual(['gray-matter', 'ulid', 'zod'])
})
