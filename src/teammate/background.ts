import { lstatSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { endText, shownCommand } from '../agent/commands.ts'
import type { Command } from '../agent/entry.ts'
import type { BackgroundCommand, Background as BackgroundTool } from '../agent/tool.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { cut } from '../lib/text.ts'
import type { Waiting } from '../protocol/teammate.ts'
import type { CommandResult, Refused } from '../sandbox/shell.ts'
import type { Intake } from './intake.ts'
import type { LifeOptions } from './life-options.ts'
import type { Voice } from './voice.ts'

/** Of what a command said last, its end tells so much. */
const tailLines = 20
const tailCharacters = 2000

export interface BackgroundOptions {
  readonly life: Pick<LifeOptions, 'session' | 'shell' | 'view' | 'limits' | 'clock' | 'member'>
  readonly voice: Voice
  readonly intake: Intake
  /** The task in hand. */
  readonly task: () => string | null
  /** A command has ended. */
  readonly onEnd: () => void
  /** There is a reason to do something else. */
  readonly isOver: () => boolean
  /** Resolves at the next word of the daemon, or of this, after the call. */
  readonly woken: () => Promise<void>
}

interface Running {
  readonly ending: AbortController
  readonly began: number
  readonly fresh: () => string
  /** Settles once nothing of it lives and its end is in the journal. */
  readonly over: Promise<void>
  /** Why it was stopped, in words that follow that. */
  why: string | null
}

/**
 * The background commands of one life. What was started and how it ended stands in the session's journal before anything follows
 * from it; there it is known too which ends were told.
 *
 *   start ──▶ journal ──▶ runs ──ends, is stopped, or its time or output is over──▶ journal ──▶ told once, at a boundary or by a look
 *                          └──its thread dies──▶ found when the session is opened again, told as not known
 */
export class Background implements BackgroundTool {
  readonly #o: BackgroundOptions
  readonly #running = new Map<string, Running>()

  constructor(o: BackgroundOptions) {
    this.#o = o
  }

  get isRunning(): boolean {
    return this.#running.size > 0
  }

  /** A command that belongs to no task has ended, and nobody was told: a reason for a turn. */
  get hasNews(): boolean {
    return this.#commands.ended.some(({ task }) => task === null)
  }

  get #commands() {
    return this.#o.life.session.commands
  }

  /** What a teammate waits for that has nothing else to do; null where nothing runs. */
  get waiting(): Waiting | null {
    const [first] = this.#commands.running
    if (!first) return null
    const more = this.#running.size > 1 ? ` and ${this.#running.size - 1} more` : ''
    return { what: `background ${first.id}${more}: ${shownCommand(first.command)}`, whom: this.#o.life.member.name }
  }

  async start(
    command: string,
    { trusted, onEnd }: Parameters<BackgroundTool['start']>[1],
  ): Promise<Result<{ readonly id: string; readonly log: string | null }> | Refused> {
    const { voice } = this.#o
    const { shell, session, limits, clock } = this.#o.life
    if (this.#running.size >= limits.backgroundCommands)
      return fail(
        'refused',
        `${this.#running.size} background commands run, and no more may (limits.backgroundCommands)`,
        'stop one first, or wait for one to end',
      )
    const { id, log } = this.#place()
    const task = this.#o.task()
    const ending = new AbortController()
    let onStart = (_fresh: () => string): void => undefined
    const started = new Promise<null>(resolve => {
      onStart = fresh => {
        // That a command was to be started stands in the journal already, with the call of the tool.
        session.append({ k: 'command.start', v: 2, id, command, task, log: log?.shown ?? null })
        this.#running.set(id, { ending, began: clock.mono(), fresh, over, why: null })
        voice.event('background.started', { id, command: shownCommand(command) })
        this.#tell()
        resolve(null)
      }
    })
    const result = shell.run({
      command,
      trusted,
      timeoutMs: limits.backgroundSeconds * 1000,
      signal: ending.signal,
      outputBytes: limits.outputBytes,
      outputMaxBytes: limits.outputMaxBytes,
      log: log?.real,
      endsLeft: true,
      onStart: running => onStart(() => running.fresh()),
    })
    const over = result.then(
      async ended => {
        this.#ended(id, this.#how(id, ended), 'refused' in ended ? '' : tailOf(ended.output))
        await onEnd?.(ended)
      },
      (thrown: unknown) => {
        if (!this.#running.has(id)) return
        this.#ended(id, `did not start: ${thrown instanceof Error ? thrown.message : String(thrown)}`, '')
      },
    )
    const refused = await Promise.race([started, result])
    return refused !== null && 'refused' in refused ? refused : ok({ id, log: log?.shown ?? null })
  }

  list(): readonly BackgroundCommand[] {
    const { running, ended } = this.#commands
    return [...running, ...ended].map(command => this.#shown(command))
  }

  look(id: string): (BackgroundCommand & { readonly output: string }) | null {
    const command = [...this.#commands.running, ...this.#commands.ended].find(each => each.id === id)
    return command ? { ...this.#shown(command), output: this.#running.get(id)?.fresh().trimEnd() ?? '' } : null
  }

  async stop(id: string): Promise<boolean> {
    const running = this.#running.get(id)
    if (!running) return false
    await this.#end(running, 'as asked')
    return true
  }

  async stopAll(why: string): Promise<{ readonly text: string; readonly ended: readonly string[] } | null> {
    const all = [...this.#running]
    if (all.length === 0) return null
    await Promise.all(all.map(([, running]) => this.#end(running, why)))
    const ids = all.map(([id]) => id)
    const ends = this.#commands.ended.filter(({ id }) => ids.includes(id))
    return { text: ends.map(end => endText(end)).join('\n'), ended: ends.map(({ id }) => id) }
  }

  /**
   * A turn has ended and there is nothing else to do: waits while a command runs, until one has ended or mail came. False, at
   * once, where there is nothing to wait for and no end to be told.
   */
  async wait(): Promise<boolean> {
    const { voice, intake, isOver, woken, life } = this.#o
    if (!this.isRunning && this.#commands.ended.length === 0) return false
    while (this.isRunning && this.#commands.ended.length === 0 && !isOver()) {
      // A word that comes while it looks must not be missed.
      const word = woken()
      const choice = await intake.next(life.session.mail)
      // Only looked at: it enters the context at the next boundary.
      if (choice) intake.due = true
      if (choice || isOver()) break
      const { waiting } = this
      if (waiting && this.#commands.ended.length === 0) voice.show('waiting', waiting)
      else break
      await word
    }
    if (!isOver()) voice.show('working')
    return true
  }

  #end(running: Running, why: string): Promise<void> {
    running.why ??= why
    running.ending.abort()
    return running.over
  }

  /** Nothing of it lives any more. */
  #ended(id: string, how: string, tail: string): void {
    const { life, voice, onEnd } = this.#o
    if (!this.#running.delete(id)) return
    life.session.append({ k: 'command.end', v: 2, id, how, tail })
    voice.event('background.ended', { id, how })
    this.#tell()
    onEnd()
  }

  #how(id: string, result: CommandResult | Refused): string {
    const running = this.#running.get(id)
    if ('refused' in result) return `did not run: ${result.refused}: ${result.reason}`
    const { limits } = this.#o.life
    const took = `${(result.ms / 1000).toFixed(1)} s`
    const left = result.left.length === 0 ? '' : `; what it left running was ended with it: ${leftOf(result)}`
    switch (result.endedBy) {
      case 'time':
        return `was ended after ${limits.backgroundSeconds} s, its time limit (limits.backgroundSeconds)`
      case 'output':
        return `was ended for its output after ${took}, more than ${limits.outputMaxBytes} bytes (limits.outputMaxBytes)`
      case 'abort':
        return `was stopped ${running?.why ?? 'by the team'} after ${took}`
      case 'itself':
        return `ended: ${result.exitCode === null ? (result.signal ?? 'a signal') : `exit ${result.exitCode}`} after ${took}${left}`
    }
  }

  #shown(command: Command): BackgroundCommand {
    const { clock } = this.#o.life
    const running = this.#running.get(command.id)
    return {
      id: command.id,
      command: shownCommand(command.command),
      seconds: running ? Math.round((clock.mono() - running.began) / 1000) : null,
      end: command.end === null ? null : endText(command),
    }
  }

  /** The next id, and the file that its output goes to: one that is not there yet. */
  #place(): { id: string; log: { real: string; shown: string } | null } {
    const { session, view } = this.#o.life
    const out = view.mounts.find(({ at }) => at === 'out')?.real
    let n = session.commands.count + 1
    if (out === undefined) return { id: `bg-${n}`, log: null }
    mkdirSync(out, { recursive: true })
    const fileOf = () => join(out, `bg-${n}.log`)
    // Of a session that was removed: what its commands said is not written over.
    while (lstatSync(fileOf(), { throwIfNoEntry: false })) n++
    return { id: `bg-${n}`, log: { real: fileOf(), shown: `out/bg-${n}.log` } }
  }

  /** What runs, for screens. */
  #tell(): void {
    const running = this.#commands.running.map(({ id, command, since }) => ({
      id,
      command: shownCommand(command),
      since,
    }))
    this.#o.voice.commands(running)
  }
}

const tailOf = (output: string): string =>
  output.trimEnd().split('\n').slice(-tailLines).join('\n').slice(-tailCharacters)

const leftOf = ({ left }: CommandResult): string =>
  `${left
    .slice(0, 5)
    .map(({ command }) => cut(command, 80))
    .join(', ')}${left.length > 5 ? ` and ${left.length - 5} more` : ''}`
