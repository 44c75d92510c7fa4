import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach } from 'vitest'
import type { Status } from '../../src/protocol/rpc.ts'

/** The built command; TEAM_BIN names another build of it. */
export const command = process.env.TEAM_BIN ?? fileURLToPath(new URL('../../dist/team.cjs', import.meta.url))

export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly cwd?: string
  readonly env?: Record<string, string>
  readonly input?: string | Buffer
}

/** What commands of tests see of the environment: no model's key, nothing of the person who runs the tests. */
export const cleanEnv = (): Record<string, string> => ({
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  HOME: tmpdir(),
  TMPDIR: tmpdir(),
  // What a test kills stays dead, unless it is about that.
  TEAM_PARENT: 'off',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
})

const roots = new Set<string>()
const folders = new Set<string>()
const running = new Set<ChildProcess>()

// Registered for the test file that imports this one: nothing that a test started outlives it.
afterEach(async () => {
  for (const root of roots) if (existsSync(join(root, '.team'))) await team(['down', '--force', '--root', root])
  for (const child of running) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  roots.clear()
  running.clear()
  folders.clear()
})

/** A new folder, removed after the test. */
export const tempFolder = (): string => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'team-cli-')))
  folders.add(folder)
  return folder
}

/** A team root in a new folder; its daemon, if a test starts one, is ended after the test. */
export const teamRoot = (
  config: object = { teammates: [{ name: 'alice' }, { name: 'bob' }], sandbox: 'off' },
): string => {
  const root = join(tempFolder(), 'root')
  mkdirSync(root)
  writeFileSync(join(root, 'config.json'), JSON.stringify(config))
  return willRun(root)
}

/** Sees to it that no daemon of `root` outlives the test. */
export const willRun = (root: string): string => {
  roots.add(root)
  return root
}

/** Starts `team …`; the caller reads its streams. */
export const start = (args: readonly string[], { cwd, env }: RunOptions = {}): ChildProcess => {
  const child = spawn(process.execPath, [command, ...args], {
    cwd: cwd ?? tmpdir(),
    env: { ...cleanEnv(), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  running.add(child)
  return child
}

/** Runs `team …` to its end. */
export const team = (args: readonly string[], options: RunOptions = {}): Promise<Ran> => {
  const child = start(args, options)
  const out: Buffer[] = []
  const err: Buffer[] = []
  child.stdout?.on('data', (chunk: Buffer) => out.push(chunk))
  child.stderr?.on('data', (chunk: Buffer) => err.push(chunk))
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(options.input)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code =>
      resolve({ code, stdout: Buffer.concat(out).toString('utf8'), stderr: Buffer.concat(err).toString('utf8') }),
    )
  })
}

/** The same where it must succeed; throws with what it said when it does not. */
export const teamOk = async (args: readonly string[], options: RunOptions = {}): Promise<string> => {
  const ran = await team(args, options)
  if (ran.code !== 0) throw new Error(`team ${args.join(' ')} exited ${ran.code}: ${ran.stderr}${ran.stdout}`)
  return ran.stdout
}

export const statusOf = async (root: string): Promise<Status> =>
  JSON.parse(await teamOk(['status', '--json', '--root', root])) as Status

/** Polls until `look` gives something else than undefined or false; fails after `ms`. */
export const until = async <T>(
  look: () => Promise<T | undefined | false> | T | undefined | false,
  ms = 45_000,
): Promise<T> => {
  const end = performance.now() + ms
  for (;;) {
    const value = await look()
    if (value !== undefined && value !== false) return value
    if (performance.now() > end) throw new Error(`it did not come about within ${ms} ms`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

/** Resolves when the process has ended, with its exit code or signal. */
export const ended = (child: ChildProcess): Promise<number | string | null> =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve(child.exitCode ?? child.signalCode)
    : new Promise(resolve => child.once('exit', (code, signal) => resolve(code ?? signal)))

/** Resolves when `child` has said something that matches, with all it said so far; fails when it ends before. */
export const says = (child: ChildProcess, pattern: RegExp, stream: 'stdout' | 'stderr' = 'stdout'): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = ''
    const more = (chunk: Buffer) => {
      text += chunk.toString('utf8')
      if (!pattern.test(text)) return
      child[stream]?.off('data', more)
      child.off('exit', gone)
      resolve(text)
    }
    const gone = (code: number | null) => reject(new Error(`it ended (${code}) without saying ${pattern}: ${text}`))
    child[stream]?.on('data', more)
    child.once('exit', gone)
  })
