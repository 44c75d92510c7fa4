import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Item } from '../agent/items.ts'
import { runTurn, type TurnEnd, usedBy } from '../agent/loop.ts'
import { usualWindow } from '../agent/renew.ts'
import { Session } from '../agent/session.ts'
import { error, said, type Tool, type ToolContext, type ToolResult } from '../agent/tool.ts'
import { writeTranscript } from '../agent/transcript.ts'
import { iso } from '../lib/clock.ts'
import { errnoOf } from '../lib/files.ts'
import { cut, firstWords, wellFormed } from '../lib/text.ts'
import { isRetryable, type ModelFault } from '../model/model.ts'
import { replaceFileAt } from '../sandbox/open.ts'
import { subagentTools } from '../tools/index.ts'
import { refused } from '../tools/paths.ts'
import type { Budget } from './budget.ts'
import { type LifeOptions, turnPlace } from './life-options.ts'
import { advance, atStart } from './stall.ts'
import type { Voice } from './voice.ts'
import { note, sayFault } from './words.ts'

/** So many of one teammate are at work at once; the next begins when one of them ends. */
const atOnce = 4
/** What goes back of a text; the whole of a longer one is in out/. */
const mostLines = 20
const mostCharacters = 8000

/** Where the life of the teammate stands. */
interface Place {
  readonly voice: Voice
  readonly budget: Budget
  /** Why nothing new is to be begun; null as long as it may. */
  readonly endsHere: () => string | null
}

/**
 * The subagents of one teammate: each a turn of its own on a prompt, in a session of its own, with those of its teammate's tools
 * that see and change files. Only the text that it ends with goes back.
 *
 *   prompt ──▶ its session, `.team/sessions/<name>.sub-<id>.jsonl` ──▶ its transcript, for people ──▶ its last text
 *
 * Nothing goes on after a crash: the call is told as interrupted, and what the session held becomes a transcript at the next start.
 */
export class Subagents {
  readonly #o: LifeOptions
  readonly #place: Place
  readonly #quit = new AbortController()
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(o: LifeOptions, place: Place) {
    this.#o = o
    this.#place = place
  }

  get isAtWork(): boolean {
    return this.#running > 0
  }

  /** No call of a model goes on: each ends after the commands that it runs. */
  drain(reason: string): void {
    this.#quit.abort(new Error(reason))
  }

  /** What a thread that died left of them is saved for people, as far as it came. */
  recover(): void {
    const { root, member, clock } = this.#o
    const folder = sessionsOf(root)
    for (const name of left(folder, member.name)) {
      const opened = Session.open(join(folder, name), clock)
      if (opened.ok) this.#save(opened.value, 'cut off, with the thread that ran it')
      else this.#place.voice.event('warning', { text: `what a subagent did cannot be read: ${opened.fault.message}` })
    }
  }

  /** What the tools of a turn have of where they work, subagents with it. */
  given(context: Omit<ToolContext, 'subagent'>): ToolContext {
    const whole: ToolContext = { ...context, subagent: prompt => this.#begin(prompt, whole) }
    return whole
  }

  /** Does what it is asked and answers its last text; an error where it came to no end. `context`: of its teammate's turn. */
  async #begin(prompt: string, context: ToolContext): Promise<ToolResult> {
    while (this.#running >= atOnce) await new Promise<void>(resolve => this.#waiting.push(resolve))
    this.#running++
    try {
      return await this.#run(prompt, context)
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }

  async #run(prompt: string, context: ToolContext): Promise<ToolResult> {
    const { root, member, clock, subagentPrefix, limits } = this.#o
    const { voice } = this.#place
    const no = context.signal.aborted ? 'the turn was ended before it started' : this.#place.endsHere()
    if (no !== null) return error(`not run: ${no}`)
    const id = randomBytes(4).toString('hex')
    const opened = Session.open(join(sessionsOf(root), `${member.name}${mark}${id}.jsonl`), clock)
    if (!opened.ok) return refused(opened.fault)
    const session = opened.value
    session.begin(subagentPrefix(), false)
    voice.event('subagent.started', { sub: id, prompt: firstWords(prompt) })
    let how = 'it failed inside'
    try {
      const end = await this.#turns(id, prompt, session, context)
      how = end.how === 'rounds' ? `cut after ${limits.subagentRounds} rounds` : end.how
      return this.#result(id, end, session)
    } finally {
      voice.subagentEnded(id)
      voice.event('subagent.ended', { sub: id, how, transcript: this.#save(session, how) })
    }
  }

  async #turns(id: string, prompt: string, session: Session, context: ToolContext): Promise<TurnEnd> {
    const { session: parent, limits, tools } = this.#o
    const { voice, budget } = this.#place
    const told: Item[] = [{ k: 'prompt', text: wellFormed(prompt) }]
    let pace = atStart
    const own = subagentTools(tools)
    const schemas = own.map(({ schema }) => schema)
    const on = voice.ofSubagent(id, turn =>
      parent.append({ k: 'spent', v: 2, sub: id, usage: usedBy(turn, session.context.estimate(schemas)) }),
    )
    const turn = (offered: readonly Tool[], rounds: number): Promise<TurnEnd> => {
      const place = turnPlace({ ...this.#o, session, compaction: null })
      return runTurn({
        ...place,
        limits: { ...place.limits, rounds, window: place.limits.window ?? usualWindow },
        tools: offered,
        toolContext: { ...context, subagent: null, read: new Map() },
        boundary: async () => ({ items: told.splice(0) }),
        mayCall: input => budget.subagentMayCall(id, input),
        endsHere: () => this.#place.endsHere() ?? pace.over,
        signal: context.signal,
        callSignal: AbortSignal.any([context.signal, this.#quit.signal]),
        on: {
          ...on,
          tool: (call, result) => {
            on.tool(call, result)
            const before = pace.stall
            pace = advance(pace, { k: 'tool', name: call.name, args: call.arguments, ...result }, limits)
            if (pace.stall !== null && before === null)
              told.push(note(`You get nowhere: ${pace.stall}. Try another way, or end with what you know.`))
          },
        },
      })
    }
    const end = await turn(own, limits.subagentRounds)
    if (end.how !== 'rounds') return end
    told.push(
      note(`Your ${limits.subagentRounds} rounds are used up: no tool runs any more. Answer now, with what you have.`),
    )
    // The schemas stay as they were, for the cache and for endpoints that want them where calls stand in the history.
    const last = await turn(
      own.map(tool => ({ ...tool, run: async () => error('not run: your rounds are used up') })),
      1,
    )
    return last.how === 'ended' ? end : last
  }

  #result(id: string, end: TurnEnd, session: Session): ToolResult {
    const last = session.context.messages.findLast(({ role, text }) => role === 'assistant' && text.trim() !== '')
    const text = last ? this.#bounded(id, last.text.trim()) : null
    const soFar = text === null ? '' : `\nIt had said last:\n${text}`
    switch (end.how) {
      case 'ended':
        return said(text ?? '(it said nothing)')
      case 'rounds':
        return said(`cut after ${this.#o.limits.subagentRounds} rounds (limits.subagentRounds)${soFar}`)
      case 'stopped':
        return error(`the subagent was ended: ${end.reason}${soFar}`)
      case 'aborted':
        return error(`the subagent was ended: ${this.#place.endsHere() ?? 'the turn was ended'}${soFar}`)
      case 'fault':
        return error(`the subagent's model could not be worked with: ${this.#fault(end.fault)}${soFar}`)
    }
  }

  #fault(fault: ModelFault): string {
    if (fault.kind === 'overflow') return `${sayFault(fault)}: give it a smaller piece of work`
    // Its teammate waits for the model as long as it takes, and may then do this again.
    return isRetryable(fault.kind) ? `${sayFault(fault)}: give it the same again` : sayFault(fault)
  }

  /** Its first lines where it is long, and where the whole is. */
  #bounded(id: string, text: string): string {
    const lines = text.split('\n')
    if (lines.length <= mostLines && text.length <= mostCharacters) return text
    const shown = cut(lines.slice(0, mostLines).join('\n'), mostCharacters)
    const out = this.#o.view.mounts.find(({ at }) => at === 'out')?.real
    if (out === undefined) return `${shown}\n[cut: ${lines.length} lines]`
    mkdirSync(out, { recursive: true })
    const name = `subagent-${id}.md`
    const done = replaceFileAt(join(out, name), Buffer.from(`${text}\n`), 0o644)
    return `${shown}\n[cut: ${done.ok ? `all ${lines.length} lines are in out/${name}` : done.fault.message}]`
  }

  /** Its transcript, on the disk before its session goes away. */
  #save(session: Session, how: string): string | null {
    const { root, member, clock, session: parent } = this.#o
    const first = session.context.messages.find(({ role }) => role === 'user')
    const path =
      first === undefined
        ? null
        : writeTranscript(join(root, '.transcripts'), {
            teammate: `${member.name}, by a subagent`,
            task: parent.context.task?.item.id ?? null,
            title: `subagent: ${firstWords(first.text)}`,
            how,
            at: iso(clock.wall()),
            messages: session.whole(),
          })
    session.close()
    rmSync(session.file, { force: true })
    return path
  }
}

/** Between the teammate's name and the id of its subagent, in the name of its session; a name has no dot. */
const mark = '.sub-'
const sessionsOf = (root: string): string => join(root, '.team', 'sessions')

const left = (folder: string, name: string): string[] => {
  try {
    return readdirSync(folder).filter(each => each.startsWith(`${name}${mark}`) && each.endsWith('.jsonl'))
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return []
    throw thrown
  }
}
