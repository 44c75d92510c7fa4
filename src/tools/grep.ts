import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { basename, dirname, relative } from 'node:path'
import * as z from 'zod'
import { defineTool, error, said, type Tool, type ToolContext, type ToolResult } from '../agent/tool.ts'
import { splitLines } from '../lib/files.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { cut, wellFormed } from '../lib/text.ts'
import { isWithin } from '../sandbox/path.ts'
import { isTop, type Mount } from '../sandbox/view.ts'
import { refused } from './paths.ts'
import { plainSearch } from './plain-search.ts'

const maxHits = 50
const maxText = 300
const maxMs = 30_000

export interface Hit {
  /** Absolute. */
  readonly path: string
  readonly line: number
  readonly text: string
}
export interface Search {
  readonly pattern: string
  readonly glob: string | undefined
  /** A folder or file, real and absolute. */
  readonly at: string
  /** Real paths below `at` that are not to be seen. */
  readonly hidden: readonly string[]
  /** No more hits than these. */
  readonly most: number
  readonly signal: AbortSignal
}

export const grep: Tool = defineTool({
  name: 'grep',
  description: 'Search files for a regular expression. What .gitignore names is left out.',
  input: z.strictObject({ pattern: z.string().min(1), path: z.string().default('.'), glob: z.string().optional() }),
  async run({ pattern, path, glob }, context) {
    const places = placesOf(path, context)
    if (!places.ok) return refused(places.fault)
    const rg = await ripgrep()
    const signal = AbortSignal.any([context.signal, AbortSignal.timeout(maxMs)])
    const rows: string[] = []
    for (const mount of places.value) {
      const found = await (rg === null ? plainSearch : searchWith(rg))({
        pattern,
        glob,
        at: mount.real,
        hidden: mount.hidden,
        most: maxHits + 1 - rows.length,
        signal,
      })
      if (!found.ok) return error(found.fault.message)
      for (const hit of found.value) {
        const own = context.view.resolve(hit.path, 'read')
        if (own.ok)
          rows.push(`${own.value.shown}:${hit.line}: ${cut(wellFormed(hit.text.replaceAll('\0', '\uFFFD')), maxText)}`)
      }
      if (rows.length > maxHits) break
    }
    return report(rows, pattern, rg === null, signal.aborted)
  },
})

const report = (rows: readonly string[], pattern: string, isPlain: boolean, isCut: boolean): ToolResult => {
  const notes = [
    ...(isPlain ? ['[ripgrep is not there: searched plainly, .gitignore not read]'] : []),
    ...(isCut ? ['[ended before all was searched: name a path or glob]'] : []),
  ]
  if (rows.length === 0) return said([`no hits for ${cut(pattern, 200)}`, ...notes].join('\n'))
  const shown = rows.slice(0, maxHits)
  const first =
    rows.length > maxHits
      ? `the first ${maxHits} hits, there are more: narrow it down`
      : `${rows.length} ${rows.length === 1 ? 'hit' : 'hits'}`
  return said([first, ...shown, ...notes].join('\n'))
}

type Place = Pick<Mount, 'real' | 'hidden'>

/** Where to look: one file or folder, or at the view's top every mount, each place once. */
const placesOf = (path: string, { view }: ToolContext): Result<Place[]> => {
  if (isTop(view, path)) {
    const tops = view.mounts.filter(
      mount =>
        statSync(mount.real, { throwIfNoEntry: false }) &&
        !view.mounts.some(
          other =>
            other.real !== mount.real &&
            isWithin(other.real, mount.real) &&
            !other.hidden.some(hidden => isWithin(hidden, mount.real)),
        ),
    )
    return ok([...new Map(tops.map(mount => [mount.real, mount])).values()])
  }
  const found = view.resolve(path, 'read')
  if (!found.ok) return found
  const { real, shown, mount } = found.value
  const stat = statSync(real, { throwIfNoEntry: false })
  if (!stat) return fail('unknown', `${shown} does not exist`)
  if (!stat.isDirectory() && !stat.isFile()) return fail('usage', `${shown} is no regular file`)
  const place = { real, hidden: mount.hidden.filter(hidden => isWithin(real, hidden)) }
  // `skills` holds links to the team's, which a search does not follow: they are mounts of their own.
  const linked = stat.isDirectory()
    ? view.mounts.filter(other => other.at.startsWith(`${shown}/`) && !isWithin(real, other.real))
    : []
  return ok([place, ...linked])
}

/** The binary of @vscode/ripgrep, else `rg` of the system; null where there is neither. Looked for once. */
const ripgrep = (): Promise<string | null> => {
  found ??= find()
  return found
}
let found: Promise<string | null> | undefined

const find = async (): Promise<string | null> => {
  const own = await import('@vscode/ripgrep').then(
    ({ rgPath }) => rgPath,
    () => null, // Thrown at import where the platform has no binary.
  )
  const candidates = [own, '/usr/local/bin/rg', '/usr/bin/rg', '/opt/homebrew/bin/rg'].filter(path => path !== null)
  return candidates.find(isProgram) ?? null
}

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const searchWith =
  (rg: string) =>
  async (search: Search): Promise<Result<Hit[]>> => {
    const isFolder = statSync(search.at).isDirectory()
    const cwd = isFolder ? search.at : dirname(search.at)
    const globs = [
      ...(search.glob === undefined ? [] : [search.glob]),
      '!.git',
      // Of several globs the last one that matches counts, so these cannot be undone by the one given.
      ...search.hidden.map(path => `!/${relative(search.at, path).replace(/[\\*?[\]{}!]/g, '\\$&')}`),
    ]
    const child: ChildProcess = spawn(
      rg,
      [
        ...'--no-config --line-number --no-heading --with-filename --color=never --null --hidden --no-require-git --sort=path'.split(
          ' ',
        ),
        ...['--max-columns=2000', '--max-columns-preview', `--max-count=${maxHits + 1}`, '--max-filesize=32M'],
        ...globs.map(glob => `--glob=${glob}`),
        ...['--regexp', search.pattern, '--', isFolder ? '.' : `./${basename(search.at)}`],
      ],
      { cwd, env: { LANG: 'C.UTF-8' }, stdio: ['ignore', 'pipe', 'pipe'] },
    )
    const hits: Hit[] = []
    let rest = Buffer.alloc(0)
    let stderr = ''
    const stop = () => child.kill('SIGKILL')
    search.signal.addEventListener('abort', stop, { once: true })
    if (search.signal.aborted) stop()
    // Without a file handle left for it, it has no pipes, and says so in an event only.
    child.stderr?.on('data', (piece: Buffer) => {
      stderr = (stderr + piece.toString('utf8')).slice(0, 4000)
    })
    child.stdout?.on('data', (piece: Buffer) => {
      const { lines, rest: left } = splitLines(Buffer.concat([rest, piece]))
      rest = Buffer.from(left)
      for (const line of lines) {
        const hit = parseHit(line.bytes, cwd)
        if (hit && hits.length < search.most) hits.push(hit)
      }
      if (hits.length >= search.most) stop()
    })
    const code = await new Promise<number | null | Error>(resolve => {
      child.once('error', resolve)
      child.once('close', resolve)
    })
    search.signal.removeEventListener('abort', stop)
    if (code instanceof Error) return fail('io', `ripgrep does not start: ${code.message}`, undefined, code)
    // 2 is also told when a file could not be read; with a bad pattern nothing at all was searched.
    if (code === 2 && hits.length === 0 && /regex|glob|pattern/i.test(stderr)) return fail('usage', explain(stderr))
    return ok(hits)
  }

/** `./path NUL line:text` as ripgrep prints it. */
const parseHit = (bytes: Buffer, cwd: string): Hit | null => {
  const nul = bytes.indexOf(0)
  if (nul < 0) return null
  const path = bytes.toString('utf8', 0, nul).replace(/^\.\//, '')
  const match = /^(\d+):(.*)$/s.exec(bytes.toString('utf8', nul + 1).replace(/\r$/, ''))
  return match ? { path: `${cwd}/${path}`, line: Number(match[1]), text: match[2] ?? '' } : null
}

/** ripgrep's complaint in one line, and what to do. */
const explain = (stderr: string): string => {
  const lines = stderr.split('\n').map(line => line.trim())
  const reason =
    lines
      .findLast(line => line.startsWith('error:'))
      ?.slice(6)
      .trim() ??
    lines.find(line => line !== '') ??
    ''
  return /glob/i.test(stderr)
    ? `the glob is not valid: ${reason}`
    : `the pattern is no regular expression${/^rg: |not supported/.test(reason) ? ' that can be searched for' : ''}: ${reason.replace(/^rg: /, '')}; ${advice(reason)}`
}

const advice = (reason: string): string => {
  if (reason.includes('not supported')) return 'search for a part of it that needs none, and look at the hits'
  if (reason.includes('literal "\\n"')) return 'it is matched line by line: search for one line of it'
  if (reason.includes('size limit')) return 'ask for fewer repetitions'
  return 'put \\ before ( ) [ ] { } * + ? . | ^ $ that are meant as they stand'
}
