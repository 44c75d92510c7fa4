import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { killVariable } from '../../src/lib/points.ts'
import { type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import { check, type Promised } from './check.ts'
import { type Ended, Ground, guest, type Kind, type Running, team } from './ground.ts'
import { kinds, teammateModel } from './model.ts'
import { Others } from './others.ts'
import { type Death, deaths } from './plan.ts'
import { type Random, random } from './random.ts'

export interface Outcome {
  readonly kills: number
  /** How often each point was died at; `any time` for those killed by the clock. */
  readonly at: ReadonlyMap<string, number>
  readonly faults: readonly string[]
  /** Of the kills, and of what came after them. */
  readonly seconds: string
  readonly ground: Ground
  readonly promised: Promised
}

/** One team through `kills` kills (fewer when it `isOver` before), then to its end in peace; what the checker finds after that. */
export const torture = async (seed: number, kills: number, kind: Kind, isOver = () => false): Promise<Outcome> => {
  const world = new World(seed, kind)
  const began = performance.now()
  const faults: string[] = []
  let killed = began
  try {
    await world.begin()
    await world.killing(kills, isOver)
    killed = performance.now()
    faults.push(...(await world.end()))
  } catch (error) {
    faults.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
  } finally {
    await world.close()
  }
  const s = (ms: number) => Math.round(ms / 1000)
  const seconds = `${s(killed - began)} + ${s(performance.now() - killed)}`
  const { ground, promised } = world
  return { kills: world.kills, at: world.at, faults, seconds, ground, promised }
}

/** In peace something moves at least so often, on the slowest machine. */
const stillMs = 90_000

/** How a daemon may say that another one has the root. */
const held = /runs for .* already|is held by|holds /

class World {
  readonly ground: Ground
  readonly at = new Map<string, number>()
  kills = 0
  readonly #random: Random
  readonly #die: () => Death
  readonly #stop = new AbortController()
  readonly #running = new Set<Running>()
  #server: ScriptedServer | undefined
  #others: Others | undefined
  #daemon: number | undefined
  /** How long a daemon takes until it is ready, here and now, in milliseconds. */
  #pace = 1500

  constructor(seed: number, kind: Kind) {
    this.#random = random(seed)
    this.#die = deaths(this.#random, point => this.at.get(point) ?? 0)
    this.ground = new Ground(kind)
  }

  get promised(): Promised {
    return this.#others?.promised ?? { tasks: new Set(), messages: new Map(), decisions: new Map() }
  }

  async begin(): Promise<void> {
    const { root } = this.ground
    this.#server = await startScripted(teammateModel(root, team))
    this.ground.configure(this.#server.baseURL, team)
    this.#others = new Others(this.ground, this.#random, this.#server.baseURL, what => this.#died(what))
    for (const kind of new Set(kinds)) this.#others.drop(kind)
    this.#others.append()
  }

  /** Daemons, one after the other, each killed; meanwhile others write. */
  async killing(kills: number, isOver: () => boolean): Promise<void> {
    const others = this.#acting()
    while (this.kills < kills && !isOver()) {
      await this.#life()
      // Nobody holds the root: whoever comes now does, for a moment.
      if (this.#random.next() < 0.05) await this.#others?.command()
    }
    this.#stop.abort()
    await others
  }

  /** A daemon until its death; now and then a second one that was started beside it or just after it, and takes over. */
  async #life(): Promise<void> {
    const first = this.#until(this.#die())
    if (this.#random.next() < 0.9) return void (await first)
    if (this.#random.next() < 0.7) await sleep(this.#random.below(this.#pace))
    await Promise.all([first, this.#until({ kind: 'clock', after: 1 + this.#random.next() })])
  }

  async #until(death: Death): Promise<void> {
    // Now and then a teammate's thread ends on the way, as one does that blows its heap.
    const exit = this.#random.next() < 0.15 ? [`session.write:${3 + this.#random.below(15)}:exit`] : []
    const arms = [...(death.kind === 'points' ? death.at : []), ...exit].join(',')
    const began = performance.now()
    const run = this.#up(arms === '' ? {} : { [killVariable]: arms })
    // A point that is not come to in time: by the clock after all.
    const timer = setTimeout(
      () => run.child.kill('SIGKILL'),
      death.kind === 'clock' ? this.#pace * death.after : this.#pace * 3,
    )
    let isReady = false
    run.child.stdout?.on('data', () => {
      if (isReady || !run.said().includes('ready, pid')) return
      isReady = true
      this.#pace = Math.round((this.#pace + performance.now() - began) / 2)
    })
    const { how, said } = await run.ended
    clearTimeout(timer)
    for (const [, point = ''] of said.matchAll(/^thread ended at (.*)$/gm)) this.#died(`a thread at ${point}`)
    if (/\n {4}at |This is a bug/.test(said)) throw new Error(`a daemon said: ${said.slice(-2000)}`)
    if (how === 'SIGKILL') this.#died(/^killed at (.*)$/m.exec(said)?.[1] ?? 'any time')
    else if (how !== 1 || !held.test(said)) throw new Error(`the daemon ended by itself (${how}): ${said.slice(-2000)}`)
  }

  /** In peace until everything is done, then down. */
  async end(): Promise<string[]> {
    const others = this.#others
    const baseURL = this.#server?.baseURL
    if (!others || baseURL === undefined) throw new Error('it was never begun')
    this.ground.configure(baseURL, [...team, guest])
    const { ended } = this.#up({})
    const open = await this.#peace(others)
    const faults = [...others.faults]
    if (open !== '') faults.push(`not done in time: ${open}`)
    if (this.ground.kind !== 'dir') {
      const { how, said } = await this.ground.run(['land']).ended
      if (how !== 0) faults.push(`team land ended with ${how}: ${said}`)
    }
    await this.ground.run(['down']).ended
    const { how, said }: Ended = await ended
    if (how !== 0) faults.push(`the daemon ended with ${how}: ${said.slice(-1000)}`)
    return [...faults, ...check(this.ground, others.promised)]
  }

  /** Until nothing is left to do; what was left when nothing had moved for too long. A person decides, restarts, tries again what a killed git failed, and takes away the lock that one left. */
  async #peace(others: Others): Promise<string> {
    let open = 'no daemon answers'
    let before = ''
    for (let until = Date.now() + stillMs; Date.now() < until; await sleep(100)) {
      if (open !== before) until = Date.now() + stillMs
      before = open

      await others.decide()
      const status = await this.ground.ask('status', {})
      if (!status) continue
      for (const { name, state, waiting } of status.teammates) {
        if (state === 'stopped' || state === 'failed') await this.ground.ask('teammate.restart', { name })
        const [, lock] = cloneLock.exec(waiting?.what ?? '') ?? []
        if (lock !== undefined) rmSync(lock, { force: true })
      }
      for (const { id, status: how, error } of status.tasks)
        if (how === 'failed' && killedGit.test(error ?? '')) await this.ground.ask('task.retry', { id })
      const left = status.tasks.filter(task => !['completed', 'failed', 'cancelled'].includes(task.status))
      const busy = status.teammates.filter(mate => mate.state !== 'idle' || mate.unread > 0)
      open = [
        ...left.map(task => `task ${task.id} ${task.shown} ${task.why}`),
        ...busy.map(mate => `${mate.name} ${mate.state} ${mate.unread} unread`),
        ...status.requests.map(({ id }) => id),
      ].join('; ')
      if (open === '' && status.teammates.some(({ name }) => name === guest)) return ''
    }
    return open
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const { child, ended } of [...this.#running]) {
      child.kill('SIGKILL')
      await ended
    }
    await this.#server?.close()
  }

  #up(more: Readonly<Record<string, string>>): Running {
    const run = this.ground.run(['up'], more)
    this.#running.add(run)
    this.#daemon = run.child.pid
    void run.ended.then(() => this.#running.delete(run))
    return run
  }

  #died(where: string): void {
    this.kills++
    this.at.set(where, (this.at.get(where) ?? 0) + 1)
  }

  async #acting(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#others?.act(this.#daemon)
      await sleep(20 + this.#random.below(this.#pace / 4))
    }
  }
}

/** What a teammate waits for in whose clone a git was killed. */
const cloneLock = /git is locked by (\S*\/team\/\S*\.lock)/
/** What a task says whose merge was cut off by the end of a git. */
const killedGit = /ended by SIGKILL|git is locked by \S*hub\.git|could not run/
