// Runs the torture test: bundles it beside the command that it kills. See test/torture/README.md.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const top = fileURLToPath(new URL('..', import.meta.url))
const outfile = join(top, 'dist', 'torture.mjs')
await build({
  entryPoints: [join(top, 'test/torture/main.ts')],
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  outfile,
  logLevel: 'warning',
  banner: { js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);" },
})
const child = spawn(process.execPath, [outfile, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, TEAM_BIN: process.env.TEAM_BIN ?? join(top, 'dist', 'team.cjs') },
})
child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)))
