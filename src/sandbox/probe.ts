import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bwrapArgs, insidePath, probeView } from './bwrap.ts'
import type { Probe } from './shell.ts'

const install =
  'install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap), or set "sandbox": "prefer" or "off" in config.json'

/**
 * Finds out whether commands can be kept inside, by doing it: a program must run, and a write outside, a look at a file
 * of the host and a use of the network must fail. Never by looking for the binary alone. `bwrap` names another program
 * to try. Takes about 100 ms; never throws.
 */
export const probeSandbox = async (bwrap = 'bwrap'): Promise<Probe> => {
  if (process.platform !== 'linux')
    return {
      kind: 'none',
      detail: `no sandbox on ${process.platform}`,
      remedy: 'run it on Linux, or set "sandbox": "prefer" or "off" in config.json',
    }
  const asked = await run(bwrap, ['--version'])
  const version = /(\d+\.\d+(\.\d+)?)/.exec(asked.stdout)?.[1]
  if (version === undefined) return { kind: 'none', detail: `bubblewrap does not start: ${asked.why}`, remedy: install }
  const top = mkdtempSync(join(tmpdir(), 'team-probe-'))
  try {
    const folder = join(top, 'shown')
    const shown = join(folder, 'file')
    mkdirSync(folder)
    writeFileSync(shown, 'whole')
    writeFileSync(join(top, 'not-shown'), '')
    const args = bwrapArgs({ view: probeView(folder), version, network: false, cwd: folder, env: { PATH: insidePath } })
    const script = [
      `test "$(cat '${shown}')" = whole || { echo 'a readable folder is not there'; exit 3; }`,
      `if echo torn 2>/dev/null > '${shown}'; then echo 'a forbidden write went through'; exit 4; fi`,
      `if test -e '${top}/not-shown'; then echo 'other files of the host show'; exit 5; fi`,
      `test "$(grep -c : /proc/net/dev)" -le 1 || { echo 'the network is there'; exit 6; }`,
      'echo contained',
    ].join('\n')
    const tried = await run(bwrap, [...args, 'sh', '-c', script])
    if (readFileSync(shown, 'utf8') !== 'whole')
      return { kind: 'none', detail: `bubblewrap ${version} let a forbidden write through`, remedy: install }
    return tried.stdout.trim() === 'contained'
      ? { kind: 'bwrap', detail: `bubblewrap ${version}`, remedy: null }
      : {
          kind: 'none',
          detail: `bubblewrap ${version} does not work here: ${tried.why}`,
          remedy:
            'allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0; in a container: --security-opt seccomp=unconfined), or set "sandbox": "prefer" or "off" in config.json',
        }
  } finally {
    rmSync(top, { recursive: true, force: true })
  }
}

const run = (file: string, args: readonly string[]): Promise<{ stdout: string; why: string }> =>
  new Promise(resolve => {
    const options = {
      cwd: '/',
      env: { PATH: insidePath, LC_ALL: 'C' },
      timeout: 10_000,
      killSignal: 'SIGKILL' as const,
    }
    execFile(file, args, options, (error, stdout, stderr) => {
      const said = `${stderr}\n${stdout}`.trim().split('\n')[0]
      const why =
        error?.code === ('ENOENT' as unknown) ? 'it is not installed' : said || (error?.message ?? 'it said nothing')
      resolve({ stdout, why })
    })
  })
