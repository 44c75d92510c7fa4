import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { cleanEnv, command, ended, until } from './cli.ts'

/** `script` of util-linux, which runs a command in a terminal of its own. */
export const hasTerminal = spawnSync('script', ['--version']).stdout?.includes('util-linux') === true

/** `team …` in a real terminal: what it shows so far, what is typed, and the exit code it ends with. */
export interface Terminal {
  readonly child: ChildProcess
  shown(): string
  type(keys: string): void
  /** Resolves when it has shown something that matches. */
  shows(pattern: RegExp): Promise<string>
  ended(): Promise<number | string | null>
}

export const terminal = (args: readonly string[], env: Readonly<Record<string, string>> = {}): Terminal => {
  const words = args.map((_, i) => `"$ARG${i}"`).join(' ')
  const given = Object.fromEntries(args.map((arg, i) => [`ARG${i}`, arg]))
  // script ends as what it ran did: with its code, or with 130 for one that Ctrl-C ended.
  const line = `exec "$NODE" "$TEAM" ${words}`
  const child = spawn('script', ['-qfec', line, '/dev/null'], {
    env: {
      ...cleanEnv(),
      SHELL: '/bin/bash',
      TERM: 'xterm',
      NODE: process.execPath,
      TEAM: command,
      ...given,
      ...env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const over = ended(child)
  let shown = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    shown += chunk.toString('utf8')
  })
  return {
    child,
    shown: () => shown,
    type: keys => void child.stdin?.write(keys),
    shows: pattern => until(() => pattern.test(shown) && shown),
    ended: () => over,
  }
}
