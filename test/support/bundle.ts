import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { afterAll } from 'vitest'

const top = fileURLToPath(new URL('../..', import.meta.url))
const made = new Map<string, string>()
let folder: string | undefined

// Registered for the test file that imports this one.
afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  folder = undefined
  made.clear()
})

/**
 * Bundles a TypeScript entry into one JavaScript file that a child process or a worker thread can run, and returns its
 * path. Made once for each entry and test file, removed when the tests of the file are over. It lies below node_modules,
 * so that packages left out of the bundle are still found.
 */
export const bundle = (entry: string | URL): string => {
  const path = typeof entry === 'string' && !entry.startsWith('file:') ? entry : fileURLToPath(entry)
  const known = made.get(path)
  if (known !== undefined) return known
  const cache = join(top, 'node_modules', '.cache')
  mkdirSync(cache, { recursive: true })
  folder ??= mkdtempSync(join(cache, 'test-bundle-'))
  const outfile = join(folder, `${made.size}-${basename(path).replace(/\.[cm]?ts$/, '')}.mjs`)
  buildSync({
    entryPoints: [path],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'error',
    define: { TEAM_VERSION: '"0.0.0-test"' },
    external: ['@vscode/ripgrep'],
    banner: { js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);" },
  })
  made.set(path, outfile)
  return outfile
}
