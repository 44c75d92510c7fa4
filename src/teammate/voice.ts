import { lastAnswering } from '../agent/line.ts'
import type { TurnOptions } from '../agent/loop.ts'
import type { Session } from '../agent/session.ts'
import type { Tool } from '../agent/tool.ts'
import { type Clock, iso } from '../lib/clock.ts'
import type { Model, ModelFault, ToolCall, Turn } from '../model/model.ts'
import type { Limits, Member } from '../protocol/config.ts'
import type { Waiting } from '../protocol/teammate.ts'
import type { FromThread } from '../protocol/thread.ts'
import { switchMs } from './branch.ts'
import { advance, atStart, lasts, type Step } from './stall.ts'

type State = Extract<FromThread, { t: 'state' }>['state']

/** A wait for the model shorter than this is not worth a word on a screen. */
const shownWaitMs = 3000
/** In seconds, since a heartbeat carries a number of them. */
const longestWait = 86_400

/** What a thread tells the daemon of itself: its state where that changes, events, what it used. */
export class Voice {
  readonly #o: {
    member: Member
    session: Session
    model: Model
    tools: readonly Tool[]
    post: (message: FromThread) => void
    clock: Clock
    limits: Pick<Limits, 'sameCalls' | 'callsWithoutEffect' | 'modelIdleSeconds' | 'commandSeconds'>
  }
  readonly #onStall: (text: string) => void
  #shown = ''
  #state: State | null = null
  #task: string | null = null
  #pace = atStart
  /** Its task has left the hand, and the turn goes on. */
  #hasLeft = false
  #moves = 0
  #mayTake = 0
  /** Subagents that are at work: how long what each does now may take, and for what of its model it waits. */
  readonly #subs = new Map<string, { readonly mayTake: number; readonly waits: Waiting | null }>()
  #subsWait = false
  /** A call of the model goes on: `silent` as long as nothing of its answer came. */
  #asking: 'silent' | 'heard' | null = null
  /** Who answered last. */
  #model: string | undefined
  /** The call whose usage is told next. */
  #call: Extract<FromThread, { t: 'usage' }>['call'] = null
  /** Calls of the model, each try one. */
  #calls = 0
  /** Somebody listens to what it writes to a person. */
  isHeard = false
  /** Grows with every answer and every tool result. */
  progress = 0

  constructor(o: {
    member: Member
    session: Session
    model: Model
    tools: readonly Tool[]
    post: (message: FromThread) => void
    clock: Clock
    limits: Pick<Limits, 'sameCalls' | 'callsWithoutEffect' | 'modelIdleSeconds' | 'commandSeconds'>
    /** It is told once that it gets nowhere, in these words. */
    onStall: (text: string) => void
  }) {
    this.#o = o
    this.#onStall = o.onStall
  }

  /** For the heartbeat, see `FromThread`. */
  get pulse(): { progress: number; moves: number; mayTake: number } {
    const mayTake = Math.max(this.#mayTake, ...[...this.#subs.values()].map(sub => sub.mayTake))
    return { progress: this.progress, moves: this.#moves, mayTake }
  }

  /** Why the turn is to end, since it goes on getting nowhere; null while it may go on. */
  get over(): string | null {
    return this.#pace.over
  }

  /** Does it wait for a model of whose answer nothing has come? */
  get isUnheard(): boolean {
    return this.#asking === 'silent'
  }

  ready(goesOn: boolean): void {
    this.#o.post({ t: 'ready', goesOn })
  }

  show(state: State, waiting: Waiting | null = null): void {
    const shown = JSON.stringify([state, waiting])
    if (shown === this.#shown) return
    this.#shown = shown
    this.#state = state
    this.#o.post({ t: 'state', state, waiting })
  }

  /** What is shown next is told, be it as before: who was given a task counts as busy, though it may be taken back unseen. */
  showAgain(): void {
    this.#shown = ''
  }

  get name(): string {
    return this.#o.member.name
  }

  /** The background commands that run now. */
  commands(running: Extract<FromThread, { t: 'commands' }>['running']): void {
    this.#o.post({ t: 'commands', running })
  }

  event(event: Extract<FromThread, { t: 'event' }>['event'], info: Record<string, unknown>): void {
    this.#o.post({ t: 'event', event, info: { name: this.#o.member.name, ...info } })
  }

  /** Tokens of the whole session, by which call and for which task the last of them, and the share of the window that its context fills. */
  usage(): void {
    const { session, member, tools, post } = this.#o
    const { input, cachedInput, output, calls } = session.usage
    const window = member.model.contextWindow
    const size = (): number => session.context.estimate(tools.map(tool => tool.schema))
    const call = this.#call
    this.#call = null
    post({
      t: 'usage',
      input,
      cachedInput,
      output,
      calls,
      model: this.#model ?? lastAnswering(session) ?? this.#o.model.label,
      context: window === undefined ? null : Math.min(1, size() / window),
      task: this.#task ?? session.context.task?.item.id ?? null,
      call,
    })
  }

  /** This task is in hand from now on (null: none): how it gets on with it is counted anew. */
  takesUp(task: string | null): void {
    this.#task = task
    this.#moves++
    this.#mayTake = switchMs / 1000
    this.#hasLeft = false
    this.#pace = atStart
  }

  /** The task has left the hand: what comes of it is no matter any more, but the turn should end soon. */
  leaves(): void {
    this.#hasLeft = true
  }

  /** Tells of a stall when it is noticed, and when it is over. */
  #step(step: Step): void {
    const before = this.#pace.stall
    const hand = this.#task === null ? 'none' : this.#hasLeft ? 'left' : 'full'
    this.#pace = advance(this.#pace, { ...step, hand }, this.#o.limits)
    const { stall: text } = this.#pace
    if (text === before) return
    if (text !== null) this.#onStall(text)
    if (this.#task !== null && !this.#hasLeft) this.#o.post({ t: 'stall', task: this.#task, text })
  }

  /** What a turn tells while it runs. */
  get ofTurn(): Omit<TurnOptions['on'], 'answers'> {
    return {
      begins: call => {
        this.#asking = call === null ? 'silent' : null
        this.#calls++
        this.#moves++
        this.#mayTake = this.#timeFor(call)
      },
      content: () => {
        this.#asking = 'heard'
        this.#moves++
      },
      text: text => {
        const { session, post } = this.#o
        if (this.isHeard && session.context.asked !== null) post({ t: 'words', call: this.#calls, text })
      },
      waiting: (ms, fault) => {
        this.#moves++
        this.#calls++
        this.#asking = 'silent'
        if (ms === null) this.show('working')
        else if (ms >= shownWaitMs) this.show('waiting', this.#waitFor(ms, fault))
      },
      progress: () => {
        this.#moves++
        this.progress++
      },
      usage: () => this.usage(),
      called: ({ fault, stop, calls, model }) => {
        if (!fault) this.#model = model ?? this.#o.model.label
        this.#asking = null
        if (!fault) this.#step({ k: 'model' })
        if (!fault) this.#call = { stop, calls: calls.map(call => call.name) }
        else if (fault.kind !== 'aborted') this.event('model.failed', { kind: fault.kind, message: fault.message })
      },
      tool: ({ name, arguments: args }, { text, isError }) => {
        this.event('teammate.tool', { tool: name, ok: !isError })
        this.#step({ k: 'tool', name, args, text, isError })
      },
      bug: (tool, thrown) => this.#bug(tool, thrown),
    }
  }

  /** The same of a subagent, one of several at once. `spent`: its model answered, and nothing follows from that before. */
  ofSubagent(sub: string, spent: (turn: Turn) => void): TurnOptions['on'] {
    const { modelIdleSeconds } = this.#o.limits
    return {
      begins: call => this.#subagent(sub, this.#timeFor(call)),
      content: () => {
        this.#moves++
      },
      text: () => undefined,
      waiting: (ms, fault) =>
        ms === null
          ? this.#subagent(sub, modelIdleSeconds)
          : this.#subagent(sub, ms / 1000, ms < shownWaitMs ? null : this.#waitFor(ms, fault)),
      progress: () => {
        this.#moves++
        this.progress++
      },
      usage: () => undefined,
      answers: async () => undefined,
      called: turn => {
        if (!turn.fault) this.#model = turn.model ?? this.#o.model.label
        const { fault, stop, calls } = turn
        if (stop !== 'error') {
          spent(turn)
          this.#call = { stop, calls: calls.map(call => call.name), sub }
          this.usage()
        } else if (fault?.kind !== 'aborted')
          this.event('model.failed', { sub, kind: fault?.kind ?? 'malformed', message: fault?.message ?? '' })
      },
      tool: ({ name, arguments: args }, { text, isError }) => {
        this.event('teammate.tool', { sub, tool: name, ok: !isError })
        const step = { k: 'tool', name, args, text, isError } as const
        // Whether it goes round in circles is its own matter; what lasts of its work is work of its teammate.
        if (lasts(step)) this.#step(step)
      },
      bug: (tool, thrown) => this.#bug(tool, thrown),
    }
  }

  subagentEnded(sub: string): void {
    this.#subs.delete(sub)
    this.#moves++
    this.#showSubs()
  }

  #subagent(sub: string, mayTake: number, waits: Waiting | null = null): void {
    this.#subs.set(sub, { mayTake: Math.min(mayTake, longestWait), waits })
    this.#moves++
    this.#showSubs()
  }

  /** It waits where all of them do. */
  #showSubs(): void {
    const waits = [...this.#subs.values()].map(sub => sub.waits)
    const [first = null] = waits.includes(null) ? [] : waits
    if ((first !== null) === this.#subsWait) return
    this.#subsWait = first !== null
    // One that drains meanwhile is shown as that.
    if (first === null && this.#state === 'waiting') this.show('working')
    else if (first !== null) this.show('waiting', first)
  }

  /** Seconds that a call of the model (null) or of a tool may take before anything comes of it. */
  #timeFor(call: ToolCall | null): number {
    const { modelIdleSeconds, commandSeconds } = this.#o.limits
    return call === null ? modelIdleSeconds : (askedFor(call) ?? commandSeconds)
  }

  #waitFor(ms: number, fault: ModelFault | null): Waiting {
    if (ms === Number.POSITIVE_INFINITY)
      return { what: 'its turn to call the model (limits.modelCalls)', whom: 'the team' }
    const until = iso(this.#o.clock.wall() + ms)
    return { what: fault ? `the model (${fault.kind})` : 'the model', whom: this.#o.model.label, until }
  }

  #bug(tool: string, thrown: unknown): void {
    const stack = thrown instanceof Error ? thrown.stack : String(thrown)
    this.event('warning', { text: `tool ${tool} threw`, stack })
  }
}

/** The time that a call asks for itself, in seconds. */
const askedFor = ({ arguments: args }: ToolCall): number | null => {
  const found = /"timeout_s"\s*:\s*(\d+(?:\.\d+)?)/.exec(args ?? '')
  return found ? Number(found[1]) : null
}
