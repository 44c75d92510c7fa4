import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, realpathSync, renameSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { RpcMethod, RpcParams } from '../../src/protocol/rpc.ts'
import { connect } from '../../src/store/rpc/client.ts'
import { script } from './model.ts'

/** What a world is like. `boxed`: git mode with the sandbox. */
export type Kind = 'git' | 'dir' | 'boxed'

export const command = resolve(process.env.TEAM_BIN ?? 'dist/team.cjs')
export const env = {
  PATH: process.env.PATH ?? '',
  HOME: tmpdir(),
  TMPDIR: tmpdir(),
  TEAM_PARENT: 'off',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
}

/** Always on the team. */
export const team = ['alice', 'bob'] as const
/** Comes and goes. */
export const guest = 'dave'

/** How a run of the command ended, and all that it said. */
export interface Ended {
  readonly how: number | string | null
  readonly said: string
}

/** A run of `team`, its output kept. */
export interface Running {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  said(): string
}

/** A team root, the workspace beside it, and how both are written to and asked. */
export class Ground {
  readonly kind: Kind
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), 'team-torture-')))
  readonly root = join(this.folder, 'root')
  readonly repo = join(this.folder, 'repo')
  #files = 0

  constructor(kind: Kind) {
    this.kind = kind
    for (const folder of ['.tasks', '.messages']) mkdirSync(join(this.root, folder), { recursive: true })
    mkdirSync(this.repo)
    writeFileSync(join(this.repo, 'act.sh'), script)
    if (kind === 'dir') return
    this.git('init', '-q', '-b', 'main')
    this.git('config', 'user.name', 'Ada')
    this.git('config', 'user.email', 'ada@example.invalid')
    this.git('add', '-A')
    this.git('commit', '-qm', 'start')
  }

  git(...args: string[]): string {
    return execFileSync('git', args, { cwd: this.repo, env, encoding: 'utf8' }).trim()
  }

  /** Small files, so that all that is rotated, rolled and archived is so in a short life too. */
  configure(baseURL: string, names: readonly string[]): void {
    const config = {
      workspace: this.repo,
      mode: this.kind === 'dir' ? 'dir' : 'git',
      sandbox: this.kind === 'boxed' ? 'required' : 'off',
      permissions: { allow: ['sh *'], ask: ['env *'] },
      lead: 'alice',
      model: { provider: 'scripted', baseURL, contextWindow: 8000 },
      teammates: names.map(name => ({ name, model: { name } })),
      approvals: { plan_request: 'human' },
      verify: 'sh -n act.sh',
      limits: {
        restarts: 1000,
        returns: 1000,
        deaths: 1000,
        graceSeconds: 5,
        mailRounds: 1_000_000,
        inboxBytes: 500,
        archiveAfter: 2,
        journalBytes: 20_000,
      },
    }
    this.put(join(this.root, 'config.json'), JSON.stringify(config))
  }

  /** Writes beside and renames, as careful programs do. */
  put(file: string, text: string): void {
    const beside = join(this.folder, `file-${++this.#files}`)
    writeFileSync(beside, text)
    renameSync(beside, file)
  }

  run(args: readonly string[], more: Readonly<Record<string, string>> = {}): Running {
    const child = spawn(process.execPath, [command, ...args, '--root', this.root], {
      env: { ...env, ...more },
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        said = (said + chunk.toString('utf8')).slice(-20_000)
      })
    const ended = new Promise<Ended>((resolve, reject) => {
      child.on('error', reject)
      child.on('close', (code, signal) => resolve({ how: signal ?? code, said }))
    })
    return { child, ended, said: () => said }
  }

  /** null where no daemon is there, it refuses, or it went before it answered. */
  async ask<M extends RpcMethod>(method: M, params: RpcParams<M>) {
    if (!existsSync(join(this.root, '.team'))) return null
    const client = await connect(this.root)
    if (!client.ok) return null
    try {
      const told = await client.value.call(method, params)
      return told.ok ? told.value : null
    } finally {
      client.value.close()
    }
  }
}
