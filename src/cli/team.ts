#!/usr/bin/env node
import { clock } from '../lib/clock.ts'
import { findRoot } from '../store/find-root.ts'
import { candidates } from './completion/candidates.ts'
import { daemonStatus } from './connect-daemon.ts'
import { processOut, wantsColours } from './out.ts'
import { parented, runParent } from './parent.ts'
import { renderStatus } from './render/status.ts'
import { oneLine, paint } from './render/text.ts'

// The command itself, bundled small and as CommonJS: `team status` is answered from the daemon's socket before anything else is
// loaded. Everything else, and whatever goes wrong here, is left to main.

/** `--json` and `--root` of a plain `team status` or `team ps`; null for anything else. */
const plainStatus = (argv: readonly string[]): { json: boolean; root: string | undefined } | null => {
  const [command, ...rest] = argv
  if (command !== 'status' && command !== 'ps') return null
  let json = false
  let root: string | undefined
  for (let i = 0; i < rest.length; i++) {
    const arg = rest[i] ?? ''
    if (arg === '--json') json = true
    else if (arg === '--root' && root === undefined && rest[i + 1] !== undefined && !rest[i + 1]?.startsWith('-'))
      root = rest[++i]
    else if (arg.startsWith('--root=') && root === undefined) root = arg.slice('--root='.length)
    else return null
  }
  return { json, root }
}

/** Whether the status was told: only by a daemon. */
const tellStatus = async (argv: readonly string[]): Promise<boolean> => {
  const plain = plainStatus(argv)
  if (plain === null) return false
  const root = findRoot({ root: plain.root, cwd: process.cwd(), env: process.env })
  if (!root.ok) return false
  const status = await daemonStatus(root.value)
  if (!status.ok) return false
  const out = processOut()
  const colours = wantsColours(process.env, process.stdout.isTTY === true, argv)
  if (plain.json) out.json(status.value)
  else out.say(renderStatus(status.value, clock.wall(), paint(colours), process.stdout.columns))
  return true
}

/** Said by a `team up` that is process 1: Node cannot take in what commands leave behind when they end. */
const noInit =
  'this is process 1, with no init: what commands leave behind stays as zombies. Give the container one (docker run --init)'

/** Runs `team up` under a parent that starts it again when it dies. */
const parent = async (argv: readonly string[]): Promise<boolean> => {
  if (!parented(argv, process.env)) return false
  const out = processOut()
  process.exitCode = await runParent({
    command: [process.execPath, __filename, ...argv],
    clock,
    say: line => out.note(line),
    relay: word => {
      if (process.send && process.connected) process.send(word, undefined, undefined, () => process.disconnect())
    },
    hangUp: !argv.includes('--detached'),
  })
  return true
}

/** Candidates for a shell that completes: `team __complete <kind> [--root <root>]`. Whatever is wrong, it says nothing. */
const complete = async ([command, kind, flag, value]: readonly string[]): Promise<boolean> => {
  if (command !== '__complete' || kind === undefined) return false
  const root = findRoot({ root: flag === '--root' ? value : undefined, cwd: process.cwd(), env: process.env })
  if (!root.ok) return true
  const out = processOut()
  for (const [word, about] of await candidates(root.value, kind)) out.say(`${word}\t${oneLine(about, 60)}`)
  return true
}

/** Is the folder that this is started in still there? */
const stands = (): boolean => {
  try {
    process.cwd()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return false
  }
}

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`team: Node 20.19 or newer is needed, this is ${process.versions.node}\n`)
  process.exitCode = 1
} else if (!stands()) {
  process.stderr.write('team: the folder that you stand in is gone\n      Go to another one (cd) and say it again.\n')
  process.exitCode = 3
} else {
  const argv = process.argv.slice(2)
  if (process.pid === 1 && argv[0] === 'up') processOut().note(noInit)
  void tellStatus(argv).then(async told => {
    if (told || (await complete(argv)) || (await parent(argv))) return
    const { main } = await import('./main.js')
    await main({ argv, dist: __dirname })
  })
}
