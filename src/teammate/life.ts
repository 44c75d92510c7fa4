import type { Item } from '../agent/items.ts'
import { runTurn, type TurnEnd } from '../agent/loop.ts'
import type { ToolContext } from '../agent/tool.ts'
import { iso } from '../lib/clock.ts'
import { isRetryable, type ModelFault } from '../model/model.ts'
import type { Call, OverBudget } from '../protocol/rpc.ts'
import type { AssignedTask, ToThread } from '../protocol/thread.ts'
import { Background } from './background.ts'
import { type BoundaryOptions, boundary } from './boundary.ts'
import { takeBranch } from './branch.ts'
import { Budget, moreBudget } from './budget.ts'
import { Chapters } from './chapters.ts'
import { type Choice, comesFirst, Intake } from './intake.ts'
import { intakePlace, type LifeOptions, toolPlace, turnPlace } from './life-options.ts'
import { Parking } from './parking.ts'
import { nextReview } from './reading.ts'
import { recover } from './recover.ts'
import { answerHuman, unanswered } from './reply.ts'
import { Stopping } from './shutdown.ts'
import { Subagents } from './subagent.ts'
import { writeTaskFile } from './task-file.ts'
import { Voice } from './voice.ts'
import { mostParks, Waits } from './wait.ts'
import { watched } from './watched.ts'
import { circling, gaveUp, interruptedNote, mostReminders, note, reminder, sayFault, taskItem } from './words.ts'

/**
 * The life of one teammate, from `ready` to its end:
 *
 *   ready ──▶ idle ──assign──▶ working: branch, then turns until the task left the hand ──▶ idle
 *              └─────mail────▶ working: one turn ──▶ idle
 *   working ⇄ waiting (for the model, or parked: for the decision on a request it opened)
 *   shutdown approved ──▶ draining: the tool calls of this round end ──▶ end          stop ──▶ end at once
 *
 * Hints (`mail`) only say "look again"; what is in hand is the holder's word (`assign`, `unassign`). A task in hand at the
 * end is left to the daemon, which takes the branch in before it releases it.
 */
export class Life {
  readonly #o: LifeOptions
  readonly #call: Call
  readonly #intake: Intake
  readonly #voice: Voice
  readonly #parking: Parking
  readonly #waits: Waits
  readonly #budget: Budget
  readonly #background: Background
  readonly #brings: BoundaryOptions
  readonly #stopping: Stopping
  readonly #chapters: Chapters
  readonly #subagents: Subagents
  readonly #read = new Map<string, string>()
  readonly #notes: string[] = []
  #next: AssignedTask | null = null
  #inHand: AssignedTask | null = null
  /** After a restart the one that is still in hand, and will be assigned again: what comes first is about it too. */
  #known: Pick<AssignedTask, 'id' | 'branch'> | null = null
  /** How the task in hand left it, until its turn has ended too; `gone`: somebody took it, so the turn ends as well. */
  #left: { readonly how: string; readonly gone: boolean } | null = null
  #ending: string | null = null
  /** The model cannot be worked with until a person does something: shown as such, and no turn starts. */
  #broken: string | null = null
  /** What the next turn of the task in hand begins with. */
  readonly #opening: Item[] = []
  #turn = new AbortController()
  /** Ends what is asked of the model, and nothing else. */
  #quit = new AbortController()
  #wake: (() => void) | null = null

  constructor(o: LifeOptions) {
    this.#o = o
    const { name } = o.member
    this.#chapters = new Chapters(o)
    this.#voice = new Voice({
      ...o,
      onStall: text => this.#notes.push(circling(text, this.#inHand !== null && !this.#left)),
    })
    this.#call = watched(name, o.call, {
      taskLeft: how => {
        if (this.#inHand) this.#left = { how, gone: false }
        else if (this.#next?.id === this.#known?.id) this.#next = null
        this.#voice.leaves()
        this.#known = null
      },
      shutdown: reason => this.#drain(reason),
    })
    this.#intake = new Intake(intakePlace(o))
    const isOver = () => this.#ending !== null || this.#left !== null || (this.#next !== null && this.#inHand === null)
    const woken = () => this.#word()
    const shared = { name, intake: this.#intake, voice: this.#voice, isOver, woken }
    this.#stopping = new Stopping({ ...shared, call: this.#call, session: o.session })
    this.#parking = new Parking({
      ...shared,
      call: o.call,
      mail: () => o.session.mail,
      inTurn: () => o.session.context.inTurn,
      agrees: (choice, onlyAll) => this.#agreeToStop(choice, 'it waits for a decision', onlyAll),
    })
    const task = () => this.#task?.id ?? null
    this.#background = new Background({ ...shared, life: o, task, onEnd: () => this.#wake?.() })
    const onStop = (reason: string) => this.#drain(reason)
    const own = { notes: this.#notes, opening: this.#opening, onStop }
    this.#brings = { ...o, ...shared, ...own, stopping: this.#stopping }
    this.#waits = new Waits(o, {
      voice: this.#voice,
      onWord: word => {
        this.#wake = word
      },
      isCalled: () => this.#isCalled(),
      isEnding: () => this.#ending !== null,
    })
    const answer = o.member.model.maxOutputTokens
    this.#budget = new Budget({ call: o.call, parking: this.#parking, intake: this.#intake, model: o.model, answer })
    const endsHere = () => this.#ending ?? this.#left?.how ?? null
    this.#subagents = new Subagents(o, { voice: this.#voice, budget: this.#budget, endsHere })
  }

  /** For the heartbeat. */
  get pulse(): Voice['pulse'] {
    return this.#voice.pulse
  }

  /** What the daemon says. */
  hear(message: Exclude<ToThread, { t: 'res' | 'team' | 'rules' | 'compact' }>): void {
    switch (message.t) {
      case 'listen':
        this.#voice.isHeard = message.on
        return
      case 'assign':
        this.#next = message.task
        if (this.#known?.id !== message.task.id) this.#known = null
        break
      case 'unassign':
        if (this.#next?.id === message.id) this.#next = null
        this.#voice.showAgain()
        if (this.#known?.id === message.id) this.#known = null
        if (this.#inHand?.id === message.id) {
          this.#left = { how: `taken away: ${message.reason}`, gone: true }
          this.#notes.push(`Task ${message.id} was taken out of your hands: ${message.reason}. Leave it.`)
          this.#turn.abort(new Error(message.reason))
        }
        break
      case 'mail':
        this.#intake.due = true
        this.#broken = null
        if (message.urgent && (this.#voice.isUnheard || this.#subagents.isAtWork)) void this.#endUnheard()
        break
      case 'stop':
        this.#ending = message.reason
        this.#turn.abort(new Error(message.reason))
        break
    }
    this.#wake?.()
  }

  /** Lives until it is stopped or has drained; answers why. A throw is a bug or a dead disk. */
  async run(): Promise<string> {
    this.#voice.ready(await this.#recover())
    for (;;) {
      if (this.#ending !== null) {
        await this.#background.stopAll(`as ${this.#o.member.name} stopped`)
        return this.#ending
      }
      if (this.#next) await this.#work(this.#next)
      else if (this.#broken !== null) await this.#rest('waiting', { what: this.#broken, whom: 'human' })
      else if (!(await this.#answerMail()) && !(await this.#stopping.agreesAfterAll())) await this.#rest('idle')
    }
  }

  /** A person's approval of its shutdown ends a call of the model of which nothing came: there is nothing to lose with it. */
  async #endUnheard(): Promise<void> {
    const reason = await this.#stopping.approved()
    if (reason !== null) this.#drain(reason)
    if (reason !== null && this.#voice.isUnheard) this.#quit.abort(new Error(reason))
  }

  #drain(reason: string): void {
    this.#ending ??= `shutdown approved: ${reason}`
    this.#voice.show('draining')
    this.#subagents.drain(reason)
  }

  async #recover(): Promise<boolean> {
    this.#subagents.recover()
    const [chapters, parking, budget, voice] = [this.#chapters, this.#parking, this.#budget, this.#voice]
    const found = await recover(this.#o, { chapters, parking, budget, voice, notes: this.#notes })
    this.#known = found.known
    this.#broken = found.broken
    return found.goesOn || (found.known === null && this.#background.hasNews)
  }

  /** Waits for a word of the daemon, unless one came since the last look. */
  async #rest(state: 'idle' | 'waiting', waiting: { what: string; whom: string } | null = null): Promise<void> {
    const isCalled = this.#intake.due || this.#background.hasNews
    if (this.#ending !== null || this.#next || (isCalled && this.#broken === null)) return
    const word = this.#word()
    const runs = this.#background.waiting
    if (runs && waiting === null) this.#voice.show('waiting', runs)
    else this.#voice.show(state, waiting)
    await word
  }

  /** Resolves at the next word of the daemon. */
  #word(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = () => {
        this.#wake = null
        resolve()
      }
    })
  }

  async #work(task: AssignedTask): Promise<void> {
    const { session, shell, root, view, clock } = this.#o
    this.#next = null
    this.#inHand = task
    this.#left = null
    this.#turn = new AbortController()
    this.#voice.takesUp(task.id)
    this.#voice.show('working')
    const known = session.context.task?.item
    const again = known?.id === task.id && known.attempt === task.attempt
    if (again) await this.#parking.resume(task.id)
    else this.#parking.leave()
    await this.#background.stopAll(`for task ${task.id}, which is in hand now,`)
    if (!again) {
      if (known) this.#chapters.close('given up')
      this.#renew()
    }
    writeTaskFile(view.home, task, iso(clock.wall()))
    const isOver = () => this.#ending !== null || this.#left !== null
    const onRescued = (refs: readonly string[]) => this.#voice.event('work.rescued', { refs })
    const free = (lock: string) => this.#waits.forLock(lock).then(() => !isOver())
    const branch = await takeBranch(shell, { root, home: view.home, free, onRescued }, task, this.#turn.signal)
    if (branch.ok) {
      const told = branch.value.map((text): Item => ({ k: 'note', text }))
      await this.#turns(again ? [note(interruptedNote(session.wasInterrupted)), ...told] : [...told, taskItem(task)])
    } else if (!isOver()) await this.#fail(`the clone could not be put on ${task.branch}: ${branch.fault.message}`)
    // Set by hear() or by a tool in the meantime, which the compiler cannot see.
    const left = this.#left as { how: string } | null
    if (left) await this.#background.stopAll(`with task ${task.id}`)
    if (left) this.#chapters.close(left.how)
    this.#voice.takesUp(null)
    this.#opening.length = 0
    this.#inHand = null
    this.#left = null
    this.#parking.leave()
  }

  /** Turns until the task left the hand, or this teammate ends. */
  async #turns(opening: readonly Item[]): Promise<void> {
    const { rounds } = this.#o.limits
    const done = () => this.#ending !== null || this.#left !== null
    this.#opening.splice(0, Number.POSITIVE_INFINITY, ...opening)
    let ended = 0
    let parks = 0
    while (!done()) {
      await this.#parking.wait()
      if (done()) return
      const end = await this.#oneTurn()
      if (done()) return
      // Before what it waits for: what is urgent cannot be thought about either, and would call it again and again.
      const over = this.#budget.takeOver()
      if (over) await this.#outOfBudget(over)
      else if (this.#voice.over !== null) await this.#fail(`it got nowhere and went on: ${this.#voice.over}`)
      else if (this.#parking.isDue) continue
      else if (end.how === 'rounds') await this.#fail(`${rounds} rounds went by without an end (limits.rounds)`)
      else if (end.how === 'ended') {
        parks = 0
        // Whatever it was woken for, it waits on for what nobody decided yet.
        await this.#parking.resume(this.#inHand?.id ?? null)
        if (this.#parking.isDue || (this.#parking.asked.length === 0 && (await this.#background.wait()))) continue
        if (ended++ < mostReminders) this.#opening.push(note(reminder(this.#inHand?.id ?? '', this.#parking.asked)))
        else await this.#fail(gaveUp(ended, this.#parking.asked))
      } else if (end.how === 'fault') {
        if (isRetryable(end.fault.kind) && parks < mostParks) {
          if (await this.#waits.forModel(end.fault, parks)) parks++
        } else {
          await this.#fail(`the model could not be worked with: ${sayFault(end.fault)}`)
          this.#giveUpOn(end.fault)
        }
      }
    }
  }

  /** A task that is too dear fails; one that there is no budget left for at all goes back, and this teammate rests. */
  async #outOfBudget({ scope, why }: OverBudget): Promise<void> {
    // Before the task goes back: a word that there is more may come meanwhile.
    if (scope !== 'task') this.#broken = moreBudget(why)
    await this.#fail(why, scope === 'task' ? 'task.fail' : 'task.release')
  }

  async #fail(reason: string, how: 'task.fail' | 'task.release' = 'task.fail'): Promise<void> {
    const failed = await this.#call(how, { reason, during: this.#inHand?.id })
    if (failed.ok) return
    // Not in hand any more is as good; anything else is told, and must not become an endless loop.
    this.#left = { how: `left: ${failed.fault.message}`, gone: true }
    this.#voice.event('warning', { text: `${how} of ${this.#inHand?.id} was refused: ${failed.fault.message}` })
  }

  #renew(): void {
    const told = this.#chapters.renew()
    if (told !== null) this.#notes.push(told)
  }

  /** One turn for what came while nothing was in hand; false when there was nothing. */
  async #answerMail(): Promise<boolean> {
    const { session } = this.#o
    let choice = this.#parking.isDue ? null : await this.#intake.next(session.mail)
    if (choice && (await this.#agreeToStop(choice))) return true
    const isOpen = session.context.inTurn && session.context.task === null
    const isFree = !choice && !isOpen && !this.#parking.isDue && !this.#background.hasNews
    if (isFree) choice = this.#known ? null : await nextReview(this.#o, this.#intake)
    if (isFree && !choice) return false
    if (isFree) this.#chapters.fresh()
    else if (this.#chapters.isOver(isOpen)) this.#renew()
    this.#turn = new AbortController()
    this.#voice.takesUp(null)
    this.#voice.show('working')
    let parks = 0
    for (;;) {
      if (choice === null) await this.#parking.wait()
      if (this.#ending !== null || this.#next) {
        // Only looked at: it enters the context with what comes instead.
        if (choice) this.#intake.due = true
        return true
      }
      const end = await this.#oneTurn(choice)
      choice = null
      this.#broken = this.#budget.takeRest()
      if (this.#parking.isDue && this.#broken === null) continue
      if (this.#broken !== null || this.#ending !== null) return true
      if (end.how !== 'fault' || !isRetryable(end.fault.kind) || parks >= mostParks) {
        const why = unanswered(end, this.#voice.over, this.#o.limits.rounds)
        if (why !== null) this.#voice.event('warning', { text: `mail could not be answered: ${why}` })
        if (end.how === 'fault') this.#giveUpOn(end.fault)
        return true
      }
      if (await this.#waits.forModel(end.fault, parks)) parks++
      if (this.#ending !== null || this.#next) return true
    }
  }

  /** With no model at work there is nothing to think about, so none is asked (`onlyAll`: alone it would lose what it waits for). */
  #agreeToStop(choice: Choice, why = 'the model cannot be reached', onlyAll = false): Promise<boolean> {
    return this.#stopping.agrees(choice, this.#inHand ? why : 'nothing in hand', onlyAll)
  }

  async #oneTurn(first: Choice | null = null): Promise<TurnEnd> {
    const { session } = this.#o
    const { signal } = this.#turn
    let chosen = first
    const end = await runTurn({
      ...turnPlace(this.#o),
      toolContext: this.#toolContext(signal),
      boundary: () => {
        const before = chosen
        chosen = null
        return boundary(this.#brings, before)
      },
      mayCall: input => this.#budget.mayCall(input, [...this.#notes.map(note), ...this.#opening], chosen),
      endsHere: () =>
        this.#ending ?? (this.#left?.gone ? this.#left.how : null) ?? this.#voice.over ?? this.#parking.reason(),
      signal,
      callSignal: AbortSignal.any([signal, this.#quit.signal]),
      on: { ...this.#voice.ofTurn, answers: (to, text) => answerHuman(this.#call, this.#voice, to, text) },
    })
    this.#voice.event('teammate.turn', { turn: session.context.turn, how: end.how })
    return end
  }

  #toolContext(signal: AbortSignal): ToolContext {
    const task = () => this.#task
    const park = (request: string) => this.#parking.park(request)
    const background = this.#background
    const place = { ...toolPlace(this.#o), call: this.#call, read: this.#read }
    return this.#subagents.given({ ...place, signal, park, task, background })
  }

  /** The task in hand, until it has left it. */
  get #task(): Pick<AssignedTask, 'id' | 'branch'> | null {
    return this.#left ? null : (this.#inHand ?? this.#known)
  }

  /** Is there a reason to end a wait early? What is only looked at enters the context at the next boundary. */
  async #isCalled(): Promise<boolean> {
    const choice = this.#ending === null ? await this.#intake.next(this.#o.session.mail) : null
    if (choice && !(await this.#agreeToStop(choice))) this.#intake.due = true
    return (
      this.#ending !== null || this.#left !== null || this.#next !== null || (choice?.picked.some(comesFirst) ?? false)
    )
  }

  #giveUpOn(fault: ModelFault): void {
    // A history that is refused would be refused again.
    this.#chapters.isSpoiled = fault.kind === 'bad_request' || fault.kind === 'overflow'
    if (fault.kind === 'overflow' || fault.kind === 'unusable') return
    this.#broken = `a model that works (${sayFault(fault)}); a message wakes ${this.#o.member.name}`
  }
}
