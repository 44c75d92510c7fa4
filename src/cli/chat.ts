import { ulid } from 'ulid'
import { fail, ok, type Result } from '../lib/result.ts'
import { nearest } from '../lib/text.ts'
import type { JournalEntry, Words } from '../protocol/event.ts'
import { leadNames } from '../protocol/ids.ts'
import type { Stored } from '../protocol/message.ts'
import type { TeammateStatus } from '../protocol/rpc.ts'
import type { Waiting } from '../protocol/teammate.ts'
import { loadConfig } from '../store/root.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { textLines } from './lines.ts'
import { harmless, oneLine, when } from './render/text.ts'
import { type Team, withTeam } from './with-team.ts'

/** `team chat <name>`. */
export const chat = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'chat <name>',
    'Talk to one teammate: each line is a message, its replies come as they are written',
    y =>
      y
        .positional('name', { type: 'string', demandOption: true, describe: 'a teammate, or lead' })
        .example('$0 chat alice', 'an empty line, or n, ends it')
        .example(
          'echo "What is left to do?" | $0 chat alice',
          'one question in a script; exit 1 if it stays unanswered',
        ),
    handler(cli, args => act(cli, args)),
  )

const act = async (cli: Cli, args: Globals & { name: string }): Promise<Result<number>> =>
  withTeam(cli, args, 'daemon', async team => {
    const found = meant(team.root, args.name)
    if (!found.ok) return found
    const name = found.value
    const there = await team.call('status', {})
    if (!there.ok) return there
    const names = there.value.teammates.map(each => each.name)
    if (!names.includes(name)) return noTeammate(name, names)
    const box = await team.call('inbox.read', { name, limit: 1 })
    if (!box.ok) return box
    // The stream has a connection of its own, so it begins at an entry: however late it opens, it misses nothing.
    const now = await team.call('events', { after: Number.MAX_SAFE_INTEGER, limit: 1 })
    if (!now.ok) return now
    const talk = new Talk(cli, team, name)
    const following = talk.follow(now.value.last)
    const status = await team.call('status', {})
    if (!status.ok) return status
    const mate = status.value.teammates.find(each => each.name === name)
    return mate ? talk.run(mate, following) : noTeammate(name, names)
  })

/** Only teammates are talked to: not an inbox that is somebody else's. */
const noTeammate = (name: string, names: readonly string[]): Result<never> => {
  if (leadNames.some(each => each === name))
    return fail('unknown', 'no teammate leads this team', `teammates: ${names.join(', ')}`)
  const near = nearest(name, names)
  return fail(
    'unknown',
    `there is no teammate "${oneLine(name)}"`,
    `${near === undefined ? '' : `did you mean ${near}? `}teammates: ${names.join(', ')}`,
  )
}

/** Who that is. Only for the lead config.json is asked: the daemon goes on, and is talked to, while an edit does not hold. */
const meant = (root: string, name: string): Result<string> => {
  if (!leadNames.some(each => each === name)) return ok(name)
  const loaded = loadConfig(root)
  return loaded.ok ? ok(loaded.value.config.lead ?? name) : loaded
}

const until = (waiting: Waiting, now: number): string =>
  waiting.until === undefined ? '' : `, until ${when(waiting.until, now)}`

/** How the teammate stands, where that says why an answer does not come at once; null where it will. */
const standing = (
  name: string,
  { state, waiting, task }: Pick<TeammateStatus, 'task' | 'waiting'> & { readonly state: string },
  now: number,
): string | null => {
  if (state === 'stopped' || state === 'failed') return `${name} is ${state}: it reads this after team restart ${name}`
  // For a command of its own it waits beside the mail.
  if (state === 'waiting' && waiting && waiting.whom !== name)
    return `${name} waits for ${waiting.whom}: ${oneLine(waiting.what, 200)}${until(waiting, now)}; it reads this when that is over`
  if (state === 'draining') return `${name} is shutting down`
  if (state === 'starting') return `${name} is starting`
  if (state === 'working')
    return `${name} is busy${task === null ? '' : ` with task ${task}`}; it reads this between two steps`
  return null
}

/** One conversation: lines of stdin go out, what the journal tells of this teammate is shown. */
class Talk {
  readonly #cli: Cli
  readonly #team: Team
  readonly #name: string
  #state = 'starting'
  #waiting: Waiting | null = null
  #task: string | null = null
  #begun = false
  /** Messages of ours that it has not answered, and whether each has entered its context. */
  readonly #open = new Map<string, { index: number | null; isRead: boolean }>()
  #hasAsked = false
  /** What of an answer is on the screen while it is written: by which call of the model, its words, and whether other lines stand behind them. */
  #writing: { readonly call: number; text: string; held: string; isCut: boolean } | null = null
  #changed: () => void = () => undefined
  /** Aborted when the daemon has ended, or nobody reads stdout any more. */
  readonly #over = new AbortController()

  constructor(cli: Cli, team: Team, name: string) {
    this.#cli = cli
    this.#team = team
    this.#name = name
  }

  /** What happens after that entry is heard; back when the daemon has ended, or nobody reads stdout any more. */
  follow(after: number): Promise<Result<number>> {
    return this.#team
      .follow(
        entry => this.#heard(entry),
        { name: this.#name, after, words: this.#cli.interactive },
        words => this.#streamed(words),
      )
      .finally(() => {
        this.#over.abort()
        this.#changed()
      })
  }

  async run({ state, waiting, task }: TeammateStatus, following: Promise<Result<number>>): Promise<Result<number>> {
    const { out, interactive, paint } = this.#cli
    const name = this.#name
    this.#state = state
    this.#waiting = waiting
    this.#task = task
    this.#begun = true
    if (interactive) out.note(paint.dim(`talking to ${name}; an empty line or n ends`))
    this.#tellStanding()
    let isEnded = false
    for await (const line of textLines(process.stdin, this.#over.signal, interactive ? this.#prompt : '')) {
      if (this.#over.signal.aborted) break
      isEnded = line.trim() === '' || line.trim() === 'n'
      if (isEnded) break
      this.#hasAsked = true
      const id = `msg_${ulid(this.#cli.clock.wall()).toLowerCase()}`
      this.#open.set(id, { index: null, isRead: false })
      const sent = await this.#team.call('message.send', { to: name, content: line, id })
      if (!sent.ok) return sent
    }
    // A script must not take a talk in which nothing was said for one that was answered.
    if (!interactive && !this.#hasAsked && !isEnded) return this.#askedNothing()
    // A person who ends the talk goes; a pipe has asked, and waits for what it asked.
    if (!interactive) await this.#settled()
    const unanswered = this.#open.size
    if (!this.#over.signal.aborted) return ok(interactive || unanswered === 0 ? 0 : 1)
    const ended = await following
    return ended.ok ? ok(unanswered === 0 ? 0 : 1) : ended
  }

  #askedNothing(): Result<number> {
    if (this.#cli.out.closed.aborted) return ok(1)
    return this.#over.signal.aborted
      ? fail('offline', `the daemon ended before ${this.#name} was asked anything`, 'start it with: team up')
      : fail('usage', `nothing was asked: stdin has no line`, `echo "…" | team chat ${this.#name}`)
  }

  /** Resolves when everything is answered, or when it is clear that no answer comes by itself. */
  async #settled(): Promise<void> {
    for (;;) {
      if (this.#over.signal.aborted || this.#cli.out.closed.aborted || this.#open.size === 0 || this.#isStuck()) return
      await new Promise<void>(resolve => {
        this.#changed = resolve
        this.#cli.out.closed.addEventListener('abort', () => resolve(), { once: true })
      })
    }
  }

  /** It has ended, waits for somebody, or has read everything and gone idle without a word. */
  #isStuck(): boolean {
    if (this.#state === 'stopped' || this.#state === 'failed') return true
    if (this.#state === 'waiting') return this.#waiting?.request !== undefined || this.#waiting?.whom === 'human'
    return this.#state === 'idle' && [...this.#open.values()].every(each => each.isRead)
  }

  #heard(entry: JournalEntry): void {
    const { event, info = {} } = entry
    if (event === 'message.stored') this.#stored(entry)
    else if (event === 'message.taken' && info.inbox === this.#name) {
      const taken = new Set(Array.isArray(info.taken) ? info.taken : [])
      for (const each of this.#open.values()) if (each.index !== null && taken.has(each.index)) each.isRead = true
    } else if (event === 'task.started' && info.owner === this.#name) this.#task = String(entry.put?.[1] ?? '')
    else if (event === 'teammate.state' && info.name === this.#name && typeof info.state === 'string') {
      this.#state = info.state
      this.#waiting = (info.waiting as Waiting | undefined) ?? null
      if (this.#state === 'idle') this.#task = null
      if (this.#state !== 'working' && this.#state !== 'idle') this.#tellStanding()
      else if (this.#isStuck() && this.#open.size > 0) {
        this.#cli.out.note(`${this.#name} has read it and has nothing to say`)
      }
    } else return
    this.#changed()
  }

  #stored(entry: JournalEntry): void {
    const [log, index, value] = entry.append ?? []
    if (log === undefined || index === undefined) return
    const { message, origin } = value as Stored
    const ours = this.#open.get(message.id)
    if (ours && log === `inbox/${this.#name}`) {
      ours.index = index
      if (this.#state === 'working') this.#tellStanding()
    }
    if (log !== 'inbox/user' || origin !== 'daemon' || message.from !== this.#name) return
    this.#said(message.content)
    // What it writes answers all that it has read so far, whether it names the message or not.
    if (message.replyTo !== undefined) this.#open.delete(message.replyTo)
    for (const [id, each] of this.#open) if (each.isRead) this.#open.delete(id)
  }

  /** A piece of an answer, on a terminal alone: a pipe gets what the answer is in the end, and nothing that it is not. */
  #streamed({ call, text }: Words): void {
    const { out } = this.#cli
    if (this.#writing?.call !== call) {
      this.#breakOff()
      this.#writing = { call, text: '', held: '', isCut: true }
    }
    const writing = this.#writing
    this.#goOn(writing)
    // A character may come in two halves, and what a CR is only its next one tells.
    const [, now = '', held = ''] = /^([\s\S]*?)([\uD800-\uDBFF]|\r)?$/.exec(writing.held + text) ?? []
    writing.held = held
    writing.text += now
    out.piece(behind(now))
  }

  /** Its words begin, or go on behind other lines. */
  #goOn(writing: { isCut: boolean }): void {
    if (writing.isCut) this.#cli.out.piece(`${this.#head()}  `)
    writing.isCut = false
  }

  /** Another line is to stand here; the answer goes on behind it. */
  #cut(): void {
    if (!this.#writing || this.#writing.isCut) return
    this.#cli.out.piece(' …\n')
    this.#writing.isCut = true
  }

  /** What is on the screen is no answer, or not the whole of one: what comes next begins a line of its own. */
  #breakOff(): void {
    this.#cut()
    this.#writing = null
  }

  /** The answer as it was sent: what of it is not on the screen yet. */
  #said(content: string): void {
    const { out, interactive } = this.#cli
    const writing = this.#writing
    if (writing && content.startsWith(writing.text)) {
      const rest = content.slice(writing.text.length)
      if (rest !== '') this.#goOn(writing)
      out.piece(`${behind(rest)}\n${this.#prompt}`)
      this.#writing = null
      return
    }
    this.#breakOff()
    if (interactive) out.piece(`${this.#head()}  ${behind(content.trimEnd())}\n${this.#prompt}`)
    else out.say(harmless(content))
  }

  /** Begins on a line of its own: the prompt stands on the one before. */
  #head(): string {
    const { paint } = this.#cli
    return `\n${paint.bold(paint.cyan(this.#name))}\n`
  }

  get #prompt(): string {
    return this.#cli.paint.bold('you> ')
  }

  #tellStanding(): void {
    if (!this.#begun) return
    const text = standing(
      this.#name,
      { state: this.#state, waiting: this.#waiting, task: this.#task },
      this.#cli.clock.wall(),
    )
    if (text === null) return
    // One that works goes on with what it writes; in any other state it does not.
    if (this.#state === 'working') this.#cut()
    else this.#breakOff()
    this.#cli.out.note(this.#cli.paint.dim(text))
  }
}

/** A piece of a text whose lines stand behind two spaces. */
const behind = (piece: string): string => harmless(piece).replaceAll('\n', '\n  ')
