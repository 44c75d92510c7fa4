import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, realpathSync, renameSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { points } from '../../src/lib/points.ts'
import { type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import type { RpcMethod, RpcParams } from '../../src/protocol/rpc.ts'
import { connect } from '../../src/store/rpc/client.ts'
import { check } from './check.ts'
import { script, teammateModel } from './model.ts'
import { type Random, random } from './random.ts'

const team = ['alice', 'bob', 'carol'] as const
const kinds = ['work', 'ask', 'plan', 'lease', 'mail', 'work'] as const
const command = process.env.TEAM_BIN ?? 'dist/team.cjs'
const env = {
  PATH: process.env.PATH ?? '',
  HOME: tmpdir(),
  TMPDIR: tmpdir(),
  TEAM_PARENT: 'off',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
}

export interface Outcome {
  readonly kills: number
  /** How often each point was reached; `any time` for those killed by the clock. */
  readonly at: ReadonlyMap<string, number>
  readonly faults: readonly string[]
  readonly root: string
}

/** One team through `kills` kills, then to its end in peace; what the checker finds after that. */
export const torture = async (seed: number, kills: number): Promise<Outcome> => {
  const world = new World(seed)
  try {
    await world.begin()
    await world.killing(kills)
    const faults = await world.end()
    return { kills: world.kills, at: world.at, faults, root: world.root }
  } finally {
    await world.close()
  }
}

class World {
  readonly root: string
  readonly at = new Map<string, number>()
  kills = 0
  readonly #folder: string
  readonly #repo: string
  readonly #random: Random
  readonly #tasks = new Set<string>()
  readonly #messages = new Map<string, string>()
  readonly #decisions = new Map<string, string>()
  readonly #stop = new AbortController()
  #server: ScriptedServer | undefined
  #child: ChildProcess | undefined
  #n = 0
  #said = ''

  constructor(seed: number) {
    this.#random = random(seed)
    this.#folder = realpathSync(mkdtempSync(join(tmpdir(), 'team-torture-')))
    this.root = join(this.#folder, 'root')
    this.#repo = join(this.#folder, 'repo')
  }

  async begin(): Promise<void> {
    const ran = join(this.root, 'ran')
    mkdirSync(ran, { recursive: true })
    mkdirSync(join(this.root, '.tasks'))
    mkdirSync(join(this.root, '.messages'))
    const git = (...args: string[]) => execFileSync('git', args, { cwd: this.#repo, env })
    mkdirSync(this.#repo)
    git('init', '-q', '-b', 'main')
    git('config', 'user.name', 'Ada')
    git('config', 'user.email', 'ada@example.invalid')
    writeFileSync(join(this.#repo, 'act.sh'), script)
    git('add', '-A')
    git('commit', '-qm', 'start')
    this.#server = await startScripted(teammateModel(ran, team))
    const config = {
      workspace: this.#repo,
      mode: 'git',
      sandbox: 'off',
      permissions: { allow: ['sh *'] },
      lead: 'alice',
      model: { provider: 'scripted', baseURL: this.#server.baseURL },
      teammates: team.map(name => ({ name, model: { name } })),
      approvals: { plan_request: 'human' },
      verify: 'sh -n act.sh',
      limits: { restarts: 1000, inboxBytes: 2000, graceSeconds: 5 },
    }
    writeFileSync(join(this.root, 'config.json'), JSON.stringify(config))
    for (let i = 0; i < 4; i++) this.#drop()
  }

  /** Daemons, one after the other, each killed; meanwhile others write. */
  async killing(kills: number): Promise<void> {
    const writing = this.#write()
    while (this.kills < kills) {
      const byClock = this.#random.next() < 0.4
      const point = byClock ? null : this.#random.pick(points)
      const count = 1 + Math.floor(this.#random.next() ** 2 * 12)
      const ms = this.#random.below(2500)
      const child = this.#up(point === null ? {} : { TEAM_KILL_AT: `${point}:${count}` })
      const ended = this.#ended(child)
      // A point that is not reached in time: by the clock after all.
      const timer = setTimeout(() => child.kill('SIGKILL'), byClock ? 100 + ms : 6000)
      const how = await ended
      clearTimeout(timer)
      if (how !== 'SIGKILL') throw new Error(`the daemon ended by itself (${how}): ${this.#said.slice(-2000)}`)
      this.kills++
      const where = byClock || child.killed ? 'any time' : (point ?? '')
      this.at.set(where, (this.at.get(where) ?? 0) + 1)
      if (/\n {4}at /.test(this.#said)) throw new Error(`a stack trace: ${this.#said.slice(-2000)}`)
    }
    this.#stop.abort()
    await writing
  }

  /** In peace until everything is done, then down. */
  async end(): Promise<string[]> {
    const child = this.#up({})
    const ended = this.#ended(child)
    const until = Date.now() + 120_000
    let open = ''
    while (Date.now() < until) {
      await this.#decide()
      const status = await this.#ask('status', {})
      if (status) {
        const left = status.tasks.filter(task => !['completed', 'failed', 'cancelled'].includes(task.status))
        const busy = status.teammates.filter(mate => mate.state !== 'idle' || mate.unread > 0)
        open = [
          ...left.map(task => `task ${task.id} ${task.shown} ${task.why}`),
          ...busy.map(mate => `${mate.name} ${mate.state}`),
        ].join('; ')
        if (left.length === 0 && busy.length === 0 && status.requests.length === 0) break
      }
      await sleep(50)
    }
    await new Promise<void>((resolve, reject) => {
      const down = spawn(process.execPath, [command, 'down', '--root', this.root], { env, stdio: 'ignore' })
      down.on('error', reject)
      down.on('exit', () => resolve())
    })
    const how = await ended
    return [
      ...(open === '' ? [] : [`not done in time: ${open}`]),
      ...(how === 0 ? [] : [`the daemon ended with ${how}: ${this.#said.slice(-1000)}`]),
      ...check(this.root, this.#repo, { tasks: this.#tasks, messages: this.#messages, decisions: this.#decisions }),
    ]
  }

  async close(): Promise<void> {
    this.#stop.abort()
    if (this.#child?.exitCode === null && this.#child.signalCode === null) this.#child.kill('SIGKILL')
    await this.#server?.close()
  }

  #up(more: Record<string, string>): ChildProcess {
    this.#said = ''
    const child = spawn(process.execPath, [command, 'up', '--root', this.root], {
      env: { ...env, ...more },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        this.#said = (this.#said + chunk.toString('utf8')).slice(-20_000)
      })
    this.#child = child
    return child
  }

  #ended(child: ChildProcess): Promise<number | string | null> {
    return new Promise(resolve => child.on('close', (code, signal) => resolve(signal ?? code)))
  }

  /** What people and other programs do meanwhile: drop tasks, add them, append mail, send it, decide. */
  async #write(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const what = this.#random.below(6)
      if (what === 0) this.#drop()
      else if (what === 1) await this.#add()
      else if (what === 2) this.#append()
      else if (what === 3) await this.#send()
      else await this.#decide()
      await sleep(100 + this.#random.below(500))
    }
  }

  #title(): string {
    return `${this.#random.pick(kinds)} ${++this.#n}`
  }

  #drop(): void {
    const title = this.#title()
    const file = join(this.root, '.tasks', `drop-${this.#n}.json`)
    const beside = join(this.#folder, `drop-${this.#n}`)
    writeFileSync(beside, JSON.stringify({ title }))
    renameSync(beside, file)
    this.#tasks.add(title)
  }

  async #add(): Promise<void> {
    const title = this.#title()
    if (await this.#ask('task.add', { tasks: [{ title }] })) this.#tasks.add(title)
  }

  #append(): void {
    const to = this.#random.pick(team)
    const word = `word-file-${++this.#n}`
    appendFileSync(
      join(this.root, '.messages', `${to}.inbox.jsonl`),
      `${JSON.stringify({ from: 'ada', to, type: 'info', content: word })}\n`,
    )
    this.#messages.set(word, to)
  }

  async #send(): Promise<void> {
    const to = this.#random.pick(team)
    const word = `word-socket-${++this.#n}`
    if (await this.#ask('message.send', { to, content: word })) this.#messages.set(word, to)
  }

  async #decide(): Promise<void> {
    const listed = await this.#ask('request.list', {})
    for (const { id, type, to } of listed?.requests ?? []) {
      if (to !== 'human') continue
      const reason = type === 'question' ? { reason: 'yes' } : {}
      if (await this.#ask('request.decide', { id, decision: 'approve', ...reason })) this.#decisions.set(id, 'approved')
    }
  }

  /** null where no daemon is there, or it went before it answered. */
  async #ask<M extends RpcMethod>(method: M, params: RpcParams<M>) {
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
