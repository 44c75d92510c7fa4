import { closeSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { fail, ok, type Result } from '../lib/result.ts'
import { openFile } from '../sandbox/open.ts'
import { isWithin } from '../sandbox/path.ts'
import type { Hit, Search } from './grep.ts'

const maxFile = 8_388_608
/** Lines are searched so far only: a regular expression of JavaScript may take for ever on a long one. */
const maxLine = 1000
const skipped = new Set(['.git', 'node_modules'])

/**
 * The same search without ripgrep, in plain JavaScript: slower, and without a look at .gitignore; `.git` and
 * `node_modules` are left out. Ends early when the signal aborts.
 */
export const plainSearch = async (search: Search): Promise<Result<Hit[]>> => {
  let pattern: RegExp
  try {
    pattern = new RegExp(search.pattern, 'u')
  } catch (thrown) {
    return fail('usage', `the pattern is no regular expression: ${(thrown as Error).message}`)
  }
  const wanted = search.glob === undefined ? null : globPattern(search.glob)
  const hits: Hit[] = []
  for (const path of files(search.at, search.hidden)) {
    if (search.signal.aborted || hits.length >= search.most) break
    if (wanted && !wanted(relative(search.at, path) || basename(path))) continue
    const file = openFile(path)
    if (!file.ok) continue
    try {
      if (file.value.size > maxFile) continue
      const bytes = readFileSync(file.value.fd)
      if (bytes.subarray(0, 8192).includes(0)) continue
      for (const [i, line] of bytes.toString('utf8').split('\n').entries()) {
        if (hits.length >= search.most) break
        const text = line.replace(/\r$/, '').slice(0, maxLine)
        if (pattern.test(text)) hits.push({ path, line: i + 1, text })
      }
    } finally {
      closeSync(file.value.fd)
    }
    // Let other work of this thread in between files.
    await new Promise<void>(resolve => setImmediate(resolve))
  }
  return ok(hits)
}

function* files(at: string, hidden: readonly string[]): Generator<string> {
  if (hidden.some(path => isWithin(path, at))) return
  if (!statSync(at).isDirectory()) {
    yield at
    return
  }
  const entries = readdirSync(at, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
  for (const entry of entries) {
    if (skipped.has(entry.name)) continue
    if (entry.isDirectory()) yield* files(join(at, entry.name), hidden)
    else if (entry.isFile() && !hidden.includes(join(at, entry.name))) yield join(at, entry.name)
  }
}

/** `*` within a name, `**` across folders, `?`, `{a,b}`; without a slash it is matched against the name alone; `!` turns it round. */
export const globPattern = (glob: string): ((path: string) => boolean) => {
  const isNot = glob.startsWith('!')
  const body = isNot ? glob.slice(1) : glob
  const source = body.replace(/^\//, '').replace(/\*\*\/|\*\*|[*?{},.+^$()|[\]\\]/g, part => {
    const meanings: Record<string, string> = {
      '**/': '(?:.*/)?',
      '**': '.*',
      '*': '[^/]*',
      '?': '[^/]',
      '{': '(?:',
      '}': ')',
      ',': '|',
    }
    return meanings[part] ?? `\\${part}`
  })
  const pattern = new RegExp(`^${source}$`, 'u')
  return path => pattern.test(body.includes('/') ? path : basename(path)) !== isNot
}
