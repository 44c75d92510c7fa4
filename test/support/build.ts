import { execFileSync } from 'node:child_process'

/** Builds dist/ once before the projects that run it. */
export default function setup(): void {
  execFileSync(process.execPath, ['scripts/build.mjs', '--bundles'], { stdio: 'inherit' })
}
