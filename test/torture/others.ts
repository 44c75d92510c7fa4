import { appendFileSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { killVariable } from '../../src/lib/points.ts'
import type { Promised } from './check.ts'
import { type Ground, guest, team } from './ground.ts'
import { kinds } from './model.ts'
import type { Random } from './random.ts'

/** Past so many open tasks nobody makes more: what a team cannot do between two deaths is left to the end. */
const most = 6

/**
 * What people and other programs do to a team that is being killed: by files, over the socket, by commands of their own (some
 * of which are killed too), and by killing what it runs.
 */
export class Others {
  readonly tasks = new Set<string>()
  readonly messages = new Map<string, string>()
  readonly decisions = new Map<string, string>()
  readonly faults: string[] = []
  readonly #ground: Ground
  readonly #random: Random
  readonly #baseURL: string
  readonly #killed: (what: string) => void
  #n = 0
  /** Open tasks, as the status told last, and those made since. */
  #open = 0

  constructor(ground: Ground, random: Random, baseURL: string, killed: (what: string) => void) {
    this.#ground = ground
    this.#random = random
    this.#baseURL = baseURL
    this.#killed = killed
  }

  get promised(): Promised {
    return { tasks: this.tasks, messages: this.messages, decisions: this.decisions }
  }

  /** One act of somebody. `daemon`: the process that may be robbed of its children. */
  async act(daemon: number | undefined): Promise<void> {
    const status = await this.#ground.ask('status', {})
    if (status)
      this.#open = status.tasks.filter(({ shown }) => !/^(completed|unverified|failed|cancelled)$/.test(shown)).length
    const busy = this.#open >= most
    // Most of what happens waits for somebody's word.
    if (this.#random.next() < 0.6) await this.decide()
    const what = this.#random.below(28)
    if (what < 6) return busy ? this.append() : this.drop()
    if (what < 9) return busy ? this.send() : this.add()
    if (what < 13) return this.append()
    if (what < 15) return this.send()
    if (what < 22) return this.strike(daemon)
    if (what < 23) return this.invite()
    if (what < 24) return this.stop()
    if (what < 25 && this.#ground.kind !== 'dir') return this.land()
    if (what < 26) return this.decide()
    return this.command()
  }

  drop(kind: string = this.#random.pick(kinds)): void {
    const task = this.#task(kind)
    this.#ground.put(join(this.#ground.root, '.tasks', `drop-${this.#n}.json`), JSON.stringify(task))
    this.tasks.add(task.title)
  }

  async add(): Promise<void> {
    const task = this.#task()
    if (await this.#ground.ask('task.add', { tasks: [task] })) this.tasks.add(task.title)
  }

  append(): void {
    const to = this.#random.pick(team)
    const word = `word-file-${++this.#n}`
    appendFileSync(
      join(this.#ground.root, '.messages', `${to}.inbox.jsonl`),
      `${JSON.stringify({ from: 'ada', to, type: 'info', content: word })}\n`,
    )
    this.messages.set(word, to)
  }

  async send(): Promise<void> {
    const to = this.#random.pick([...team, guest])
    const word = `word-socket-${++this.#n}`
    if (await this.#ground.ask('message.send', { to, content: word })) this.messages.set(word, to)
  }

  async decide(): Promise<void> {
    const listed = await this.#ground.ask('request.list', {})
    for (const { id, type, to } of listed?.requests ?? []) {
      if (to !== 'human') continue
      const reason = type === 'question' ? { reason: 'yes' } : {}
      if (await this.#ground.ask('request.decide', { id, decision: 'approve', ...reason }))
        this.decisions.set(id, 'approved')
    }
  }

  /** A command of its own process, which asks the daemon or holds the root itself; half of them are killed on the way. */
  async command(): Promise<void> {
    const mortal = this.#random.next() < 0.5
    const more = mortal ? { [killVariable]: `*:${1 + this.#random.below(20)}` } : {}
    const what = this.#open >= most ? 1 + this.#random.below(2) : this.#random.below(3)
    if (what === 0) {
      const { title } = this.#task()
      if (await this.#run(['task', 'add', title, '--path', `${word(title)}.txt`], more)) this.tasks.add(title)
    } else if (what === 1) {
      const to = this.#random.pick(team)
      const text = `word-command-${++this.#n}`
      if (await this.#run(['send', to, text], more)) this.messages.set(text, to)
    } else {
      const listed = await this.#ground.ask('request.list', {})
      const request = listed?.requests.find(({ to, type }) => to === 'human' && type !== 'question')
      if (request && (await this.#run(['approve', request.id], more))) this.decisions.set(request.id, 'approved')
    }
  }

  /** The trunk into the person's branch, killed or not: the branch stands at what it was at or at what was to land, whole. */
  async land(): Promise<void> {
    const mortal = this.#random.next() < 0.5
    await this.#run(['land'], mortal ? { [killVariable]: `*:${1 + this.#random.below(6)}` } : {})
  }

  /** The guest joins, or is taken off the team, by an edit of config.json. */
  invite(): void {
    this.#ground.configure(this.#baseURL, this.#random.next() < 0.5 ? [...team, guest] : team)
  }

  /** One teammate is asked to stop by the protocol; or one that stopped is started again. */
  async stop(): Promise<void> {
    const status = await this.#ground.ask('status', {})
    const stopped = status?.teammates.find(({ state }) => state === 'stopped' || state === 'failed')
    if (stopped) await this.#ground.ask('teammate.restart', { name: stopped.name })
    else void this.#ground.ask('down', { names: [this.#random.pick(team)], timeoutMs: 2000 })
  }

  /** SIGKILL for the group of a process that the daemon started: a command of a teammate, a check, a git. */
  async strike(daemon: number | undefined): Promise<void> {
    const [child] = daemon === undefined ? [] : this.#random.shuffled(childrenOf(daemon))
    if (!child) return
    try {
      process.kill(-child.pid, 'SIGKILL')
      this.#killed(child.name === 'git' ? 'a git' : 'a command')
    } catch {
      // It was faster, or leads no group of its own.
    }
  }

  #task(kind: string = this.#random.pick(kinds)): { title: string; paths: string[]; blockedBy?: string[] } {
    const title = `${kind} w${++this.#n}`
    this.#open++
    const before = this.tasks.size > 0 && this.#random.next() < 0.3 ? [this.#random.pick([...this.tasks])] : []
    return { title, paths: [`${word(title)}.txt`], ...(before.length === 0 ? {} : { blockedBy: before }) }
  }

  async #run(args: readonly string[], more: Readonly<Record<string, string>>): Promise<boolean> {
    const { how, said } = await this.#ground.run(args, more).ended
    if (how === 'SIGKILL') this.#killed(`team ${args[0]}`)
    if (/\n {4}at |This is a bug/.test(said)) this.faults.push(`team ${args.join(' ')} said: ${said.slice(-500)}`)
    return how === 0
  }
}

const word = (title: string): string => title.split(' ')[1] ?? ''

/** The living children of a process, and what they run. */
export const childrenOf = (pid: number): { pid: number; name: string }[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .flatMap(id => {
      try {
        const stat = readFileSync(`/proc/${id}/stat`, 'latin1')
        const [, parent] = stat.split(') ').at(-1)?.split(' ') ?? []
        return Number(parent) === pid ? [{ pid: Number(id), name: /\((.*)\)/.exec(stat)?.[1] ?? '' }] : []
      } catch {
        return []
      }
    })
