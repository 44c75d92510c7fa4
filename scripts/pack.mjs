// Makes the package: builds dist/, sees that the tarball will hold everything that package.json promises, then packs it here.
// `--dry-run` packs nothing. A plain `npm pack` builds nothing, as this repository's .npmrc lets npm run no lifecycle scripts.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
execFileSync(process.execPath, [join('scripts', 'build.mjs')], { stdio: 'inherit' })

const npmPack = (...args) => {
  const told = execFileSync('npm', ['pack', '--json', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // An array, or an object by name, as the version of npm has it.
  const [packed] = Object.values(JSON.parse(told))
  return packed
}

const leaves = value => (typeof value === 'object' && value !== null ? Object.values(value).flatMap(leaves) : [value])
const { bin, main, types, exports } = JSON.parse(readFileSync('package.json', 'utf8'))
const promised = leaves([bin, main, types, exports])
// What the command starts besides itself, and the licence of what is bundled and no dependency.
const needed = ['dist/main.js', 'dist/teammate.js', 'dist/scribe.js', 'dist/gpt-tokenizer.LICENSE.txt']

const listed = npmPack('--dry-run')
const held = new Set(listed.files.map(file => file.path))
const missing = [...new Set([...promised, ...needed].map(path => normalize(path)))].filter(path => !held.has(path))
if (missing.length > 0) {
  process.stderr.write(`the package would lack ${missing.join(', ')}\n`)
  process.exitCode = 1
} else {
  const { filename } = process.argv.includes('--dry-run') ? listed : npmPack()
  process.stdout.write(`${filename}\n`)
}
